"""Writes files with nodes that describe FITS files, and with arrays and world coordinates.

    write_fits.py FOLDER
"""

import os
import struct
import sys
import warnings

import asdf
import gwcs
import numpy as np
from asdf.tagged import TaggedDict, TaggedList
from astropy import coordinates as coord
from astropy import units as u
from astropy.io import fits
from astropy.modeling import models
from astropy.nddata import StdDevUncertainty
from astropy.table import QTable, Table
from gwcs import coordinate_frames as cf
from gwcs.fitswcs import FITSImagingWCSTransform

warnings.simplefilter("ignore")
folder = sys.argv[1]
RNG = np.random.default_rng(14)


def hdus():
    """Returns a FITS file with every kind of card and data."""
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
    header["HIERARCH a b"] = ("text", "a short name")
    header["HIERARCH " + "k" * 56] = ("text six", "")
    header["COMPLEX"] = (1.5 - 2e-7j, "a complex number")
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


def chained(*transforms, frame=ICRS, units=(u.deg, u.deg), order=(0, 1)):
    """Returns world coordinates from astropy models; each transform is a step."""
    frames = [cf.Frame2D(name="detector", axes_order=(0, 1), unit=(u.pix, u.pix))]
    frames += [cf.Frame2D(name=f"plane{n}", axes_order=(0, 1), unit=(u.deg, u.deg)) for n in range(1, len(transforms))]
    world = cf.CelestialFrame(reference_frame=frame, name="world", unit=units, axes_order=order)
    steps = [gwcs.wcs.Step(frame, transform) for frame, transform in zip(frames, transforms)]
    return gwcs.WCS([*steps, gwcs.wcs.Step(world, None)])


def shift():
    return models.Shift(-RNG.random() * 10) & models.Shift(RNG.random() * 10)


def affine(translation=(0, 0)):
    return models.AffineTransformation2D(RNG.random((2, 2)) + np.eye(2), translation=translation)


def scale():
    return models.Scale(-1e-3 / 3) & models.Scale(2.2e-3)


def rotation(pole=180.0, latitude=-40.25):
    return models.RotateNative2Celestial(30.5, latitude, pole)


def image(*shape):
    return RNG.random(shape or (20, 10)).astype("f4")


TAN = models.Pix2Sky_TAN()
EXACT = {
    "tan": {"meta": {"wcs": wcs(TAN)}, "data": image(), "err": image(), "dq": image().astype("u4"),
            "weight": image() * u.Unit("1/Jy2"), "wht": image(10, 20), "other": image()},
    "beside": {"wcs": wcs(models.Pix2Sky_STG()), "data": image()},
    "only": {"wcs": wcs(models.Pix2Sky_SIN()), "image": image(), "spectrum": image(7)},
    "which": {"wcs": wcs(TAN), "image": image(), "other": image()},
    "slant": {"wcs": wcs(models.Pix2Sky_SIN(xi=0.3, eta=-0.2)), "data": image()},
    "zea": {"wcs": wcs(models.Pix2Sky_ZEA(), coord.Galactic()), "data": image()},
    "arc": {"wcs": wcs(models.Pix2Sky_ARC(), coord.FK5()), "data": image()},
    "azp": {"wcs": wcs(models.Pix2Sky_AZP(mu=2, gamma=30), coord.FK5(equinox="J1975")), "data": image()},
    "szp": {"wcs": wcs(models.Pix2Sky_SZP(mu=2, phi0=30, theta0=60)), "data": image()},
    "air": {"wcs": wcs(models.Pix2Sky_AIR(theta_b=45)), "data": image()},
    "pole": {"wcs": wcs(TAN, crval=(10, 90)), "data": image()},
    "south": {"wcs": wcs(TAN, crval=(10, -90)), "data": image()},
    "quantity": {"meta": {"wcs": wcs(TAN)}, "data": image() * u.Jy},
    "shape": {"wcs": wcs(TAN, shape=(10, 20)), "data": image()},
    "chain": {"wcs": chained(shift() | affine() | scale() | TAN | rotation()), "data": image()},
    "chain-turned": {"wcs": chained(shift() | affine((3, -2)) | scale() | TAN | rotation(150.0, 75)), "data": image()},
    "chain-sin": {"wcs": chained(shift() | scale() | models.Pix2Sky_SIN(xi=0.3, eta=-0.2) | rotation(20),
                                 frame=coord.Galactic()), "data": image()},
    "chain-szp": {"wcs": chained(shift() | affine() | scale() | models.Pix2Sky_SZP(mu=2, phi0=30, theta0=60)
                                 | rotation(-100)), "data": image()},
    "chain-pole": {"wcs": chained(shift() | scale() | TAN | rotation(77, 90)), "data": image()},
    "chain-south": {"wcs": chained(shift() | scale() | TAN | rotation(77, -90)), "data": image()},
    "chain-steps": {"wcs": chained(shift(), affine() | scale(), TAN | rotation(170)), "data": image()},
    "chain-mixed": {"wcs": chained(models.Mapping((1, 0)) | affine() | (models.Shift(4.5) & models.Scale(1.5))
                                   | models.Rotation2D(25) | (models.Multiply(1e-3) & models.Identity(1))
                                   | (models.Identity(1) & models.Scale(1e-3)) | shift() | scale() | TAN
                                   | rotation(170), frame=coord.FK5()), "data": image()},
    "chain-units": {"wcs": chained((models.Shift(-3.5 * u.pix) & models.Shift(-4.25 * u.pix))
                                   | (models.Multiply(1e-3 * u.deg / u.pix) & models.Multiply(-2e-3 * u.deg / u.pix))
                                   | TAN | models.RotateNative2Celestial(30 * u.deg, -40 * u.deg, 150 * u.deg)),
                    "data": image()},
    "more": {"wcs": wcs(TAN, after=models.Identity(2)), "data": image()},
    "fk4": {"wcs": wcs(TAN, coord.FK4()), "data": image()},
    "fk4-1975": {"wcs": wcs(TAN, coord.FK4(equinox="B1975", obstime="B1975")), "data": image()},
    "fk4-no-e": {"wcs": wcs(TAN, coord.FK4NoETerms()), "data": image()},
    "latitude-first": {"wcs": wcs(TAN, order=(1, 0), after=models.Mapping((1, 0))), "data": image()},
    "polynomial": {"wcs": chained(models.Mapping((0, 1, 0, 1)) | (models.Polynomial2D(1, c0_0=2.5, c1_0=1, c0_1=0.5)
                                  & models.Polynomial2D(1, c0_1=1)) | scale() | TAN | rotation()), "data": image()},
    "after": {"wcs": chained(shift() | scale() | TAN | rotation() | models.Identity(2)), "data": image()},
    "chain-nested": {"wcs": chained(((models.Shift(-3.5) | models.Scale(1.5) | models.Shift(1.25)) & models.Shift(4.25))
                                    | (models.Identity(1) & (models.Scale(-0.5) | models.Shift(2))) | scale() | TAN
                                    | rotation()), "data": image()},
    "ndcube": TaggedDict({"wcs": wcs(TAN), "data": image(), "unit": u.Jy,
                          "uncertainty": StdDevUncertainty(image(), unit="Jy")}, "tag:sunpy.org:ndcube/ndcube-1.0.0"),
}
EQUIVALENT = models.AffineTransformation2D(np.eye(2) * 1e-3 * u.deg, translation=[0, 0] * u.deg)
EQUIVALENT.input_units_equivalencies = {axis: u.pixel_scale(2 * u.deg / u.pix) for axis in "xy"}
OTHERS = {
    "car": {"wcs": wcs(models.Pix2Sky_CAR()), "data": image()},
    "arcsec": {"wcs": wcs(TAN, units=(u.arcsec, u.arcsec)), "data": image()},
    "order": {"wcs": wcs(TAN, order=(1, 0)), "data": image()},
    "fk4": {"wcs": wcs(TAN, coord.FK4(obstime="J1980")), "data": image()},
    "cube": {"wcs": wcs(TAN), "data": image(2, 20, 10)},
    "two": {"wcs": wcs(TAN), "meta": {"wcs": wcs(TAN)}, "data": image()},
    "shape": {"wcs": wcs(TAN, shape=(20, 10)), "data": image()},
    # Current Python asdf can't read this key; see the end.
    "parameter": {"wcs": wcs(models.Pix2Sky_SIN(xi=0.1875)), "data": image()},
    "far": {"wcs": wcs(TAN), "below": {"data": image()}},
    "chain-car": {"wcs": chained(shift() | scale() | models.Pix2Sky_CAR() | rotation()), "data": image()},
    "chain-flat": {"wcs": chained(shift() | models.AffineTransformation2D([[1, 1], [1, 1]]) | TAN | rotation()),
                   "data": image()},
    "chain-units": {"wcs": chained((models.Shift(3 * u.arcsec) & models.Shift(4 * u.arcsec)) | TAN | rotation()),
                    "data": image()},
    "chain-equivalent": {"wcs": chained(shift() | EQUIVALENT | TAN | rotation()), "data": image()},
}


# Without exact cards, and fitted.
FITTED = {
    "polynomial": {"wcs": chained(models.Mapping((0, 1, 0, 1)) | (models.Polynomial2D(2, c1_0=1, c2_0=1e-4)
                                  & models.Polynomial2D(1, c0_1=1)) | scale() | TAN | rotation()), "data": image()},
    "latitude-first": {"wcs": chained(models.Mapping((0, 1, 0, 1)) | (models.Polynomial2D(2, c1_0=1, c2_0=1e-4)
                                      & models.Polynomial2D(1, c0_1=1)) | scale() | TAN | rotation() | models.Mapping((1, 0)),
                                      order=(1, 0)), "data": image()},
    "back": {"wcs": chained(shift() | scale() | TAN | models.RotateCelestial2Native(30, 40, 180)), "data": image()},
    "euler": {"wcs": chained(shift() | scale() | TAN | models.EulerAngleRotation(1, 2, 3, "zxz")), "data": image()},
    "sum": {"wcs": chained((models.Identity(1) + models.Const1D(3.5) & models.Identity(1) * models.Const1D(1.5))
                           | scale() | TAN | rotation()), "data": image()},
}


# The example of the 2014 document, verbatim: the keys of the arrays are beside `header`.
PRINTED = """miri: !fits/fits
- header:
  - [SIMPLE, true, conforms to FITS standard]
  - [BITPIX, 8, array data type]
  - [NAXIS, 0, number of array dimensions]
  - [EXTEND, true]
  - []
  - ['', Top Level MIRI Metadata]
  - []
  - [DATE, '2013-08-30T10:49:55.070373', The date this file was created (UTC)]
  - [FILENAME, MiriDarkReferenceModel_test.fits, The name of the file]
  - [TELESCOP, JWST, The telescope used to acquire the data]
  - []
  - ['', Information about the observation]
  - []
  - [DATE-OBS, '2013-08-30T10:49:55.000000', The date the observation was made (UTC)]
- data: !core/ndarray
  dtype: float32
  shape: [2, 3, 3, 4]
  source: 0
  header:
    - [XTENSION, IMAGE, Image extension]
    - [BITPIX, -32, array data type]
    - [NAXIS, 4, number of array dimensions]
    - [NAXIS1, 4]
    - [NAXIS2, 3]
    - [NAXIS3, 3]
    - [NAXIS4, 2]
    - [PCOUNT, 0, number of parameters]
    - [GCOUNT, 1, number of groups]
    - [EXTNAME, SCI, extension name]
    - [BUNIT, DN, Units of the data array]
- data: !core/ndarray
  dtype: float32
  shape: [2, 3, 3, 4]
  source: 1
  header:
    - [XTENSION, IMAGE, Image extension]
    - [BITPIX, -32, array data type]
    - [NAXIS, 4, number of array dimensions]
    - [NAXIS1, 4]
    - [NAXIS2, 3]
    - [NAXIS3, 3]
    - [NAXIS4, 2]
    - [PCOUNT, 0, number of parameters]
    - [GCOUNT, 1, number of groups]
    - [EXTNAME, ERR, extension name]
    - [BUNIT, DN, Units of the error array]
"""
# Headers that contradict their data, or that FITS can't express.
LYING = """lying: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header:
  - [SIMPLE, false, 'no, it does not']
  - [BITPIX, 99]
  - [NAXIS, 7]
  - [NAXIS1, 1000000]
  - [NAXIS1, 2]
  - [EXTEND, false]
  - [GROUPS, true]
  - [PCOUNT, 3]
  - [BSCALE, 3.0]
  - [BZERO, 9, kept]
  - [BLANK, 5]
  - [CHECKSUM, hcHjjc9ghcEghc9g]
  - [object, M31, in small letters]
  - [DATE, 2013-08-30]
  - [YEAR, 2013]
  - [NOTHING, null]
  - [ALONE]
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> {source: 0, datatype: uint16, byteorder: little, shape: [2, 3]}
- header:
  - [XTENSION, TABLE]
  - [TFORM1, 5D]
  - [TTYPE9, none]
  - [BLANK, 5]
  - [EXTNAME, A]
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> {source: 0, datatype: float32, byteorder: big, shape: [3]}
- header: []
- header: [[TFORM1, 1I], [TTYPE1, wrong, the name], [TSCAL1, 4], [TUNIT1, m], [TFIELDS, 77]]
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0>
    source: 0
    datatype: [{name: a, datatype: int16}, {name: s, datatype: [ascii, 2]}, {name: f, datatype: float16}]
    byteorder: little
    shape: [2]
dimensions: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header: [[TDIM1, '(2, 3)', rows of two], [TDIM2, '(5)'], [TDIM3, '(3,2)'], [TDIM3, '(6)']]
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0>
    source: 0
    datatype:
    - {name: a, datatype: int16, shape: [6]}
    - {name: b, datatype: int16, shape: [6]}
    - {name: c, datatype: int16, shape: [3, 2]}
    byteorder: little
    shape: [2]
tables: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header: [[EXTNAME, ONLY]]
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0>
    data: [[1, 2.5, x], [2, 3.5, yz]]
    datatype: [int16, float32, [ascii, 2]]
units: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header: [[TUNIT1, counts, the card of the tree], [TUNIT2, '', empty], [TNULL2, 5]]
  data: !<tag:stsci.edu:asdf/core/table-1.0.0>
    columns:
    - !<tag:stsci.edu:asdf/core/column-1.0.0>
      name: a
      unit: !<tag:stsci.edu:asdf/unit/unit-1.0.0> Jy
      data: !<tag:stsci.edu:asdf/core/ndarray-1.0.0> {source: 0, datatype: int16, byteorder: big, shape: [3]}
    - !<tag:stsci.edu:asdf/core/column-1.0.0>
      name: b
      unit: !<tag:stsci.edu:asdf/unit/unit-1.0.0> m.s**-2
      data: !<tag:stsci.edu:asdf/core/ndarray-1.0.0> {data: [1, -7, 3], datatype: int32, mask: -7}
    - !<tag:stsci.edu:asdf/core/column-1.0.0>
      name: c
      unit: !<tag:stsci.edu:asdf/unit/unit-1.0.0> 15deg
      data: !<tag:stsci.edu:asdf/core/ndarray-1.0.0> {data: [1, 7, 3], datatype: uint16, mask: 7}
    - !<tag:stsci.edu:asdf/core/column-1.0.0>
      name: d
      data: !<tag:stsci.edu:asdf/core/ndarray-1.0.0> {data: [1.5, 7, 3], datatype: float32, mask: 7}
inline: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header: []
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> [[1, 2], [3, 4]]
nan: !<tag:stsci.edu:asdf/fits/fits-1.0.0> [{header: [[A, .nan]]}]
foreign: !<tag:stsci.edu:asdf/fits/fits-1.0.0> [{header: [[A, é]]}]
nested: !<tag:stsci.edu:asdf/fits/fits-1.0.0> [{header: [[A, [1]]]}]
none: !<tag:stsci.edu:asdf/fits/fits-1.0.0> []
bare: !<tag:stsci.edu:asdf/fits/fits-1.0.0> [{data: null}]
scalar: !<tag:stsci.edu:asdf/fits/fits-1.0.0> 5
flat: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header: []
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> {source: 0, datatype: uint8, byteorder: big, shape: []}
alone: !<tag:stsci.edu:asdf/core/ndarray-1.1.0>
large: !<tag:stsci.edu:asdf/fits/fits-1.0.0>
- header: []
  data: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> {source: 0, datatype: float32, byteorder: big, shape: [3000]}
"""
LONG = "long: !<tag:stsci.edu:asdf/fits/fits-1.0.0>\n- header:\n" + "".join(f"  - [K{n}, {n}, c]\n" for n in range(30000))
# The content of every block.
BLOCK = np.arange(72).astype(">f4").tobytes()


UNITS = ["Jy", "erg / (s cm2)", "1e-17 erg / (s cm2 Angstrom)", "Jy(1/2)", "electron / s", "DN", "mag", "pix", "MJy / sr", "um"]
# Units that FITS can't express.
NO_UNITS = ["", "15 deg", "2.5 m"]


def columns():
    """Returns a table of quantities."""
    units = ["m", "erg / (s cm2)", "1e-17 erg / (s cm2 Angstrom)", "Jy(1/2)", "MJy / sr", "um"]
    return QTable({f"c{n}": np.arange(3.0) * n * u.Unit(unit) for n, unit in enumerate(units)})


def write_text(name, head, tree, block_header):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(head.encode() + tree.encode() + b"...\n")
        for _ in range(2):
            file.write(block_header + BLOCK)


def write(name, tree, **options):
    asdf.AsdfFile(tree).write_to(os.path.join(folder, name), **options)


if __name__ == "__main__":
    tree = hdus()
    write("described.asdf", {"fits": tree, "list": [tree, fits.HDUList([fits.PrimaryHDU()])]})
    write("compressed.asdf", {"fits": hdus()}, all_array_compression="lz4")
    size = len(BLOCK)
    write_text("printed.asdf", "%ASDF 0.1.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf\n", PRINTED,
               struct.pack(">4sHIQQQ16s", b"\xd3BLK", 44, 0, size, size, 0, b""))
    write_text("lying.asdf", "#ASDF 1.0.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n", LYING,
               struct.pack(">4sHI4sQQQ16s", b"\xd3BLK", 48, 0, b"", size, size, size, b""))
    write_text("long.asdf", "#ASDF 1.0.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n", LONG,
               struct.pack(">4sHI4sQQQ16s", b"\xd3BLK", 48, 0, b"", size, size, size, b""))
    write("exact.asdf", EXACT)
    described = {"quantities": columns(), "columns": Table(columns())}
    described = {key: TaggedList([{"header": [], "data": table}], "tag:astropy.org:astropy/fits/fits-1.0.0")
                 for key, table in described.items()}
    write("columns.asdf", described)
    units = UNITS + NO_UNITS
    write("units.asdf", {"list": [image() * u.Unit(unit) for unit in units], "angle": coord.Angle(image() * u.hourangle),
                         "latitude": coord.Latitude(image() * u.deg)})
    with asdf.config_context() as config:
        config.array_inline_threshold = 10
        write("inline.asdf", EXACT, all_array_compression="zlib")
        # float32 arrays can't hold all digits of the numbers.
        write("rounded.asdf", {"tan": EXACT["tan"]})
    with open(os.path.join(folder, "rounded.asdf"), "r+b") as file:
        text = file.read()
        file.seek(text.index(b"datatype: float64", text.index(b"crval:")))
        file.write(b"datatype: float32")
    write("fitted.asdf", FITTED)
    write("others.asdf", OTHERS)
    with open(os.path.join(folder, "others.asdf"), "r+b") as file:
        text = file.read()
        file.seek(text.index(b"xi: 0.1875"))
        file.write(b"yi")
