"""Lets fitsverify read each FITS file of a mount, and DuckDB each Parquet file.

    verify_generated.py MOUNTPOINT

Prints the numbers of FITS files, of Parquet files with their rows, and of files that can't be read.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

# Warnings that are right, and by design.
BY_DESIGN = [
    # Columns have the names that they have in the tree.
    r'Column #\d+: Name ".*',
    r"Columns #\d+, .* are not unique",
    # Cards of the tree are copied.
    r"Keyword #\d+, \S+ has a null value",
    # Coordinates may be those of some axes only.
    r"Some (CRPIX|CRVAL|CTYPE)i keywords appear to be missing",
    # FITS 4.0 has CONTINUE without this keyword.
    "The OGIP long string keyword convention is used without the",
]

files = [path for path in Path(sys.argv[1]).rglob("*") if path.suffix in (".fits", ".parquet") and path.is_file()]
unreadable = []
for path in files:
    try:
        path.read_bytes()
    except OSError:
        unreadable.append(path)
readable = [path for path in files if path not in unreadable]
fits = [path for path in readable if path.suffix == ".fits" and "fits" in path.parts]
tables = [path for path in readable if path.suffix == ".parquet" and "tables" in path.parts]

with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
    names.write("".join(f"{path}\n" for path in fits))
    names.flush()
    report = subprocess.run(["fitsverify", f"@{names.name}"], capture_output=True, text=True, errors="replace").stdout
assert report.count("\nFile: ") == len(fits), report[-2000:]
file = None
for line in report.splitlines():
    file = line[6:] if line.startswith("File: ") else file
    if line.startswith("*** "):
        warning = re.fullmatch(r"\*\*\* Warning: *(.*)", line)
        assert warning and any(re.match(known, warning[1]) for known in BY_DESIGN), f"{file}: {line}"

rows = 0
for path in tables:
    read = duckdb.connect().execute("select * from read_parquet(?)", [str(path)]).to_arrow_table().num_rows
    named = duckdb.connect().execute("select num_rows from parquet_file_metadata(?)", [str(path)]).fetchone()[0]
    assert read == named, f"{path}: {read} rows, {named} in the footer"
    rows += read

print(len(fits), len(tables), rows, len(unreadable))
