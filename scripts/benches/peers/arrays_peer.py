"""Measures numpy and asdf on arrays, and writes the files for them and the mount.

    arrays_peer.py write FOLDER MIB     big.npy, and big.asdf and CODEC.asdf with the same float32 array at the key big
    arrays_peer.py permuted FOLDER MIB  permuted.asdf and permuted-lz4.asdf, with permuted axes of the array at the key big
    arrays_peer.py copy FOLDER MIB      numpy.ascontiguousarray of that array, in memory
    arrays_peer.py trees FOLDER         many.asdf: 40 000 arrays in a tree of 100 MB; roman.asdf: 30 in one of 54 kB
    arrays_peer.py load NPY             numpy.load
    arrays_peer.py map NPY              numpy.load(mmap_mode="r"), read once, then 100 000 elements in random order
    arrays_peer.py open ASDF            asdf.open(…)["big"][:]

Prints the time in seconds, as JSON.
"""

import json
import os
import sys
import time

import numpy as np

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
NODE = "!core/ndarray-1.1.0 {source: 0, datatype: float32, byteorder: little, shape: [4], offset: %d}"
BLOCK = b"\xd3BLK" + (48).to_bytes(2, "big") + bytes(8) + 3 * (1 << 10).to_bytes(8, "big") + bytes(16) + bytes(1 << 10)


def write(folder, mib):
    import asdf

    steps = np.random.default_rng(3).integers(-3, 4, mib << 18)
    array = np.cumsum(steps).astype("<f4")
    np.save(os.path.join(folder, "big.npy"), array)
    for codec in (None, "lz4", "zlib", "bzp2", "zstd", "blsc"):
        path = os.path.join(folder, f"{codec or 'big'}.asdf")
        asdf.AsdfFile({"big": array}).write_to(path, all_array_compression=codec)


def turned(mib):
    """Returns a three-dimensional array; its first axis is the innermost in memory."""
    array = np.arange(mib << 18, dtype="<f4")
    return array.reshape(128, -1, 256).transpose(2, 0, 1)


def permuted(folder, mib):
    import asdf

    for name, codec in (("permuted", None), ("permuted-lz4", "lz4")):
        path = os.path.join(folder, f"{name}.asdf")
        with asdf.config_context() as config:
            # Otherwise asdf writes the array in C order.
            config.default_array_save_base = True
            asdf.AsdfFile({"big": turned(mib)}).write_to(path, all_array_compression=codec)


def trees(folder):
    filler = "x" * 2300
    groups = (f"group{n}:\n" + "".join(f"  a{m}: {NODE % (m % 100)}\n  t{m}: {filler}\n" for m in range(200)) for n in range(200))
    for name, text in (("many", "".join(groups)),
                       ("roman", "roman:\n" + "".join(f"  a{m}: {NODE % m}\n  t{m}: {filler[:1650]}\n" for m in range(30)))):
        with open(os.path.join(folder, f"{name}.asdf"), "wb") as file:
            file.write((HEAD + text + "...\n").encode() + BLOCK)


def main():
    what, path, *more = sys.argv[1:]
    if what == "write":
        return write(path, int(more[0]))
    if what == "permuted":
        return permuted(path, int(more[0]))
    if what == "trees":
        return trees(path)
    if what == "copy":
        array = turned(int(more[0]))
    if what == "open":
        import asdf
    begun = time.perf_counter()
    if what == "load":
        np.load(path)
    elif what == "copy":
        np.ascontiguousarray(array)
    elif what == "map":
        array = np.load(path, mmap_mode="r")
        float(array[::1024].sum())
        order = np.random.default_rng(1).integers(0, array.size, 100_000)
        begun = time.perf_counter()
        for n in order:
            array[n]
    else:
        with asdf.open(path) as af:
            np.asarray(af["big"][:]).sum()
    print(json.dumps(time.perf_counter() - begun))


main()
