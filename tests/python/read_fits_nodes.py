"""Compares FITS files described by nodes, and world coordinates, with asdf-astropy and gwcs.

    read_fits_nodes.py FOLDER MOUNTPOINT

Prints the numbers of headers and of world coordinates.
"""

import io
import os
import sys
import warnings

import asdf
import numpy as np
from astropy import units as u
from astropy import wcs
from astropy.io import fits
from astropy.table import Table
from write_fits import BLOCK, EXACT, FITTED, NO_UNITS, OTHERS, UNITS, columns, hdus

warnings.simplefilter("ignore")
folder, mountpoint = sys.argv[1:]
RNG = np.random.default_rng(15)


def cards(header):
    return [(card.keyword, card.value, card.comment) for card in header.cards]


def compare(place, expected):
    """Compares a FITS file with astropy's output for the tree."""
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
# Compare with the original, because asdf-astropy can't read an extension without data.
for name in ("described.asdf", "compressed.asdf"):
    headers += compare(os.path.join(mountpoint, name, "fits/fits.fits"), hdus())
assert os.readlink(os.path.join(mountpoint, "described.asdf/fits/list/0.fits")) == "../fits.fits"
headers += compare(os.path.join(mountpoint, "described.asdf/fits/list/1.fits"), fits.HDUList([fits.PrimaryHDU()]))



def opened(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fits.open(os.path.join(mountpoint, path))
        found.verify("exception")
        return found


printed, floats = fits.HDUList([fits.PrimaryHDU()]), np.frombuffer(BLOCK, ">f4").reshape(2, 3, 3, 4)
for name, what in (("SCI", "data"), ("ERR", "error")):
    unit = fits.ImageHDU(floats, name=name)
    unit.header["EXTNAME"] = (name, "extension name")
    unit.header["BUNIT"] = ("DN", f"Units of the {what} array")
    printed.append(unit)
header = printed[0].header
header["EXTEND"] = True
for card in ((), ("", "Top Level MIRI Metadata"), (),
             ("DATE", "2013-08-30T10:49:55.070373", "The date this file was created (UTC)"),
             ("FILENAME", "MiriDarkReferenceModel_test.fits", "The name of the file"),
             ("TELESCOP", "JWST", "The telescope used to acquire the data"),
             (), ("", "Information about the observation"), (),
             ("DATE-OBS", "2013-08-30T10:49:55.000000", "The date the observation was made (UTC)")):
    header.append(card, end=True)
headers += compare(os.path.join(mountpoint, "printed.asdf/fits/miri.fits"), printed)

# The data determine these cards, not the tree.
lying = opened("lying.asdf/fits/lying.fits")
header = lying[0].header
assert list(header) == ["SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "EXTEND", "BSCALE", "BZERO", "OBJECT", "DATE",
                        "YEAR", "NOTHING", "ALONE"], list(header)
assert header["SIMPLE"] is True and header["EXTEND"] is True and header["OBJECT"] == "M31"
assert (header["BZERO"], header.comments["BZERO"], header["DATE"], header["YEAR"]) == (32768, "kept", "2013-08-30", 2013)
assert np.array_equal(lying[0].data, np.frombuffer(BLOCK, "<u2", 6).reshape(2, 3))
assert list(lying[1].header) == ["XTENSION", "BITPIX", "NAXIS", "NAXIS1", "PCOUNT", "GCOUNT", "EXTNAME"]
assert np.array_equal(lying[1].data, np.frombuffer(BLOCK, ">f4", 3)) and lying[2].data is None
table, kind = lying[3], np.dtype([("a", "<i2"), ("s", "S2"), ("f", "<f2")])
records = np.frombuffer(BLOCK, kind, 2)
assert table.columns.names == ["a", "s", "f"] and table.header["TUNIT1"] == "m"
assert table.columns.formats == ["1I", "2A", "E"] and table.header.comments["TTYPE1"] == "the name"
assert np.array_equal(table.data["a"], records["a"]) and np.array_equal(table.data["f"], records["f"].astype("f4"))
# The header's TDIM reshapes a one-dimensional field.
dimensions = opened("lying.asdf/fits/dimensions.fits")[1]
kind = np.dtype([("a", "<i2", (3, 2)), ("b", "<i2", (6,)), ("c", "<i2", (3, 2))])
assert [dimensions.header.get(f"TDIM{n}") for n in (1, 2, 3)] == ["(2, 3)", None, "(2,3)"], repr(dimensions.header)
assert dimensions.header.comments["TDIM1"] == "rows of two"
for name in kind.names:
    assert np.array_equal(dimensions.data[name], np.frombuffer(BLOCK, kind, 2)[name]), name
tables = opened("lying.asdf/fits/tables.fits")
assert tables[0].data is None and tables[0].header["EXTEND"] is True and tables[1].header["EXTNAME"] == "ONLY"
assert tables[1].header.count("EXTNAME") == 1, repr(tables[1].header)
assert [tuple(row) for row in tables[1].data] == [(1, 2.5, "x"), (2, 3.5, "yz")], tables[1].data
# The card of the tree, or else the unit of the column; an integer as the mask is a null.
header = opened("lying.asdf/fits/units.fits")[1].header
assert [header.get(f"TUNIT{n}") for n in (1, 2, 3, 4)] == ["counts", "m s-2", None, None], repr(header)
assert [header.get(f"TNULL{n}") for n in (1, 2, 3, 4)] == [None, -7, 32767, None], repr(header)
masked = Table.read(os.path.join(mountpoint, "lying.asdf/fits/units.fits"))
assert masked["b"].mask.tolist() == [False, True, False] and masked["b"].unit == "m s-2", masked
# Its null is 32767 before TZERO is added.
assert masked["c"].tolist() == [1, 65535, 3] and masked["d"].mask.tolist() == [False, True, False], masked
inline = opened("lying.asdf/fits/inline.fits")
assert inline[0].data.tolist() == [[1, 2], [3, 4]]
assert sorted(os.listdir(os.path.join(mountpoint, "lying.asdf/fits"))) == [
    "dimensions.fits", "inline", "inline.fits", "lying", "lying.fits", "tables.fits", "units", "units.fits"], os.listdir(os.path.join(mountpoint, "lying.asdf/fits"))
status = open(os.path.join(mountpoint, "lying.asdf/.asdf-mount/status.yaml")).read()
for left in ("nan: in its header 0, the value of A is NaN", "foreign: in its header 0, the value of the card",
             "nested: in its header 0", "none: it has no header", "bare: in its header 0, there is no",
             "scalar: it is not a list of headers", "flat: in its header 0, its array has no dimensions",
             "large: in an array of its data, it takes 12000 bytes"):
    assert f"fits/ leaves out {left}" in status, (left, status)
assert "arrays/ leaves out alone: an ndarray is neither" in status, status
assert os.listdir(os.path.join(mountpoint, "long.asdf/fits")) == []
status = open(os.path.join(mountpoint, "long.asdf/.asdf-mount/status.yaml")).read()
assert "fits/ leaves out long: in its header 0, it is too large" in status, status
# The keys beside `header` form an array of the tree.
assert np.array_equal(np.load(os.path.join(mountpoint, "printed.asdf/arrays/miri/2/data.npy")), floats)
status = open(os.path.join(mountpoint, "printed.asdf/.asdf-mount/status.yaml")).read()
assert "defects: []" in status, status
assert "CTYPE1" not in fits.getheader(os.path.join(mountpoint, "rounded.asdf/fits/tan/data.fits"))

# Units of columns are those that astropy's own writer gives a table.
for key in ("quantities", "columns"):
    truth = fits.table_to_hdu(columns())
    found = opened(f"columns.asdf/fits/{key}.fits")[1]
    assert found.columns.names == truth.columns.names, (key, found.columns)
    for n, name in enumerate(truth.columns.names, 1):
        ours, theirs = (u.Unit(header[f"TUNIT{n}"], format="fits") for header in (found.header, truth.header))
        assert ours == theirs, (key, name, ours, theirs)
        assert np.array_equal(found.data[name], truth.data[name]), (key, name)
place = os.path.join(mountpoint, "units.asdf", "fits")
for n, unit in enumerate(UNITS + NO_UNITS):
    header = fits.getheader(f"{place}/list/{n}/value.fits")
    assert ("BUNIT" in header) == (unit in UNITS), (unit, header.get("BUNIT"))
    if unit in UNITS:
        assert u.Unit(header["BUNIT"]) == u.Unit(unit), (unit, header["BUNIT"])
        try:
            u.Unit(unit).to_string("fits")
        except ValueError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert u.Unit(header["BUNIT"], format="fits") == u.Unit(unit), (unit, header["BUNIT"])
assert fits.getheader(f"{place}/latitude/value.fits")["BUNIT"] == "deg"

DATA = {"only": "image", "which": "image", "quantity": "data/value"}
for file in ("exact.asdf", "inline.asdf"):
    with asdf.open(os.path.join(folder, file)) as af:
        for key, node in EXACT.items():
            place = os.path.join(mountpoint, file, "fits", key, DATA.get(key, "data") + ".fits")
            truth = af[key].get("wcs") or af[key]["meta"]["wcs"]
            with fits.open(place) as opened:
                opened.verify("exception")
                ours = wcs.WCS(opened[0].header)
                system = opened[0].header.get("RADESYS", "").lower() or "galactic"
                system = {"fk4-no-e": "fk4noeterms"}.get(system, system)
                assert truth.output_frame.reference_frame.name == system, (key, system)
                if system.startswith("fk"):
                    equinox = truth.output_frame.reference_frame.equinox
                    equinox = equinox.jyear if system == "fk5" else equinox.byear
                    assert abs(opened[0].header["EQUINOX"] - equinox) < 1e-9, key
            x, y = RNG.random((2, 200)) * 300 - 100
            found = ours.all_pix2world(x, y, 0)
            is_in_pixels = key == "chain-units"
            expected = truth(*((x * u.pix, y * u.pix) if is_in_pixels else (x, y)), with_bounding_box=False)
            expected = [getattr(value, "value", value) for value in expected]
            assert ours.wcs.lng == (key == "latitude-first"), (key, ours)
            if ours.wcs.lng == 1:
                found, expected = found[::-1], expected[::-1]
            turn = (found[0] - expected[0] + 180) % 360 - 180
            away = max(np.abs(turn * np.cos(np.radians(expected[1]))).max(), np.abs(found[1] - expected[1]).max())
            assert away < 1e-9, (key, away)
            for name in os.listdir(os.path.dirname(place)):
                cards_ = fits.getheader(os.path.join(os.path.dirname(place), name)) if name.endswith(".fits") else {}
                assert ("CTYPE1" in cards_) == (name[:-5] in ("data", "value", "image", "err", "dq")), (key, name)
            if key == "tan":
                header = fits.getheader(place)
                for name in ("err", "dq", "weight/value"):
                    other = fits.getheader(os.path.join(os.path.dirname(place), f"{name}.fits"))
                    for card in ("CTYPE1", "CRVAL1", "CRPIX2", "PC1_2", "CDELT2"):
                        assert header[card] == other[card], (name, card)
            if key == "ndcube":
                for name in ("data", "uncertainty/array"):
                    header = fits.getheader(os.path.join(os.path.dirname(place), f"{name}.fits"))
                    assert header["BUNIT"] == "Jy" and header["CTYPE1"] == "RA---TAN", (name, header)
            solutions += 1
with asdf.open(os.path.join(folder, "fitted.asdf")) as af:
    for key in FITTED:
        header = fits.getheader(os.path.join(mountpoint, "fitted.asdf/fits", key, "data.fits"))
        x, y = RNG.random((2, 200)) * [[10], [20]] - 0.5
        found = np.transpose(wcs.WCS(header).all_pix2world(x, y, 0))
        expected = np.transpose(af[key]["wcs"](x, y, with_bounding_box=False))
        away = np.abs((found - expected + 180) % 360 - 180).max()
        assert away < 3e-6 and header["SIPMXERR"] < 1e-3, (key, away, header["SIPMXERR"])
        solutions += 1
for key in OTHERS:
    for top, _, files in os.walk(os.path.join(mountpoint, "others.asdf", "fits", key)):
        for file in files:
            assert "CTYPE1" not in fits.getheader(os.path.join(top, file)), (top, file)
print(headers, solutions)
