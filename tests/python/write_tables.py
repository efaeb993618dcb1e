"""Writes files with tables of random columns: astropy tables, structured arrays, and mappings of arrays.

    write_tables.py FOLDER SEED COUNT
"""

import os
import struct
import sys
import warnings

import asdf
import astropy.units as u
import numpy as np
from astropy.coordinates import SkyCoord
from astropy.table import MaskedColumn, QTable, Table
from astropy.time import Time, TimeDelta

warnings.simplefilter("ignore")
folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
RNG = np.random.default_rng(seed)
TYPES = ["i1", "u1", "b1", "S5", "U4", *(order + kind for order in "<>" for kind in
                                         ["i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])]


def column(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        letters = RNG.choice(list("aé☃𝄞 " if dtype.kind == "U" else "abc "), (*shape, 5))
        texts = ["".join(row[: RNG.integers(0, 6)])[: 4 if dtype.kind == "U" else 5] for row in letters.reshape(-1, 5)]
        return np.array(texts).reshape(shape).astype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)
    values = RNG.normal(0, 100, shape) * RNG.choice([1, 1, 1, np.nan, np.inf], shape)
    return (values + 1j * RNG.normal(0, 1, shape) if dtype.kind == "c" else values).astype(dtype)


def columns(rows):
    """Yields one column of each type, and some with several values per row."""
    for dtype in TYPES:
        yield dtype, column(dtype, (rows,))
    for n in range(5):
        inner = tuple(int(size) for size in RNG.integers(1, 5, RNG.integers(1, 4)))
        yield f"several {n}", column(RNG.choice(TYPES), (rows, *inner))


def random_table(rows):
    table = Table({name: values for name, values in columns(rows)})
    for n in range(4):
        dtype = RNG.choice(["<c8", ">c16"]) if n == 0 else RNG.choice(TYPES)
        shape = (rows, 3) if n == 3 else (rows,)
        mask = RNG.random(shape) < RNG.choice([0, 0.3, 1])
        table[f"masked {n}"] = MaskedColumn(column(dtype, shape), mask=mask)
    for n, name in enumerate(table.colnames):
        table[name].unit = [None, "m", "erg / (s cm2)", "1e-17 Jy / beam", "electron / s", "hourangle"][n % 6]
        table[name].description = f'what "{name}" is: größe\n' if n % 3 else None
    return table


def random_records(rows):
    inner = [("x", "<f4"), ("s", "S3"), ("c", ">c8")]
    record = np.zeros(rows, [("a", ">i8"), ("b", "u1"), ("nested", inner), ("many", inner, (2,)), ("v", "<f2", (2, 3))])
    record["a"], record["b"] = column("i8", (rows,)), column("u1", (rows,))
    for name, shape in [("nested", (rows,)), ("many", (rows, 2))]:
        for field, dtype in inner:
            record[name][field] = column(dtype, shape)
    record["v"] = column("f2", (rows, 2, 3))
    return record


def write_by_hand(path):
    """Writes a table of the standard's schema, with a superfluous column, and a column with unknown compression."""
    head = """#ASDF 1.0.0
#ASDF_STANDARD 1.0.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.0.0
catalog: !core/table-1.0.0
  columns:
  - !core/column-1.0.0
    name: id
    data: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [50000]}
  - !core/column-1.0.0
    name: secret
    data: !core/ndarray-1.0.0 {source: 2, datatype: int32, byteorder: big, shape: [50000]}
  - !core/column-1.0.0
    name: flux
    unit: !unit/unit-1.0.0 Jy
    data: !core/ndarray-1.0.0 {source: 1, datatype: float64, byteorder: little, shape: [50000]}
  - !core/column-1.0.0
    name: short
    data: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [3]}
twice: !core/table-1.0.0
  columns:
  - &same !core/column-1.0.0
    name: a
    data: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [3]}
  - *same
  - !core/column-1.0.0
    name: a~1
    data: !core/ndarray-1.0.0 {source: 1, datatype: float64, byteorder: little, shape: [3]}
  - *same
nothing: !core/table-1.0.0 {columns: []}
spectrum: !<tag:astropy.org:specutils/spectra/spectrum-1.0.0>
  flux: !unit/quantity-1.3.0
    unit: !unit/unit-1.0.0 erg.s**-1.cm**-2
    value: !core/ndarray-1.0.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
  spectral_axis: !<tag:astropy.org:specutils/spectra/spectral_axis-1.0.0>
    unit: !unit/unit-1.0.0 Angstrom
    value: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [9]}
    observer: {data: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [3]}}
  uncertainty:
    uncertainty_type: std
    data: !core/ndarray-1.0.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
  mask: !core/ndarray-1.0.0 {source: 0, datatype: bool8, byteorder: big, shape: [9]}
spectra: !<tag:astropy.org:specutils/spectra/spectrum1d-1.0.0>
  flux: !unit/quantity-1.3.0
    unit: !unit/unit-1.0.0 Jy
    value: !core/ndarray-1.0.0 {source: 1, datatype: float64, byteorder: little, shape: [3, 9]}
  spectral_axis: !<tag:astropy.org:astropy/coordinates/spectralcoord-1.0.0>
    unit: !unit/unit-1.0.0 Angstrom
    value: !core/ndarray-1.0.0 {source: 0, datatype: int32, byteorder: big, shape: [9]}
cube: &cube !<tag:sunpy.org:ndcube/ndcube-1.0.0>
  data: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
  extra_coords: !<tag:sunpy.org:ndcube/extra_coords/extra_coords/extracoords-1.0.0>
    dropped_tables: []
    lookup_tables:
    - - 0
      - !<tag:sunpy.org:ndcube/extra_coords/table_coord/timetablecoordinate-1.0.0>
        names: [time]
        reference_time: !time/time-1.4.0 2020-01-01 00:00:00.000
        table: !time/time-1.4.0
          format: unix
          value: !core/ndarray-1.1.0 {source: 0, datatype: int32, byteorder: big, shape: [9]}
    - - 0
      - !<tag:sunpy.org:ndcube/extra_coords/table_coord/quantitytablecoordinate-1.0.0>
        mesh: true
        names: [exposure]
        table:
        - !unit/quantity-1.3.0
          unit: !unit/unit-1.0.0 s
          value: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
        unit: !unit/unit-1.0.0 s
    ndcube: *cube
  mask: !core/ndarray-1.1.0 {source: 0, datatype: bool8, byteorder: big, shape: [9]}
  uncertainty: !<tag:astropy.org:astropy/nddata/uncertainty-1.0.0>
    array: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
    name: stddev
    unit: !unit/unit-1.0.0 Jy
  unit: !unit/unit-1.0.0 erg.s**-1.cm**-2
  wcs: !<tag:stsci.edu:gwcs/wcs-1.4.0>
    name: ''
    steps:
    - !<tag:stsci.edu:gwcs/step-1.3.0>
      transform: !transform/tabular-1.4.0
        lookup_table: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
        points: [!core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}]
thin: !<tag:sunpy.org:ndcube/ndcube-1.0.0>
  data: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
  unit: !unit/unit-1.0.0 15deg
cubes: !<tag:sunpy.org:ndcube/ndcube-1.0.0>
  data: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9, 9]}
  mask: !core/ndarray-1.1.0 {source: 0, datatype: bool8, byteorder: big, shape: [9]}
  uncertainty: !<tag:astropy.org:astropy/nddata/uncertainty-1.0.0>
    array: !core/ndarray-1.1.0 {source: 1, datatype: float64, byteorder: little, shape: [9]}
masked: !core/table-1.0.0
  columns:
  - !core/column-1.0.0
    name: flat
    data: !core/ndarray-1.0.0
      source: 0
      datatype: [{name: a, datatype: int32}, {name: c, datatype: complex64}]
      byteorder: big
      shape: [3]
      mask: !core/ndarray-1.0.0 {data: [true, false, true], datatype: bool8}
  - !core/column-1.0.0
    name: lists
    data: !core/ndarray-1.0.0
      source: 0
      datatype: [{name: a, datatype: int32}, {name: v, datatype: int32, shape: [2]}]
      byteorder: big
      shape: [3]
      mask: !core/ndarray-1.0.0 {data: [true, false, true], datatype: bool8}
  - !core/column-1.0.0
    name: fields
    data: !core/ndarray-1.0.0
      source: 0
      datatype: [{name: a, datatype: int32}, {name: v, datatype: int32, shape: [2]}]
      byteorder: big
      shape: [3]
      mask: &fields !core/ndarray-1.0.0
        source: 0
        datatype: [{name: a, datatype: bool8}, {name: v, datatype: bool8, shape: [2]}]
        byteorder: big
        shape: [3]
records: !core/ndarray-1.0.0
  source: 0
  datatype: [{name: a, datatype: int32}, {name: v, datatype: int32, shape: [2]}]
  byteorder: big
  shape: [3]
  mask: *fields
nested: !core/ndarray-1.0.0
  source: 0
  datatype: [{name: p, datatype: [{name: x, datatype: int32}, {name: y, datatype: complex64}]}, {name: z, datatype: int32}]
  byteorder: big
  shape: [2]
  mask: !core/ndarray-1.0.0
    source: 0
    datatype: [{name: p, datatype: [{name: x, datatype: bool8}, {name: y, datatype: bool8}]}, {name: z, datatype: bool8}]
    byteorder: big
    offset: 3
    shape: [1]
...
"""
    ids, flux = np.arange(1, 50001, dtype=">i4").tobytes(), np.arange(50000.0).tobytes()
    with open(path, "wb") as file:
        file.write(head.encode())
        for data, label in [(ids, b""), (flux, b""), (ids, b"what")]:
            file.write(struct.pack(">4sHI4sQQQ16s", b"\xd3BLK", 48, 0, label, len(data), len(data), len(data), b""))
            file.write(data)


def write_truncated():
    """Writes files without the last block, and without any block."""
    path = os.path.join(folder, "truncated.asdf")
    stars = Table({"ra": np.arange(2000.0), "dec": np.arange(2000.0) + 1})
    asdf.AsdfFile({"stars": stars, "plain": dict(x=np.arange(2000), y=np.arange(2000.0))}).write_to(path)
    with open(path, "rb") as file:
        whole = file.read()
    magics = [at for at in range(len(whole)) if whole.startswith(b"\xd3BLK\0\x30", at)]
    assert len(magics) == 4, magics
    with open(path, "wb") as file:
        file.write(whole[: magics[1]])
    with open(os.path.join(folder, "empty.asdf"), "wb") as file:
        file.write(whole[: magics[0]])


write_truncated()
for n in range(count):
    rows = int(RNG.choice([0, 1, 7, 100, 1000]))
    mixed = QTable({"length": np.arange(rows) * u.m, "sky": SkyCoord(ra=np.arange(rows) * u.deg, dec=np.zeros(rows) * u.deg)})
    mixed["time"] = Time(np.arange(rows) + 50000.1, format="mjd")
    plain = {name: values for name, values in columns(rows)}
    tree = {"astropy": random_table(rows), "mixed": mixed, "records": random_records(rows), "plain": plain,
            "list": [random_table(3), {"x": np.arange(4), "y.parquet": np.arange(4.0)}],
            "no table": {"images": {"a": np.zeros((5, 5)), "b": np.ones((5, 5))}, "apart": {"a": np.arange(3), "b": np.arange(4)},
                         "one": {"a": np.arange(3)}, "not a table": np.arange(9.0).reshape(3, 3)}}
    tree["same"] = tree["records"]
    tree["name.parquet"] = {"%": {"x": np.arange(4), "y": np.arange(4.0)}}
    codec = ["zlib", "lz4", None][n % 3]
    asdf.AsdfFile(tree).write_to(os.path.join(folder, f"random{n}.asdf"), all_array_compression=codec)
rows = (2 << 17) + 4321
tree = {"id": np.arange(rows), "x": RNG.normal(0, 1, rows).astype(">f4"), "flag": np.arange(rows) % 7 == 0,
        "name": np.char.add("star ", (np.arange(rows) % 1000).astype("U4")), "pos": RNG.normal(0, 1, (rows, 3)).astype("f4")}
asdf.AsdfFile(tree).write_to(os.path.join(folder, "large.asdf"))
write_by_hand(os.path.join(folder, "standard.asdf"))
limits = Table({
    "nan": [1.0, np.nan, 2.0, -3.0], "zeros": [0.0, 0.0, -0.0, 0.0], "infinite": [-np.inf, np.inf, 0.0, 1.0],
    "unsigned": np.array([2**64 - 1, 0, 2**63, 5], "u8"), "short": np.array([255, 0, 128, 7], "u1"),
    "signed": np.array([-(2**63), 2**63 - 1, 0, -1], ">i8"), "texts": ["é", "zz", "", "a" * 15], "long": ["b" * 200, "a", "c" * 100, ""],
})
limits["missing"] = MaskedColumn([1, 2, 3, 4], mask=[True, False, True, False])
limits["all missing"] = MaskedColumn([1.0, 2.0, 3.0, 4.0], mask=True)
asdf.AsdfFile({"limits": limits}).write_to(os.path.join(folder, "limits.asdf"))

# What astropy reads from the metadata.
table = QTable({"z": RNG.normal(0, 1, 6).astype("c16") * (1 + 2j) * u.Jy, "delta": TimeDelta([1, 2, 3, 4, 5, 0.1], format="sec", scale="tai")})
table["list"] = (RNG.normal(0, 1, (6, 2)) * 1j).astype("c8")
table.meta = {"a": 1, "text": "größe: {x}", "list": [1, 2.5, None, True, "5", "yes"], "deep": {"k": {"l": []}},
              "array": np.arange(3)}
asdf.AsdfFile({"table": table}).write_to(os.path.join(folder, "astropy.asdf"))
# Spectra as specutils writes them.
spectrum = """{0}: !<tag:astropy.org:specutils/spectra/spectrum-1.0.0>
  flux: !unit/quantity-1.2.0 {{unit: !unit/unit-1.0.0 Jy, value: !core/ndarray-1.0.0 [1.5, 2.5]}}
  spectral_axis: !<tag:astropy.org:specutils/spectra/spectral_axis-1.0.0> {{unit: !unit/unit-1.0.0 nm, value: !core/ndarray-1.0.0 [1.0, 2.0]}}
  uncertainty: {{data: !core/ndarray-1.0.0 [0.5, 0.5], uncertainty_type: {0}}}
"""
path = os.path.join(folder, "astropy.asdf")
with open(path, "rb") as file:
    content = file.read()
head, blocks = content.split(b"\n...\n", 1)
with open(path, "wb") as file:
    file.write(head + b"\n" + "".join(spectrum.format(kind) for kind in ("std", "var", "ivar")).encode() + b"...\n"
               + blocks[: blocks.index(b"#ASDF BLOCK INDEX")])
