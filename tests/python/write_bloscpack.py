"""Writes Bloscpack files of many kinds with the bloscpack package, and their expected content.

    write_bloscpack.py FOLDER [SEED]

Beside NAME.blp are NAME.bin, the data; NAME.json, the expected metadata; NAME.npy, if the metadata describe
an array. Prints the names.
"""

import collections
import collections.abc
import json
import os
import random
import sys

# bloscpack 0.16, from 2018, imports it from its former place.
collections.MutableMapping = collections.abc.MutableMapping

import bloscpack  # noqa: E402
import numpy as np  # noqa: E402
from bloscpack.append import append  # noqa: E402
from bloscpack.checksums import CHECKSUMS_AVAIL  # noqa: E402

CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
ARRAYS = [
    np.arange(30000, dtype="<f8").reshape(100, 300),
    np.asfortranarray(np.arange(24000, dtype=">i2").reshape(20, 30, 40)),
    np.zeros((), "<f4"),
    np.zeros((0, 3), "<i8"),
    np.linspace(0, 1, 5000).astype("<c16"),
    np.arange(2000).astype("<M8[s]"),
    np.array([b"", b"abc", b"defgh"] * 300),
    np.array(["λ", "größe", ""] * 300),
    np.zeros(500, [("a", "<i4"), ("b", ">f8", (2, 3)), ("c", [("x", "S3"), ("y", "?")])]),
    np.arange(7, dtype="u1"),
]


def arguments(dice):
    """Returns the compression settings of a file."""
    blosc = bloscpack.BloscArgs(
        typesize=dice.choice([1, 2, 3, 4, 8, 16, 17, 255]), clevel=dice.randrange(10), shuffle=dice.random() < 0.6,
        cname=dice.choice(CODECS))
    offsets = dice.random() < 0.7
    more = {"max_app_chunks": dice.choice([0, 1, 50])} if offsets and dice.random() < 0.5 else {}
    pack = bloscpack.BloscpackArgs(offsets=offsets, checksum=dice.choice(CHECKSUMS_AVAIL), **more)
    meta = bloscpack.MetadataArgs(
        meta_checksum=dice.choice(CHECKSUMS_AVAIL), meta_codec=dice.choice(["None", "zlib"]))
    return {"blosc_args": blosc, "bloscpack_args": pack, "metadata_args": meta}


def data(dice, size):
    """Returns bytes, some compressible and some not."""
    noise = np.frombuffer(dice.randbytes(size), "u1")
    smooth = (np.arange(size) // 37).astype("u1")
    return np.where(np.arange(size) % 5000 < dice.randrange(5000), noise, smooth).astype("u1").tobytes()


def write_file(path, dice):
    payload = data(dice, dice.choice([1, 2, 1000, 70000, 3 << 20]))
    metadata = dice.choice([None, {"a": [1, 2, {"b": "λ"}], "c": None}])
    with open(path + ".bin", "wb") as file:
        file.write(payload)
    # append requires that a chunk holds whole elements.
    size = str(255 * dice.choice([16, 40, 4000])) + "B"
    given = arguments(dice)
    bloscpack.pack_file_to_file(path + ".bin", path + ".blp", chunk_size=size, metadata=metadata, **given)
    if metadata is not None:
        with open(path + ".json", "w") as file:
            file.write(json.dumps(metadata, separators=(",", ":")))
    if given["bloscpack_args"].offsets and dice.random() < 0.5:
        more = data(dice, dice.choice([1, 5000, 100000]))
        with open(path + ".more", "wb") as file:
            file.write(more)
        try:
            append(path + ".blp", path + ".more")
        except (RuntimeError, bloscpack.exceptions.NotEnoughSpace):
            # Only this one has no space for more offsets.
            more = b""
        os.remove(path + ".more")
        with open(path + ".bin", "ab") as file:
            file.write(more)


def write_array(path, array, dice):
    given = arguments(dice)
    bloscpack.pack_ndarray_to_file(array, path + ".blp", chunk_size=f"{array.itemsize * dice.choice([100, 5000])}B", **given)
    np.save(path + ".npy", array)
    order = "F" if np.isfortran(array) else "C"
    with open(path + ".bin", "wb") as file:
        file.write(array.tobytes(order))
    found = bloscpack.unpack_ndarray_from_file(path + ".blp")
    assert (found == array).all(), path


def main():
    folder, dice = sys.argv[1], random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 13)
    for n in range(40):
        write_file(os.path.join(folder, f"file{n}"), dice)
        print(f"file{n}")
    for n, array in enumerate(ARRAYS):
        write_array(os.path.join(folder, f"array{n}"), array, dice)
        print(f"array{n}")


main()
