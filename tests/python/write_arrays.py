"""Writes files with arrays of random types, shapes, strides, byte orders and storage.

    write_arrays.py FOLDER SEED COUNT
"""

import os
import struct
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np

warnings.simplefilter("ignore")
folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
RNG = np.random.default_rng(seed)
TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "b1", "S5", "U3"]
KEYS = ["data", "arrays", "a b", "ümlaut", "x.npy", "a/b", "..", "%", "~1", "x~2", "n" * 300, "new\nline", "mask", "it's"]


def scalar_type():
    name = TYPES[RNG.integers(len(TYPES))]
    return name if name[-1] == "1" and name != "b1" or name[0] in "Sb" else "<>"[RNG.integers(2)] + name


def some_type():
    if RNG.random() < 0.8:
        return np.dtype(scalar_type())
    fields = []
    for n in range(RNG.integers(1, 4)):
        shape = tuple(int(size) for size in RNG.integers(1, 4, RNG.integers(0, 2)))
        fields.append((f"field {n}", scalar_type(), shape))
    return np.dtype(fields)


def some_array():
    dtype = some_type()
    shape = tuple(int(size) for size in RNG.integers(0 if RNG.random() < 0.1 else 1, 7, RNG.integers(1, 5)))
    size = int(np.prod(shape)) * dtype.itemsize
    data = RNG.integers(32, 127, size, dtype="u1")
    if "b" in {field.base.kind for field in [dtype]} or dtype.fields:
        data &= 1
    if dtype.kind == "U" or dtype.fields:
        array = np.zeros(shape, dtype)
    else:
        array = np.frombuffer(data.tobytes(), dtype).reshape(shape)
    way = RNG.integers(5)
    if way == 1:
        array = np.asfortranarray(array)
    elif way == 2 and array.ndim > 1:
        array = array[:, ::2]
    elif way == 3 and array.size:
        array = array[::-1]
    elif way == 4:
        array = array.T
    if RNG.random() < 0.1 and not array.dtype.fields:
        return np.ma.array(array, mask=RNG.random(array.shape) < 0.5)
    return array


def some_tree(depth=0):
    tree = {}
    for key in RNG.choice(KEYS, RNG.integers(1, 6), replace=False):
        kind = RNG.random()
        if depth < 2 and kind < 0.2:
            tree[str(key)] = some_tree(depth + 1)
        elif depth < 2 and kind < 0.3:
            tree[str(key)] = [some_array() for _ in range(RNG.integers(1, 3))]
        else:
            tree[str(key)] = some_array()
    return tree


NUMBERS = {"i1": "int8", "i2": "int16", "u4": "uint32", "f4": "float32", "f8": "float64", "c8": "complex64"}


def write_strided(path):
    """Writes one block and arrays with random offsets and strides in it, which Python asdf can't write."""
    nodes, size = [], 4096
    for n in range(6):
        kind = list(NUMBERS)[RNG.integers(len(NUMBERS))]
        item = np.dtype(kind).itemsize
        shape = [int(len_) for len_ in RNG.integers(1, 8, RNG.integers(1, 4))]
        strides = [int(RNG.integers(1, 40)) * int(RNG.choice([-1, 1])) for _ in shape]
        lowest = sum(min(0, stride * (len_ - 1)) for stride, len_ in zip(strides, shape))
        offset = -lowest + int(RNG.integers(100))
        nodes.append(f"array{n}: !core/ndarray-1.1.0 {{source: {RNG.choice([0, -1])}, datatype: {NUMBERS[kind]}, byteorder: "
                     f"{RNG.choice(['little', 'big'])}, shape: {shape}, offset: {offset}, strides: {strides}}}\n")
        assert offset + sum(max(0, stride * (len_ - 1)) for stride, len_ in zip(strides, shape)) + item <= size
    head = ("#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
            + "".join(nodes) + "...\n")
    block = struct.pack(">4sHI4sQQQ16s", b"\xd3BLK", 48, 0, b"", size, size, size, b"")
    with open(path, "wb") as file:
        file.write(head.encode() + block + RNG.integers(0, 256, size, dtype="u1").tobytes())


for n in range(count):
    name = f"random{seed}-{n}"
    codec = [None, "zlib", "bzp2", "lz4", "lz4f", "zstd", "blsc"][RNG.integers(7)]
    options = {"all_array_compression": codec} if codec else {}
    storage = "external" if RNG.random() < 0.2 else "internal"
    tree = some_tree()
    if storage == "internal" and RNG.random() < 0.3:
        stream = asdf.tags.core.Stream([int(len_) for len_ in RNG.integers(1, 5, RNG.integers(0, 3))], scalar_type())
        tree["streamed"] = stream
    with asdf.AsdfFile(tree) as af:
        af.write_to(os.path.join(folder, f"{name}.asdf"), all_array_storage=storage if "streamed" not in tree else None, **options)
    if "streamed" in tree:
        with open(os.path.join(folder, f"{name}.asdf"), "ab") as file:
            file.write(bytes(int(RNG.integers(0, 400))))
    write_strided(os.path.join(folder, f"strided{seed}-{n}.asdf"))
