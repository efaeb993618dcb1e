"""Writes random files whose arrays share blocks: views of one array, with gaps, reversed, transposed, equal, disjoint.

    write_views.py FOLDER COUNT

The key `unused` of each file has an array of its own.
"""

import random
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np

warnings.simplefilter("ignore")
asdf.get_config().default_array_save_base = True
dice = random.Random(61)
TYPES = ["u1", "<i2", ">i4", "<i8", ">f4", "<f8", "<c16", "?", "S3", "<U2", [("a", "<i2"), ("b", ">f8", (2,))]]
CODECS = [None, "zlib", "bzp2", "lz4", "zstd", "lz4f"]


def base():
    shape = [dice.choice([1, 2, 5, 12, 40]) for _ in range(dice.randint(1, 3))]
    kind = np.dtype(dice.choice(TYPES))
    count = int(np.prod(shape))
    if kind.kind in "SU":
        array = np.array([f"{n:02}" for n in range(count)], kind)
    elif kind.names:
        array = np.zeros(count, kind)
        array["a"], array["b"] = np.arange(count), np.arange(2 * count).reshape(count, 2) / 3
    else:
        array = (np.arange(count) * 7 % 251).astype(kind)
    return array.reshape(shape, order=dice.choice("CF"))


def view(array):
    if dice.random() < 0.2:
        return array
    cut = []
    for length in array.shape:
        ends = sorted(dice.randint(0, length) for _ in range(2))
        step = dice.choice([1, 1, 1, 2, 3, -1, -2])
        cut.append(slice(*ends, step) if step > 0 else slice(*[end or None for end in reversed(ends)], step))
    array = array[tuple(cut)]
    return array.T if dice.random() < 0.2 else array


for n in range(int(sys.argv[2])):
    tree = {"unused": np.arange(100 + n)}
    for k in range(dice.randint(1, 3)):
        array = base()
        tree[f"base{k}"] = [view(array) for _ in range(dice.randint(1, 4))]
        if dice.random() < 0.3:
            tree[f"node{k}"] = {"whole": array, "text": "a: b # c"}
    if n % 5 == 0:
        numbers = np.arange(60)
        tree["masked"] = np.ma.array(numbers[::3], mask=numbers[::3] % 2 == 0)
    if n % 6 == 1:
        tree["inline"] = np.arange(4)
    if n % 7 == 2:
        tree["outside"] = np.arange(n)
    codec = dice.choice(CODECS)
    with asdf.AsdfFile(tree) as af:
        if "inline" in tree:
            af.set_array_storage(tree["inline"], "inline")
        if "outside" in tree:
            af.set_array_storage(tree["outside"], "external")
        if n % 4 == 3:
            af["stream"] = asdf.tags.core.Stream([3], np.dtype(">i2"))
            af.set_array_compression(tree["unused"], codec)
            with open(f"{sys.argv[1]}/{n}.asdf", "wb") as file:
                af.write_to(file)
                file.write(np.arange(30, dtype=">i2").tobytes())
            continue
        af.write_to(f"{sys.argv[1]}/{n}.asdf", all_array_compression=codec)
