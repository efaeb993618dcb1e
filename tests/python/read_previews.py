"""Compares the pictures in a mounted directory with numpy's results.

    read_previews.py FOLDER MOUNTPOINT

Prints the number of pictures.
"""

import errno
import os
import sys
import warnings
from pathlib import Path

import asdf
import numpy as np
from PIL import Image

warnings.simplefilter("ignore")
folder, mountpoint = sys.argv[1:]


def expected(array, is_flags=False):
    """Returns the grey level and alpha of each pixel, top line first."""
    array = np.log2(1.0 + array) if is_flags else array
    array = np.abs(array) if array.dtype.kind == "c" else array
    planes = array.reshape(-1, *array.shape[-2:])
    array = next((plane for plane in planes if np.isfinite(plane).any()), planes[0])
    values = np.ma.getdata(array).astype("f8")
    height, width = values.shape
    block = -(-max(height, width) // 1024)
    def of_blocks(add, part):
        return add.reduceat(add.reduceat(part, range(0, height, block), 0), range(0, width, block), 1)

    finite = np.isfinite(values)
    count, total = of_blocks(np.add, finite.astype("i8")), of_blocks(np.add, np.where(finite, values, 0))
    infinite = np.where(of_blocks(np.logical_or, values == np.inf), np.inf,
                        np.where(of_blocks(np.logical_or, values == -np.inf), -np.inf, np.nan))
    means = np.where(count > 0, total / np.maximum(count, 1), infinite)
    finite = means[np.isfinite(means)]
    if not finite.size:
        finite = np.zeros(1)
    low, high = np.percentile(finite, [0.5, 99.5], method="nearest")
    if low == high:
        low, high = finite.min(), finite.max()
    if low == high:
        level = np.full(means.shape, 127.0)
    else:
        level = np.arcsinh(np.clip((means - low) / (high - low), 0, 1) / 0.1) / np.arcsinh(1 / 0.1) * 255
    alpha = np.where(np.isnan(means), 0, 255)
    return np.where(alpha > 0, level, 0)[::-1], alpha[::-1]


def compare(place, array):
    size = os.path.getsize(place)
    with open(place, "rb") as file:
        assert len(file.read()) == size, place
    with Image.open(place) as image:
        image.load()
        assert image.mode == "LA", place
        found = np.asarray(image).astype("f8")
    level, alpha = expected(array, Path(place).stem in ("dq", "flags"))
    assert found.shape == (*level.shape, 2), (place, found.shape, level.shape)
    assert (found[..., 1] == alpha).all(), place
    # With few numbers, percentiles may be rounded either way, so levels may differ by one or two.
    apart = np.abs(found[..., 0] - level)
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
            compare(os.path.join(root, "preview", place), np.ma.asarray(array[...]))
            compared += 1
        assert "preview.png" in os.listdir(root)
        compare(os.path.join(root, "preview.png"), (af.tree if "data" in af.tree else af["meta"])["data"][...])
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
