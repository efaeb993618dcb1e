"""Writes arrays and tables with masks, and compares their files in fits/ with the masks: NaN, BLANK and TNULL.

    fits_masks.py write DIRECTORY
    fits_masks.py compare MOUNTPOINT DIRECTORY

Prints the number of arrays.
"""

import os
import sys
import warnings

import asdf
import numpy as np
from asdf.tagged import TaggedDict, TaggedList
from astropy import units as u
from astropy.io import fits
from astropy.table import MaskedColumn, QTable, Table

warnings.simplefilter("ignore")
RNG = np.random.default_rng(5)
SHAPE = (7, 9)
TYPES = ["u1", "i1", "<i2", ">u2", ">i4", "<u4", "<i8", "<u8", "<f2", ">f4", "<f8", "?"]


def data(kind, shape=SHAPE):
    if kind == "?":
        return RNG.random(shape) > 0.5
    if kind[-2] == "f":
        return RNG.normal(size=shape).astype(kind)
    info = np.iinfo(kind)
    made = RNG.integers(max(info.min, -1000), min(info.max, 1000), shape).astype(kind)
    # The values that would be taken first are in use.
    made.ravel()[:3] = [info.min, info.max, info.min + 1]
    return made


MASK = RNG.random(SHAPE) > 0.7
MASK.ravel()[:3] = False
MASK[1, 1:4] = True


def masked():
    """Arrays by name."""
    made = {f"{kind[-2:].strip('<>')}": np.ma.array(data(kind), mask=MASK) for kind in TYPES}
    made["fortran"] = np.ma.array(np.asfortranarray(data("<i2")), mask=MASK)
    made["full"] = np.ma.array(np.arange(256, dtype="u1").reshape(16, 16), mask=np.eye(16, dtype=bool))
    made["cube"] = np.ma.array(data(">i2", (3, *SHAPE)), mask=RNG.random((3, *SHAPE)) > 0.5)
    made["row"] = np.ma.array(data("<i4", (9,)), mask=MASK[3])
    made["all"] = np.ma.array(data("<i4"), mask=np.ones(SHAPE, bool))
    return made


ARRAYS = masked()
# The masked element has a value that another one has.
FULL = np.ma.array((np.arange(272) % 256).astype("u1").reshape(17, 16), mask=np.arange(272).reshape(17, 16) == 260)
TABLE = Table({
    "id": MaskedColumn([1, 2, 3, 4], mask=[0, 1, 0, 1], dtype="i8"), "flag": MaskedColumn([True, False, True, True], mask=[0, 0, 1, 0]),
    "small": MaskedColumn([255, 254, 0, 7], mask=[0, 0, 0, 1], dtype="u1"), "flux": MaskedColumn([1.5, 2.5, 3.5, 4.5], mask=[1, 0, 0, 0], dtype="f4"),
    "name": MaskedColumn(["ab", "c", "de", "f"], mask=[0, 0, 1, 0]), "pair": MaskedColumn(np.arange(8.0).reshape(4, 2), mask=np.arange(8).reshape(4, 2) % 3 == 0),
    "plain": [1, 2, 3, 4], "complex": MaskedColumn([1j, 2, 3, 4], mask=[0, 0, 1, 0]), "unsigned": MaskedColumn([0, 1, 2, 65535], mask=[0, 1, 0, 0], dtype="u2"),
})
RECORD = np.dtype([("id", "<i4"), ("count", ">u2"), ("flux", ">f4"), ("name", "U3"), ("tag", "S2"), ("pair", "<f8", (2,)), ("grid", "<i2", (2, 2)),
                   ("good", "?"), ("wave", "<c8")])


def records():
    made = np.zeros(5, RECORD)
    for field in RECORD.names:
        shape = made[field].shape
        made[field] = [f"{n}{field}"[:3] for n in range(5)] if RECORD[field].kind in "US" else np.arange(np.prod(shape)).reshape(shape) % 251 + 1
    made["id"][:2] = [-(2**31), 2**31 - 1]
    return made


FIELDS = np.ma.array(records())
for row, field in enumerate(RECORD.names):
    FIELDS[field].mask[row % 5] = True
FIELDS["pair"].mask[4, 1] = True
# One boolean for a whole record.
ROWS = np.ma.array(records(), mask=[0, 1, 0, 0, 1])
# Files that the tree describes: the number of masked elements is that of the tree's BLANK, or found.
HDUS = {
    "float": ([], np.ma.array(data("<f4"), mask=MASK)), "int": ([], np.ma.array(data(">i4"), mask=MASK)), "unsigned": ([], np.ma.array(data("<u2"), mask=MASK)),
    "blank": ([["BLANK", -999, "mine"], ["X", 1]], np.ma.array(data("<i2"), mask=MASK)), "fields": ([], FIELDS),
}
DOCUMENT = TaggedList([{"header": header, "data": array} for header, array in HDUS.values()], "tag:astropy.org:astropy/fits/fits-1.1.0")
# Masks that asdf does not write itself.
NUMBERS = """#ASDF 1.0.0
#ASDF_STANDARD 1.5.0
%%YAML 1.1
%%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
int: !core/ndarray-1.0.0 {data: [[1, 2, -999], [4, -999, 6]], datatype: int16, mask: -999}
float: !core/ndarray-1.0.0 {data: [[1.5, 2.5, -999.0], [4.5, -999.0, 6.5]], datatype: float32, mask: -999.0}
unsigned: !core/ndarray-1.0.0 {data: [[1, 2, 65535], [4, 65535, 6]], datatype: uint16, mask: 65535}
whole: !core/ndarray-1.0.0 {data: [[1, 2, 5], [4, 5, 6]], datatype: uint8, mask: 5.0}
nan: !core/ndarray-1.0.0 {data: [[1.5, .nan, 3.5]], datatype: float64, mask: .nan}
nulls: !core/ndarray-1.0.0 {data: [[1, null, 3], [null, 5, 6]], datatype: int32}
broadcast: !core/ndarray-1.0.0
  data: [[1, 2, 3], [4, 5, 6]]
  datatype: int32
  mask: !core/ndarray-1.0.0 {data: [false, true, false], datatype: bool8}
rows: !core/ndarray-1.0.0
  data: [[1, 1.5, a], [2, 3.5, b], [3, 5.5, c]]
  datatype: [{name: id, datatype: int32}, {name: flux, datatype: float32}, {name: name, datatype: [ascii, 1]}]
  mask: !core/ndarray-1.0.0 {data: [false, true, false], datatype: bool8}
...
"""
OF_NUMBERS = {
    "int": [[0, 0, 1], [0, 1, 0]], "float": [[0, 0, 1], [0, 1, 0]], "unsigned": [[0, 0, 1], [0, 1, 0]], "whole": [[0, 0, 1], [0, 1, 0]],
    "nan": [[0, 1, 0]], "nulls": [[0, 1, 0], [1, 0, 0]],
}
CUBE = TaggedDict({"data": data("<f4"), "mask": MASK, "unit": u.Jy}, "tag:sunpy.org:ndcube/ndcube-1.0.0")
COUNTS = TaggedDict({"data": data("<i2"), "mask": MASK, "unit": u.ct}, "tag:sunpy.org:ndcube/ndcube-1.0.0")


def write(directory):
    # The schema of asdf knows no structured masks, the reader does.
    asdf.schema.validate = lambda *arguments, **options: None
    tree = {"arrays": ARRAYS, "full": FULL, "table": TABLE, "cube": CUBE, "counts": COUNTS, "plain": {"data": data("<f4"), "mask": MASK},
            "fields": FIELDS, "rows": ROWS, "document": DOCUMENT,
            "group": {"data": ARRAYS["f4"].copy(), "err": ARRAYS["f4"] * 2, "dq": ARRAYS["u4"].copy(), "other": data("<i2")}}
    for name, compression in [("plain", None), ("zlib", "zlib"), ("lz4", "lz4")]:
        asdf.AsdfFile(tree).write_to(os.path.join(directory, f"{name}.asdf"), all_array_compression=compression)
    with open(os.path.join(directory, "numbers.asdf"), "w") as file:
        file.write(NUMBERS % ())


def check(place, values, mask, hdu=0):
    """Compares an image with an array."""
    with fits.open(place, do_not_scale_image_data=True) as opened:
        opened.verify("exception")
        header, raw = opened[hdu].header, opened[hdu].data
    mask = np.broadcast_to(np.asarray(mask, bool), values.shape)
    if values.dtype.kind == "f":
        assert "BLANK" not in header and np.array_equal(np.isnan(raw), mask | np.isnan(values)), (place, header)
        assert np.array_equal(raw[~mask], values[~mask].astype(raw.dtype), equal_nan=True), place
        return
    assert raw.dtype.kind in "iu", (place, raw.dtype)
    assert np.array_equal(raw == header["BLANK"], mask), (place, header["BLANK"])
    physical = [int(number) + int(header.get("BZERO", 0)) for number in raw[~mask]]
    assert physical == [int(number) for number in values[~mask]], place
    # What a program gets that knows nothing of BLANK, from the middle of the file.
    with open(place, "rb") as file:
        file.seek(2880 + raw.dtype.itemsize * 2)
        assert hdu or file.read(raw.dtype.itemsize) == raw.ravel()[2:3].tobytes(), place
    if "BZERO" not in header:
        with fits.open(place) as opened:
            assert np.array_equal(np.isnan(opened[hdu].data), mask), place


def check_records(place, array, hdu=1):
    """Compares a binary table with a structured array, field by field."""
    mask = np.ma.getmaskarray(array)
    with fits.open(place) as opened:
        opened.verify("exception")
        header, rows = opened[hdu].header, opened[hdu].data
        for n, name in enumerate(RECORD.names, 1):
            of_field, values, found = mask[name], array.data[name], np.asarray(rows[name])
            assert (f"TNULL{n}" in header) == (name in ("id", "count", "grid")), (name, header)
            if f"TNULL{n}" in header:
                assert np.array_equal(found == header[f"TNULL{n}"] + header.get(f"TZERO{n}", 0), of_field), (place, name, found)
            elif values.dtype.kind in "fc":
                assert np.array_equal(np.isnan(found), of_field), (place, name, found)
            elif values.dtype.kind in "US":
                assert (found[of_field] == "").all(), (place, name, found)
            values = values.astype("U") if values.dtype.kind == "S" else values
            assert np.array_equal(found[~of_field], values[~of_field]), (place, name, found, values)
        start = opened[hdu]._data_offset + sum(rows.dtype.fields[name][0].itemsize for name in RECORD.names[:RECORD.names.index("good")])
    with open(place, "rb") as file:
        for row, is_masked in enumerate(mask["good"]):
            file.seek(start + row * header["NAXIS1"])
            assert file.read(1) == (b"\0" if is_masked else b"T"), row
    table = Table.read(place, hdu=hdu)
    for name in ("id", "flux", "pair", "grid"):
        assert np.array_equal(np.ma.getmaskarray(table[name]), mask[name]), (place, name)


def check_table(place):
    with fits.open(place) as opened:
        opened.verify("exception")
        header, rows = opened[1].header, opened[1].data
        for n, name in enumerate(TABLE.colnames, 1):
            column = TABLE[name]
            mask = np.ma.getmaskarray(column)
            if column.dtype.kind in "iu" and name != "plain":
                raw = rows.field(name) if "TZERO" not in header else rows.field(name)
                null = header[f"TNULL{n}"] + header.get(f"TZERO{n}", 0)
                assert np.array_equal(raw == null, mask) and np.array_equal(raw[~mask], column.data.data[~mask]), (name, null, raw)
            elif column.dtype.kind in "fc":
                assert np.array_equal(np.isnan(rows[name]), mask) and np.array_equal(rows[name][~mask], column.data.data[~mask]), name
            elif column.dtype.kind == "U":
                assert [text for text, masked in zip(rows[name], mask) if masked] == [""] * mask.sum(), name
                assert list(rows[name][~mask]) == list(column[~mask]), name
            assert (f"TNULL{n}" in header) == (column.dtype.kind in "iu" and name != "plain"), (name, header)
        offset = sum(opened[1].columns[name].dtype.itemsize for name in ["id"])
        start = opened[1]._data_offset
    with open(place, "rb") as file:
        length = header["NAXIS1"]
        for row, expected in enumerate([b"T", b"F", b"\0", b"T"]):
            file.seek(start + row * length + offset)
            assert file.read(1) == expected, row
    table = Table.read(place)
    for name in TABLE.colnames:
        # astropy compares nulls with numbers after TZERO, and knows no masked texts of blanks.
        if name not in ("plain", "unsigned", "flag", "name"):
            assert np.array_equal(np.ma.getmaskarray(table[name]), np.ma.getmaskarray(TABLE[name])), name


def compare(mountpoint):
    count = 0
    for name in ["plain", "zlib", "lz4"]:
        view = os.path.join(mountpoint, f"{name}.asdf", "fits")
        for key, array in ARRAYS.items():
            check(f"{view}/arrays/{key}.fits", array.data, array.mask)
            assert np.array_equal(fits.getdata(f"{view}/arrays/{key}.mask.fits"), array.mask), key
            count += 1
        with fits.open(f"{view}/full.fits") as opened:
            assert "BLANK" not in opened[0].header and "have all values" in str(opened[0].header), opened[0].header
            assert np.array_equal(opened[0].data, FULL.data)
        check_table(f"{view}/table.fits")
        check(f"{view}/cube/data.fits", CUBE["data"], MASK)
        check(f"{view}/counts/data.fits", COUNTS["data"], MASK)
        check_records(f"{view}/fields.fits", FIELDS)
        check_records(f"{view}/rows.fits", np.ma.array(ROWS.data, mask=ROWS.mask))
        for hdu, (key, (_, array)) in enumerate(HDUS.items()):
            if key == "fields":
                check_records(f"{view}/document.fits", array, hdu)
                continue
            check(f"{view}/document.fits", array.data, array.mask, hdu)
            header = fits.getheader(f"{view}/document.fits", hdu)
            assert key != "blank" or (header["BLANK"], header["X"]) == (-999, 1), header
        # A mask beside data means nothing by itself.
        assert np.array_equal(fits.getdata(f"{view}/plain/data.fits").shape, SHAPE) and not np.isnan(fits.getdata(f"{view}/plain/data.fits")).any()
        with fits.open(f"{view}/group.fits") as opened:
            names = [hdu.name for hdu in opened]
        for key, extension in [("data", "SCI"), ("err", "ERR"), ("dq", "DQ")]:
            array = {"data": ARRAYS["f4"], "err": ARRAYS["f4"] * 2, "dq": ARRAYS["u4"]}[key]
            check(f"{view}/group.fits", array.data, array.mask, names.index(extension))
        assert "BLANK" not in fits.getheader(f"{view}/group.fits", "OTHER")
    with asdf.open(os.path.join(sys.argv[2], "numbers.asdf")) as opened:
        for key, mask in OF_NUMBERS.items():
            array = np.ma.getdata(opened[key]._make_array() if hasattr(opened[key], "_make_array") else opened[key])
            check(os.path.join(mountpoint, "numbers.asdf", "fits", f"{key}.fits"), array, mask)
    check(os.path.join(mountpoint, "numbers.asdf", "fits", "broadcast.fits"), np.arange(1, 7, dtype="i4").reshape(2, 3), [0, 1, 0])
    rows = Table.read(os.path.join(mountpoint, "numbers.asdf", "fits", "rows.fits"))
    assert list(rows["id"].mask) == [0, 1, 0] and list(rows["flux"].mask) == [0, 1, 0], rows
    assert list(rows["name"].filled("")) == ["a", "", "c"] and rows["flux"][2] == 5.5, rows
    print(count)


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    compare(sys.argv[3])
