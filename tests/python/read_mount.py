"""Compares the arrays that Python asdf reads from files with numpy's view of their mounts.

    read_mount.py FILE.asdf MOUNTPOINT [FILE.asdf MOUNTPOINT …]

Each block is read with numpy.fromfile and mapped with numpy.memmap. Prints each file with the number of equal arrays.
"""

import os
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np
import trees


def compare(path, mountpoint):
    """Compares the arrays of a file; returns their number."""
    with open(os.path.join(mountpoint, "tree.yaml"), "rb") as file:
        tree = trees.load(file)
    count = len(os.listdir(os.path.join(mountpoint, "blocks")))
    compared = 0
    with asdf.open(path) as af:
        for (key,), item in trees.arrays(tree):
            if "source" not in item:
                continue
            array = np.asarray(af[key])
            block = os.path.join(mountpoint, "blocks", f"{item['source'] % count}.bin")
            place = item.get("offset", 0), item.get("strides")
            compared += 1
            if array.size == 0:
                assert os.path.getsize(block) == 0, block
                continue
            read = np.ndarray(array.shape, array.dtype, np.fromfile(block, "u1"), *place)
            mapped = np.ndarray(array.shape, array.dtype, np.memmap(block, "u1", mode="r"), *place)
            assert read.tobytes() == array.tobytes(), f"{path}: {key}: {block} read"
            assert mapped.tobytes() == array.tobytes(), f"{path}: {key}: {block} mapped"
            assert np.array_equal(mapped[-1], array[-1]), f"{path}: {key}: {block} mapped, at the end"
    return compared


warnings.simplefilter("ignore")
arguments = iter(sys.argv[1:])
for path, mountpoint in zip(arguments, arguments):
    print(os.path.basename(path), compare(path, mountpoint))
