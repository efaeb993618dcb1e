"""Footprints in the catalogue, and the query of docs/scale.md."""

import subprocess
import sys

import asdf
import numpy
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from conftest import ROOT

import asdf_mount

sys.path.insert(0, str(ROOT / "tests/python"))
import footprints  # noqa: E402

pytestmark = pytest.mark.rare

NAMED = ["shape/flux", "companions/flux", "quantity/flux/value", "twice/data", "other shape/flux", "other wcs/data", "science/SCI"]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images with random gwcs."""
    folder = tmp_path_factory.mktemp("chains")
    subprocess.run([sys.executable, ROOT / "tests/python/write_sip.py", folder, "17", "12"], check=True)
    return folder / "chains.asdf"


def sky(wcs, x, y):
    """The directions of pixels in ICRS, in degrees."""
    longitude, latitude = wcs(x, y, with_bounding_box=False)
    found = SkyCoord(longitude, latitude, unit="deg", frame=wcs.output_frame.reference_frame).icrs
    return numpy.stack([found.ra.deg, found.dec.deg], -1)


def separation(one, other):
    difference = footprints.directions(*numpy.moveaxis(one, -1, 0)) - footprints.directions(*numpy.moveaxis(other, -1, 0))
    return numpy.degrees(2 * numpy.arcsin(numpy.linalg.norm(difference, axis=-1) / 2))


def test_footprints_are_those_of_gwcs(images):
    line = asdf_mount.open(images).info()
    found = {footprint["path"]: footprint for footprint in line["footprints"]}
    with asdf.open(images) as file:
        nodes = {f"chains/{n}/data": node for n, node in enumerate(file["chains"])}
        nodes |= {f"named/{path}": file["named"][path.partition("/")[0]] for path in NAMED}
        # FITS can't express it, but it leads to the sky.
        nodes["without/wild/data"] = file["without"]["wild"]
        # read_sip.py compares those in "any", of which not all lead to the sky.
        assert {path for path in found if not path.startswith("any/")} == {*nodes}
        for path, node in nodes.items():
            wcs = node["wcs"] if "wcs" in node else node["meta"]["wcs"]
            rows, columns = node[path.split("/")[2]].shape
            x, y = wcs.bounding_box if wcs.bounding_box else ((-0.5, columns - 0.5), (-0.5, rows - 0.5))
            corners = sky(wcs, numpy.array([x[0], x[0], x[1], x[1]]), numpy.array([y[0], y[1], y[1], y[0]]))
            # FK5 differs from ICRS by 0.02 arc seconds.
            assert separation(corners, numpy.array(found[path]["corners"])).max() < 0.05 / 3600, path
            pixels = sky(wcs, *numpy.meshgrid(numpy.linspace(*x, 40), numpy.linspace(*y, 40)))
            touched = footprints.CELLS.lonlat_to_healpix(*(pixels * units.deg).reshape(-1, 2).T)
            ranges = numpy.array(found[path]["healpix"])
            assert (ranges[:, 0] <= ranges[:, 1]).all() and (ranges[1:, 0] > ranges[:-1, 1] + 1).all()
            cells = numpy.concatenate([numpy.arange(first, last + 1) for first, last in ranges])
            assert set(touched.tolist()) <= set(cells.tolist()), path
            longitude, latitude = footprints.CELLS.healpix_to_lonlat(cells)
            centres = numpy.stack([longitude.deg, latitude.deg], -1)
            distance = separation(centres[:, None], pixels.reshape(1, -1, 2)).min(1)
            assert distance.max() < 0.1, path


def test_the_query_finds_what_brute_force_finds(tmp_path):
    corners, cells = footprints.simulate(4000, side=0.5)
    footprints.write(corners, cells, tmp_path)
    made = footprints.database(tmp_path)
    sizes = []
    for cone in footprints.cones(corners, 40):
        files = footprints.found(made, *cone)
        assert files == footprints.brute_force(corners, *cone), cone
        sizes.append(len(files))
    assert max(sizes) > 3
    made.execute(footprints.QUERY)


def test_the_query_reads_a_catalogue(images, tmp_path):
    subprocess.run([asdf_mount.find_program(), "--catalog", "-q", images, ROOT / "examples"], check=True,
                   stdout=(tmp_path / "catalog.jsonl").open("w"))
    made = footprints.database(tmp_path)
    with asdf.open(images) as file:
        for n, node in enumerate(file["chains"]):
            rows, columns = node["data"].shape
            ra, dec = sky(node["meta"]["wcs"], columns / 3, rows / 2).tolist()
            rows = made.execute("SELECT uri, path FROM files_at($ra, $dec)", {"ra": ra, "dec": dec}).fetchall()
            assert (f"file://{images}", f"chains/{n}/data") in rows
