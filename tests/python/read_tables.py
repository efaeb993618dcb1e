"""Compares the tables of a mounted directory, as pyarrow and DuckDB read them, with the original data.

    read_tables.py FOLDER MOUNTPOINT

Prints the number of compared columns.
"""

import base64
import os
import sys
import warnings

import asdf
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from astropy import units as u
from astropy.table import Table, meta

warnings.simplefilter("ignore")
folder, mountpoint = sys.argv[1:]


def plain(values):
    """Returns the values of a column as nested lists of Python values."""
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    values = np.ma.getdata(values)
    if values.dtype.names:
        fields = [(name, plain(values[name])) for name in values.dtype.names]
        return gather(values.shape, lambda at: {name: pick(field, at) for name, field in fields})
    if values.dtype.kind == "c":
        listed = gather(values.shape, lambda at: {"re": float(values[at].real), "im": float(values[at].imag)})
        return listed if mask is None else gather(values.shape, lambda at: None if mask[at] else pick(listed, at))
    listed = (np.char.decode(values, "ascii") if values.dtype.kind == "S" else values).tolist()
    return listed if mask is None else gather(values.shape, lambda at: None if mask[at] else pick(listed, at))


def pick(listed, at):
    for n in at:
        listed = listed[n]
    return listed


def gather(shape, make, at=()):
    if len(at) == len(shape):
        return make(at)
    return [gather(shape, make, (*at, n)) for n in range(shape[len(at)])]


def check_statistics(place, read):
    """Compares the statistics of each column chunk with its values; returns the number of chunks that have some."""
    file, checked = pq.ParquetFile(place), 0
    first = 0
    for group in range(file.num_row_groups):
        of = file.metadata.row_group(group)
        rows = read.slice(first, of.num_rows)
        first += of.num_rows
        for n in range(of.num_columns):
            chunk = of.column(n)
            if not chunk.is_stats_set:
                continue
            path = chunk.path_in_schema.split(".")
            assert "list" not in path, chunk
            # A dot may be part of a name.
            column = rows.column(chunk.path_in_schema) if chunk.path_in_schema in read.column_names else None
            if column is None:
                column = rows.column(path[0])
                for name in path[1:]:
                    column = pa.compute.struct_field(column, name)
            values, found = column.drop_null(), chunk.statistics
            assert found.null_count == column.null_count, (place, path, found)
            is_float = pa.types.is_floating(column.type)
            has_nan = is_float and any(value != value for value in values.to_pylist())
            assert found.has_min_max == (len(values) > 0 and not has_nan), (place, path, found)
            if found.has_min_max:
                least, greatest = pa.compute.min_max(values).as_py().values()
                assert (found.min, found.max) == (least, greatest), (place, path, found, least, greatest)
                if is_float:
                    # Readers that tell the zeros apart must find both.
                    assert least != 0 or np.signbit(found.min) or found.min != 0, found
                    assert greatest != 0 or not np.signbit(found.max), found
            checked += 1
    return checked


def compare(place, expected):
    """Compares the columns of a table by name."""
    with open(place, "rb") as file:
        assert len(file.read()) == os.path.getsize(place), place
    read = pq.read_table(place)
    global chunks_checked
    chunks_checked += check_statistics(place, read)
    expected = dict(part for name, values in expected.items() for part in without_complex(name, values))
    assert read.column_names == list(expected), (place, read.column_names, list(expected))
    rows = duckdb.connect().execute("select * from read_parquet(?)", [place]).fetchall()
    for n, (name, values) in enumerate(expected.items()):
        values = repr(plain(values))
        assert repr(read.column(name).to_pylist()) == values, f"{place} {name}: pyarrow"
        assert repr([row[n] for row in rows]) == values, f"{place} {name}: DuckDB"
    return len(expected)


def without_complex(name, values):
    """Yields the columns for a column: two for complex numbers."""
    if values.dtype.kind == "c":
        yield f"{name}.re", values.real
        yield f"{name}.im", values.imag
    else:
        yield name, values


def of_table(table):
    columns = {}
    for name in table.colnames:
        column = table[name]
        if name == "sky":
            columns |= {"sky.dec": column.dec.deg, "sky.ra": column.ra.deg}
        else:
            columns[name] = getattr(column, "value", column) if name in ("length", "time") else column
    # A masked column without masked values is written without a mask.
    return {name: column if np.ma.isMaskedArray(column) else np.asarray(column) for name, column in columns.items()}


def told(place, table):
    """Checks the metadata for the columns of an astropy table."""
    read = pq.ParquetFile(place).schema_arrow
    own = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(pq.read_metadata(place).metadata[b"ARROW:schema"])))
    assert own.equals(read) and [field.metadata for field in own] == [field.metadata for field in read], (own, read)
    of_astropy = meta.get_header_from_yaml(read.metadata[b"table_meta_yaml"].decode().split("\n"))["datatype"]
    assert [column["name"] for column in of_astropy] == read.names, of_astropy
    for field, of_column in zip(read, of_astropy):
        said = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        name = field.name if field.name in table.colnames else field.name.rsplit(".", 1)[0]
        column = table[name]
        if name == "sky":
            assert said == {"frame": "icrs", "unit": "deg"} and of_column["unit"] == "deg", said
        elif name == "time":
            assert said == {"scale": "utc", "format": "mjd"}, said
        else:
            for facts in (said, of_column):
                assert facts.get("description") == column.info.description, (name, facts)
                unit = facts.get("unit")
                assert (unit and u.Unit(unit)) == column.unit, (name, facts, column.unit)
        length = read.metadata.get(f"table::len::{name}".encode())
        assert (length is None) == (field.type != pa.string()), (name, length)


def of_records(records):
    return {name: records[name] for name in records.dtype.names}


compared = chunks_checked = 0
for name in sorted(os.listdir(folder)):
    root = os.path.join(mountpoint, name, "tables")
    if not name.startswith("random"):
        continue
    with asdf.open(os.path.join(folder, name)) as af:
        tables = {
            "astropy": of_table(af["astropy"]), "mixed": of_table(af["mixed"]), "records": of_records(af["records"][...]),
            "plain": dict(af["plain"]), "list/0": of_table(af["list"][0]), "list/1": dict(af["list"][1]),
            "name%2Eparquet/%25": dict(af["name.parquet"]["%"]),
        }
        tables["plain"] = {key: values[...] for key, values in tables["plain"].items()}
        for path in ("astropy", "mixed"):
            told(os.path.join(root, path + ".parquet"), af[path])
        for path, expected in tables.items():
            compared += compare(os.path.join(root, path + ".parquet"), {k: v[...] for k, v in expected.items()})
    found = {os.path.relpath(os.path.join(at, file), root) for at, _, files in os.walk(root) for file in files}
    assert found == {path + ".parquet" for path in tables} | {"same.parquet"}, (name, sorted(found))
    assert os.readlink(os.path.join(root, "same.parquet")) == "records.parquet"

# The table of the root has a readable name, too.
assert os.readlink(os.path.join(mountpoint, "large.asdf", "tables", "tree.parquet")) == "%-.parquet"

# What astropy reads: two columns for complex numbers, the unit and the scale of a difference of times, the table's meta.
place = os.path.join(mountpoint, "astropy.asdf", "tables")
with asdf.open(os.path.join(folder, "astropy.asdf")) as af:
    read, table = Table.read(os.path.join(place, "table.parquet")), af["table"]
    assert read.colnames == ["z.re", "z.im", "delta.jd1", "delta.jd2", "list.re", "list.im"], read.colnames
    assert (read["z.re"] + 1j * read["z.im"] == table["z"].value).all() and read["z.im"].unit == u.Jy
    assert (np.stack(read["list.re"]) + 1j * np.stack(read["list.im"]) == table["list"]).all()
    assert read["delta.jd1"].unit == read["delta.jd2"].unit == u.day
    days = read["delta.jd1"].quantity + read["delta.jd2"].quantity
    assert abs(days - table["delta"].to(u.day)).max() < 1e-9 * u.s
    said = pq.read_schema(os.path.join(place, "table.parquet")).field("delta.jd1").metadata
    assert said[b"scale"] == b"tai" and said[b"format"] == b"sec", said
    assert read.meta == {"a": 1, "text": "größe: {x}", "list": [1, 2.5, None, True, "5", "yes"], "deep": {"k": {"l": []}}}, read.meta
for kind, unit in [("std", "Jy"), ("var", "Jy2"), ("ivar", "Jy-2")]:
    said = pq.read_schema(os.path.join(place, kind + ".parquet")).field("uncertainty").metadata
    assert said == {b"uncertainty_type": kind.encode(), b"unit": unit.encode()}, said

# More rows than fit in one row group.
place = os.path.join(mountpoint, "large.asdf", "tables", "%-.parquet")
with asdf.open(os.path.join(folder, "large.asdf")) as af:
    read = pq.ParquetFile(place)
    assert read.num_row_groups == 3, read.num_row_groups
    table = read.read()
    for name in ["id", "x", "flag"]:
        assert (table.column(name).to_numpy() == af[name][...]).all(), name
    assert (np.array(table.column("name").to_pylist()) == af["name"][...]).all()
    assert (table.column("pos").combine_chunks().flatten().to_numpy() == af["pos"][...].ravel()).all()
    assert check_statistics(place, table) == 4 * 3, "id, x, flag and name of each row group"
    for where, fits in [("id = 262145", lambda id, x: id == 262145), ("id between 131070 and 131080", lambda id, x: abs(id - 131075) <= 5),
                        ("id < 0", lambda id, x: id < 0), ("x > 4.5", lambda id, x: x > 4.5), ("x >= 1e9", lambda id, x: x >= 1e9)]:
        found = duckdb.connect().execute(f"select count(*) from read_parquet(?) where {where}", [place]).fetchone()[0]
        assert found == fits(af["id"][...], af["x"][...]).sum(), (where, found)
    one = read.read_row_group(2, columns=["x"])
    assert (one.column("x").to_numpy() == af["x"][2 << 17:]).all()
    found = duckdb.connect().execute("select count(*), sum(id), count(distinct name), sum(flag::int), sum(pos[3]) from read_parquet(?)",
                                     [place]).fetchone()
    rows = len(af["id"])
    assert found[:4] == (rows, rows * (rows - 1) // 2, 1000, -(-rows // 7)), found
    assert abs(found[4] - af["pos"][:, 2].astype("f8").sum()) < 1e-3

# Values at the limits of their order: no row group may be skipped for a row that fits.
place = os.path.join(mountpoint, "limits.asdf", "tables", "limits.parquet")
with asdf.open(os.path.join(folder, "limits.asdf")) as af:
    chunks_checked += check_statistics(place, pq.read_table(place))
    for name, column in af["limits"].items():
        values = [value for value in plain(column) if value is not None]
        for value in set(values) - {value for value in values if value != value}:
            count = sum(other == value for other in values)
            found = duckdb.connect().execute(f'select count(*) from read_parquet(?) where "{name}" = ?', [place, value]).fetchone()[0]
            assert found == count, (name, value, found, count)
            # pyarrow can't filter a column with unsigned numbers above 2**63, in its own files neither.
            if not any(isinstance(other, int) and other >= 1 << 63 for other in values):
                filtered = pq.read_table(place, filters=[(name, "==", value)])
                assert len(filtered) == count, (name, value, len(filtered), count)
    nan = duckdb.connect().execute("select count(*) from read_parquet(?) where nan > 1e300", [place]).fetchone()[0]
    assert nan == 1, "DuckDB orders NaN after all numbers"
assert chunks_checked > 100, chunks_checked

# An unreadable column fails alone; a column that is too short is left out, with a reason.
place = os.path.join(mountpoint, "standard.asdf", "tables", "catalog.parquet")
assert pq.ParquetFile(place).schema_arrow.names == ["id", "secret", "flux"]
assert pq.read_table(place, columns=["id", "flux"]).to_pylist() == \
    [{"id": n + 1, "flux": float(n)} for n in range(50000)]
try:
    pq.read_table(place)
    raise AssertionError("a column of an unknown compression can be read")
except OSError:
    pass
with open(os.path.join(mountpoint, "standard.asdf", ".asdf-mount", "status.yaml")) as file:
    status = file.read()
assert 'tables/ leaves out the column "short" of catalog' in status.replace("\\", ""), status
assert "tables/ leaves out nothing: it has no columns" in status, status
twice = pq.read_table(os.path.join(mountpoint, "standard.asdf", "tables", "twice.parquet"))
assert twice.schema.names == ["a", "a~2", "a~1", "a~3"], twice.schema.names
assert twice.to_pylist()[2] == {"a": 3, "a~2": 3, "a~1": 2.0, "a~3": 3}, twice.to_pylist()
# A spectrum is a table; several spectra on one axis are not.
root = os.path.join(mountpoint, "standard.asdf", "tables")
spectrum = pq.read_table(os.path.join(root, "spectrum.parquet"))
assert spectrum.column_names == ["flux", "spectral_axis", "uncertainty", "mask"], spectrum.column_names
assert spectrum.column("flux").to_pylist() == list(range(9)) and spectrum.column("spectral_axis")[8].as_py() == 9
units = [(spectrum.field(name).metadata or {}).get(b"unit") for name in spectrum.column_names]
# The unit of a standard deviation is that of the flux.
assert units == [b"erg s-1 cm-2", b"Angstrom", b"erg s-1 cm-2", None], units
assert not os.path.exists(os.path.join(root, "spectra.parquet")) and not os.path.exists(os.path.join(root, "spectra"))
# A cube of one dimension is a table, as ndcube 2.4 writes it.
cube = pq.read_table(os.path.join(root, "cube.parquet"))
assert cube.column_names == ["data", "time", "exposure", "uncertainty", "mask"], cube.column_names
units = [(cube.field(name).metadata or {}).get(b"unit") for name in cube.column_names]
assert units == [b"erg s-1 cm-2", None, b"s", b"Jy", None], units
assert cube.column("time").cast(pa.int64()).to_pylist() == [n * 10**6 for n in range(1, 10)], cube.column("time")
assert cube.column("data").to_pylist() == cube.column("uncertainty").to_pylist() == list(range(9))
assert cube.field("uncertainty").metadata[b"uncertainty_type"] == b"std", cube.schema
thin = pq.read_table(os.path.join(root, "thin.parquet"))
assert thin.column_names == ["data"] and thin.field("data").metadata == {b"unit": b"15deg"}, thin.schema
assert not os.path.exists(os.path.join(root, "cubes.parquet")) and not os.path.exists(os.path.join(root, "cubes"))
# A masked record is NULL as a whole; if it has lists, its values are NULL instead.
masked = pq.read_table(os.path.join(mountpoint, "standard.asdf", "tables", "masked.parquet")).to_pylist()
assert [row["flat"] and row["flat"]["a"] for row in masked] == [None, 4, None], masked
assert masked[0]["lists"] == {"a": None, "v": [None, None]} and masked[1]["lists"] == {"a": 4, "v": [5, 6]}, masked
# A mask with fields has a boolean for each value: here the bytes 0 0 0, 1 0 0, 0 2 0.
fields = [{"a": 1, "v": [2, 3]}, {"a": None, "v": [5, 6]}, {"a": 7, "v": [None, 9]}]
assert [row["fields"] for row in masked] == fields, masked
root = os.path.join(mountpoint, "standard.asdf", "tables")
assert pq.read_table(os.path.join(root, "records.parquet")).to_pylist() == fields
nested = pq.read_table(os.path.join(root, "nested.parquet")).to_pylist()
assert [(row["p"]["x"], row["p"]["y"] is None, row["z"]) for row in nested] == [(None, False, 4), (None, False, 8)], nested
# Columns with missing blocks are left out.
root = os.path.join(mountpoint, "truncated.asdf")
assert sorted(os.listdir(os.path.join(root, "tables"))) == ["stars.parquet"], os.listdir(os.path.join(root, "tables"))
assert pq.read_table(os.path.join(root, "tables", "stars.parquet")).column_names == ["ra"]
with open(os.path.join(root, ".asdf-mount", "status.yaml")) as file:
    assert "dec" in (status := file.read()).split("tables/ leaves out the column")[1], status
assert os.listdir(os.path.join(mountpoint, "empty.asdf", "tables")) == []
print(compared)
