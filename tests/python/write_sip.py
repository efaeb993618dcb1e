"""Writes FOLDER/chains.asdf: COUNT images with random gwcs chains like Roman's, from the random seed SEED, and images
whose gwcs has no fit."""

import sys
from pathlib import Path

import asdf
import gwcs
import numpy
from astropy import coordinates as coord
from astropy import units as u
from astropy.modeling import models as m
from gwcs import coordinate_frames as cf
from gwcs.geometry import CartesianToSpherical, SphericalToCartesian

folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = numpy.random.default_rng(seed)
SYSTEMS = [coord.ICRS(), coord.FK5(), coord.Galactic()]


def image(shape):
    return numpy.zeros(shape, "u1")


def frame(name, unit=u.pix):
    return cf.Frame2D(name=name, axes_names=("x", "y"), unit=(unit, unit))


def polynomial(axis, degree, half, scale):
    """A polynomial that is `scale` for each pixel, with up to 2 % of distortion at the distance `half`."""
    made = m.Polynomial2D(degree)
    for name in made.param_names:
        i, j = map(int, name[1:].split("_"))
        if i + j == 1:
            value = scale * ((i, j)[axis] + rng.uniform(-0.05, 0.05))
        elif i + j > 1:
            value = scale * half * rng.uniform(-0.02, 0.02) / (half ** (i + j) * 3 ** (i + j - 2))
        else:
            value = 0
        setattr(made, name, value)
    return made


def orthogonal(axis, half, scale):
    kind = [m.Chebyshev2D, m.Legendre2D][rng.integers(2)]
    domain = (-half, half)
    made = kind(2, 2, x_domain=domain, y_domain=domain)
    made.parameters = rng.uniform(-0.005, 0.005, len(made.parameters)) * scale * half
    setattr(made, ["c1_0", "c0_1"][axis], scale * half)
    return made


def distortion(half, scale):
    if rng.random() < 0.2:
        pair = orthogonal(0, half, scale) & orthogonal(1, half, scale)
    else:
        degree = int(rng.integers(2, 6))
        pair = polynomial(0, degree, half, scale) & polynomial(1, degree, half, scale)
    return m.Mapping((0, 1, 0, 1)) | pair


def telescope(x, y, half, ra, dec):
    """From the detector over V2 and V3 in arc seconds to the sky."""
    parity = [-1, 1][rng.integers(2)]
    v2, v3, roll = rng.uniform(-1800, 1800), rng.uniform(-1800, 1800), rng.uniform(0, 360)
    detector = (m.Shift(-x) & m.Shift(-y) | distortion(half, 0.11) | m.Rotation2D(rng.uniform(0, 360))
                | m.Scale(parity) & m.Identity(1) | m.Shift(v2) & m.Shift(v3))
    aberration = m.Scale(1.00002) & m.Scale(1.00002) | m.Shift(1e-3) & m.Shift(-1e-3)
    rotation = m.RotationSequence3D([v2 / 3600, -v3 / 3600, roll, dec, -ra], "zyxyz")
    sky = m.Scale(1 / 3600) & m.Scale(1 / 3600) | SphericalToCartesian(wrap_lon_at=180) | rotation | CartesianToSpherical(wrap_lon_at=360)
    return [(frame("detector"), detector), (frame("v2v3", u.arcsec), aberration), (frame("v2v3vacorr", u.arcsec), sky)]


def tangent(x, y, half, ra, dec):
    """From the detector over the plane of a projection to the sky."""
    projection = [m.Pix2Sky_TAN, m.Pix2Sky_STG, m.Pix2Sky_ZEA, m.Pix2Sky_ARC][rng.integers(4)]()
    plane = distortion(half, 0.11) | m.Scale(1 / 3600) & m.Multiply(-1 / 3600) | m.AffineTransformation2D([[0.8, 0.6], [-0.6, 0.8]], [0.01, 0])
    whole = m.Shift(-x) & m.Shift(-y) | plane | projection | m.RotateNative2Celestial(ra, dec, rng.uniform(0, 360))
    return [(frame("detector"), whole)]


def chain():
    ny, nx = (4088, 4088) if rng.random() < 0.1 else tuple(int(n) for n in rng.integers(300, 1500, 2))
    x, y = nx / 2 + rng.uniform(-50, 50), ny / 2 + rng.uniform(-50, 50)
    ra, dec = rng.uniform(0, 360), numpy.rad2deg(numpy.arcsin(rng.uniform(-1, 1)))
    if rng.random() < 0.1:
        ra, dec = [(0.001, 10.0), (200.0, 89.99), (30.0, -90.0)][rng.integers(3)]
    steps = [telescope, tangent][rng.integers(2)](x, y, max(nx, ny) / 2, ra, dec)
    sky = cf.CelestialFrame(name="world", reference_frame=SYSTEMS[rng.integers(3)], unit=(u.deg, u.deg))
    made = gwcs.WCS([*steps, (sky, None)])
    kind = rng.integers(3)
    if kind == 0:
        made.bounding_box = ((-0.5, nx - 0.5), (-0.5, ny - 0.5))
    elif kind == 1:
        made.bounding_box = ((3.5, nx - 4.5), (3.5, ny - 8.5))
    return {"data": image((ny, nx)), "err": image((ny, nx)), "meta": {"wcs": made}}


def unfit(model, system=coord.ICRS()):
    sky = cf.CelestialFrame(name="world", reference_frame=system, unit=(u.deg, u.deg))
    return gwcs.WCS([(frame("detector"), model), (sky, None)])


def pixels(x, y):
    made = unfit(m.Shift(-5.0) & m.Shift(-5.0) | distortion(50, 1e-4) | m.Pix2Sky_TAN() | m.RotateNative2Celestial(5, 6, 180))
    made.bounding_box = ((-0.5, x - 0.5), (-0.5, y - 0.5))
    return made


simple = m.Shift(-5.0) & m.Shift(-5.0) | distortion(50, 1e-4) | m.Pix2Sky_TAN() | m.RotateNative2Celestial(5, 6, 180)
simple_wcs = unfit(simple)
unknown = m.Mapping((0, 1, 0, 1)) | m.Gaussian2D() & m.Gaussian2D()
waves = m.Chebyshev1D(30, domain=(-1, 50), c1=1e-3, c30=1e-4) & m.Scale(1e-4)
hemisphere = distortion(500, 1.0) | m.Pix2Sky_SIN() | m.RotateNative2Celestial(5, 6, 180)
without = {
    "unknown": {"data": image((50, 50)), "wcs": unfit(unknown)},
    "system": {"data": image((50, 50)), "wcs": unfit(simple, coord.FK4(obstime="J1980"))},
    "wild": {"data": image((50, 50)), "wcs": unfit(waves)},
    "hidden": {"data": image((500, 500)), "wcs": unfit(hemisphere)},
    "catalogue": {"positions": image((7, 2)), "wcs": pixels(70, 20)},
    "nameless": {"positions": image((7, 2)), "wcs": unfit(simple)},
    "two": {"one": image((20, 70)), "other": image((20, 70)), "wcs": pixels(70, 20)},
}
named = {
    "shape": {"flux": image((20, 70)), "positions": image((7, 2)), "wcs": pixels(70, 20)},
    "companions": {"flux": image((20, 70)), "err": image((20, 70)), "dq": image((20, 70)), "wcs": pixels(70, 20)},
    "quantity": {"flux": image((20, 70)) * u.Jy, "wcs": pixels(70, 20)},
    "twice": {"data": image((20, 70)), "wcs": simple_wcs, "meta": {"wcs": simple_wcs}},
    "other shape": {"data": image((7, 2)), "flux": image((20, 70)), "wcs": pixels(70, 20)},
    "other wcs": {"data": image((20, 70)), "wcs": pixels(70, 20), "meta": {"wcs": pixels(80, 30)}},
    "science": {"SCI": image((20, 70)), "DQ": image((20, 70)), "other": image((20, 70)), "wcs": pixels(70, 20)},
}


def anything(number):
    """An image whose gwcs has cards or not: any order, system, projection, bounding box and pixel_shape."""
    shape = tuple(int(n) for n in rng.integers(20, 60, 2))
    projection = [m.Pix2Sky_TAN, m.Pix2Sky_SIN, m.Pix2Sky_CAR, m.Pix2Sky_ARC][rng.integers(4)]()
    model = m.Shift(-shape[1] / 2) & m.Shift(-shape[0] / 2)
    model = model | [distortion(50, 1e-3), m.Scale(1e-3) & m.Scale(-2e-3), waves][rng.choice(3, p=[0.4, 0.5, 0.1])]
    model = model | projection | m.RotateNative2Celestial(rng.uniform(0, 360), rng.uniform(-80, 80), 180)
    order = [(0, 1), (1, 0)][rng.integers(2)]
    if order == (1, 0) and rng.random() < 0.8:
        model = model | m.Mapping((1, 0))
    systems = [coord.ICRS(), coord.FK4(), coord.FK4(obstime="J1980"), coord.FK4NoETerms(), coord.FK5(), coord.Galactic(), coord.FK5(equinox="J1975")]
    unit = [u.deg, u.deg, u.deg, u.arcsec][rng.integers(4)]
    sky = cf.CelestialFrame(name="world", reference_frame=systems[number % len(systems)], unit=(unit, unit), axes_order=order)
    made = gwcs.WCS([(frame("detector"), model), (sky, None)])
    beyond = [0, 0, 10][rng.integers(3)]
    if rng.random() < 0.6:
        made.bounding_box = ((-0.5, shape[1] - 0.5 + beyond), (-0.5, shape[0] - 0.5))
    elif rng.random() < 0.3:
        made.pixel_shape = (shape[1] + beyond, shape[0])
    name = ["data", "data", "SCI", "flux"][rng.integers(4)]
    return {name: image(shape), "wcs": made}


tree = {"chains": [chain() for _ in range(count)], "without": without, "named": named, "any": [anything(n) for n in range(4 * count)]}
asdf.AsdfFile(tree).write_to(folder / "chains.asdf", all_array_compression="lz4")
