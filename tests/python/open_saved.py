"""Prints what Python asdf reads from files.

    open_saved.py FOLDER

Prints for each file of the directory its name, a tab, and the name of the type of `c` in the tree;
`nothing` if there is no `c`, or the error. Every value is accessed, and every array is loaded.
"""

import os
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np
from asdf.tags.core import NDArrayType

warnings.simplefilter("ignore")


def kind(value):
    if isinstance(value, NDArrayType):
        value.tolist()
        return "masked array" if isinstance(value.view(), np.ma.MaskedArray) else "array"
    return type(value).__name__


def look_at(value):
    if isinstance(value, dict):
        for key in value:
            look_at(value[key])
    elif isinstance(value, list):
        for item in value:
            look_at(item)
    else:
        kind(value)


def found(path):
    with asdf.open(path) as af:
        tree = af.tree
        look_at(tree)
        af.get_history_entries()
        assert tree["name"] == "first light", "another name"
        assert tree["data"].tolist() == list(range(24)), "other data"
        return kind(tree["c"]) if "c" in tree else "nothing"


for name in sorted(os.listdir(sys.argv[1])):
    try:
        result = found(os.path.join(sys.argv[1], name))
    except Exception as error:
        result = f"fails: {type(error).__name__}: {error}".split("\n")[0]
    print(f"{name}\t{result}")
