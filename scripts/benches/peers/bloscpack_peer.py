"""Measures the bloscpack package on the same work as the mount, and writes the file for both.

    bloscpack_peer.py write FILE MIB       packs an array of this many MiB, with the package's default settings
    bloscpack_peer.py decompress FILE OUT  as blpk decompress, with the C threads of python-blosc on all cores
    bloscpack_peer.py map ARRAY            numpy.load(ARRAY, mmap_mode="r"), and an element in each MiB

Prints the time in seconds, as JSON.
"""

import collections
import collections.abc
import json
import os
import sys
import time

# bloscpack 0.16, from 2018, imports it from its former place.
collections.MutableMapping = collections.abc.MutableMapping

import blosc  # noqa: E402
import bloscpack  # noqa: E402
import numpy as np  # noqa: E402


def main():
    what, path, *more = sys.argv[1:]
    blosc.set_nthreads(os.cpu_count())
    if what == "write":
        steps = np.random.default_rng(13).integers(-3, 4, int(more[0]) << 17)
        bloscpack.pack_ndarray_to_file(np.cumsum(steps).astype("<f8"), path)
        return
    begun = time.perf_counter()
    if what == "decompress":
        bloscpack.unpack_file_from_file(path, more[0])
    else:
        array = np.load(path, mmap_mode="r")
        float(array[:: 1 << 17].sum())
    print(json.dumps(time.perf_counter() - begun))


main()
