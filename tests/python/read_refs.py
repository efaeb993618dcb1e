"""Compares the arrays of each ASDF and Bloscpack file in FOLDER, and the series of each GSD file, with what zarr, xarray and Dask
read by the references of that file: MOUNT/NAME/refs.json, or the output of `ASDF_MOUNT --refs`. Prints the number of arrays that are equal."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import asdf
import without_plugins  # noqa: F401
import dask.array
import numcodecs
import fsspec
import lz4.block
import numpy
import xarray
import zarr
from dask.distributed import Client, LocalCluster
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.parsers import KerchunkJSONParser

folder, mount, program = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
document = (Path(__file__).parents[2] / "docs/scale.md").read_text()
MOVE, CODECS_AS_FILTERS = re.findall(r"jq -c '(.*)' >refs.json", document)


def store_of(refs):
    filesystem = fsspec.filesystem("reference", fo=refs, asynchronous=True)
    return zarr.storage.FsspecStore(filesystem, read_only=True)


class AsdfLz4(numcodecs.abc.Codec):
    """A whole block in ASDF's lz4 format: parts with their length, and LZ4 blocks with their decoded length."""

    codec_id = "asdf-lz4"

    def encode(self, buf):
        raise NotImplementedError

    def decode(self, buf, out=None):
        rest, parts = memoryview(bytes(buf)), []
        while rest:
            length = int.from_bytes(rest[:4], "big")
            parts.append(lz4.block.decompress(bytes(rest[4:4 + length])))
            rest = rest[4 + length:]
        decoded = b"".join(parts)
        return decoded if out is None else numcodecs.compat.ndarray_copy(numpy.frombuffer(decoded, "u1"), out)


numcodecs.registry.register_codec(AsdfLz4)


def node_at(tree, path):
    for part in path.split("/"):
        key = unquote(part)
        tree = tree[int(key)] if isinstance(tree, list) or key not in tree else tree[key]
    return numpy.asarray(tree)


def converted(program, refs):
    return json.loads(subprocess.run(["jq", "-c", program], input=json.dumps(refs), check=True, capture_output=True,
                                     text=True).stdout)


def by_virtualizarr(refs, group):
    (folder / "refs.json").write_text(json.dumps(refs))
    registry = ObjectStoreRegistry({"file:///": LocalStore()})
    store = KerchunkJSONParser(group=group)(f"file://{folder}/refs.json", registry)
    return zarr.open_group(store, mode="r", zarr_format=3)


compared = 0
for file in sorted(folder.glob("*.asdf")):
    text = (mount / file.name / "refs.json").read_text()
    assert len(text.encode()) == (mount / file.name / "refs.json").stat().st_size
    os.chdir(folder)
    printed = subprocess.run([program, "--refs", file.name], check=True, capture_output=True, text=True).stdout
    assert printed == text, f"{file}: --refs differs from refs.json"
    refs = json.loads(text)
    left_out = json.loads(refs["refs"].get(".zattrs", "{}")).get("left_out", {})
    group = zarr.open_group(store_of(refs), mode="r", zarr_format=2)
    with asdf.open(file, memmap=False) as opened:
        arrays = dict(node for node in group.members(max_depth=None) if isinstance(node[1], zarr.Array))
        assert {*arrays} & {*left_out} == ({"short", "uneven"} if file.stem == "pieces" else set()), left_out
        for path, array in arrays.items():
            expected = node_at(opened.tree, path)
            assert array.shape == expected.shape and array.dtype == expected.dtype, (file, path)
            numpy.testing.assert_array_equal(array[...], expected, f"{file} {path}")
            compared += 1
        if file.stem == "left_out":
            # Python sorts the keys, so that `whole` is an alias of `again`.
            assert {*left_out} == {"masked", "masked.mask", "table", "turned"}, left_out
            assert {*arrays} == {"again", "part", "view", "whole"}, arrays
        elif file.stem == "pieces":
            assert {*left_out} == {"short", "uneven"} and arrays["whole"].chunks == (300, 1024)
            assert "asdf-lz4" in left_out["short"] and arrays["short"].chunks == (500, 1024)
        elif file.stem == "inline":
            assert {*left_out} == {"nulls", "nulls.mask"} and len(arrays) == 6, (left_out, arrays)
        else:
            assert not left_out, (file, left_out)

for file in sorted(folder.glob("*.gsd")):
    text = (mount / file.name / "refs.json").read_text()
    assert text == subprocess.run([program, "--refs", file.name], check=True, capture_output=True, text=True).stdout
    group = zarr.open_group(store_of(json.loads(text)), mode="r", zarr_format=2)
    arrays = dict(node for node in group.members(max_depth=None) if isinstance(node[1], zarr.Array))
    series = mount / file.name / "arrays" / "series"
    paths = {str(path.relative_to(series))[:-4] for path in series.rglob("*.npy") if not path.stem.endswith(".frames")}
    assert arrays.keys() == paths - group.attrs.get("left_out", {}).keys() and len(arrays) > 5, (paths, {*arrays})
    for path, array in arrays.items():
        numpy.testing.assert_array_equal(array[...], numpy.load(series / f"{path}.npy"), f"{file} {path}")
        assert array.chunks[0] == 1
        compared += 1

packs = 0
for file in sorted(folder.glob("*.blp")):
    text = (mount / file.name / "refs.json").read_text()
    assert text == subprocess.run([program, "--refs", file.name], check=True, capture_output=True, text=True).stdout
    group = zarr.open_group(store_of(json.loads(text)), mode="r", zarr_format=2)
    if "data" in group:
        expected = numpy.load(mount / file.name / "arrays" / "data.npy")
        assert group["data"].dtype == expected.dtype
        numpy.testing.assert_array_equal(group["data"][...], expected, file)
        packs += 1
    else:
        assert group.attrs["left_out"]["data"]
assert packs > 4, packs

refs = json.loads((mount / "cube.asdf" / "refs.json").read_text())
with asdf.open(folder / "cube.asdf", memmap=False) as opened:
    data = numpy.asarray(opened["roman"]["data"])
    cube = xarray.open_zarr(store_of(refs), group="roman", zarr_format=2)
    assert cube["data"].chunks == ((1,) * 8, (256,) * 4, (1024,)) and cube["dq"].dims == cube["data"].dims[1:]
    numpy.testing.assert_array_equal(cube["data"][3].values, data[3])
    numpy.testing.assert_array_equal(by_virtualizarr(refs, "roman")["data"][3], data[3])
    # Another place of the file.
    os.link(folder / "cube.asdf", folder / "other place {{u}}")
    refs = converted(MOVE.replace("s3://bucket/galaxy.asdf", f"{folder}/other place {{{{u}}}}"), refs)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster):
        total = dask.array.from_zarr(zarr.open_array(store_of(refs), path="roman/data", mode="r")).sum(dtype="f8")
        assert total.compute() == data.sum(dtype="f8")

for codec in ["zlib", "bzp2", "lz4", "zstd", "blsc"]:
    refs = converted(CODECS_AS_FILTERS, json.loads((mount / f"{codec}.asdf" / "refs.json").read_text()))
    group = by_virtualizarr(refs, "types")
    with asdf.open(folder / f"{codec}.asdf", memmap=False) as opened:
        for name in ["t0", "t1", "t6", "t8", "line"]:
            numpy.testing.assert_array_equal(group[name][...], opened["types"][name], f"{codec} {name}")
            compared += 1
print(compared)
