#!/usr/bin/env python3
"""Makes tests/fixtures/fits: small FITS files with an ASDF file in them, and what their own readers read from them.

    python -m venv VENV && VENV/bin/pip install stdatamodels gwcs asdf-astropy
    VENV/bin/python scripts/make-fits-fixtures.py

truth.json has for each file: the elements of each array of the tree, as stdatamodels returns it, and of each HDU, as
astropy returns it: type, shape, and SHA-256 of the big-endian elements in C order.
"""

import hashlib
import io
import json
import warnings
from pathlib import Path

import asdf
import numpy as np
from astropy.io import fits
from stdatamodels import asdf_in_fits
from stdatamodels.jwst import datamodels

OUT = Path(__file__).parent.parent / "tests/fixtures/fits"
SHAPE = (16, 24)


def ramp(dtype, shape=SHAPE):
    numbers = np.arange(np.prod(shape)).reshape(shape)
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    return (numbers * (info.max // numbers.size) if info else numbers / 7).astype(dtype)


def image(path):
    """An image as the pipeline of JWST writes it."""
    model = datamodels.ImageModel(SHAPE)
    model.data = ramp("f4")
    model.data[3, 4] = np.nan
    model.dq = ramp("u4")
    model.err = np.sqrt(ramp("f4"))
    model.meta.telescope = "JWST"
    model.meta.instrument.name = "NIRCAM"
    model.meta.instrument.filter = "F200W"
    model.meta.exposure.exposure_time = 12.5
    model.meta.target.catalog_name = "NGC 1"
    model.meta.observation.date = "2024-05-06"
    model.history.append("made for a test")
    model.save(path)


def spectra(path):
    """Tables: two spectra, one version of an extension each."""
    model = datamodels.MultiSpecModel()
    for n in range(2):
        table = np.zeros(5 + n, dtype=datamodels.SpecModel().get_dtype("spec_table"))
        for k, name in enumerate(table.dtype.names):
            table[name] = np.arange(5 + n) + k
        model.spec.append(datamodels.SpecModel(spec_table=table))
    model.save(path)


def mixed(path):
    """HDUs of all kinds, some of which the tree does not name; blocks within the ASDF file."""
    hdus = fits.HDUList([fits.PrimaryHDU(ramp("i2"))])
    for dtype in ("u1", "i1", "u2", "i4", "i8", "u8", "f8"):
        hdus.append(fits.ImageHDU(ramp(dtype), name=f"OF_{dtype}"))
    scaled = fits.ImageHDU(ramp("f4"), name="SCALED")
    scaled.scale("int16", bscale=0.25, bzero=7)
    hdus.append(scaled)
    hdus.append(fits.ImageHDU(ramp("f4", (2, 3, 4))))
    hdus.append(fits.ImageHDU(ramp("f4"), name="a/b c"))
    hdus.append(fits.BinTableHDU.from_columns([
        fits.Column("flag", "L", array=[True, False, True]),
        fits.Column("bits", "11X", array=np.arange(33).reshape(3, 11) % 3 == 0),
        fits.Column("name", "5A", array=["a", "bcd", "efghi"]),
        fits.Column("words", "12A", dim="(4,3)", array=np.array([["a", "b", "c"]] * 3)),
        fits.Column("short", "I", bzero=1 << 15, array=np.array([0, 1, 65535], "u2")),
        fits.Column("many", "6E", dim="(3,2)", unit="Jy", array=ramp("f4", (3, 2, 3))),
        fits.Column("turn", "C", array=np.array([1, 1j, -1], "c8")),
        fits.Column("long", "K", null=-1, array=[1, -1, 3]),
        fits.Column("wide", "PJ()", array=np.array([[1], [2, 3], [4, 5, 6]], dtype=object)),
    ], name="TABLE"))
    hdus.append(fits.CompImageHDU(ramp("i4"), name="PACKED"))
    tree = {
        "primary": hdus[0].data, "unsigned": hdus["OF_U2"].data, "wide": hdus["OF_U8"].data, "cube": hdus[9].data,
        "own": ramp("<f8"), "small": np.arange(3), "long": ramp("<i4", (40, 50)),
    }
    asdf_in_fits.write(path, tree, hdus, overwrite=True)


def older(path):
    """An image of bytes, as versions of asdf up to 2 wrote it."""
    hdus = fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(ramp("f4"), name="SCI", ver=1)])
    hdus.append(fits.ImageHDU(ramp("f4") + 1, name="SCI", ver=2))
    buffer = io.BytesIO()
    asdf.AsdfFile({"own": ramp("<i4", (40, 50)), "sci": "SCI"}).write_to(buffer)
    node = "!core/ndarray-1.1.0\n  source: fits:SCI,2\n  datatype: float32\n  byteorder: big\n  shape: [16, 24]"
    text = buffer.getvalue()
    # The index would be wrong after the change of the text.
    text = text[: text.rindex(b"#ASDF BLOCK INDEX")].replace(b"sci: SCI", b"sci: " + node.encode())
    hdus.append(fits.ImageHDU(np.frombuffer(text, "u1"), name="ASDF"))
    hdus.writeto(path, overwrite=True)


def nulls(path):
    """Numbers that mean no value (BLANK, TNULL), with and without scale."""
    hdus = fits.HDUList([fits.PrimaryHDU()])
    # astropy would scale the numbers itself if it knew the keywords, so they get their names at the end.
    for name, dtype, blank, scale, zero in [
        ("U1", "u1", 255, 1, 0), ("I2", "i2", -32768, 1, 0), ("I4", "i4", 1000, 1, 0), ("I8", "i8", -99, 1, 0),
        ("SCALED", "i2", -32768, 0.5, 10), ("LONG", "i4", -1, 0.1, 3), ("SHIFTED", "u1", 3, 1, 100),
        ("U2", "i2", -32768, 1, 32768), ("FAR", "u1", 1000, 1, 0),
    ]:
        hdu = fits.ImageHDU(np.arange(384).reshape(SHAPE).astype(dtype), name=name)
        hdu.data.flat[[0, 7, 300]] = np.array(blank).astype(dtype)
        hdu.header["XLANK"] = blank
        if (scale, zero) != (1, 0):
            hdu.header["XSCALE"] = float(scale)
            hdu.header["XZERO"] = float(zero)
        hdus.append(hdu)
    table = fits.BinTableHDU.from_columns([
        fits.Column("plain", "J", array=[1, -99, 3]), fits.Column("scaled", "I", array=[1, -99, 3]),
        fits.Column("unsigned", "I", array=[-32768, 1, 2]), fits.Column("many", "2K", array=[[5, 1], [2, 5], [3, 4]]),
        fits.Column("none", "B", array=[1, 2, 3]), fits.Column("text", "2A", array=["a", "b", ""]),
    ], name="TABLE")
    for keyword, value in {"XNULL1": -99, "XNULL2": -99, "XSCAL2": 0.5, "XZERO2": 10.0, "XNULL3": -32768, "XZERO3": 32768,
                           "XNULL4": 5}.items():
        table.header[keyword] = value
    hdus.append(table)
    nodes = "".join(
        f"{name.lower()}: !core/ndarray-1.1.0\n  source: fits:{name},1\n  datatype: uint8\n  byteorder: big\n  shape: {list(shape)}\n"
        for name, shape in (("I2", SHAPE), ("SCALED", SHAPE), ("U2", SHAPE), ("TABLE", (3,))))
    text = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n" + nodes + "...\n"
    hdus.append(fits.ImageHDU(np.frombuffer(text.encode(), "u1"), name="ASDF"))
    hdus.writeto(path, overwrite=True)
    file = path.read_bytes()
    for keyword in ("LANK ", "SCALE ", "ZERO ", *(f"{of}{n} " for of in ("NULL", "SCAL", "ZERO") for n in range(1, 5))):
        name = "T" if keyword.strip()[-1].isdigit() else "B"
        file = file.replace(f"X{keyword:<7}=".encode(), f"{name}{keyword:<7}=".encode())
    path.write_bytes(file)


def facts(array):
    array = np.ascontiguousarray(array)
    big = array.astype(array.dtype.newbyteorder(">"))
    return {"type": np.lib.format.dtype_to_descr(big.dtype), "shape": list(big.shape),
            "sha256": hashlib.sha256(big.tobytes()).hexdigest()}


def arrays_of(tree, path=()):
    if isinstance(tree, (np.ndarray, asdf.tags.core.NDArrayType)):
        yield "/".join(path), tree if isinstance(tree, np.ndarray) else np.asarray(tree)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from arrays_of(value, (*path, key))
    elif isinstance(tree, list):
        for n, value in enumerate(tree):
            yield from arrays_of(value, (*path, str(n)))


def plain(array):
    """Returns records with the numbers that astropy shows for their columns."""
    if not isinstance(array, fits.FITS_rec):
        return np.asarray(array)
    fields = [name for name in array.names if array.columns[name].format[0] not in "PQ"]
    # Bits are shown as they are stored.
    raw = array.view(np.ndarray)
    columns = {name: raw[name] if "X" in array.columns[name].format else np.array(array[name]) for name in fields}
    for name, column in columns.items():
        # astropy scales the null as if it were a number, and compares its `null` with scaled numbers.
        if array.columns[name].null is not None and column.dtype.kind == "f":
            column[raw[name] == array.columns[name].null] = np.nan
    dtype = [(name, column.dtype if column.dtype.kind != "U" else f"S{column.dtype.itemsize // 4}", column.shape[1:])
             for name, column in columns.items()]
    plain = np.zeros(len(array), dtype)
    for name, column in columns.items():
        plain[name] = column
    return plain


def masked(hdu):
    """Returns where an HDU has no values: an array of bool; None if its numbers say it themselves (NaN), or all are values."""
    if isinstance(hdu.data, fits.FITS_rec):
        raw = hdu.data.view(np.ndarray)
        columns = [hdu.columns[name] for name in hdu.data.names if hdu.columns[name].format[0] not in "PQ"]
        if any(column.null is not None for column in columns):
            mask = np.zeros(len(raw), [(column.name, "?", raw[column.name].shape[1:]) for column in columns])
            for column in columns:
                if column.null is not None:
                    mask[column.name] = raw[column.name] == column.null
            return mask
    elif hdu.data.dtype.kind in "iu" and "BLANK" in hdu.header:
        return hdu.data == hdu.header["BLANK"] + hdu.header.get("BZERO", 0)
    return None


def truth(path):
    found = {"arrays": {}, "hdus": {}}
    with asdf_in_fits.open(path) as file:
        for name, array in arrays_of(file.tree):
            found["arrays"][name] = facts(plain(array))
    with fits.open(path) as hdus:
        for n, hdu in enumerate(hdus):
            if hdu.data is not None and hdu.name != "ASDF" and not isinstance(hdu, fits.CompImageHDU):
                mask = masked(hdu)
                of_mask = {} if mask is None else {"mask": facts(mask)}
                found["hdus"][str(n)] = {"name": hdu.name, "version": hdu.ver, **facts(plain(hdu.data)), **of_mask}
    return found


def main():
    warnings.simplefilter("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    found = {}
    for make in (image, spectra, mixed, older, nulls):
        path = OUT / f"{make.__name__}.fits"
        make(path)
        found[path.name] = truth(path)
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(ramp("f4"), name="SCI")]).writeto(OUT / "plain.fits", overwrite=True)
    (OUT / "truth.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
