"""Holds files of the tests' own builder against Python asdf.

    check_built.py FOLDER

For every NAME.asdf in the folder, array `blockN` has to hold the bytes of NAME.blocks/N.bin. Prints
how many blocks agreed.
"""

import os
import sys
import warnings

import asdf
import numpy as np

warnings.simplefilter("ignore")
compared = 0
for name in sorted(os.listdir(sys.argv[1])):
    stem, extension = os.path.splitext(name)
    if extension != ".asdf":
        continue
    with asdf.open(os.path.join(sys.argv[1], name), validate_checksums=True) as af:
        folder = os.path.join(sys.argv[1], f"{stem}.blocks")
        for block in os.listdir(folder):
            with open(os.path.join(folder, block), "rb") as file:
                truth = file.read()
            read = np.asarray(af[f"block{block.removesuffix('.bin')}"]).tobytes()
            assert read == truth, f"{name}: block {block}"
            compared += 1
print(compared)
