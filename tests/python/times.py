"""Tables of times, and their timestamps as pyarrow, DuckDB and astropy read them.

    times.py write FOLDER
    times.py read FOLDER MOUNTPOINT

`read` prints the number of compared columns.
"""

import os
import struct
import sys
import warnings

import asdf
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from astropy.coordinates import SkyCoord
from astropy.table import QTable, Table
from astropy.time import Time
from astropy import units as u

warnings.simplefilter("ignore")
folder = sys.argv[2]


def time(values, format=None, scale=None, shown=None, precision=3):
    made = Time(values, format=format, scale=scale, precision=precision)
    made.format = shown or made.format
    return made


DAYS = ["1901-02-03T04:05:06", "2016-12-31T12:00:00", "2199-12-31T23:59:59.5"]
# The unit and the scale's zone of a timestamp, and the format in the metadata.
EXACT = {
    "isot": (time(DAYS), "us", "UTC", "iso"),
    "iso": (time(DAYS, shown="iso"), "us", "UTC", "iso"),
    "iso of tai": (time(DAYS, scale="tai"), "us", None, "iso"),
    "nanoseconds": (time(["2000-01-01T00:00:00.123456789"] * 3, precision=9), "ns", "UTC", "iso"),
    "nanoseconds of tai": (time(["2000-01-01T00:00:00.123456789"] * 3, scale="tai", precision=9), "ns", None, "iso"),
    "yday": (time(DAYS, shown="yday"), "us", "UTC", "yday"),
    "datetime": (time(DAYS, shown="datetime"), "us", "UTC", "iso"),
    "datetime64": (time(DAYS, shown="datetime64"), "us", "UTC", "iso"),
    "fits": (time(DAYS, shown="fits"), "us", "UTC", "iso"),
    "mjd": (time([50000, 50000.25, 57753], "mjd"), "us", "UTC", "mjd"),
    "mjd of tai": (time([50000, 50000.25, 57753.5], "mjd", "tai"), "us", None, "mjd"),
    "mjd of nanoseconds": (time([50000, 50000 + 2**-16, 50001], "mjd"), "ns", "UTC", "mjd"),
    "jd": (time([2450000.5, 2450000, 2457754], "jd", "tai"), "us", None, "jd"),
    "unix": (time([86400, 946684800.25, 1e9], "unix"), "us", "UTC", "unix"),
    "unix_tai": (time([86400, 946684800.25, 1e9], "unix_tai"), "us", None, "unix_tai"),
    "gps": (time([86400, 946684800.25, 1e9], "gps"), "us", None, "gps"),
    "rows": (time([[50000, 50001], [50002, 50003], [50004, 50005]], "mjd"), "us", "UTC", "mjd"),
}
OTHERS = {
    "leap second": time(["2016-12-31T23:59:60", *DAYS[:2]]),
    "tdb": time(DAYS, scale="tdb"),
    "mjd of a day with a leap second": time([57753.5] * 3, "mjd"),
    "unix of a day with a leap second": time([1483185600] * 3, "unix"),
    "mjd of a fraction": time([50000, 50000.1, 50001], "mjd"),
    "unix of a fraction": time([0, 0.1, 1], "unix"),
    "unix of tai": time([0, 1, 2], "unix", "utc").tai,
    "early": time([0, 1, 2], "jd"),
    "jyear": time([2000, 2001, 2002], "jyear", "utc"),
    "decimalyear": time([2000, 2001, 2002], "decimalyear"),
}

BY_HAND = """#ASDF 1.0.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
t: !<tag:astropy.org:astropy/table/table-1.0.0>
  colnames: [masked, empty, integers, text]
  columns:
  - !time/time-1.1.0
    format: mjd
    value: !core/ndarray-1.0.0
      data: [50000.0, .nan, 50001.5]
      datatype: float64
      mask: !core/ndarray-1.0.0 {data: [false, true, false], datatype: bool8}
  - !time/time-1.1.0
    value: !core/ndarray-1.0.0
      data: ['', '', '']
      datatype: [ascii, 20]
      mask: !core/ndarray-1.0.0 {data: [true, true, true], datatype: bool8}
  - !time/time-1.1.0
    format: unix
    value: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [3]}
    location: {x: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [3]}, y: 0, z: 0}
  - !time/time-1.1.0
    value: !core/ndarray-1.0.0 {data: ['2000-01-01', '2000-01-01 12:30', '2000-02-29T00:00:00.5'], datatype: [ascii, 24]}
lost: !<tag:astropy.org:astropy/table/table-1.0.0>
  colnames: [when, n]
  columns:
  - !time/time-1.1.0
    format: unix
    value: !core/ndarray-1.0.0 {source: 1, datatype: int32, byteorder: big, shape: [50000]}
  - !core/column-1.0.0 {name: n, data: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [50000]}}
...
"""


def write():
    exact = QTable({name: made for name, (made, *_) in EXACT.items()})
    tree = {"exact": exact, "others": QTable(OTHERS), "none": QTable({"mjd": Time(np.zeros(0), format="mjd")}),
            "curve": {"time": Time(DAYS), "flux": [1.5, 2.5, 3.5] * u.Jy, "since": Time(DAYS[0])},
            "sky": QTable({"at": SkyCoord([1, 2] * u.deg, [3, 4] * u.deg, obstime=Time(["2000-01-01", "2000-01-02"]))})}
    for name, codec in (("plain", None), ("compressed", "zlib")):
        asdf.AsdfFile(tree).write_to(os.path.join(folder, f"{name}.asdf"), all_array_compression=codec)
    # Some 200 000 values, one of which has no timestamp.
    many = np.full(200_000, 50000.0)
    asdf.AsdfFile({"good": QTable({"t": Time(many, format="mjd")}), "bad": QTable(
        {"t": Time(np.append(many, 50000.1), format="mjd")})}).write_to(os.path.join(folder, "long.asdf"))
    data = np.arange(-1, 49_999, dtype=">i4").tobytes()
    with open(os.path.join(folder, "hand.asdf"), "wb") as file:
        file.write(BY_HAND.encode())
        for label in (b"", b"what"):
            file.write(struct.pack(">4sHI4sQQQ16s", b"\xd3BLK", 48, 0, label, len(data), len(data), len(data), b"") + data)


def nanoseconds(column):
    """Returns the integers of a column of timestamps, in nanoseconds."""
    column = column.combine_chunks()
    while pa.types.is_list(column.type):
        column = column.flatten()
    factor = {"us": 1000, "ns": 1}[column.type.unit]
    return [None if value is None else value * factor for value in column.cast(pa.int64()).to_pylist()]


def metadata(field):
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}


def labels(made):
    """Returns the calendar times of astropy, as nanoseconds since 1970."""
    made = made.copy()
    made.precision = 9
    return np.array(made.isot, "M8[ns]").astype("i8").ravel().tolist()


def read(mountpoint):
    compared = 0
    for file in ("plain.asdf", "compressed.asdf"):
        place = os.path.join(mountpoint, file, "tables", "exact.parquet")
        table = pq.read_table(place)
        for name, (made, unit, zone, format) in EXACT.items():
            kind = pa.timestamp(unit, zone)
            found = table.schema.field(name)
            assert found.type == (pa.list_(pa.field("element", kind, False)) if name == "rows" else kind), found
            assert nanoseconds(table.column(name)) == labels(made), (name, table.column(name))
            said = metadata(found)
            assert (said["scale"], said["format"]) == (made.scale, format), (name, said)
            base = "base_format" in said and said["base_format"]
            assert base == (name in ("datetime", "datetime64", "fits") and name), (name, said)
            if name != "rows":
                query = f'select epoch_ns("{name}") from read_parquet(?)'
                rows = duckdb.connect().execute(query, [place]).fetchall()
                assert [row[0] for row in rows] == labels(made), (name, rows)
            compared += 1
        with open(place, "rb") as opened:
            whole = opened.read()
            for start in np.random.default_rng(5).integers(0, len(whole), 50).tolist():
                assert os.pread(opened.fileno(), 77, start) == whole[start : start + 77], start
        of_astropy = Table.read(place)
        for name in ("isot", "nanoseconds", "mjd of tai"):
            assert of_astropy[name].astype("M8[ns]").astype("i8").tolist() == labels(EXACT[name][0]), of_astropy[name]
        table = pq.read_table(os.path.join(mountpoint, file, "tables", "others.parquet"))
        with asdf.open(os.path.join(folder, file)) as af:
            for name in OTHERS:
                expected = af["others"][name].value
                if name == "jyear":
                    expected = [f"J{value:.3f}" for value in expected]
                assert not pa.types.is_timestamp(table.schema.field(name).type), name
                assert table.column(name).to_pylist() == list(expected), (name, table.column(name), expected)
                compared += 1
        none = pq.read_table(os.path.join(mountpoint, file, "tables", "none.parquet"))
        assert none.num_rows == 0 and none.schema.field("mjd").type == pa.timestamp("us", "UTC"), none
        sky = pq.read_table(os.path.join(mountpoint, file, "tables", "sky.parquet"))
        assert nanoseconds(sky.column("at.obstime")) == [946684800 * 10**9, 946771200 * 10**9], sky
        assert metadata(sky.schema.field("at.obstime"))["frame"] == "icrs", sky
        curve = pq.read_table(os.path.join(mountpoint, file, "tables", "curve.parquet"))
        assert curve.column_names == ["flux", "time"] and nanoseconds(curve.column("time")) == labels(Time(DAYS)), curve
    long = [pq.read_table(os.path.join(mountpoint, "long.asdf", "tables", name)) for name in ("good.parquet", "bad.parquet")]
    assert set(nanoseconds(long[0].column("t"))) == {(50000 - 40587) * 86_400 * 10**9} and len(long[0]) == 200_000
    assert long[1].schema.field("t").type == pa.float64() and long[1].column("t")[-1].as_py() == 50000.1
    table = pq.read_table(os.path.join(mountpoint, "hand.asdf", "tables", "t.parquet"))
    day = 86_400 * 10**9
    expected = {"masked": [9413 * day, None, 9414 * day + day // 2], "empty": [None] * 3,
                "integers": [-(10**9), 0, 10**9],
                "text": [10957 * day, 10957 * day + day // 24 * 25 // 2, 11016 * day + 5 * 10**8]}
    for name, values in expected.items():
        assert nanoseconds(table.column(name)) == values, (name, table.column(name))
    # A place is no time.
    assert table.column("integers.location.x").to_pylist() == [-1, 0, 1]
    # A column of times that can't be read is not converted, and does not affect the other columns.
    place = os.path.join(mountpoint, "hand.asdf", "tables", "lost.parquet")
    assert pq.read_schema(place).field("when").type == pa.int32()
    assert pq.read_table(place, columns=["n"]).column("n").to_pylist() == list(range(-1, 49_999))
    print(compared)


if __name__ == "__main__":
    write() if sys.argv[1] == "write" else read(sys.argv[3])
