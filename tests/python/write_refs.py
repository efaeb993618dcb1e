"""Writes ASDF files for refs.json into FOLDER: every codec, types, byte orders, and a cube like Roman's."""

import sys
from pathlib import Path

import asdf
import without_plugins  # noqa: F401
import numpy

folder = Path(sys.argv[1])
rng = numpy.random.default_rng(7)
TYPES = ["<i2", ">i2", "|u1", "<u8", ">f2", "<f4", ">f8", "<c8", ">c16", "|b1", "|S5", "<U3"]


def numbers(dtype, shape):
    values = rng.integers(0, 100, shape)
    return (values % 2 == 0).astype(dtype) if dtype == "|b1" else values.astype(dtype)


def write(name, tree, **options):
    asdf.AsdfFile(tree).write_to(folder / f"{name}.asdf", **options)


types = {f"t{n}": numbers(dtype, (5, 7)) for n, dtype in enumerate(TYPES)}
types |= {"scalar": numpy.array(5.5), "empty": numpy.zeros((0, 3)), "line": numbers("<i4", 9000)}
for codec in [None, "zlib", "bzp2", "lz4", "zstd", "blsc"]:
    write(codec or "raw", {"types": types, "odd / keys": {".zarray": numbers("<i4", 3), ".*": numbers("<i4", 3), 5: numbers(">i4", 3)}},
          all_array_compression=codec, all_array_storage="internal")

rows = numbers("<u2", (600, 1024))
pieces = {"compression_block_size": 300 * 2048}
write("pieces", {"whole": rows, "short": rows[:500].copy(), "uneven": numbers("<u2", (601, 1021))}, all_array_compression="lz4", compression_kwargs=pieces)
view = numbers("<i4", (40, 50))
write("left_out", {"view": view[::2], "turned": view.T, "whole": view, "part": view[10:20],
                   "masked": numpy.ma.masked_array(view, view > 50),
                   "table": numpy.zeros(3, [("a", "<i4"), ("b", "<f8")]), "again": view})
cube = {"data": numbers("<f4", (8, 1024, 1024)), "dq": numbers("<u4", (1024, 1024))}
write("cube", {"roman": cube | {"meta": {"exposure": 5}}})
inline = {"line": [1, 2, 3], "floats": [[1.5, 2.5], [3.5, float("nan")]], "bools": [True, False], "text": ["a", "it's é"],
          "complex": [1 + 2j, 3j], "empty": numpy.zeros((0, 3)), "nulls": numpy.ma.masked_array([1, 2], [0, 1])}
write("inline", {key: numpy.ma.asanyarray(value) if key == "nulls" else numpy.asarray(value) for key, value in inline.items()}, all_array_storage="inline")
