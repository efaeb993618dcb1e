"""Compares `imploded.asdf` with the original file: each array must be equal, and in a block of the same file.

    read_imploded.py ORIGINAL IMPLODED

Prints the numbers of arrays and blocks.
"""

import sys

import asdf
import without_plugins  # noqa: F401
import numpy as np

with asdf.open(sys.argv[1]) as truth, asdf.open(sys.argv[2], validate_checksums=True) as imploded:
    keys = [key for key, value in truth.tree.items() if hasattr(value, "dtype")]
    for key in keys:
        one, other = np.asarray(truth[key][...]), np.asarray(imploded[key][...])
        assert one.dtype == other.dtype and np.array_equal(one, other), key
    print(len(keys), len(imploded._blocks.blocks))
