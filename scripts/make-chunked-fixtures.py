#!/usr/bin/env python3
"""Makes tests/fixtures/chunked/*.asdf: arrays in chunks, as asdf-zarr writes them, and as asdf-cxx and ASDF.jl do.

Each element is its number in C order, but for the chunks of `filled` that are not there: those are 7. Needs
asdf-zarr and zarr 2 (tests/python/requirements-corpus.txt).

usage: scripts/make-chunked-fixtures.py FOLDER
"""

import sys
from pathlib import Path

import asdf
import asdf.tagged
import numcodecs
import numpy as np
import zarr

# name: (shape, chunks, dtype, compressor, order)
ARRAYS = {
    "plain": ((6, 9), (2, 4), "<f8", None, "C"),
    "zlib": ((7, 5), (3, 2), "<i4", numcodecs.Zlib(1), "C"),
    "bz2": ((4, 5, 6), (2, 3, 4), ">i2", numcodecs.BZ2(1), "C"),
    "zstd": ((100,), (33,), "<u2", numcodecs.Zstd(3), "C"),
    "blosc": ((50, 45), (20, 20), "<f4", numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE), "C"),
    "fortran": ((5, 7), (2, 3), "<i4", None, "F"),
    "text": ((5,), (2,), "<U3", None, "C"),
    "gzip": ((4,), (2,), "<i4", numcodecs.GZip(1), "C"),
}


def numbers(shape, dtype):
    count = np.arange(np.prod(shape)).reshape(shape)
    return count.astype("U3" if dtype == "<U3" else dtype)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    tree = {}
    for name, (shape, chunks, dtype, compressor, order) in ARRAYS.items():
        data = numbers(shape, dtype)
        tree[name] = zarr.array(data, chunks=chunks, dtype=dtype, compressor=compressor, order=order, fill_value=None if dtype == "<U3" else 0)
    filled = zarr.create((6, 6), chunks=(2, 4), dtype=">i2", compressor=None, fill_value=7)
    filled[2:4, :] = numbers((6, 6), ">i2")[2:4, :]
    tree["filled"] = filled
    asdf.AsdfFile(tree).write_to(folder / "zarr.asdf")
    assert sorted(name for name in ARRAYS) == sorted(set(tree) - {"filled"})

    data = numbers((5, 6), "<i4")
    chunks = []
    for row, rows in ((0, 2), (2, 3)):
        for column, columns in ((0, 4), (4, 2)):
            part = np.ascontiguousarray(data[row:row + rows, column:column + columns])
            chunks.append(asdf.tagged.TaggedDict(
                {"start": [row, column], "ndarray": part}, "tag:stsci.edu:asdf/core/ndarray-chunk-1.0.0"))
    chunked = asdf.tagged.TaggedDict(
        {"shape": [5, 6], "datatype": "int32", "chunks": chunks[::-1]}, "tag:stsci.edu:asdf/core/chunked-ndarray-1.0.0")
    even = asdf.tagged.TaggedDict(
        {"shape": [4, 4], "datatype": "int32", "chunks": [
            asdf.tagged.TaggedDict({"start": [row, 0], "ndarray": numbers((4, 4), "<i4")[row:row + 2].copy()},
                                   "tag:stsci.edu:asdf/core/ndarray-chunk-1.0.0") for row in (0, 2)]},
        "tag:stsci.edu:asdf/core/chunked-ndarray-1.0.0")
    asdf.AsdfFile({"chunked": chunked, "even": even}).write_to(folder / "chunked.asdf", all_array_compression="zlib")


if __name__ == "__main__":
    main()
