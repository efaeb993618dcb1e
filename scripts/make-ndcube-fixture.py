#!/usr/bin/env python3
"""Makes tests/fixtures/asdf/ndcube.asdf: cubes in other resolutions, and where ndcube finds some of their pixels.

    python -m venv VENV && VENV/bin/pip install ndcube asdf-astropy gwcs
    VENV/bin/python scripts/make-ndcube-fixture.py

`cubes` are NDCubes. `worlds` has for each cube pixels, and the world coordinates of each in the order of its `wcs`.
"""

import warnings
from pathlib import Path

import asdf
import numpy as np
from astropy.wcs import WCS
from ndcube import NDCube
from ndcube.wcs.wrappers import ResampledLowLevelWCS

OUT = Path(__file__).parent.parent / "tests/fixtures/asdf/ndcube.asdf"
KEYWORDS = {
    "CTYPE1": "HPLN-TAN", "CUNIT1": "deg", "CRPIX1": 3.5, "CDELT1": 2e-4, "CRVAL1": 0.01,
    "CTYPE2": "HPLT-TAN", "CUNIT2": "deg", "CRPIX2": 2.5, "CDELT2": 3e-4, "CRVAL2": -0.02,
    "CTYPE3": "WAVE", "CUNIT3": "m", "CRPIX3": 1.5, "CDELT3": 1e-10, "CRVAL3": 5e-7,
}

warnings.simplefilter("ignore")


def cube(shape, wcs):
    return NDCube(np.zeros(shape, "i2"), wcs)


matrix = WCS({**KEYWORDS, "PC1_2": 0.1, "PC2_1": -0.2})
plain = WCS(KEYWORDS)
finer = ResampledLowLevelWCS(plain, [0.5, 0.25, 1.5], [1, 0.5, -2.25])
cubes = {
    "binned": cube((8, 10, 12), matrix).rebin((2, 5, 3)),
    "plain": cube((8, 10, 12), plain).rebin((4, 1, 2)),
    "finer": cube((4, 5, 6), finer),
    "cut": cube((8, 10, 12), ResampledLowLevelWCS(matrix, [2, 3, 4], [0, 1, 2]))[1:5, 2:, 3],
}
pixels = np.random.default_rng(7).uniform(-1, 9, (10, 3))
worlds = {}
for key, one in cubes.items():
    chosen = pixels[:, : one.data.ndim]
    found = one.wcs.low_level_wcs.pixel_to_world_values(*chosen.T)
    worlds[key] = {"pixels": chosen.tolist(), "worlds": np.array(found).T.tolist()}
asdf.AsdfFile({"cubes": cubes, "worlds": worlds}).write_to(OUT)
