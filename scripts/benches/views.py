"""Views of an ASDF file, compared with each other."""

import os

from .files import write_asdf
from .machine import GIB, MIB, noise, ours, ratio, row
from .stored import seconds_of_cat

HEAD = b"""#ASDF 1.0.0
#ASDF_STANDARD 1.6.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
big: !core/ndarray-1.1.0 {source: 0, datatype: float32, byteorder: little, shape: [268435456]}
...
"""


def bench_fits(here, repeats):
    """Measures 1 GiB of float32 in the page cache, which FITS needs byte-swapped."""
    source = here / "big.asdf"
    write_asdf(source, [(GIB, b"\0" * 4, [os.urandom(16 * MIB)] * 64)], head=HEAD)
    ratios = {"first": [], "again": []}
    seconds_of_cat(source)
    for _ in range(repeats):
        with ours(source, here / "m") as point:
            for times in ratios.values():
                npy = seconds_of_cat(point / "arrays/big.npy")
                times.append(npy / seconds_of_cat(point / "fits/big.fits"))
    for when, times in ratios.items():
        beside = "goal 0.7" if when == "first" else noise()
        row(f"`fits/` of 1 GiB float32, `cat {when}`, of the same of the `.npy`", ratio(times), beside)
