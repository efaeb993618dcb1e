"""Compares the pictures in a mounted directory with numpy's results.

    read_previews.py FOLDER MOUNTPOINT

Prints the number of pictures.
"""

import errno
import functools
import os
import sys
import warnings
from pathlib import Path

import asdf
import without_plugins  # noqa: F401
import numpy as np
from astropy.visualization import ZScaleInterval
from PIL import Image

warnings.simplefilter("ignore")
folder, mountpoint = sys.argv[1:]


def blocks_of(values):
    """Returns a function that applies a ufunc to the elements of each pixel."""
    height, width = values.shape
    block = -(-max(height, width) // 1024)
    return lambda add, part: add.reduceat(add.reduceat(part, range(0, height, block), 0), range(0, width, block), 1)


def means_of(values):
    values = values.astype("f8")
    of_blocks = blocks_of(values)
    finite = np.isfinite(values)
    count, total = of_blocks(np.add, finite.astype("i8")), of_blocks(np.add, np.where(finite, values, 0))
    infinite = np.where(of_blocks(np.logical_or, values == np.inf), np.inf,
                        np.where(of_blocks(np.logical_or, values == -np.inf), -np.inf, np.nan))
    return np.where(count > 0, total / np.maximum(count, 1), infinite)


@functools.cache
def golden(size):
    """Returns the places of the numbers that are looked at, of a size."""
    return [n * 0x9E3779B97F4A7C15 % (1 << 64) * size >> 64 for n in range(1 << 16)]


def limits(means):
    """Returns the limits of astropy's zscale, or percentiles, or extremes."""
    numbers = means.ravel()
    if numbers.size > 1 << 16:
        numbers = numbers[golden(numbers.size)]
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return 0.0, 0.0
    low, high = ZScaleInterval(n_samples=numbers.size).get_limits(numbers)
    percentiles = np.percentile(numbers, [0.5, 99.5], method="nearest")
    if high > low and high - low >= np.ptp(percentiles) / 1000:
        return low, high
    return percentiles if np.ptp(percentiles) > 0 else (np.nanmin(numbers), np.nanmax(means[np.isfinite(means)]))


def expected(array, is_flags=False):
    """Returns the grey level, or the colors, and the alpha of each pixel, top line first."""
    array = np.abs(array) if array.dtype.kind == "c" else array
    array = np.ma.getdata(array)
    kind = array.dtype.str[1:]
    is_color = array.ndim > 2 and array.shape[-1] in (3, 4) and not is_flags and (
        kind == "u1" or (kind in ("u2", "f2", "f4", "f8") and min(array.shape[-3:-1]) > array.shape[-1]))
    if is_color:
        array = array.reshape(-1, *array.shape[-3:])[0]
        means = np.stack([means_of(array[..., color]) for color in range(array.shape[-1])], -1)
        top = {"u1": 255, "u2": 65535}.get(kind, 1 if array.max() <= 1 else 255)
        levels = means / top * 255
        if levels.shape[-1] == 3:
            levels = np.concatenate([levels, np.full_like(levels[..., :1], 255)], -1)
        return levels
    planes = array.reshape(-1, *array.shape[-2:])
    array = next((plane for plane in planes if np.isfinite(plane).any()), planes[0])
    if is_flags:
        unsigned = array.astype("i8") % (1 << (8 * array.dtype.itemsize))
        most = blocks_of(unsigned)(np.maximum, unsigned).astype("f8")
        bits = np.log2(np.maximum(most, 1)) / np.log2(most.max()) if most.max() > 1 else 1.0
        level = np.where(most > 0, 64 + bits * 191, 0)
        return np.stack([level, np.full_like(level, 255)], -1)[::-1]
    means = means_of(array)
    low, high = limits(means)
    with np.errstate(invalid="ignore"):
        level = np.full(means.shape, 127.0) if low == high else np.clip((means - low) / (high - low), 0, 1) * 255
    level = np.where((low == high) & np.isinf(means), np.where(means > 0, 255, 0), level)
    alpha = np.where(np.isnan(means), 0, 255)
    return np.stack([np.where(alpha > 0, level, 0), alpha], -1)[::-1]


def compare(place, array):
    size = os.path.getsize(place)
    with open(place, "rb") as file:
        assert len(file.read()) == size, place
    level = expected(array, Path(place).stem in ("dq", "pixeldq", "flags"))
    with Image.open(place) as image:
        image.load()
        assert image.mode == {2: "LA", 4: "RGBA"}[level.shape[-1]], place
        found = np.asarray(image).astype("f8")
    assert found.shape == level.shape, (place, found.shape, level.shape)
    assert (np.abs(found[..., -1] - level[..., -1]) <= 1).all(), place
    # With few numbers, percentiles may be rounded either way, so levels may differ by one or two.
    apart = np.abs(found[..., :-1] - level[..., :-1])
    assert np.percentile(apart, 99) <= 1 and apart.mean() < 1, (place, apart.max(), apart.mean())


def walk(node, steps):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, [*steps, key.replace("x.png", "x%2Epng")])
    elif hasattr(node, "dtype"):
        yield steps, node


compared = 0
for name in ["None", "zlib", "without"]:
    root = os.path.join(mountpoint, name + ".asdf")
    shown = set()
    with asdf.open(os.path.join(folder, name + ".asdf")) as af:
        for steps, array in walk(dict(af.tree), []):
            place = os.path.join(*steps) + ".png"
            if "not" in steps:
                assert not os.path.lexists(os.path.join(root, "preview", place)), place
                continue
            shown.add(place)
            if name != "None" and steps != ["product", "data"]:
                same = [Path(mountpoint, f"{of}.asdf", "preview", place).read_bytes() for of in ["None", name]]
                assert same[0] == same[1], place
            else:
                compare(os.path.join(root, "preview", place), np.ma.asarray(array[...]))
            compared += 1
        assert "preview.png" in os.listdir(root)
        compare(os.path.join(root, "preview.png"), (af.tree if "data" in af.tree else af["product"])["data"][...])
    top = os.path.join(root, "preview")
    found = {os.path.relpath(os.path.join(at, file), top) for at, _, files in os.walk(top) for file in files}
    assert found == shown, (sorted(found - shown), sorted(shown - found))
    assert os.readlink(os.path.join(top, "large.png")) == "again.png"

root = os.path.join(mountpoint, "damaged.asdf")
status = os.path.join(root, ".asdf-mount", "status.yaml")
for at, _, files in os.walk(root):
    for file in files:
        os.stat(os.path.join(at, file))
with open(status) as file:
    before = file.read()
for name in ["preview.png", "preview/data.png"]:
    try:
        with open(os.path.join(root, name), "rb") as file:
            file.read()
        raise AssertionError(f"{name} of a damaged block can be read")
    except OSError as error:
        assert error.errno == errno.EIO, error
compare(os.path.join(root, "preview", "sound.png"), np.eye(3))
with open(status) as file:
    after = file.read()
# Nothing is decoded until a picture is read, so the damage is unknown before.
assert "corrupt" not in before and before.count("\n") < after.count("\n"), (before, after)
print(compared)
