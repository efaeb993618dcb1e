"""Writes Blosc2 frames whose data are not in them, or not all: lazy expressions, functions, caches of proxies.

    write_blosc2_elsewhere.py FOLDER

Prints a line for each frame: its name and the numbers of the chunks with data. Beside it is NAME.bin, the bytes of these.
"""

import os
import sys
from pathlib import Path

import blosc2
import numpy as np

os.chdir(sys.argv[1])
SHAPE = dict(chunks=(5, 5), blocks=(5, 5))
numbers = np.arange(100.0).reshape(10, 10)
one = blosc2.asarray(numbers, urlpath="one.b2nd", mode="w", **SHAPE)
two = blosc2.asarray(numbers, urlpath="two.b2nd", mode="w", **SHAPE)


def take(name, chunks):
    frame = one.schunk
    Path(f"{name}.bin").write_bytes(b"".join(frame.decompress_chunk(n) for n in chunks))
    print(f"{name}.b2nd", *chunks)


(one * 2 + two).save(urlpath="lazy.b2nd")
take("lazy", [])


@blosc2.dsl_kernel
def more(x):
    return x + 1


blosc2.lazyudf(more, (one,), np.float64).save(urlpath="function.b2nd")
take("function", [])

# As python-blosc2 3 wrote them.
for name, kind in {"lazy3": 0, "function3": 1}.items():
    array = blosc2.empty((10, 10), np.float64, urlpath=f"{name}.b2nd", mode="w", meta={"LazyArray": kind}, **SHAPE)
    array.schunk.vlmeta["_LazyArray"] = {"expression": "o0 + 1", "UDF": None, "operands": {"o0": "one.b2nd"}}
    take(name, [])

cache = blosc2.Proxy(one, urlpath="cache.b2nd", mode="w")
cache.fetch((slice(0, 5), slice(5, 10)))
take("cache", [1])
blosc2.Proxy(one, urlpath="full.b2nd", mode="w").fetch()
take("full", [0, 1, 2, 3])
blosc2.Proxy(one, urlpath="none.b2nd", mode="w")
take("none", [])

# A cache of a version that kept no bits.
old = blosc2.empty((10, 10), np.float64, urlpath="old.b2nd", mode="w", meta={"proxy-source": {"local_abspath": "one.b2nd"}}, **SHAPE)
old[5:, :5] = numbers[5:, :5].copy()
take("old", [2])
# A cache of blocks, of which one chunk has all.
blocks = blosc2.empty((10, 10), np.float64, urlpath="blocks.b2nd", mode="w", meta={"proxy-source": {"local_abspath": "one.b2nd"}}, **SHAPE)
blocks[5:, 5:] = numbers[5:, 5:].copy()
blocks[:5, :5] = numbers[:5, :5].copy()
blocks.schunk.vlmeta["proxy-fetched-blocks"] = bytes([0b11000010])
blocks.schunk.vlmeta["proxy-fetched-bpc"] = 2
take("blocks", [3])
