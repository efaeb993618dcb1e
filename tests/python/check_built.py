"""Compares files of the tests' builder with Python asdf.

    check_built.py FOLDER [saved]

For every NAME.asdf in the directory, array `blockN` must hold the bytes of NAME.blocks/N.bin, and every
checksum must be right. Prints the number of equal blocks. With `saved`, any version of asdf will do:
checksums, on which the versions differ, are not verified, and `name` must be in the tree.
"""

import os
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np

warnings.simplefilter("ignore")
saved = sys.argv[2:] == ["saved"]
compared = 0
for name in sorted(os.listdir(sys.argv[1])):
    stem, extension = os.path.splitext(name)
    if extension != ".asdf":
        continue
    with asdf.open(os.path.join(sys.argv[1], name), validate_checksums=not saved) as af:
        assert not saved or isinstance(af["name"], str), name
        folder = os.path.join(sys.argv[1], f"{stem}.blocks")
        for block in os.listdir(folder):
            with open(os.path.join(folder, block), "rb") as file:
                truth = file.read()
            read = np.asarray(af[f"block{block.removesuffix('.bin')}"]).tobytes()
            assert read == truth, f"{name}: block {block}"
            compared += 1
print(compared)
