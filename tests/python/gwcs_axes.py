"""Writes images with gwcs of several axes, and compares the cards that fits/ has for them with the gwcs.

    gwcs_axes.py write DIRECTORY
    gwcs_axes.py compare DIRECTORY MOUNTPOINT

Frames of sunpy are written in place of others, because sunpy is not needed: the numbers are the same. Prints how many
images have cards for all axes, for some, and for none.
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
from astropy.modeling import models as m
from astropy.time import Time
from astropy.wcs import WCS
from gwcs import coordinate_frames as cf

warnings.simplefilter("ignore")
OBSERVER = """!<tag:sunpy.org:sunpy/coordinates/frames/heliographic_%s-1.2.0>
    data: !<tag:astropy.org:astropy/coordinates/representation-1.2.0>
      components:
        distance: !unit/quantity-1.3.0 {datatype: float64, unit: !unit/unit-1.0.0 AU, value: 0.98}
        lat: !<tag:astropy.org:astropy/coordinates/latitude-1.2.0> {datatype: float64, unit: !unit/unit-1.0.0 deg, value: 3.0}
        lon: !<tag:astropy.org:astropy/coordinates/longitude-1.2.0> {datatype: float64, unit: !unit/unit-1.0.0 deg, value: 10.0}
      type: SphericalRepresentation
    frame_attributes: {obstime: !time/time-1.4.0 %s}"""
FRAME = """!<tag:sunpy.org:sunpy/coordinates/frames/%s-1.1.0>
 frame_attributes:
  obstime: !time/time-1.4.0 2026-01-01T01:02:03.000
  rsun: !unit/quantity-1.3.0 {datatype: float64, unit: !unit/unit-1.0.0 km, value: 695700.0}
"""


def solar(name, observer="stonyhurst", time="2026-01-01T01:02:03.000"):
    return FRAME % name + "  observer: " + (OBSERVER % (observer, time) if observer != "earth" else "earth")


# The reference frame that is written, and its stand-in.
SOLAR = {
    "Galactic": (coord.Galactic(), None),
    "ICRS": (coord.ICRS(), None),
    "helioprojective": (coord.FK5(equinox="J1951"), solar("helioprojective")),
    "carrington observer": (coord.FK5(equinox="J1952"), solar("helioprojective", "carrington")),
    "earth": (coord.FK5(equinox="J1953"), solar("helioprojective", "earth")),
    "other time": (coord.FK5(equinox="J1954"), solar("helioprojective", time="2026-01-02T01:02:03.000")),
    "stonyhurst": (coord.FK5(equinox="J1955"), solar("heliographic_stonyhurst")),
}


def sky(frame, unit=u.arcsec, order=(0, 1)):
    return cf.CelestialFrame(axes_order=order, reference_frame=SOLAR[frame][0].copy(), unit=(unit, unit), name="sky", axes_names=("lon", "lat"))


def spectral(unit=u.nm, order=(2,), kind=None):
    return cf.SpectralFrame(axes_order=order, unit=unit, name="spectral", axis_physical_types=kind and (kind,))


def temporal(order):
    return cf.TemporalFrame(Time("2026-01-01"), unit=u.s, axes_order=order)


def plane(unit=u.arcsec, crval=(100, -200), scale=0.5):
    """As the pipeline of DKIST composes it, in quantities."""
    shift = m.Shift(-10.25 * u.pix) & m.Shift(-20.5 * u.pix)
    turn = m.AffineTransformation2D([[0.9, 0.1], [-0.1, 0.95]] * u.pix, translation=[0, 0] * u.pix)
    scales = m.Multiply(scale * unit / u.pix) & m.Multiply(1.25 * scale * unit / u.pix)
    return shift | turn | scales | m.Pix2Sky_TAN() | m.RotateNative2Celestial(*crval * unit, 180 * u.deg)


def plain():
    turn = m.AffineTransformation2D([[0.9, 0.1], [-0.1, 0.95]], translation=[3, 4])
    return m.Shift(-10.25) & m.Shift(-20.5) | turn | m.Scale(1e-4) & m.Scale(-2e-4) | m.Pix2Sky_TAN() | m.RotateNative2Celestial(0.02, -0.1, 180)


def table(unit):
    return m.Tabular1D(np.arange(5) * u.pix, np.array([1.0, 2, 4, 8, 16]) * unit, bounds_error=False, fill_value=np.nan)


WAVE, TIME = m.Linear1D(0.01 * u.nm / u.pix, 500 * u.nm), m.Linear1D(2 * u.s / u.pix, 0 * u.s)
FREQUENCY = m.Shift(-3) | m.Scale(1e6) | m.Shift(1.4e9)
# The shape, the transform and the frames; then the expected kinds of the axes in FITS, without projection.
ALL = {
    "plane": ((6, 8), plane(), [sky("helioprojective")], ["HPLN", "HPLT"]),
    "carrington": ((6, 8), plane(), [sky("carrington observer")], ["HPLN", "HPLT"]),
    "earth": ((6, 8), plane(), [sky("earth")], ["HPLN", "HPLT"]),
    "other-time": ((6, 8), plane(), [sky("other time")], ["HPLN", "HPLT"]),
    "degrees": ((6, 8), plain(), [sky("helioprojective", u.deg)], ["HPLN", "HPLT"]),
    "stonyhurst": ((6, 8), plain(), [sky("stonyhurst", u.deg)], ["HGLN", "HGLT"]),
    "scaled": ((6, 8), plain() | m.Scale(3600) & m.Scale(3600), [sky("helioprojective")], ["HPLN", "HPLT"]),
    "minutes": ((6, 8), plane(u.arcmin, (3, -4), 0.01), [sky("Galactic", u.deg)], ["GLON", "GLAT"]),
    "cube": ((5, 6, 8), plane() & WAVE, [sky("helioprojective"), spectral()], ["HPLN", "HPLT", "WAVE"]),
    "radio": ((5, 6, 8), plain() & FREQUENCY, [sky("ICRS", u.deg), spectral(u.Hz)], ["RA", "DEC", "FREQ"]),
    "first": ((6, 8, 5), WAVE & plane(), [spectral(order=(0,)), sky("helioprojective", order=(1, 2))], ["WAVE", "HPLN", "HPLT"]),
    "between": ((6, 5, 8), m.Mapping((0, 2, 1)) | plane() & WAVE | m.Mapping((0, 2, 1)),
                [sky("helioprojective", order=(0, 2)), spectral(order=(1,))], ["HPLN", "WAVE", "HPLT"]),
    "turned": ((8, 6, 5), m.Mapping((1, 2, 0)) | plane() & WAVE, [sky("helioprojective"), spectral()], ["HPLN", "HPLT", "WAVE"]),
    "wave": ((50,), WAVE, [spectral(order=(0,))], ["WAVE"]),
    "air": ((50,), WAVE, [spectral(order=(0,), kind="em.wl;obs.atmos")], ["AWAV"]),
    "frequency": ((50,), FREQUENCY, [spectral(u.Hz, (0,))], ["FREQ"]),
    "gigahertz": ((50,), m.Multiply(0.002 * u.GHz / u.pix) | m.Shift(1400 * u.MHz), [spectral(u.GHz, (0,))], ["FREQ"]),
    "angstrom": ((50,), m.Polynomial1D(1, c0=5000, c1=2.5), [spectral(u.AA, (0,))], ["WAVE"]),
    "energy": ((50,), m.Linear1D(0.1, 1.0), [spectral(u.J, (0,))], ["ENER"]),
    "radio-velocity": ((50,), m.Linear1D(5.0, -100.0), [spectral(u.km / u.s, (0,), "spect.dopplerVeloc.radio")], ["VRAD"]),
    "optical-velocity": ((50,), m.Linear1D(5.0, -100.0), [spectral(u.km / u.s, (0,), "spect.dopplerVeloc.optical")], ["VOPT"]),
    "wavenumber": ((50,), m.Linear1D(5.0, 1000.0), [spectral(1 / u.cm, (0,), "em.wavenumber")], ["WAVN"]),
    "tilted": ((6, 8), m.Mapping((0, 1, 0)) | m.AffineTransformation2D([[1, 0.1], [0.2, 1]]) & m.Identity(1) | m.Mapping((0, 1), n_inputs=3)
               | m.Linear1D(0.1, 500.0) & m.Linear1D(5.0, 1000.0), [spectral(u.nm, (0,)), spectral(u.Hz, (1,))], ["WAVE", "FREQ"]),
}
SOME = {
    "table": ((5, 6, 8), plane() & table(u.nm), [sky("helioprojective"), spectral()], ["HPLN", "HPLT", None]),
    "time": ((5, 6, 8), plane() & TIME, [sky("helioprojective"), temporal((2,))], ["HPLN", "HPLT", None]),
    "four": ((3, 5, 6, 8), TIME & plane() & WAVE, [temporal((0,)), sky("helioprojective", order=(1, 2)), spectral(order=(3,))],
             [None, "HPLN", "HPLT", "WAVE"]),
}
NONE = {
    "lookup": ((5,), table(u.nm), [spectral(order=(0,))]),
    "slit": ((6, 8), m.Mapping((0, 0, 1)) | plane() & WAVE, [sky("helioprojective"), spectral()]),
    "contradiction": ((6, 8), plain(), [sky("helioprojective")]),
    "distorted contradiction": ((6, 8), m.Mapping((0, 1, 0, 1)) | m.Polynomial2D(2, c1_0=1, c2_0=1e-4) & m.Polynomial2D(1, c0_1=1) | plain(),
                                [sky("helioprojective")]),
    "curved": ((50,), m.Polynomial1D(2, c0=5000, c1=2.5, c2=0.1), [spectral(u.AA, (0,))]),
}
NOTES = {
    "axis 3 of table/wcs": "tabular", "axis 3 of time/wcs": "temporal frame", "axis 1 of four/wcs": "temporal frame",
    "lookup/wcs": "tabular", "slit/wcs": "2 pixel axes to 3", "contradiction/wcs": "not in the unit of its frame",
    "distorted contradiction/wcs": "not in the unit of its frame",
    "curved/wcs": "not linear",
}


def made(shape, transform, frames):
    frame = frames[0] if len(frames) == 1 else cf.CompositeFrame(frames)
    count = transform.n_inputs
    pixels = cf.CoordinateFrame(naxes=count, axes_type=["PIXEL"] * count, axes_order=tuple(range(count)), unit=[u.pix] * count, name="pixels")
    return {"data": np.zeros(shape, "i1"), "err": np.zeros(shape, "i1"), "wcs": gwcs.WCS([(pixels, transform), (frame, None)])}


def trees():
    return {key: made(*case[:3]) for key, case in {**ALL, **SOME, **NONE}.items()}


def write(folder):
    for name in ["axes.asdf", "blocks.asdf"]:
        storage = "inline" if name == "axes.asdf" else None
        file = os.path.join(folder, name)
        asdf.AsdfFile(trees()).write_to(file, all_array_storage=storage)
        raw = open(file, "rb").read()
        head, end, blocks = raw.partition(b"\n...\n")
        lines = head.decode().splitlines()
        for stand_in, text in SOLAR.values():
            while text is not None:
                # The node of the frame, to the next line that is not below it.
                place = next((n for n, line in enumerate(lines) if f"J{stand_in.equinox.jyear:.3f}" in line), None)
                if place is None:
                    break
                start = max(n for n in range(place + 1) if "reference_frame:" in lines[n])
                indent = len(lines[start]) - len(lines[start].lstrip())
                stop = next(n for n in range(start + 1, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) <= indent)
                first, *rest = text.splitlines()
                lines[start:stop] = [" " * indent + "reference_frame: " + first, *(" " * (indent + 1) + line for line in rest)]
        # Blocks are searched after the tree: the index at the end would be wrong.
        blocks = blocks.split(b"#ASDF BLOCK INDEX")[0]
        open(file, "wb").write("\n".join(lines).encode() + end + blocks)


def compare(folder, mountpoint):
    counts = []
    for file in ["axes.asdf", "blocks.asdf"]:
        place = os.path.join(mountpoint, file)
        nodes = trees()
        for key, case in {**ALL, **SOME}.items():
            header = fits.getheader(os.path.join(place, "fits", key, "data.fits"))
            other = fits.getheader(os.path.join(place, "fits", key, "err.fits"))
            assert [header[name] for name in header if name.startswith(("CTYPE", "PC"))] == [other[name] for name in other if name.startswith(("CTYPE", "PC"))]
            kinds = [header.get(f"CTYPE{n + 1}", "").split("-")[0] or None for n in range(len(case[0]))]
            assert kinds == case[3], (key, kinds)
            coordinates(key, header, nodes[key]["wcs"])
            solar_cards(key, header)
        for key in NONE:
            header = fits.getheader(os.path.join(place, "fits", key, "data.fits"))
            assert not any(name.startswith(("CTYPE", "CRVAL", "PC")) for name in header), (key, header)
        status = open(os.path.join(place, ".asdf-mount", "status.yaml")).read()
        for path, why in NOTES.items():
            lines = [line for line in status.splitlines() if f"fits/ has no world coordinates from {path}: " in line]
            assert len(lines) == 1 and why in lines[0], (path, lines)
    print(len(ALL), len(SOME), len(NONE))


def coordinates(key, header, truth):
    wcs = WCS(header)
    lens = [header[f"NAXIS{n + 1}"] for n in range(header["NAXIS"])]
    pixels = np.random.default_rng(15).random((len(lens), 300)) * np.array(lens)[:, None] - 0.5
    found, expected = wcs.pixel_to_world_values(*pixels), truth.pixel_to_world_values(*pixels)
    if len(lens) == 1:
        found, expected = [found], [expected]
    for n in range(len(lens)):
        if f"CTYPE{n + 1}" not in header:
            assert not any(f"{name}{n + 1}" in header for name in ["CRVAL", "CDELT", "CUNIT"]), (key, header)
            continue
        unit = truth.output_frame.unit[n]
        away = (u.Quantity(found[n], wcs.world_axis_units[n]) - u.Quantity(expected[n], unit)).to_value(unit)
        size = np.abs(u.Quantity(expected[n], unit).value).max()
        if unit.physical_type == "angle":
            turn = (360 * u.deg).to_value(unit)
            away, size = (away + turn / 2) % turn - turn / 2, turn
        # Fitted: "scaled".
        assert np.abs(away).max() < (1e-7 if key == "scaled" else 1e-12) * size, (key, n, np.abs(away).max())


def solar_cards(key, header):
    if not header.get("CTYPE1", "").startswith(("HPLN", "HGLN")):
        return
    assert header["DATE-OBS"] == "2026-01-01T01:02:03.000" and header["RSUN_REF"] == 695700e3, (key, header)
    longitude = "CRLN_OBS" if key == "carrington" else "HGLN_OBS"
    if key in ["earth", "other-time"]:
        assert "DSUN_OBS" not in header and longitude not in header, (key, header)
    else:
        assert (header[longitude], header["HGLT_OBS"]) == (10.0, 3.0), (key, header)
        assert abs(header["DSUN_OBS"] - 0.98 * 149597870700) < 1, (key, header)
    if key in ["plane", "cube"]:
        assert (header["CUNIT1"], header["CRVAL1"], header["CRVAL2"], header["CRPIX1"], header["CDELT1"]) == ("arcsec", 100, -200, 11.25, 0.5), (key, header)


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    compare(*sys.argv[2:])
