"""Compares the files of `arrays/` with the arrays that Python asdf reads from the files of a directory.

    read_arrays_folder.py FOLDER MOUNTPOINT

Each must equal the output of numpy.save, and numpy must be able to map it. Prints the number of arrays, and how
many of them are not contiguous.
"""

import io
import os
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np
from asdf.tags.core import NDArrayType

warnings.simplefilter("ignore")
folder, mountpoint = sys.argv[1:]
ENDINGS = (".npy", ".mask")


def component(name):
    """Escapes like src/content/names.rs, in Python."""
    if name == "":
        return ["%-"]
    dot = next((len(name) - len(ending) for ending in ENDINGS if name.endswith(ending)), None)
    digits = len(name) - len(name.rstrip("0123456789"))
    tilde = len(name) - digits - 1 if digits and name[len(name) - digits - 1: len(name) - digits] == "~" else None
    pieces = []
    for at, c in enumerate(name):
        if c in "%/" or ord(c) < 32 or 127 <= ord(c) < 160 or at in (dot, tilde):
            pieces.append("".join(f"%{byte:02X}" for byte in c.encode()))
        else:
            pieces.append(c)
    parts = [""]
    for piece in pieces:
        if len((parts[-1] + piece).encode()) > 240:
            parts[-1] += "%+"
            parts.append("")
        parts[-1] += piece
    return [{".": "%2E", "..": "%2E%2E"}.get(part, part) for part in parts]


def walk(node, steps):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, steps + component(str(key)))
    elif isinstance(node, list):
        for n, value in enumerate(node):
            yield from walk(value, [*steps, str(n)])
    elif isinstance(node, (NDArrayType, np.ndarray)):
        yield steps, node


compared, gathered = 0, 0
for name in sorted(os.listdir(folder)):
    root, expected = os.path.join(mountpoint, name, "arrays"), set()
    with asdf.open(os.path.join(folder, name)) as af:
        for steps, array in walk(dict(af.tree), []):
            file = os.path.join(*steps) + ".npy"
            expected.add(file)
            place = os.path.join(root, file)
            array = array._make_array() if isinstance(array, NDArrayType) else array
            if isinstance(array, np.ma.MaskedArray):
                expected.add(file[:-4] + ".mask.npy")
                mask = np.load(place[:-4] + ".mask.npy", mmap_mode="r" if array.size else None)
                assert mask.dtype == bool and mask.shape == array.shape, f"{name}: the mask of {file}"
                assert np.array_equal(mask, np.ma.getmaskarray(array)), f"{name}: the mask of {file}"
                array = array.data
            array = np.asarray(array)
            if array.dtype == object:
                # Python's type for nulls without a datatype differs: ours is the type of the other elements.
                array = array.astype(np.load(place).dtype)
            saved = io.BytesIO()
            np.save(saved, array)
            assert os.path.getsize(place) == len(saved.getvalue()), f"{name} {file}: {os.path.getsize(place)} bytes"
            with open(place, "rb") as opened:
                assert opened.read() == saved.getvalue(), f"{name}: {file} differs from numpy.save"
            mapped = np.load(place, mmap_mode="r") if array.size else np.load(place)
            assert mapped.dtype == array.dtype and mapped.shape == array.shape, f"{name}: {file}"
            assert mapped.tobytes() == array.tobytes(), f"{name}: {file} mapped"
            compared += 1
            gathered += not (array.flags.c_contiguous or array.flags.f_contiguous)
    found = {os.path.join(top, file) for top, _, files in os.walk(root) for file in files}
    found = {os.path.relpath(file, root) for file in found if not os.path.islink(file)}
    assert found == expected, (name, sorted(found - expected), sorted(expected - found))
print(compared, gathered)
