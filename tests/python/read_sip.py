"""Compares the TAN-SIP of MOUNT/chains.asdf/fits with the gwcs of FOLDER/chains.asdf. Prints the number of chains, the
largest deviations in pixels there and back, and the highest degree."""

import sys
import warnings
from pathlib import Path

import asdf
import numpy
from astropy.io import fits
from astropy.wcs import WCS

folder, mount = Path(sys.argv[1]), Path(sys.argv[2]) / "chains.asdf"
warnings.simplefilter("ignore", fits.verify.VerifyWarning)
SKY = ("CTYPE", "CRVAL", "CRPIX", "CD", "A_", "B_", "AP_", "BP_", "SIP")


def coordinates(header):
    return {key: value for key, value in header.items() if key.startswith(SKY)}


def separation(one, other):
    """The angle in degrees between points on the sky, exact for small angles."""
    (ra, dec), (ra2, dec2) = numpy.deg2rad(one), numpy.deg2rad(other)
    half = numpy.sin((dec2 - dec) / 2) ** 2 + numpy.cos(dec) * numpy.cos(dec2) * numpy.sin((ra2 - ra) / 2) ** 2
    return numpy.rad2deg(2 * numpy.arcsin(numpy.sqrt(half)))


def box(gwcs, shape):
    if gwcs.bounding_box is None:
        return [(-0.5, shape[1] - 0.5), (-0.5, shape[0] - 0.5)]
    return [tuple(map(float, interval)) for interval in gwcs.bounding_box.bounding_box(order="F")]


there, back, degree = 0, 0, 0
with asdf.open(folder / "chains.asdf", memmap=False, lazy_load=True) as opened:
    for number, entry in enumerate(opened["chains"]):
        path = mount / "fits" / "chains" / str(number)
        header = fits.getheader(path / "data.fits")
        assert coordinates(header) == coordinates(fits.getheader(path / "err.fits"))
        wcs, gwcs = WCS(header), entry["meta"]["wcs"]
        intervals = box(gwcs, entry["data"].shape)
        x, y = (grid.ravel() for grid in numpy.meshgrid(*(numpy.linspace(*interval, 64) for interval in intervals)))
        expected = gwcs(x, y, with_bounding_box=False)
        found = wcs.all_pix2world(x, y, 0)
        pixel = numpy.sqrt(abs(numpy.linalg.det([[header["CD1_1"], header["CD1_2"]], [header["CD2_1"], header["CD2_2"]]])))
        error = separation(found, expected).max() / pixel
        assert error < 1.1e-3, (number, error, header)
        assert error < 1.3 * header["SIPMXERR"] + 1e-6, (number, error, header["SIPMXERR"])
        there, degree = max(there, error), max(degree, header.get("A_ORDER", 1))
        if "SIPIVERR" in header:
            u, v = wcs.wcs.s2p(numpy.transpose(expected), 1)["pixcrd"].T - wcs.wcs.crpix[:, None]
            to_x, to_y = (numpy.polynomial.polynomial.polyval2d(u, v, terms) for terms in [wcs.sip.ap, wcs.sip.bp])
            error = numpy.hypot(u + to_x + wcs.wcs.crpix[0] - 1 - x, v + to_y + wcs.wcs.crpix[1] - 1 - y).max()
            assert error < 0.5 and error < 1.1 * header["SIPIVERR"] + 1e-4, (number, error, header["SIPIVERR"])
            back = max(back, error)
        for radesys in [getattr(gwcs.output_frame.reference_frame, "name", "")]:
            assert header.get("RADESYS", "galactic").lower() == radesys, (number, radesys)
    for name, entry in opened["without"].items():
        for file in (mount / "fits" / "without" / name).glob("*.fits"):
            assert "CTYPE1" not in fits.getheader(file), (name, fits.getheader(file))
    named = mount / "fits" / "named"
    with_sky = {str(file.relative_to(named)) for file in named.rglob("*.fits") if "CTYPE1" in fits.getheader(file)}
    assert with_sky == {
        "shape/flux.fits", "science/SCI.fits", "science/DQ.fits", "companions/flux.fits", "companions/err.fits", "companions/dq.fits",
        "quantity/flux/value.fits", "twice/data.fits", "other shape/flux.fits", "other wcs/data.fits",
    }, with_sky
    assert coordinates(fits.getheader(named / "science" / "SCI.fits")) == coordinates(fits.getheader(named / "science" / "DQ.fits"))
    notes = (mount / ".asdf-mount" / "status.yaml").read_text()
    for name in ["unknown", "system", "wild", "hidden"]:
        assert f"no world coordinates from without/{name}/wcs" in notes, (name, notes)
    names = [next(iter(set(entry) - {"wcs"})) for entry in opened["any"]]
    headers = [fits.getheader(mount / "fits" / "any" / str(number) / f"{name}.fits") for number, name in enumerate(names)]
    notes = (mount / ".asdf-mount" / "status.yaml").read_text()
    without = 0
    for number, (entry, name, header) in enumerate(zip(opened["any"], names, headers)):
        lines = [line for line in notes.splitlines() if f"fits/ has no world coordinates from any/{number}/wcs: " in line]
        assert len(lines) == ("CTYPE1" not in header), (number, lines, header)
        if lines:
            without += 1
            continue
        wcs, gwcs = WCS(header), entry["wcs"]
        intervals = box(gwcs, entry[name].shape)
        x, y = (grid.ravel() for grid in numpy.meshgrid(*(numpy.linspace(*interval, 9) for interval in intervals)))
        expected, found = gwcs(x, y, with_bounding_box=False), wcs.all_pix2world(x, y, 0)
        order = [wcs.wcs.lng, wcs.wcs.lat]
        unit = gwcs.output_frame.unit[0]
        error = separation(*([(one[n] * scale) for n in order] for one, scale in ((found, 1), (expected, unit.to("deg")))))
        assert order[0] == gwcs.output_frame.axes_order[0] and error.max() < 1.1e-3 * 2e-3, (number, error.max(), header)
        system = gwcs.output_frame.reference_frame
        radesys = header.get("RADESYS", "galactic").lower()
        assert {"fk4-no-e": "fk4noeterms"}.get(radesys, radesys) == system.name, (number, header)
        if "EQUINOX" in header:
            equinox = system.equinox.byear if "fk4" in system.name else system.equinox.jyear
            assert abs(header["EQUINOX"] - equinox) < 1e-9, (number, header)
    assert 0 < without < len(opened["any"]), without
    print(len(opened["chains"]), f"{there:.1e} {back:.1e} {degree}")
