"""Compares files with those that --repack made of them.

    compare_repacked.py FOLDER

For each NAME.asdf with a NAME.new.asdf in the directory, the trees must be equal, and their arrays in type, shape, values
and mask; all checksums must be right. Prints the number of arrays.
"""

import sys
import warnings
from pathlib import Path

import asdf
import without_plugins  # noqa: F401
import numpy as np
from asdf.tags.core.ndarray import NDArrayType

warnings.simplefilter("ignore")
count = 0


def compare(old, new, where):
    global count
    if isinstance(old, (np.ndarray, NDArrayType)):
        old, new = np.ma.asanyarray(old[...]), np.ma.asanyarray(new[...])
        assert (old.dtype, old.shape) == (new.dtype, new.shape), where
        assert np.array_equal(np.ma.getmaskarray(old), np.ma.getmaskarray(new)), where
        assert old.tobytes() == new.tobytes(), where
        count += 1
    elif isinstance(old, dict):
        assert list(old) == list(new), where
        for key in old:
            compare(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list):
        assert len(old) == len(new), where
        for n, item in enumerate(old):
            compare(item, new[n], f"{where}[{n}]")
    else:
        assert str(old) == str(new), where


for path in sorted(Path(sys.argv[1]).glob("*.new.asdf")):
    old = path.with_name(path.name.replace(".new.", "."))
    with asdf.open(old, validate_checksums=True) as one, asdf.open(path, validate_checksums=True) as other:
        compare(dict(one.tree), dict(other.tree), path.name)
print(count)
