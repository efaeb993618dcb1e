"""Writes images with astropy's world coordinates, their slices, and sunpy's maps, and compares the cards of fits/.
The cubes in other resolutions are those of scripts/make-ndcube-fixture.py.

    fits_coordinates.py write DIRECTORY
    fits_coordinates.py compare DIRECTORY MOUNTPOINT

NDCubes and maps are written as ndcube and sunpy write them, without these packages. Prints how many images have cards,
and how many have a note in their place.
"""

import os
import shutil
import sys
import warnings

import asdf
import numpy as np
from asdf.tagged import TaggedDict
from astropy import units as u
from astropy.io import fits
from astropy.nddata import StdDevUncertainty
from astropy.wcs import WCS
from astropy.wcs.wcsapi import SlicedLowLevelWCS

warnings.simplefilter("ignore")
RNG = np.random.default_rng(43)
TYPES = [("RA---TAN", "deg"), ("DEC--TAN", "deg"), ("WAVE", "m"), ("STOKES", "")]
SHAPE = (4, 9, 8, 7)
NDCUBE = "ndcube.asdf"
FLUX = "1e-17 erg/s/cm2/Angstrom"


def header(axes, matrix):
    """A header of these axes, in a random order: longitude and latitude may be exchanged."""
    cards = {}
    order = [int(n) for n in RNG.permutation(axes)]
    for n, axis in enumerate(order, 1):
        kind, unit = TYPES[axis]
        cards.update({f"CTYPE{n}": kind, f"CUNIT{n}": unit, f"CRPIX{n}": RNG.uniform(-3, 9), f"CRVAL{n}": RNG.uniform(1, 60)})
        cards[f"CDELT{n}"] = RNG.uniform(1e-4, 1e-3)
        if axis == 2:
            cards[f"CRVAL{n}"], cards[f"CDELT{n}"] = 5e-7, 1e-9
    if matrix:
        # The axes of the sky are rotated, and the spectrum is tilted.
        for row in range(1, axes + 1):
            for column in range(1, axes + 1):
                is_coupled = order[row - 1] < 3 and order[column - 1] < 3
                value = (row == column) + is_coupled * RNG.uniform(-0.2, 0.2)
                scale = cards[f"CDELT{row}"] if matrix == "CD" else 1
                cards[f"{matrix}{row}_{column}"] = value * scale
        if matrix == "CD":
            for row in range(1, axes + 1):
                del cards[f"CDELT{row}"]
    return cards


def cube(data, wcs, **rest):
    return TaggedDict({"data": data, "wcs": wcs, **rest}, "tag:sunpy.org:ndcube/ndcube-1.0.0")


def slices(shape, step):
    chosen = []
    for length in shape:
        start = int(RNG.integers(0, length - 2))
        kind = RNG.integers(4)
        if kind == 0 and sum(not isinstance(one, int) for one in chosen) + len(shape) - len(chosen) > 2:
            chosen.append(start)
        else:
            chosen.append(slice(start, int(RNG.integers(start + 2, length + 1)), int(RNG.integers(1, 4)) if step else 1))
    return chosen


def node(wcs, chosen):
    """The node of a slice. astropy's own class has no steps."""
    listed = [one if isinstance(one, int) else {"start": one.start, "stop": one.stop, "step": one.step} for one in chosen]
    return TaggedDict({"slices_array": listed, "wcs": wcs}, "tag:astropy.org:astropy/wcs/slicedwcs-1.1.0")


def resampled(wcs, factors):
    return TaggedDict({"factor": factors, "offset": [0, 0], "wcs": wcs}, "tag:sunpy.org:ndcube/resampledwcs-1.0.0")


# Each case: the coordinates of all, the slices of these, and the data.
CASES = {}
for number in range(30):
    axes = 3 if number % 3 else 4
    whole = WCS(fits.Header(header(axes, [None, "PC", "CD"][number % 3 if axes == 3 else number % 2])))
    shape = SHAPE[-axes:]
    if number % 2:
        whole.pixel_shape = shape[::-1]
    cuts = slices(shape, number % 5 == 0)
    CASES[f"cut{number}"] = (whole, cuts, np.zeros(shape, "i2")[tuple(cuts)])
PLANE = WCS(fits.Header({"CTYPE1": "WAVE", "CUNIT1": "m", "CRPIX1": 3, "CDELT1": 1e-10, "CRVAL1": 5e-7,
                         "CTYPE2": "TIME", "CUNIT2": "s", "CRPIX2": 1, "CDELT2": 2.0}))
SIP = WCS(fits.Header({"CTYPE1": "RA---TAN-SIP", "CTYPE2": "DEC--TAN-SIP", "CRPIX1": 3.5, "CRPIX2": 2.5, "CRVAL1": 10.0,
                       "CRVAL2": -5.0, "CD1_1": -1e-5, "CD1_2": 1e-6, "CD2_1": 1e-6, "CD2_2": 1e-5, "A_ORDER": 2, "B_ORDER": 2,
                       "A_2_0": 1e-3, "B_0_2": 2e-3}))
ALL = [slice(0, 9, 1), slice(0, 8, 1)]
# An anchor of coordinates with two axes stands in a slice, which comes first in the tree: the cube has an alias.
CASES["a line"] = (PLANE, [3, slice(0, 8, 1)], np.zeros(8, "i2"))
CASES["plane"] = (PLANE, ALL, np.zeros((9, 8), "i2"))
CASES["sip"] = (SIP, [slice(2, 7, 1), slice(1, 5, 1)], np.zeros((5, 4), "i2"))
NOTES = {
    "sip line": (node(SIP, [3, slice(0, 8, 1)]), np.zeros(8, "i2"), "a distortion has no cards with"),
    "shape": (node(PLANE, ALL), np.zeros((4, 4), "i2"), "its axes are not those of the image"),
    "resampled sip": (resampled(SIP, [2, 2.0]), np.zeros((4, 4), "i2"), "a distortion has no cards with other steps"),
    "no factors": (resampled(PLANE, np.array([2, 0])), np.zeros((4, 4), "i2"), "its factors are not positive numbers"),
    "one factor": (resampled(PLANE, [2]), np.zeros((4, 4), "i2"), "its factors or offsets can"),
    "reordered": (TaggedDict({"pixel_order": [1, 0], "world_order": [1, 0], "wcs": PLANE},
                             "tag:sunpy.org:ndcube/reorderedwcs-1.0.0"),
                  np.zeros((4, 4), "i2"), "its coordinates are none of FITS"),
}
META = {"ctype1": "HPLN-TAN", "ctype2": "HPLT-TAN", "cunit1": "arcsec", "cunit2": "arcsec", "crpix1": 3.5, "crpix2": 2.5,
        "crval1": 1.5, "crval2": -2.0, "cdelt1": 0.6, "cdelt2": 0.6}
IMAGE = np.arange(35, dtype="f4").reshape(5, 7)


def sunpy_map(meta, **rest):
    return TaggedDict({"data": IMAGE.copy(), "meta": {**META, **meta}, **rest}, "tag:sunpy.org:sunpy/map/generic_map-1.2.0")


def tree():
    cubes = {}
    for key, (whole, cuts, data) in CASES.items():
        is_whole = key == "plane"
        has_steps = any(not isinstance(one, int) and one.step > 1 for one in cuts)
        wcs = whole if is_whole else node(whole, cuts) if has_steps or key == "a line" else SlicedLowLevelWCS(whole, cuts)
        cubes[key] = cube(data, wcs)
    cubes.update({key: cube(data, wcs) for key, (wcs, data, _) in NOTES.items()})
    units = {
        "map": sunpy_map({"bunit": "ct"}, unit=u.Unit("ct / s")),
        "old": sunpy_map({"bunit": "G"}),
        "none": sunpy_map({}),
        "cube": cube(IMAGE.copy(), None, unit=u.Unit(FLUX), uncertainty=StdDevUncertainty(IMAGE.copy(), unit=FLUX)),
    }
    return {"cubes": cubes, "units": units}


def write(directory):
    asdf.AsdfFile(tree()).write_to(os.path.join(directory, "coordinates.asdf"))
    shutil.copy(os.path.join(os.path.dirname(__file__), "../fixtures/asdf", NDCUBE), directory)


def opened(*path):
    hdus = fits.open(os.path.join(*path))
    hdus.verify("exception")
    return hdus[0].header


def compare_with_ndcube(directory, mountpoint):
    place = os.path.join(mountpoint, NDCUBE)
    with asdf.open(os.path.join(directory, NDCUBE)) as file:
        worlds = file["worlds"]
    for key, truth in worlds.items():
        found = WCS(opened(place, "fits", "cubes", key, "data.fits"))
        pixels, expected = np.array(truth["pixels"]), np.array(truth["worlds"])
        dropped = np.zeros((len(pixels), found.naxis - pixels.shape[1]))
        names = list(found.wcs.ctype)
        order = [names.index(name) for name in ("HPLN-TAN", "HPLT-TAN", "WAVE")]
        ours = found.all_pix2world(np.hstack([pixels, dropped]), 0)[:, order]
        assert np.allclose(ours, expected, rtol=1e-11, atol=0), (key, ours - expected)
    status = open(os.path.join(place, ".asdf-mount", "status.yaml")).read()
    assert "fits/ has no world coordinates" not in status, status
    return len(worlds)


def compare(directory, mountpoint):
    place = os.path.join(mountpoint, "coordinates.asdf")
    for key, (whole, cuts, data) in CASES.items():
        found_header = opened(place, "fits", "cubes", key, "data.fits")
        found = WCS(found_header)
        assert found.naxis == whole.naxis and found_header["NAXIS"] == data.ndim, (key, found_header)
        pixels = np.random.default_rng(1).uniform(-1, 9, (20, data.ndim))
        # The dropped axes are behind those of the image, at their first pixel.
        ours = found.all_pix2world(np.hstack([pixels, np.zeros((20, whole.naxis - data.ndim))]), 0)
        theirs, axis = np.zeros((20, whole.naxis)), 0
        for n, cut in enumerate(cuts[::-1]):
            if isinstance(cut, int):
                theirs[:, n] = cut
            else:
                theirs[:, n] = cut.start + cut.step * pixels[:, axis]
                axis += 1
        theirs = whole.all_pix2world(theirs, 0)
        names = list(whole.wcs.ctype)
        assert sorted(found.wcs.ctype) == sorted(names), (key, found_header)
        for n, name in enumerate(found.wcs.ctype):
            expected = theirs[:, names.index(name)]
            assert np.allclose(ours[:, n], expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max()), (key, name)
    for key in NOTES:
        assert "CTYPE1" not in opened(place, "fits", "cubes", key, "data.fits"), key
    status = open(os.path.join(place, ".asdf-mount", "status.yaml")).read()
    for key, (*_, why) in NOTES.items():
        lines = [line for line in status.splitlines() if f"fits/ has no world coordinates from cubes/{key}/wcs: " in line]
        assert len(lines) == 1 and why in lines[0], (key, status)
    assert status.count("fits/ has no world coordinates") == len(NOTES), status
    for path, unit in {
        "map/data": "ct / s", "old/data": "G", "none/data": None, "cube/data": FLUX, "cube/uncertainty/array": FLUX,
    }.items():
        text = opened(place, "fits", "units", path + ".fits").get("BUNIT")
        assert (text is None) == (unit is None), (path, text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = text and u.Unit(text, format="fits")
        warnings.simplefilter("ignore")
        assert unit is None or found == u.Unit(unit), (path, text)
    print(len(CASES), len(NOTES), compare_with_ndcube(directory, mountpoint))


write(sys.argv[2]) if sys.argv[1] == "write" else compare(*sys.argv[2:])
