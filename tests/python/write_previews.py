"""Writes files with arrays that have a picture, and arrays that have none.

    write_previews.py FOLDER
"""

import os
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np

warnings.simplefilter("ignore")
folder = sys.argv[1]
RNG = np.random.default_rng(14)


def sky(height, width):
    """Returns stars on a noisy sky."""
    image = RNG.normal(100, 5, (height, width)).astype("f4")
    y, x = np.mgrid[0:height, 0:width]
    for _ in range(10):
        star = ((y - RNG.integers(height)) ** 2 + (x - RNG.integers(width)) ** 2) / RNG.uniform(4, 400)
        image += (RNG.uniform(50, 20000) * np.exp(-star)).astype("f4")
    return image


def holes(image):
    image = image.copy()
    image[:5, :7] = np.nan
    image[10:14, 20:29] = np.inf
    image[20:24, 20:29] = -np.inf
    return image


def few(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, (9, 8), dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)
    return (RNG.normal(0, 100, (9, 8)) + (1j if dtype.kind == "c" else 0)).astype(dtype)


TYPES = ["i1", "u1", "?", *(order + kind for kind in ["i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
                            for order in "<>")]
SKY = sky(1300, 1100)
tree = {
    "data": sky(300, 200),
    "large": holes(sky(2050, 1030)),
    "types": {name.replace("<", "little ").replace(">", "big "): few(name) for name in TYPES},
    "cube": np.arange(3 * 40 * 50, dtype=">i2").reshape(3, 40, 50),
    "fortran": {"plane": np.asfortranarray(sky(60, 70)), "cube": np.asfortranarray(RNG.normal(0, 1, (4, 20, 30)))},
    # Transposed: the elements of a column are adjacent in memory.
    "turned": {"base": SKY, "columns": SKY.T[::2, ::-3], "backwards": SKY.T[::-1, ::2],
               "cube": np.arange(4 * 60 * 50, dtype="i4").reshape(4, 60, 50).transpose(0, 2, 1)[::2, :, ::2]},
    "late": np.stack([np.full((20, 30), np.nan), sky(20, 30)]),
    "later": np.concatenate([np.full((25, 20, 30), np.nan), sky(20, 30)[None]]),
    "many": np.arange(2 * 3 * 40 * 50, dtype="u2").reshape(2, 3, 40, 50),
    "quality": {"dq": np.array([[0, 1, 2, 4], [1 << 31, 0, 3, 1 << 30]], "u4")},
    "ramp": {"pixeldq": np.where(np.arange(2000 * 1500).reshape(2000, 1500) % 70_001 == 9, 1, 0).astype("i4")
             | np.where(np.arange(2000 * 1500).reshape(2000, 1500) % 90_001 == 5, -2**31, 0).astype("i4")},
    "colors": {"bytes": RNG.integers(0, 256, (30, 40, 3), dtype="u1"),
               "alpha": RNG.integers(0, 256, (7, 1, 4), dtype="u1"),
               "large": RNG.integers(0, 256, (1500, 1100, 3), dtype="u1"),
               "fortran": np.asfortranarray(RNG.integers(0, 256, (20, 30, 3), dtype="u1")),
               "planes": RNG.integers(0, 256, (3, 20, 30), dtype="u1").transpose(1, 2, 0),
               "words": RNG.integers(0, 65536, (20, 30, 3), dtype="u2").astype(">u2"),
               "floats": RNG.uniform(0, 1, (20, 30, 3)).astype("f4"),
               "half": RNG.uniform(0, 1, (20, 30, 4)).astype("f2"),
               "of 255": RNG.uniform(0, 255, (20, 30, 3)),
               "frames": RNG.integers(0, 256, (2, 20, 30, 3), dtype="u1")},
    # The last dimension is a side of the image.
    "small cubes": {"floats": RNG.normal(0, 1, (2, 3, 4)), "whole": np.arange(24).reshape(2, 3, 4)},
    "every second": sky(60, 70)[::2, ::2],
    "constant": np.full((10, 20), 3),
    "no number": np.full((5, 6), np.nan),
    "flags": (np.arange(10000) == 77).reshape(100, 100),
    "long": np.arange(1_000_000.0).reshape(1, -1),
    "tall": np.arange(1_000_000.0).reshape(-1, 1),
    "x.png": {"inside": np.eye(3)},
    "x": np.eye(4),
    "masked": np.ma.masked_array(np.eye(5), np.eye(5) > 0),
    # None of these has a picture.
    "not": {"vector": np.arange(5), "many": np.zeros((2, 2, 2, 2, 2)), "texts": np.full((3, 3), "a"),
            "empty": np.zeros((0, 5)), "records": np.zeros((2, 2), [("a", "i4")]), "number": np.array(5.0)},
}
tree["again"] = tree["large"]
for codec in (None, "zlib"):
    asdf.AsdfFile(tree).write_to(os.path.join(folder, f"{codec}.asdf"), all_array_compression=codec)
del tree["data"]
tree["product"] = {"data": np.eye(3)}
asdf.AsdfFile(tree).write_to(os.path.join(folder, "without.asdf"))
noise = RNG.integers(0, 255, (500, 600), dtype="u1")
path = os.path.join(folder, "damaged.asdf")
asdf.AsdfFile({"data": noise, "sound": np.eye(3)}).write_to(path, all_array_compression="zlib")
with open(path, "r+b") as file:
    content = file.read()
    file.seek(content.index(b"\xd3BLK") + 54 + 150_000)
    file.write(b"\xff" * 100)
