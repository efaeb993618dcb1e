"""Writes files with nodes that describe FITS files, and with world coordinates beside arrays.

    write_fits.py FOLDER
"""

import os
import sys
import warnings

import asdf
import gwcs
import numpy as np
from astropy import coordinates as coord
from astropy import units as u
from astropy.io import fits
from astropy.modeling import models
from gwcs import coordinate_frames as cf
from gwcs.fitswcs import FITSImagingWCSTransform

warnings.simplefilter("ignore")
folder = sys.argv[1]
RNG = np.random.default_rng(14)


def hdus():
    """A FITS file of every kind of card and data."""
    primary = fits.PrimaryHDU(RNG.integers(0, 60000, (3, 4), "u2"))
    header = primary.header
    header["LONG"] = ("x" * 150, "a comment that goes on")
    header["QUOTE"] = ("it's " * 30 + "end", "c")
    header["TINY"] = (1e-5, "exponent")
    header["FLOAT"] = 12.5
    header["BIG"] = 2**40
    header["YES"] = (True, "a comment")
    header["NO"] = (False, "asdf-astropy loses it without a comment")
    header["EMPTY"] = ("", "an empty text")
    header["NUMERIC"] = "5"
    header["DATE-OBS"] = ("2013-08-30", "looks like a date")
    header["HIERARCH ESO DET ID"] = (7, "hierarch")
    header["COMMENT"] = "first comment"
    header["HISTORY"] = "was made " * 20
    header[""] = "a blank keyword"
    header.append(())
    header["LAST"] = "z"
    columns = [
        fits.Column("a", "J", array=np.arange(3)),
        fits.Column("s", "5A", array=["x", "yy", "zzzzz"]),
        fits.Column("b", "L", array=[True, False, True]),
        fits.Column("m", "6E", dim="(3,2)", array=RNG.random((3, 2, 3)), unit="DN"),
        fits.Column("u", "I", bzero=32768, array=np.array([1, 2, 40000], "u2")),
        fits.Column("k", "K", array=[-(2**60), 0, 5], null=-1),
        fits.Column("d", "D", array=[0.5, np.nan, np.inf]),
        fits.Column("c", "C", array=[1j, 2, 3 - 1j]),
        fits.Column("t", "6A", dim="(3,2)", array=np.array([["a", "bc"], ["def", "g"], ["", "h"]])),
    ]
    return fits.HDUList(
        [
            primary,
            fits.ImageHDU(RNG.random((2, 3, 3, 4)).astype("f4"), name="SCI"),
            fits.ImageHDU(RNG.integers(-9, 9, (5,), "i8"), name="INT"),
            fits.ImageHDU(name="NONE"),
            fits.BinTableHDU.from_columns(columns, name="TABLE"),
        ]
    )


ICRS = coord.ICRS()


def wcs(projection, frame=ICRS, crval=(30.5, -40.25), units=(u.deg, u.deg), order=(0, 1), after=None, shape=None):
    detector = cf.Frame2D(name="detector", axes_order=(0, 1), unit=(u.pix, u.pix))
    angle = RNG.random()
    matrix = [[np.cos(angle), -np.sin(angle)], [np.sin(angle) * 1.1, np.cos(angle)]]
    transform = FITSImagingWCSTransform(
        projection, crpix=RNG.random(2) * 10, crval=crval, cdelt=[-1e-3 / 3, 2.2e-3], pc=matrix
    )
    world = cf.CelestialFrame(reference_frame=frame, name="world", unit=units, axes_order=order)
    if after is not None:
        transform = transform | after
    made = gwcs.WCS([gwcs.wcs.Step(detector, transform), gwcs.wcs.Step(world, None)])
    made.pixel_shape = shape
    return made


def image(*shape):
    return RNG.random(shape or (20, 10)).astype("f4")


TAN = models.Pix2Sky_TAN()
EXACT = {
    "tan": {"meta": {"wcs": wcs(TAN)}, "data": image(), "err": image()},
    "beside": {"wcs": wcs(models.Pix2Sky_STG()), "data": image()},
    "only": {"wcs": wcs(models.Pix2Sky_SIN()), "image": image(), "spectrum": image(7)},
    "zea": {"wcs": wcs(models.Pix2Sky_ZEA(), coord.Galactic()), "data": image()},
    "arc": {"wcs": wcs(models.Pix2Sky_ARC(), coord.FK5()), "data": image()},
    "azp": {"wcs": wcs(models.Pix2Sky_AZP(mu=2, gamma=30), coord.FK5(equinox="J1975")), "data": image()},
    "szp": {"wcs": wcs(models.Pix2Sky_SZP(mu=2, phi0=30, theta0=60)), "data": image()},
    "air": {"wcs": wcs(models.Pix2Sky_AIR(theta_b=45)), "data": image()},
    "pole": {"wcs": wcs(TAN, crval=(10, 90)), "data": image()},
    "south": {"wcs": wcs(TAN, crval=(10, -90)), "data": image()},
    "quantity": {"meta": {"wcs": wcs(TAN)}, "data": image() * u.Jy},
    "shape": {"wcs": wcs(TAN, shape=(10, 20)), "data": image()},
}
OTHERS = {
    "car": {"wcs": wcs(models.Pix2Sky_CAR()), "data": image()},
    "arcsec": {"wcs": wcs(TAN, units=(u.arcsec, u.arcsec)), "data": image()},
    "order": {"wcs": wcs(TAN, order=(1, 0)), "data": image()},
    "more": {"wcs": wcs(TAN, after=models.Identity(2)), "data": image()},
    "fk4": {"wcs": wcs(TAN, coord.FK4()), "data": image()},
    "cube": {"wcs": wcs(TAN), "data": image(2, 20, 10)},
    "two": {"wcs": wcs(TAN), "meta": {"wcs": wcs(TAN)}, "data": image()},
    "which": {"wcs": wcs(TAN), "image": image(), "other": image()},
    "shape": {"wcs": wcs(TAN, shape=(20, 10)), "data": image()},
    "far": {"wcs": wcs(TAN), "below": {"data": image()}},
}


def write(name, tree, **options):
    asdf.AsdfFile(tree).write_to(os.path.join(folder, name), **options)


if __name__ == "__main__":
    tree = hdus()
    write("described.asdf", {"fits": tree, "list": [tree, fits.HDUList([fits.PrimaryHDU()])]})
    write("compressed.asdf", {"fits": hdus()}, all_array_compression="lz4")
    write("exact.asdf", EXACT)
    with asdf.config_context() as config:
        config.array_inline_threshold = 10
        write("inline.asdf", EXACT, all_array_compression="zlib")
    write("others.asdf", OTHERS)
