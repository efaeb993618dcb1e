"""Measures the Python package, and prints the figures as JSON.

usage: python_peer.py write DIR | parts DIR | block DIR CODEC | open DIR CODEC
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path

import asdf
import numpy

here = Path(sys.argv[2])
RNG = numpy.random.default_rng(1)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def write():
    image = RNG.normal(100, 9, (2700, 2700)).astype("i2").astype("f4")
    asdf.AsdfFile({"data": image}).write_to(here / "image.asdf", all_array_compression="lz4")
    asdf.AsdfFile({"data": numpy.tile(image, (5, 1))}).write_to(here / "images.asdf", all_array_compression="lz4")


def parts():
    import dask
    import xarray

    options = {"cache": "64M"}
    image = xarray.open_dataset(here / "image.asdf", engine="asdf-mount", cache=False, options=options)["data"]
    places = [((n * 131) % 2600, (n * 977) % 2600) for n in range(200)]
    times = []
    for y, x in places:
        begun = time.perf_counter()
        image[y : y + 32, x : x + 32].values
        times.append(time.perf_counter() - begun)
    before = peak()
    images = xarray.open_dataset(here / "images.asdf", engine="asdf-mount", options=options)["data"].chunk({"dim2_13500": 13})
    begun = time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=4):
        float(images.sum(dtype="f8").compute())
    chunks = time.perf_counter() - begun
    return {"cut": statistics.median(times[100:]), "chunks": chunks, "before": before, "peak": peak()}


def block(codec):
    values = RNG.normal(300, 12, 1 << 25).astype("i2")
    asdf.AsdfFile({"data": values[:9]}).write_to(here / "small.asdf")
    asdf.AsdfFile({"data": numpy.tile(values, 4)}).write_to(here / f"{codec}.asdf", all_array_compression=codec)


def read(codec):
    # The first opening collects the plugins.
    asdf.open(here / "small.asdf").close()
    begun = time.perf_counter()
    with asdf.open(here / f"{codec}.asdf", memmap=False, lazy_load=False) as file:
        array = numpy.asarray(file["data"])
        seconds = time.perf_counter() - begun
        return {"seconds": seconds, "sum": float(array.sum(dtype="f8")), "peak": peak()}


actions = {"write": write, "parts": parts, "block": block, "open": read}
print(json.dumps(actions[sys.argv[1]](*sys.argv[3:])))
