"""Writes trees with images of one shape, tables and facts, and compares the files that fits/ makes of them.

    read_fits_groups.py write DIRECTORY
    read_fits_groups.py compare MOUNTPOINT
"""

import os
import sys

import asdf
import astropy.units as u
import numpy as np
from astropy.io import fits
from astropy.coordinates import SkyCoord
from astropy.table import QTable, Table
from astropy.time import Time, TimeDelta
from astropy.wcs import WCS


def ramp(dtype, shape=(5, 7)):
    return (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)


TABLE = Table(
    {"id": np.arange(5), "flux": ramp("f4", (5,)) * u.Jy, "name": ["a", "bc", "d", "e", "f"], "pair": ramp("u2", (5, 2))}
)
MIXED = QTable({"id": np.arange(3), "sky": SkyCoord([1, 2, 3], [4, 5, 6], unit="deg"), "time": Time(["2026-01-01", "2026-01-02", "2026-01-03"]),
                "delta": TimeDelta([1, 2.5, 3], format="sec"), "plain": [1.5, 2.5, 3.5] * u.km})
RECORDS = np.array([(1, 2.5, b"x"), (3, 4.5, b"yz")], dtype=[("a", "<i4"), ("b", ">f8"), ("c", "S3")])
META = {
    "telescope": "ROMAN", "instrument": {"name": "WFI", "optical_element": "F158"}, "exposure": {"exposure_time": 139.5},
    "observation": {"date_beg": "2026-01-02 03:04:05.678"}, "target": {"catalog_name": "M 51"}, "file_date": "2027-01-01",
}
IMAGES = {
    "amp33": ramp("f4", (3, 3)), "dq": ramp("u4"), "var_poisson": ramp("f2"), "data": ramp("<f4"), "err": ramp(">f8"),
    "cube": ramp("f4", (2, 5, 7)), "line": ramp("i4", (7,)),
}
SKY = WCS(fits.Header({
    "CTYPE1": "RA---TAN-SIP", "CTYPE2": "DEC--TAN-SIP", "CRPIX1": 3.5, "CRPIX2": 2.5, "CRVAL1": 10.0, "CRVAL2": -5.0,
    "CD1_1": -1e-5, "CD1_2": 1e-6, "CD2_1": 1e-6, "CD2_2": 1e-5, "A_ORDER": 2, "B_ORDER": 2, "A_2_0": 1e-3, "B_0_2": 2e-3,
}))
SKY.pixel_shape = (7, 5)
MAP = {
    "ctype1": "HPLN-TAN", "ctype2": "HPLT-TAN", "cunit1": "arcsec", "cunit2": "arcsec", "crpix1": 3.5, "crpix2": 2.5,
    "crval1": 1.5, "crval2": -2.0, "cdelt1": 0.6, "cdelt2": 0.6, "naxis1": 99, "bitpix": 16, "bscale": 3.0,
    "date-obs": "2024-01-01T00:00:00", "telescop": "SDO/AIA", "wavelnth": 171, "bad": float("nan"), "comment": "one\ntwo",
}
GENERIC_MAP = asdf.tagged.TaggedDict({"data": ramp("i2"), "meta": MAP}, "tag:sunpy.org:sunpy/map/generic_map-1.2.0")
TREES = {
    "sky": {"sci": {"data": ramp("f4"), "err": ramp("f4"), "other": ramp("f4"), "wcs": SKY}, "x": {"data": ramp("f4", (7, 5)), "wcs": SKY}},
    "shaped": {"flux": ramp("f4"), "other": ramp("f4", (7, 5)), "err": ramp("f4"), "wcs": SKY},
    "names": {"x": {"data": ramp("f4"), "sci": ramp("i2"), "Flux": ramp("f8"), "flux": ramp("u1"), "é": ramp("i4")}},
    "columns": {"halos": {"id": ramp("i8", (4,)), "x": ramp("f4", (4, 3)), "v": ramp("f4", (4, 3)) * u.Unit("km / s"), "name": np.array(["a", "b", "c", "d"])},
                "other": {"a": ramp("i2", (4,)), "b": ramp("i2", (5,))}, "image": {"data": ramp("f4"), "err": ramp("f4"), "rows": ramp("i2", (5,))},
                "time": ramp("f8", (3,)), "value": ramp("f8", (3,)), "square": ramp("f4", (3, 3)), "deep": {"square": ramp("f4", (3, 3)), "two": ramp("f4", (3, 3))}},
    "cube": {"x": {"data": ramp("f4"), "uncertainty": {"array": ramp("f8"), "name": "std"}, "wcs": SKY}},
    "sun": {"map": GENERIC_MAP},
    "l2": {"roman": {"meta": META, **IMAGES}},
    "facts": {"science": asdf.tagged.TaggedDict({"data": ramp("i2"), "meta": {**MAP, "filter": "A", "exptime": 2.5}}, "tag:sunpy.org:sunpy/map/generic_map-1.2.0"),
              "sky": asdf.tagged.TaggedDict({"data": ramp("i2"), "meta": {"exptime": 9.0, "object": "Sky", "telescop": "SDO/AIA"}}, "tag:sunpy.org:sunpy/map/generic_map-1.2.0"),
              "F1": ramp("f4"), "F2": ramp("f4"), "F1_header": {"FILTER": "F1", "EXPTIME": 3.0}, "F2_header": {"FILTER": "F2"}, "telescope": "T"},
    "flat": {"x": {"flux": ramp("f4", (5, 7)), "ivar": ramp("f4", (5, 7)), "time": ramp("f8", (5,))}},
    "rateints": {"data": ramp("f4", (5, 6, 7)), "dq": ramp("u4", (5, 6, 7)), "err": ramp("f4", (5, 6, 7)),
                 "int_times": np.zeros(5, [("integration_number", "<i4"), ("int_start_MJD_UTC", "<f8")])},
    "root": {"one": ramp("i2"), "two": ramp("u1"), "unit": ramp("f8") * u.Unit("1000 Hz"), "meta": {"date": "2026-01-01"}},
    "lone": {"data": ramp("f4"), "other": ramp("f4", (7, 5)), "steps": [ramp("f4"), ramp("f4", (7, 5))]},
    "jwst": {"meta": {"telescope": "JWST", "exposure": {"start_time": 60000.5}, "observation": {"date_beg": "2023-02-25T12:00:00.123"}},
             "data": ramp("f4"), "small": ramp("f4", (2, 2)), "also": ramp("f4", (2, 2))},
    "numbers": {"aia": {171: ramp("f4"), 193: ramp("i2")}, "steps": [ramp("f4"), ramp("u1")]},
    "foreign": {"cat": Table({"lengthÅ": [1, 2], "n" * 99: [3, 4], "who": ["Ångström", "Plößl"]})},
    "tables": {"mixed": MIXED, "cat": TABLE, "rec": RECORDS, "nested": {"cat": TABLE}, "meta": META},
}


def same(one, other):
    return one.shape == other.shape and np.array_equal(np.asarray(one, other.dtype), other)


def write(directory):
    for name, tree in TREES.items():
        asdf.AsdfFile(tree).write_to(os.path.join(directory, name + ".asdf"))


def opened(mountpoint, *path):
    place = os.path.join(mountpoint, *path)
    assert os.path.getsize(place) % 2880 == 0 and os.path.getsize(place) == len(open(place, "rb").read())
    hdus = fits.open(place, memmap=False)
    hdus.verify("exception")
    return hdus


def compare(mountpoint):
    roman = opened(mountpoint, "l2.asdf", "fits", "roman.fits")
    assert [hdu.name for hdu in roman] == ["PRIMARY", "SCI", "ERR", "DQ", "VAR_POISSON"], roman.info(False)
    for name, key in (("SCI", "data"), ("ERR", "err"), ("DQ", "dq"), ("VAR_POISSON", "var_poisson")):
        assert same(roman[name].data, IMAGES[key]) and roman[name].header["ASDFPATH"] == f"roman/{key}", name
    wanted = {"TELESCOP": "ROMAN", "INSTRUME": "WFI", "FILTER": "F158", "EXPTIME": 139.5, "TARGNAME": "M 51",
              "DATE-OBS": "2026-01-02T03:04:05.678"}
    single = opened(mountpoint, "l2.asdf", "fits", "roman", "dq.fits")
    for header in (roman[0].header, single[0].header):
        assert {key: header[key] for key in wanted} == wanted, repr(header)
    for hdu in roman[1:]:
        assert {key: hdu.header[key] for key in wanted} == wanted, repr(hdu.header)
    facts = ("TELESCOP", "FILTER", "EXPTIME", "DATE-OBS", "TARGNAME", "OBJECT")
    for path, values in {
        "science/data": ("SDO/AIA", "A", 2.5, "2024-01-01T00:00:00", None, None), "sky/data": ("SDO/AIA", None, 9.0, None, "Sky", "Sky"),
        "F1": ("T", "F1", 3.0, None, None, None), "F2": ("T", "F2", None, None, None, None),
    }.items():
        header = opened(mountpoint, "facts.asdf", "fits", path + ".fits")[0].header
        assert tuple(header.get(fact) for fact in facts) == values, (path, repr(header))
    joint = opened(mountpoint, "facts.asdf", "fits", "tree.fits")
    assert [[hdu.header.get(key) for key in facts[:3]] for hdu in joint] == [["T", None, None], ["T", "F1", 3.0], ["T", "F2", None]]
    # The images of a mapping are no columns, whatever their names are.
    assert os.listdir(os.path.join(mountpoint, "rateints.asdf", "tables")) == ["int_times.parquet"]
    assert [hdu.name for hdu in opened(mountpoint, "rateints.asdf", "fits", "tree.fits")[1:]] == ["SCI", "ERR", "DQ"]
    assert [hdu.name for hdu in opened(mountpoint, "flat.asdf", "fits", "x.fits")[1:]] == ["FLUX", "IVAR"]
    root = opened(mountpoint, "root.asdf", "fits", "tree.fits")
    assert [hdu.name for hdu in root] == ["PRIMARY", "ONE", "TWO", "UNIT"], root.info(False)
    assert root["UNIT"].header["BUNIT"] == "10**3 Hz" and "DATE-OBS" not in root[0].header, repr(root["UNIT"].header)
    assert u.Unit(root["UNIT"].header["BUNIT"], format="fits") == u.Unit("1000 Hz")
    assert "tree.fits" not in os.listdir(os.path.join(mountpoint, "lone.asdf", "fits"))
    assert "steps.fits" not in os.listdir(os.path.join(mountpoint, "lone.asdf", "fits"))
    of_tables = os.path.join(mountpoint, "tables.asdf", "fits")
    assert sorted(os.listdir(of_tables)) == ["cat.fits", "mixed.fits", "nested", "rec.fits"], os.listdir(of_tables)
    for path in (["cat.fits"], ["nested", "cat.fits"]):
        hdus = opened(of_tables, *path)
        assert hdus[0].header["TELESCOP"] == "ROMAN" and hdus[1].name == "cat" and len(hdus) == 2
        read = Table.read(os.path.join(of_tables, *path))
        assert read.colnames == TABLE.colnames and read["flux"].unit == u.Jy, read.info
        for column in TABLE.colnames:
            assert [str(value).strip() for value in np.ravel(read[column])] == [str(v) for v in np.ravel(TABLE[column])]
    mixed = Table.read(os.path.join(of_tables, "mixed.fits"))
    assert mixed.colnames == ["id", "sky.dec", "sky.ra", "time", "delta.jd1", "delta.jd2", "plain"], mixed.colnames
    assert np.array_equal(mixed["sky.dec"].quantity, MIXED["sky"].dec) and np.array_equal(mixed["plain"].quantity, MIXED["plain"])
    assert (Time([str(text).strip() for text in mixed["time"]]) == MIXED["time"]).all(), mixed["time"]
    assert (TimeDelta(mixed["delta.jd1"].quantity, mixed["delta.jd2"].quantity, format="jd") == MIXED["delta"]).all()
    jwst = opened(mountpoint, "jwst.asdf", "fits", "tree.fits")
    assert [hdu.name for hdu in jwst[1:]] == ["ALSO", "SMALL"] and jwst[0].header["DATE-OBS"] == "2023-02-25T12:00:00.123", jwst[0].header
    records = opened(of_tables, "rec.fits")[1]
    assert records.name == "rec" and [tuple(row) for row in records.data] == [(1, 2.5, "x"), (3, 4.5, "yz")]
    joint = opened(mountpoint, "sky.asdf", "fits", "sci.fits")
    single = opened(mountpoint, "sky.asdf", "fits", "sci", "err.fits")
    grid = np.array([(x, y) for x in range(7) for y in range(5)], float)
    for header in (joint["SCI"].header, joint["ERR"].header, single[0].header):
        found = WCS(header)
        assert found.sip is not None
        assert np.abs(found.all_pix2world(grid, 0) - SKY.all_pix2world(grid, 0)).max() < 1e-12
    assert "CTYPE1" not in joint["OTHER"].header
    assert "CTYPE1" not in opened(mountpoint, "sky.asdf", "fits", "x", "data.fits")[0].header
    for name, has_sky in (("flux", True), ("err", True), ("other", False)):
        assert ("CTYPE1" in opened(mountpoint, "shaped.asdf", "fits", f"{name}.fits")[0].header) == has_sky, name
    names = opened(mountpoint, "names.asdf", "fits", "x.fits")
    assert [(hdu.name, hdu.ver) for hdu in names[1:]] == [
        ("SCI", 1), ("SCI", 2), ("FLUX", 1), ("FLUX", 2), ("%C3%A9", 1)], names.info(False)
    for version, key in ((1, "Flux"), (2, "flux")):
        assert same(names["FLUX", version].data, TREES["names"]["x"][key])
    numbers = [opened(mountpoint, "numbers.asdf", "fits", name) for name in ("aia.fits", "steps.fits")]
    assert [[hdu.name for hdu in hdus[1:]] for hdus in numbers] == [["171", "193"], ["0", "1"]]
    assert same(numbers[0]["193"].data, ramp("i2"))
    foreign = Table.read(os.path.join(mountpoint, "foreign.asdf", "fits", "cat.fits"))
    assert foreign.colnames == ["length%C3%85", "n" * 68, "who"] and list(foreign["length%C3%85"]) == [1, 2], foreign.info
    assert [name.strip() for name in foreign["who"]] == ["?ngstr?m", "Pl??l"], foreign["who"]
    cube = opened(mountpoint, "cube.asdf", "fits", "x.fits")
    assert [hdu.name for hdu in cube[1:]] == ["SCI", "UNCERTAINTY"] and same(cube[2].data, ramp("f8")), cube.info(False)
    assert all("CTYPE1" in hdu.header for hdu in cube[1:])
    columns = os.path.join(mountpoint, "columns.asdf", "fits")
    assert {name for name in os.listdir(columns) if name.endswith(".fits")} == {
        "halos.fits", "image.fits", "tree.fits", "deep.fits", "time.fits", "value.fits", "square.fits"}, os.listdir(columns)
    halos = Table.read(os.path.join(columns, "halos.fits"))
    assert halos.colnames == ["id", "name", "v", "x"] and halos["v"].unit == u.Unit("km / s"), halos.info
    assert same(np.array(halos["x"]), ramp("f4", (4, 3))) and [name.strip() for name in halos["name"]] == list("abcd")
    assert sorted(os.listdir(os.path.join(columns, "halos"))) == ["id.fits", "v", "x.fits"]
    assert [hdu.name for hdu in opened(columns, "image.fits")[1:]] == ["SCI", "ERR"]
    assert Table.read(os.path.join(columns, "tree.fits")).colnames == ["square", "time", "value"]
    sun = opened(mountpoint, "sun.asdf", "fits", "map", "data.fits")[0]
    assert same(sun.data, ramp("i2")) and "BAD" not in sun.header and "BSCALE" not in sun.header, repr(sun.header)
    assert [card for card in sun.header if card in ("TELESCOP", "DATE-OBS", "CTYPE1")] == ["CTYPE1", "DATE-OBS", "TELESCOP"]
    longitude, _ = WCS(sun.header).wcs_pix2world(2.5, 1.5, 0)
    assert sun.header["WAVELNTH"] == 171 and abs(longitude - 1.5 / 3600) < 1e-12, longitude
    print("compared")


{"write": write, "compare": compare}[sys.argv[1]](sys.argv[2])
