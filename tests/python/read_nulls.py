"""Compares the views of a mounted nulls.fits with what astropy reads from the file.

    read_nulls.py FILE MOUNTED
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
from astropy.io import fits
from astropy.table import Table
from PIL import Image

warnings.simplefilter("ignore")
source, mounted = map(Path, sys.argv[1:])

with fits.open(source) as hdus:
    for name in ("I2", "SCALED"):
        expected = hdus[name].data
        assert np.isnan(expected).sum() == 3
        for path in (f"hdus/{name}.npy", f"arrays/{name.lower()}.npy"):
            np.testing.assert_array_equal(np.load(mounted / path), expected, strict=False)
        assert not (mounted / f"hdus/{name}.mask.npy").exists()
        np.testing.assert_array_equal(fits.getdata(mounted / f"fits/{name.lower()}.fits"), expected)
    # astropy shows unsigned integers as they are, whatever `BLANK` says.
    unsigned, blank = hdus["U2"].data, hdus["U2"].header["BLANK"] + 32768
    masks = {"U2": unsigned == blank, "I2": np.isnan(hdus["I2"].data), "SCALED": np.isnan(hdus["SCALED"].data)}
    raw = hdus["TABLE"].data.view(np.ndarray)
assert masks["U2"].sum() == 3
np.testing.assert_array_equal(np.load(mounted / "arrays/u2.npy"), unsigned)
np.testing.assert_array_equal(np.load(mounted / "arrays/u2.mask.npy"), masks["U2"])
header = fits.getheader(mounted / "fits/u2.fits")
assert header["BLANK"] + header["BZERO"] == blank, header

for name, mask in masks.items():
    opaque = np.asarray(Image.open(mounted / f"preview/{name.lower()}.png").convert("LA"))[..., 1] > 0
    # The first row is at the bottom.
    np.testing.assert_array_equal(opaque[::-1], ~mask, err_msg=name)

nulls = {"plain": raw["plain"] == -99, "scaled": raw["scaled"] == -99, "unsigned": raw["unsigned"] == -32768, "many": raw["many"] == 5,
         "none": np.zeros(3, "?"), "text": np.zeros(3, "?")}
for path in ("hdus/TABLE.npy", "arrays/table.npy"):
    mask = np.load(mounted / path.replace(".npy", ".mask.npy"))
    shown = np.load(mounted / path)
    for name, null in nulls.items():
        np.testing.assert_array_equal(mask[name], null, err_msg=name)
    assert shown["scaled"].tolist()[::2] == [10.5, 11.5] and np.isnan(shown["scaled"][1])
    assert shown["plain"].tolist() == [1, -99, 3] and shown["unsigned"].tolist() == [0, 32769, 32770]
table = parquet.read_table(mounted / "tables/hdus/TABLE.parquet").to_pydict()
for name, null in nulls.items():
    values = np.array([[value is None for value in np.atleast_1d(np.array(row, object))] for row in table[name]])
    np.testing.assert_array_equal(values.reshape(null.shape), null, err_msg=name)
assert table["scaled"] == [10.5, None, 11.5] and table["plain"] == [1, None, 3] and table["many"] == [[None, 1], [2, None], [3, 4]]
found = Table.read(mounted / "fits/table.fits")
for name in ("plain", "many"):
    np.testing.assert_array_equal(found[name].mask, nulls[name], err_msg=name)
assert np.isnan(np.ma.filled(found["scaled"], np.nan)[1])

page = (mounted / "index.html").read_text()
# (0 + ... + 383) - 0 - 7 - 300 over 381 numbers, with 32768 added.
assert "32,769 … 33,151" in page or "32769 … 33151" in page, page
assert "without 3 masked" in page, page
