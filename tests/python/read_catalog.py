"""Runs the DuckDB statement and the Dask session of docs/scale.md on the catalogue of the files in FOLDER, which the
program PROGRAM makes, and compares the result with Python asdf. With the argument `spark` also runs the Spark session,
which needs pyspark and Java. Prints the number of files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import asdf
import duckdb

folder, program = Path(sys.argv[1]), sys.argv[2]
document = (Path(__file__).parents[2] / "docs/scale.md").read_text()
os.chdir(folder)
Path("broken.asdf").write_text("#ASDF 1.0.0\n%YAML 1.1\n--- [\n...\n")
Path("other.txt").write_text("text")
names = [*sorted(file.name for file in folder.glob("*.asdf")), "other.txt"]
made = subprocess.run([program, "--catalog", "--quiet", "-0", "--files-from", "-"], capture_output=True,
                      input="\0".join(names).encode())
# 2: there are files that can't be read.
assert made.returncode == 2 and not made.stderr, made
Path("catalog.jsonl").write_bytes(made.stdout)
again = subprocess.run([program, "--catalog", "--since", "catalog.jsonl", *names], capture_output=True)
assert again.returncode == 2, again
assert again.stdout == made.stdout and f"{len(names) - 1} unchanged, 1 can't" in again.stderr.decode(), again.stderr

duckdb.sql(re.search(r"```sql\n(.*?)```", document, re.S)[1])
rows = duckdb.sql("SELECT * FROM 'catalog.parquet'").fetchall()
columns = [column[0] for column in duckdb.sql("SELECT * FROM 'catalog.parquet'").description]
session = {}
exec(re.search(r"```python\n(import json\n.*?)```", document, re.S)[1], session)
assert len(session["sizes"]) == len(names) - 1, session["sizes"]

if "spark" in sys.argv[3:]:
    session = {}
    exec(re.search(r"```python\n(from pyspark.*?)```", document, re.S)[1], session)
    found = {row["uri"]: row for row in session["files"].collect()}
    assert {*found} == {row[columns.index("uri")] for row in rows}
    for row in rows:
        row = dict(zip(columns, row))
        tree = row["tree"] and json.loads(row["tree"]).get("name")
        same = found[row["uri"]]
        assert (same["size"], same["name"]) == (row["size"], tree), (row, same)
    counts = duckdb.sql("SELECT format, count(*) FROM 'catalog.parquet' GROUP BY format").fetchall()
    assert session["by_format"] == dict(counts), (session["by_format"], counts)
    print(f"Spark {session['spark'].version}: {session['by_format']}")
    session["spark"].stop()

for name, row in zip(names, rows, strict=True):
    row = dict(zip(columns, row))
    assert row["uri"] == f"file://{folder / name}", row
    if name == "other.txt":
        assert "is not an ASDF file" in row["error"] and row["size"] is None, row
        continue
    assert row["size"] == Path(name).stat().st_size and row["error"] is None
    assert abs(row["mtime"].timestamp() - Path(name).stat().st_mtime) < 1e-3 or os.environ.get("TZ"), row
    if name == "broken.asdf":
        assert row["tree"] is None, row
        continue
    with asdf.open(name) as opened:
        tree = json.loads(row["tree"])
        assert tree["asdf_library"]["version"] == asdf.__version__
        for array in row["arrays"]:
            node = opened.tree
            for key in array["path"].split("/"):
                key = key.replace("%2F", "/")
                node = node[int(key)] if key not in node else node[key]
            assert list(node.shape) == array["shape"], (name, array)
print(len(rows))
