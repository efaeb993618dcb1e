"""Compares the arrays of FILE with what zarr and xarray read from its copy at URL, by the output of `ASDF_MOUNT --refs
URL`. Prints the number of arrays that are equal."""

import json
import subprocess
import sys

import asdf
import without_plugins  # noqa: F401
import fsspec
import numpy
import xarray
import zarr

file, url, program = sys.argv[1:]
refs = json.loads(subprocess.run([program, "--refs", url], check=True, capture_output=True, text=True).stdout)
assert {place[0] for place in refs["refs"].values() if isinstance(place, list)} == {url}
filesystem = fsspec.filesystem("reference", fo=refs, remote_protocol="http", remote_options={"asynchronous": True},
                               asynchronous=True)
store = zarr.storage.FsspecStore(filesystem, read_only=True)
compared = 0
with asdf.open(file, memmap=False) as opened:
    roman = opened["roman"]
    for name, array in zarr.open_group(store, path="roman", mode="r", zarr_format=2).arrays():
        numpy.testing.assert_array_equal(array[...], roman[name])
        compared += 1
    cube = xarray.open_zarr(store, group="roman", zarr_format=2)
    numpy.testing.assert_array_equal(cube["data"][3].values, numpy.asarray(roman["data"])[3])
print(compared)
