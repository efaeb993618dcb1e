"""Compares mounted files of the reference set with their twins, which have inline data.

    compare_reference.py MOUNTPOINT TWIN.yaml [MOUNTPOINT TWIN.yaml …]

Every array of the twin is compared, by value, with the bytes of its block according to the
mounted tree. Prints the number of compared arrays.
"""

import os
import re
import sys

import numpy as np
import trees


def scalar_type(name, byteorder):
    """Returns the numpy type for the name of a datatype."""
    if isinstance(name, list):
        kind, length = name
        letter = {"ascii": "S", "ucs4": "U"}[kind]
        return np.dtype(f"{letter}{length}").newbyteorder("<" if byteorder == "little" else ">")
    return np.dtype({"bool8": "bool"}.get(name, name)).newbyteorder("<" if byteorder == "little" else ">")


def datatype(item):
    """Returns the numpy type of an ndarray's mapping; files of 2014 have the key `dtype`."""
    described = item.get("datatype", item.get("dtype"))
    byteorder = item.get("byteorder", "big")
    if isinstance(described, list) and not isinstance(described[-1], int):
        fields = []
        for n, field in enumerate(described):
            if not isinstance(field, dict):
                field = {"datatype": field}
            inner = scalar_type(field.get("datatype", field.get("dtype")), field.get("byteorder", byteorder))
            fields.append((field.get("name", f"f{n}"), inner, tuple(field.get("shape", ()))))
        return np.dtype(fields)
    return scalar_type(described, byteorder)


def from_block(item, mountpoint):
    """Returns an array stored in a block."""
    blocks = os.path.join(mountpoint, "blocks")
    number = item["source"] % len(os.listdir(blocks))
    with open(os.path.join(blocks, f"{number}.bin"), "rb") as file:
        data = file.read()
    dtype, offset = datatype(item), item.get("offset", 0)
    shape = list(item["shape"])
    if shape[0] == "*":
        row = dtype.itemsize * int(np.prod(shape[1:]))
        shape[0] = (len(data) - offset) // row
    return np.ndarray(shape, dtype, data, offset, item.get("strides"))


def number(value):
    """Returns a number as the twins write it: NaN and infinities in YAML notation, complex numbers as text."""
    if isinstance(value, str):
        value = re.sub(r"[iI](?=$|\))", "j", value)
        return complex(value)
    return value


def in_tree(item, dtype):
    """Returns an inline array."""
    if dtype.names:
        rows = [tuple(row) for row in item["data"]]
        return np.array(rows, dtype.newbyteorder("="))
    if dtype.kind in "SU":
        return np.array(item["data"], dtype.newbyteorder("="))
    flat = np.array([number(value) for value in flatten(item["data"])], dtype.newbyteorder("="))
    return flat.reshape(np.shape(item["data"]))


def flatten(value):
    if isinstance(value, list):
        for item in value:
            yield from flatten(item)
    else:
        yield value


def equal(a, b):
    """True if two arrays hold the same values; old twins have complex numbers with only 12 digits."""
    if a.dtype.names:
        return all(equal(a[name], b[name]) for name in a.dtype.names)
    if a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return close(np.real(a), np.real(b)) and close(np.imag(a), np.imag(b))
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def close(a, b):
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        return np.all(same | (np.abs(a / b - 1) < 1e-11))


def load(path):
    with open(path, "rb") as file:
        return trees.load(file)


def compare(mountpoint, twin):
    wanted = dict(trees.arrays(load(twin)))
    blocks = len(os.listdir(os.path.join(mountpoint, "blocks")))
    tree = load(os.path.join(mountpoint, "tree.yaml"))
    stored = {path: item for path, item in trees.arrays(tree) if isinstance(item.get("source"), int)}
    if blocks and not stored:
        # The data half of an exploded file has no array in its tree: its block is the twin's only array.
        ((path, item),) = wanted.items()
        only = {"source": 0, "byteorder": "little", "shape": np.shape(item["data"])}
        stored = {path: item | only}
    for path, item in stored.items():
        found = from_block(item, mountpoint)
        truth = in_tree(wanted[path], found.dtype)
        assert equal(found, truth), f"{twin}: {path}\n{found}\n{truth}"
    compared = {item["source"] % blocks for item in stored.values()}
    assert len(compared) == blocks, f"{twin}: {blocks} blocks, {len(compared)} compared"
    return len(stored)


pairs = iter(sys.argv[1:])
print(sum(compare(mountpoint, twin) for mountpoint, twin in zip(pairs, pairs)))
