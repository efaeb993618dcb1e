"""Reads the array `big` of the ASDF file at URL with Python asdf over fsspec. Prints the time.

    fsspec_peer.py URL
"""

import sys
import time

import asdf
import fsspec

begun = time.perf_counter()
with fsspec.open(sys.argv[1], "rb") as file, asdf.open(file, lazy_load=True) as opened:
    opened["big"][:].sum()
print(time.perf_counter() - begun)
