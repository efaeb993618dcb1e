"""Writes quantities, tables, masked columns, times and coordinate systems with asdf-astropy and gwcs.

    write_astropy.py FOLDER

Prints, as JSON, for each path in `arrays/` the file that numpy.save wrote for comparison.
"""

import json
import os
import sys
import warnings

import asdf
import astropy.units as u
import numpy as np
from astropy.modeling import models
from astropy.table import MaskedColumn, QTable, Table
from astropy.time import Time

warnings.simplefilter("ignore")
folder = sys.argv[1]
RNG = np.random.default_rng(5)
flux = RNG.normal(size=(4, 5)).astype(">f4")
wave = np.linspace(1, 2, 30)
names = np.array(["M31", "M33", "NGC 1"])
counts = np.arange(3, dtype="i8")
faint = np.array([20.5, 21.5, 22.5])
days = np.array([1, 2, 3]) + 2451545.0
table = Table({"name": names, "counts": counts})
table["masked"] = MaskedColumn(faint, mask=[False, True, False])
qtable = QTable({"flux": faint * u.Jy})
lookup = models.Tabular1D(points=np.arange(10.0), lookup_table=np.arange(10.0) ** 2)
tree = {"quantity": flux * u.Jy, "list": [wave * u.um], "table": table, "qtable": qtable, "lookup": lookup,
        "time": Time(days, format="jd")}
path = os.path.join(folder, "astropy.asdf")
with asdf.AsdfFile(tree) as af:
    af.write_to(path, all_array_storage="internal")


def arrays(node, steps=()):
    """Yields the paths of all ndarrays of the untagged tree."""
    if isinstance(node, dict) and {"source", "datatype", "shape"} <= set(node):
        yield steps
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from arrays(value, (*steps, str(key)))


raw = asdf.util.load_yaml(path)
paths = sorted("/".join(steps) for steps in arrays(raw))
os.mkdir(os.path.join(folder, "expected"))
expected = {"quantity/value": flux, "list/0/value": wave, "qtable/columns/0/value": faint,
            "table/columns/1/data": counts, "lookup/lookup_table": np.arange(10.0) ** 2}
for at, array in expected.items():
    np.save(os.path.join(folder, "expected", at.replace("/", "+")), array)
print(json.dumps({"paths": paths, "expected": sorted(expected)}))
