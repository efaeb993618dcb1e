"""Holds the FITS files that nodes describe, and world coordinates, against asdf-astropy and gwcs.

    read_fits_nodes.py FOLDER MOUNTPOINT

Prints how many headers, and how many world coordinates there are.
"""

import io
import os
import sys
import warnings

import asdf
import numpy as np
from astropy import wcs
from astropy.io import fits
from write_fits import EXACT, OTHERS, hdus

warnings.simplefilter("ignore")
folder, mountpoint = sys.argv[1:]


def cards(header):
    return [(card.keyword, card.value, card.comment) for card in header.cards]


def compare(place, expected):
    """A FITS file against what astropy writes of the tree."""
    written = io.BytesIO()
    expected.writeto(written)
    units = 0
    with warnings.catch_warnings(), fits.open(place) as ours, fits.open(io.BytesIO(written.getvalue())) as truth:
        warnings.simplefilter("error")
        ours.verify("exception")
        assert len(ours) == len(truth), place
        for n, (one, other) in enumerate(zip(ours, truth)):
            assert cards(one.header) == cards(other.header), (
                place, n, [pair for pair in zip(cards(one.header), cards(other.header)) if pair[0] != pair[1]])
            assert (one.data is None) == (other.data is None), (place, n)
            if other.data is not None:
                assert one.data.dtype == other.data.dtype, (place, n, one.data.dtype, other.data.dtype)
                for name in other.data.dtype.names or [None]:
                    ours_, theirs = (unit.data if name is None else unit.data[name] for unit in (one, other))
                    assert np.array_equal(ours_, theirs, equal_nan=theirs.dtype.kind in "fc"), (place, n, name)
            units += 1
    assert open(place, "rb").read() == written.getvalue(), f"{place} differs from what astropy writes"
    return units


headers, solutions = 0, 0
# As they were written: asdf-astropy does not read an extension without data.
for name in ("described.asdf", "compressed.asdf"):
    headers += compare(os.path.join(mountpoint, name, "fits/fits.fits"), hdus())
assert os.readlink(os.path.join(mountpoint, "described.asdf/fits/list/0.fits")) == "../fits.fits"
headers += compare(os.path.join(mountpoint, "described.asdf/fits/list/1.fits"), fits.HDUList([fits.PrimaryHDU()]))

DATA = {"only": "image", "quantity": "data/value"}
for file in ("exact.asdf", "inline.asdf"):
    with asdf.open(os.path.join(folder, file)) as af:
        for key, node in EXACT.items():
            place = os.path.join(mountpoint, file, "fits", key, DATA.get(key, "data") + ".fits")
            truth = af[key].get("wcs") or af[key]["meta"]["wcs"]
            with fits.open(place) as opened:
                opened.verify("exception")
                ours = wcs.WCS(opened[0].header)
                system = opened[0].header.get("RADESYS", "").lower() or "galactic"
                assert truth.output_frame.reference_frame.name == system, (key, system)
                if "FK5" == opened[0].header.get("RADESYS"):
                    equinox = truth.output_frame.reference_frame.equinox.jyear
                    assert abs(opened[0].header["EQUINOX"] - equinox) < 1e-9, key
            y, x = np.mgrid[0:20, 0:10]
            found, expected = ours.all_pix2world(x, y, 0), truth(x, y, with_bounding_box=False)
            turn = (found[0] - expected[0] + 180) % 360 - 180
            away = max(np.abs(turn * np.cos(np.radians(expected[1]))).max(), np.abs(found[1] - expected[1]).max())
            assert away < 1e-9, (key, away)
            solutions += 1
for key in OTHERS:
    for top, _, files in os.walk(os.path.join(mountpoint, "others.asdf", "fits", key)):
        for file in files:
            assert "CTYPE1" not in fits.getheader(os.path.join(top, file)), (top, file)
assert "CTYPE1" not in fits.getheader(os.path.join(mountpoint, "exact.asdf/fits/tan/err.fits"))
print(headers, solutions)
