"""Compares copies of `exploded/` with the files of a directory: each array must be equal.

    read_exploded.py FOLDER COPIES

COPIES/NAME.asdf is a copy of the directory for FOLDER/NAME.asdf. Prints the number of arrays.
"""

import os
import re
import sys

import asdf
import without_plugins  # noqa: F401
import numpy as np
from asdf.tags.core import NDArrayType

folder, copies = sys.argv[1:]


def arrays(node, path=()):
    if isinstance(node, (np.ndarray, NDArrayType)):
        yield path, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from arrays(value, (*path, key))
    elif isinstance(node, list):
        for n, value in enumerate(node):
            yield from arrays(value, (*path, n))


def text_of(path):
    with open(path, "rb") as file:
        data = file.read()
    return data[: re.search(rb"\r?\n\.\.\.\r?\n", data).end()]


count = 0
for name in sorted(os.listdir(folder)):
    original, copy = os.path.join(folder, name), os.path.join(copies, name)
    with asdf.open(original) as truth, asdf.open(os.path.join(copy, name)) as exploded:
        wanted, found = dict(arrays(truth.tree)), dict(arrays(exploded.tree))
        assert wanted.keys() == found.keys(), (name, wanted.keys(), found.keys())
        for path, array in wanted.items():
            one, other = np.asarray(array[...]), np.asarray(found[path][...])
            assert one.dtype == other.dtype and np.array_equal(one, other), (name, path)
            count += 1
        blocks = len(truth._blocks.blocks)
    stem = name.removesuffix(".asdf")
    names = [name, *(f"{stem}{n:04}.asdf" for n in range(blocks))]
    assert sorted(os.listdir(copy)) == sorted(names), (name, os.listdir(copy))
    # Only `source` differs.
    pattern = re.compile(rb"(source: )[^\s,}]+")
    tree, text = text_of(original), text_of(os.path.join(copy, name))
    with open(os.path.join(copy, name), "rb") as file:
        assert file.read() == text, f"{name}: something follows the tree"
    assert pattern.sub(rb"\1", tree) == pattern.sub(rb"\1", text), name
    for n in range(blocks):
        # Each block's file is a valid ASDF file.
        with asdf.open(os.path.join(copy, f"{stem}{n:04}.asdf"), validate_checksums=True) as single:
            assert len(single._blocks.blocks) == 1, (name, n)
            single._blocks.blocks[0].cached_data
print(count)
