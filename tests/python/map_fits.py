"""Maps FITS files of compressed blocks, and of a growing stream.

    map_fits.py write FOLDER
    map_fits.py read FOLDER MOUNTPOINT
"""

import os
import sys
import time
import warnings

import asdf
import numpy as np
from astropy.io import fits

warnings.simplefilter("ignore")
CODECS = ["zlib", "bzp2", "lz4", "lz4f", "zstd", "blsc"]
STREAM = os.path.join(sys.argv[2], "stream.asdf")
IMAGE = np.random.default_rng(14).normal(100, 5, (900, 700)).astype("f4")


def write():
    for codec in CODECS:
        asdf.AsdfFile({"image": IMAGE, "counts": IMAGE.astype(">i8")}).write_to(
            os.path.join(sys.argv[2], f"{codec}.asdf"), all_array_compression=codec)
    asdf.AsdfFile({"rows": asdf.tags.core.Stream([10], np.float64)}).write_to(STREAM)
    grow(0, 990)


def grow(first, last):
    with open(STREAM, "ab") as file:
        file.write(np.arange(float(first), float(last)).tobytes())


def mapped(mountpoint, path):
    opened = fits.open(os.path.join(mountpoint, path), memmap=True)
    opened.verify("exception")
    return opened[0].data


def read(mountpoint):
    places = np.random.default_rng(7).integers(0, IMAGE.size, 200)
    for codec in CODECS:
        image, counts = (mapped(mountpoint, f"{codec}.asdf/fits/{name}.fits") for name in ("image", "counts"))
        assert image.base is not None and all(image.flat[place] == IMAGE.flat[place] for place in places), codec
        assert (image == IMAGE).all() and (counts == IMAGE.astype("i8")).all(), codec
        place = os.path.join(mountpoint, f"{codec}.asdf/fits/image.fits")
        with open(place, "rb", buffering=0) as file:
            whole = file.read()
            for at in places:
                file.seek(at)
                assert file.read(5000) == whole[at : at + 5000], (codec, at)
    before = mapped(mountpoint, "stream.asdf/fits/rows.fits")
    assert before.shape == (99, 10)
    grow(990, 30000)
    # A program that opens the file at this moment may read the old header and the new length.
    place, until = os.path.join(mountpoint, "stream.asdf/fits/rows.fits"), time.monotonic() + 120
    while os.path.getsize(place) < 30000 * 8 and time.monotonic() < until:
        time.sleep(0.05)
    after = mapped(mountpoint, "stream.asdf/fits/rows.fits")
    # This file was not read before the stream grew.
    assert (before == np.arange(990.0).reshape(99, 10)).all()
    assert after.shape == (3000, 10) and (after == np.arange(30000.0).reshape(3000, 10)).all()


write() if sys.argv[1] == "write" else read(sys.argv[3])
