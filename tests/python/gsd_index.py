"""Parses the index of a GSD file, including entries that the readers of the gsd package hide."""

import struct
from collections import namedtuple

import numpy as np

Chunk = namedtuple("Chunk", "frame name dtype n m data")
DTYPES = [None, "|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8", "|S1"]
"""By the number of the type; 11 are characters."""


def names_of(data, version, location, slots):
    """Returns the names in the order of their ids."""
    table = data[location : location + 64 * slots]
    if version < 0x20000:
        every = [table[at : at + 64].split(b"\0")[0] for at in range(0, len(table), 64)]
    else:
        every = table.split(b"\0")
    return every[: every.index(b"")] if b"" in every else every


def chunks(path):
    """Returns all chunks of the file, in the order of its index."""
    with open(path, "rb") as file:
        data = file.read()
    at, slots, names_at, name_slots, _, version = struct.unpack_from("<QQQQII", data, 8)
    names = names_of(data, version, names_at, name_slots)
    found = []
    for entry in struct.iter_unpack("<QQqIHBB", data[at : at + 32 * slots]):
        frame, n, location, m, name, kind, _ = entry
        if location == 0:
            break
        dtype = np.dtype(DTYPES[kind])
        found.append(Chunk(frame, names[name], dtype, n, m, data[location : location + n * m * dtype.itemsize]))
    return found


def array(chunk):
    """Returns a chunk as gsd.fl returns it."""
    shape = (chunk.n,) if chunk.m == 1 else (chunk.n, chunk.m)
    return np.frombuffer(chunk.data, chunk.dtype).reshape(shape)
