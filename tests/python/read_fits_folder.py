"""Compares the files of `fits/`, as astropy reads them, with those of `arrays/` in a mount.

    read_fits_folder.py MOUNTPOINT

Prints the number of FITS files, of converted ones among them, and of arrays without a FITS file.
"""

import os
import random
import sys
import warnings

import numpy as np
from astropy.io import fits

warnings.simplefilter("error")
mountpoint = sys.argv[1]
random.seed(14)


def expected(array):
    """Returns the array as FITS represents it, or None."""
    if array.dtype.kind not in "biuf" or not 1 <= array.ndim <= 4:
        return None
    if array.dtype.kind == "b":
        return array.view("u1")
    return array.astype("f4") if array.dtype.itemsize == 2 and array.dtype.kind == "f" else array


def same(one, other):
    return one.shape == other.shape and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def mask_of(place):
    """Returns the mask of the array at a place; None if it has none, or one for each field."""
    mask = place[:-4] + ".mask.npy"
    mask = np.load(mask) if os.path.exists(mask) else np.zeros(())
    return mask if mask.dtype == bool else None


def unmasked(hdu, array, mask):
    """Returns the elements of an image, with those of the array in place of the masked ones."""
    raw, header = hdu.data, hdu.header
    if raw.dtype.kind == "f":
        assert np.isnan(raw[mask]).all(), hdu.name
    elif mask.any() or "BLANK" in header:
        assert (raw[mask] == header["BLANK"]).all(), hdu.name
        # Only a mask that is a number may have this number in other elements: there are none.
        assert "BLANK" not in header or not (raw[~mask] == header["BLANK"]).any(), hdu.name
    found = array.copy()
    numbers = raw[~mask] if raw.dtype.kind == "f" else raw[~mask].astype(object) + header.get("BZERO", 0)
    found[~mask] = numbers.astype(array.dtype)
    return found


def compare(place, array, path, mask):
    if mask is not None and array.size:
        with fits.open(place, memmap=False, do_not_scale_image_data=True) as opened:
            opened.verify("exception")
            assert same(unmasked(opened[0], array, mask), array), place
        return
    # astropy can't map integers that FITS stores offset by half the range.
    shifted = array.dtype.kind == "u" and array.itemsize > 1 or array.dtype == "i1"
    with fits.open(place, memmap=not shifted) as opened:
        opened.verify("exception")
        (unit,) = opened
        header, data = unit.header, unit.data
        if array.size == 0:
            axes = [header[f"NAXIS{n + 1}"] for n in range(header["NAXIS"])]
            assert axes[::-1] == list(array.shape), place
        else:
            native = array.dtype.newbyteorder("=")
            assert data.dtype.newbyteorder("=") == native, (place, data.dtype, native)
            assert same(data.astype(native), array.astype(native)), place
        assert header["ASDFPATH"].encode() == path.encode("ascii"), (place, header["ASDFPATH"], path)
        assert header["EXTNAME"] == path.split("/")[-1][:68].rstrip(), place
    whole = open(place, "rb").read()
    assert len(whole) == os.path.getsize(place) and len(whole) % 2880 == 0, place
    keywords = {whole[at : at + 8] for at in range(0, whole.index(b"END" + 77 * b" "), 80)}
    assert (b"CONTINUE" in keywords) == (b"LONGSTRN" in keywords), place
    with open(place, "rb", buffering=0) as opened:
        for _ in range(5):
            at, count = random.randrange(len(whole)), random.randrange(1, 5000)
            opened.seek(at)
            assert opened.read(count) == whole[at : at + count], (place, at, count)


def in_ascii(path):
    """Returns the path as written in the header."""
    parts = []
    for part in path.split("/"):
        blanks = len(part) - len(part.rstrip(" "))
        part = "".join(c if " " <= c <= "~" else "".join(f"%{b:02X}" for b in c.encode()) for c in part)
        parts.append(part[: len(part) - blanks] + "%20" * blanks)
    return "/".join(parts)


def compare_joint(place, arrays):
    """Compares a file of several images, or a table, with the arrays that its extensions name."""
    with fits.open(place, memmap=False, do_not_scale_image_data=True) as opened:
        opened.verify("exception")
        assert opened[0].data is None and len(opened) > 1, place
        for hdu in opened[1:]:
            path = arrays.get(hdu.header["ASDFPATH"])
            if path is None:
                assert isinstance(hdu, fits.BinTableHDU), place
                continue
            array = np.load(path)
            if isinstance(hdu, fits.BinTableHDU):
                for name, field in zip(array.dtype.names, hdu.columns.names):
                    same_text = lambda column: np.char.rstrip(np.asarray(column).astype("U"), "\0 ")
                    is_text = array[name].dtype.kind in "US"
                    one, other = (same_text(c) if is_text else c for c in (array[name], hdu.data[field]))
                    other = np.reshape(other, one.shape)
                    kinds = {one.dtype.kind, other.dtype.kind}
                    assert np.array_equal(one, other, equal_nan=kinds <= set("fc")), (place, name)
            else:
                wanted, mask = expected(array), mask_of(path)
                if mask is not None or "BZERO" in hdu.header:
                    mask = np.zeros(array.shape, bool) if mask is None else mask
                    assert same(unmasked(hdu, wanted, mask), wanted), (place, hdu.name)
                    continue
                native = wanted.dtype.newbyteorder("=")
                assert same(hdu.data.astype(native), wanted.astype(native)), (place, hdu.name)


compared, changed, without = 0, 0, 0
for name in sorted(os.listdir(mountpoint)):
    arrays, root = (os.path.join(mountpoint, name, view) for view in ("arrays", "fits"))
    there = set()
    for top, _, files in os.walk(arrays):
        for file in files:
            path = os.path.relpath(os.path.join(top, file), arrays)
            array = np.load(os.path.join(top, file))
            wanted = expected(array)
            if wanted is None:
                without += 1
                continue
            place = os.path.join(root, path[:-4] + ".fits")
            above = path.split("/")[:-1]
            if any(os.path.exists(os.path.join(root, *above[: n + 1]) + ".fits") for n in range(len(above))) and (
                not os.path.lexists(place)
            ):
                # A column of a table.
                continue
            there.add(path[:-4] + ".fits")
            link = os.path.join(top, file)
            assert os.path.islink(link) == os.path.islink(place), place
            if not os.path.islink(place):
                compare(place, wanted, in_ascii(path[:-4]), mask_of(os.path.join(top, file)))
            compared += 1
            changed += not array.flags.c_contiguous or array.dtype.byteorder != ">"
    found = {os.path.relpath(os.path.join(top, file), root) for top, _, files in os.walk(root) for file in files}
    assert there <= found, (name, sorted(there - found))
    by_path = {in_ascii(os.path.relpath(os.path.join(top, file), arrays)[:-4]): os.path.join(top, file)
               for top, _, files in os.walk(arrays) for file in files}
    for path in found - there:
        if not os.path.islink(os.path.join(root, path)):
            compare_joint(os.path.join(root, path), by_path)
print(compared, changed, without)
