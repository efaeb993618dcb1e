"""Holds `imploded.asdf` against the file it was made of: each array has to be equal, and in a block of its own file.

    read_imploded.py ORIGINAL IMPLODED

Prints how many arrays and blocks there are.
"""

import sys

import asdf
import numpy as np

with asdf.open(sys.argv[1]) as truth, asdf.open(sys.argv[2], validate_checksums=True) as imploded:
    keys = [key for key, value in truth.tree.items() if hasattr(value, "dtype")]
    for key in keys:
        one, other = np.asarray(truth[key][...]), np.asarray(imploded[key][...])
        assert one.dtype == other.dtype and np.array_equal(one, other), key
    print(len(keys), len(imploded._blocks.blocks))
