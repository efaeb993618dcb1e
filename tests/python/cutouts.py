"""Writes images with world coordinates on the sky, and compares the cut-outs of `asdf-mount --cutout` with those of
astropy's Cutout2D.

    cutouts.py write FOLDER      also writes FOLDER/cases.txt: a line for each cut-out, with its name, file, key and square
    cutouts.py compare FOLDER    the cut-out of a case is FOLDER/NAME.fits
"""

import functools
import sys
import warnings
from pathlib import Path

import asdf
import gwcs
import numpy as np
from astropy import coordinates as coord
from astropy import units as u
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.modeling import models as m
from astropy.nddata import Cutout2D
from astropy.wcs import WCS
from gwcs import coordinate_frames as cf

warnings.simplefilter("ignore")
SHAPE = (90, 120)
SCALE = 0.11 / 3600
NAMES = {"SCI": "data", "ERR": "err", "DQ": "dq"}


def images(shape=SHAPE, dtype="f4"):
    rng = np.random.default_rng(len(shape) + sum(shape))
    data = (rng.normal(size=shape) * 100).astype(dtype)
    return {"data": data, "err": np.abs(data).astype("f4"), "dq": rng.integers(0, 2**31, shape).astype("u4"), "area": data[..., :5, :5]}


def sky(ra, dec, rotation=25, distortion=2e-6, system=coord.ICRS(), waves=False):
    """A gwcs like Roman's; of a cube, that of a slice with a wavelength."""
    ny, nx = SHAPE
    x = m.Polynomial2D(2, c1_0=1, c2_0=distortion, c1_1=distortion / 2)
    y = m.Polynomial2D(2, c0_1=1, c0_2=-distortion, c1_1=distortion / 3)
    shift = m.Shift(-(nx - 1) / 2) & m.Shift(-(ny - 1) / 2)
    distorted = shift | m.Mapping((0, 1, 0, 1)) | x & y if distortion else shift
    transform = distorted | m.Scale(-SCALE) & m.Scale(SCALE) | m.Rotation2D(rotation) | m.Pix2Sky_TAN() | m.RotateNative2Celestial(ra, dec, 180)
    frame = cf.CelestialFrame(name="sky", reference_frame=system, unit=(u.deg, u.deg), axes_order=(0, 1))
    if not waves:
        detector = cf.Frame2D(name="detector", axes_names=("x", "y"), unit=(u.pix, u.pix))
        return gwcs.WCS([(detector, transform), (frame, None)])
    detector = cf.CoordinateFrame(name="detector", naxes=3, axes_type=["SPATIAL"] * 3, axes_order=(0, 1, 2), unit=[u.pix] * 3, axes_names=["x", "y", "z"])
    spectrum = cf.SpectralFrame(name="wave", unit=(u.um,), axes_order=(2,))
    world = cf.CompositeFrame([frame, spectrum], name="world")
    return gwcs.WCS([(detector, transform & (m.Scale(0.01) | m.Shift(5))), (world, None)])


def header(ctype, **cards):
    made = fits.Header({f"CTYPE{n + 1}": name for n, name in enumerate(ctype)})
    made.update({"CRPIX1": 40.5, "CRPIX2": 61.25, **cards})
    return made


HEADERS = {
    "sip": header(("RA---TAN-SIP", "DEC--TAN-SIP"), CRVAL1=0.0, CRVAL2=-30.0, CD1_1=-3e-5, CD1_2=1e-5, CD2_1=1e-5, CD2_2=3e-5,
                  A_ORDER=2, B_ORDER=2, A_2_0=2e-5, A_1_1=-1e-5, B_0_2=1e-5),
    "galactic": header(("GLON-ZEA", "GLAT-ZEA"), CRVAL1=120.0, CRVAL2=70.0, CDELT1=-2e-4, CDELT2=1e-4, PC1_1=0.8, PC1_2=-0.6, PC2_1=0.6, PC2_2=0.8),
    "turned": header(("DEC--SIN", "RA---SIN"), CRVAL1=89.999, CRVAL2=10.0, CDELT1=0.2, CDELT2=0.1, CUNIT1="arcsec", CUNIT2="arcsec", LONPOLE=170.0),
}
HEADERS["turned"].update({"CRVAL1": 89.999 * 3600, "CRVAL2": 10.0 * 3600})


def hdu_list():
    made = fits.HDUList([fits.PrimaryHDU(header=fits.Header({"OBSERVER": "Hubble"}))])
    for name, data in [("SCI", images(dtype=">f4")["data"]), ("ERR", images()["err"]), ("DQ", images(dtype="i2")["data"])]:
        cards = HEADERS["galactic"] if name == "SCI" else fits.Header()
        made.append(fits.ImageHDU(data, header=cards, name=name))
    made.append(fits.BinTableHDU.from_columns([fits.Column("a", "J", array=np.arange(3))], name="TAB"))
    made.append(fits.ImageHDU(images((5, 5))["err"], name="ERR", ver=2))
    made[1].header.update({"LTV1": 3.0, "CRPIX1A": 1.0, "CTYPE1A": "LINEAR", "DATASEC": "[1:2]"})
    return made


def tree(name):
    if name in HEADERS:
        made = WCS(HEADERS[name])
        made.pixel_shape = SHAPE[::-1]
        return {"x": {**images(dtype=">f8"), "wcs": made}}
    return {
        "roman": {"roman": {"meta": {"wcs": sky(150.1, 2.2)}, **images()}},
        "wrap": {"roman": {"meta": {"wcs": sky(0.0001, 60.0, 80)}, **images(dtype="i2")}},
        "pole": {"data": images(dtype="f2")["data"], "meta": {"wcs": sky(200.0, -90.0, 10, 0)}},
        "fk5": {"x": {"meta": {"wcs": sky(30.0, 40.0, 200, system=coord.Galactic())}, "data": images(dtype="u2")["data"] * u.Jy}},
        "cube": {"x": {"meta": {"wcs": sky(80.0, -5.0, 33, 0, waves=True)}, **images((4, *SHAPE))}},
        "document": {"hdus": hdu_list()},
    }[name]


# The file, the pixel in the middle, the size, and the key, if it is given.
CASES = [
    ("roman", (60.2, 40.7), "30px", None), ("roman", (1.2, 2.6), "21px", None), ("roman", (118.6, 88.4), "20px", None), ("roman", (60, 40), "1px", None),
    ("roman", (119.4, -0.4), "999px", None), ("roman", (30.3, 70.1), "2arcsec", None), ("roman", (30.3, 70.1), "5px", "roman.err"),
    ("roman", (30.3, 70.1), "0.1arcmin", "roman/err"), ("wrap", (10.2, 20.2), "15px", None), ("wrap", (100.2, 20.2), "0.0005deg", None),
    ("pole", (59.4, 44.6), "8px", None), ("pole", (3.3, 80.0), "12px", None), ("fk5", (33.3, 44.4), "9px", "x.data"), ("cube", (20.2, 5.1), "16px", None),
    ("sip", (33.2, 44.1), "11px", None), ("sip", (115.2, 3.1), "3arcsec", "x.data"), ("galactic", (80.2, 44.1), "10px", None), ("turned", (42.2, 60.6), "14px", None),
    ("turned", (100.2, 10.6), "14px", None), ("document", (40.4, 50.3), "25px", None), ("document", (2.3, 50.3), "25px", "hdus.1.data"),
]


@functools.cache
def original(name):
    """The function from pixels to the sky, and the arrays by the names of extensions."""
    made = tree(name)
    node = made.get("roman") or made.get("x") or made
    if name == "document":
        return WCS(HEADERS["galactic"]), {hdu.name: hdu.data for hdu in made["hdus"][1:4]}
    world = node["meta"]["wcs"] if "meta" in node else WCS(HEADERS[name])
    return world, {extension: getattr(node[key], "value", node[key]) for extension, key in NAMES.items() if key in node}


def directions(world, x, y):
    """ICRS coordinates of pixels."""
    extra = [np.zeros_like(x)] * (world.pixel_n_dim - 2)
    values = world(x, y, *extra) if isinstance(world, gwcs.WCS) else world.all_pix2world(x, y, *extra, 0)
    if isinstance(world, gwcs.WCS):
        frame = world.output_frame
        frame = getattr(frame, "frames", [frame])[0].reference_frame
        return SkyCoord(values[0], values[1], unit="deg", frame=frame).icrs
    lon, lat = world.wcs.lng, world.wcs.lat
    frame = "galactic" if "GLON" in world.wcs.ctype[lon] else "icrs"
    # astropy has made arc seconds degrees.
    return SkyCoord(values[lon], values[lat], unit="deg", frame=frame).icrs


def write(folder):
    lines = []
    for name in dict.fromkeys(name for name, *_ in CASES):
        # A cut-out of compressed blocks, too.
        compression = "lz4" if name in ("roman", "cube") else None
        asdf.AsdfFile(tree(name)).write_to(folder / f"{name}.asdf", all_array_compression=compression)
    for n, (name, pixel, size, key) in enumerate(CASES):
        place = directions(original(name)[0], np.array([pixel[0]]), np.array([pixel[1]]))[0]
        lines.append(f"{n} {folder / name}.asdf {key or '-'} {place.ra.deg!r},{place.dec.deg!r},{size}".replace("np.float64(", "").replace(")", ""))
    (folder / "cases.txt").write_text("\n".join(lines))


def side(size, world):
    """The pixels of a side."""
    for unit, name in [(1 / 3600, "arcsec"), (1 / 60, "arcmin"), (1, "deg")]:
        if size.endswith(name):
            # The pixels of these files are squares, but for the distortion.
            return round(float(size.removesuffix(name)) * unit / (SCALE if isinstance(world, gwcs.WCS) else 1e-5 * 10**0.5))
    return int(size.removesuffix("px"))


def compare(folder):
    count = 0
    for n, (name, pixel, size, key) in enumerate(CASES):
        world, arrays = original(name)
        cut = fits.open(folder / f"{n}.fits")
        cut.verify("exception")
        if key and key.endswith("err"):
            arrays = {"ERR": arrays["ERR"]}
        assert [hdu.name for hdu in cut[1:]] == list(arrays), (n, cut.info())
        for extension, array in arrays.items():
            planes = array.reshape(-1, *array.shape[-2:])
            pieces = [Cutout2D(plane, pixel, side(size, world), mode="trim") for plane in planes]
            found = cut[extension].data.reshape(-1, *cut[extension].data.shape[-2:])
            expected = np.stack([piece.data for piece in pieces])
            assert found.shape == expected.shape, (n, extension, found.shape, expected.shape)
            assert np.array_equal(found, expected.astype("f4") if expected.dtype.str[1:] == "f2" else expected), (n, extension)
        x0, y0 = pieces[0].origin_original
        y, x = (grid.ravel() for grid in np.indices(expected.shape[1:]))
        for hdu in cut[1:]:
            if "CTYPE1" not in hdu.header:
                assert name == "document" and hdu.name != "SCI", (n, hdu.name)
                continue
            found = directions(WCS(hdu.header), x, y)
            scale = directions(world, x + x0 + 1, y + y0).separation(directions(world, x + x0, y + y0))
            deviation = (found.separation(directions(world, x + x0, y + y0)) / scale).max()
            assert deviation <= 1e-3, (n, hdu.name, deviation)
        if name == "document":
            assert cut[0].header["OBSERVER"] == "Hubble" and cut["SCI"].header["LTV1"] == 3 - x0 and cut["SCI"].header["CRPIX1A"] == 1 - x0
        count += len(arrays)
    print(count)


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
