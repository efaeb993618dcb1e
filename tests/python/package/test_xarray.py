"""The xarray engine, the codecs, the parser for VirtualiZarr."""

import os

import asdf_mount
import dask
import numcodecs
import numpy
import pytest
import xarray
from conftest import ASKED, ROOT
from dask.distributed import Client, LocalCluster
from write import ARRAYS, CODECS, IMAGE


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


def check(dataset):
    for name, expected in ARRAYS.items():
        # xarray may change the order of the bytes to that of the machine.
        assert dataset[name].dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
        numpy.testing.assert_array_equal(dataset[name].values, expected)
    numpy.testing.assert_array_equal(dataset["turned"].values, IMAGE.T)
    numpy.testing.assert_array_equal(dataset["stepped"][::-2, 3].values, IMAGE[::7, ::5][::-2, 3])
    assert dataset["masked.mask"].values.tolist() == [0, 1, 0, 1, 0, 0]
    assert dataset["stars"].values["id"].tolist() == [1, 3]


@pytest.mark.parametrize("codec", CODECS)
def test_a_group_is_a_dataset(files, codec):
    dataset = xarray.open_dataset(files / f"{codec}.asdf", engine="asdf-mount", group="roman")
    check(dataset)
    assert dataset["dq"].dims == dataset["data"].dims == ("dim2_511", "dim1_1022")
    assert dataset.attrs == {"filename": "r0000101.asdf", "telescope": "ROMAN"}
    assert [*xarray.open_dataset(files / f"{codec}.asdf", drop_variables="nope")] == ["top"]


def test_two_processes_read_a_file_on_a_server(server, cluster):
    dataset = xarray.open_dataset(f"{server}/lz4.asdf", engine="asdf-mount", group="roman", chunks={})
    assert dataset["data"].chunks is not None
    check(dataset)
    total = dataset["data"].astype("f8").sum()
    assert numpy.isclose(float(total.compute()), IMAGE.sum(dtype="f8"))


@pytest.mark.parametrize("codec", ["raw", "lz4", "zlib"])
def test_a_file_on_a_server_is_opened_with_few_requests(server, files, monkeypatch, codec):
    import asdf
    import asdf_mount.xarray

    monkeypatch.setattr(asdf_mount.xarray, "CHUNK_BYTES", 1 << 20)
    arrays = {name: numpy.tile(IMAGE, (4, 1)) + n for n, name in enumerate("abc")}
    compression = None if codec == "raw" else codec
    asdf.AsdfFile(arrays).write_to(files / f"three {codec}.asdf", all_array_compression=compression)
    ASKED.clear()
    dataset = xarray.open_dataset(f"{server}/three%20{codec}.asdf", engine="asdf-mount", chunks={})
    assert len(ASKED) <= 6, ASKED
    for name, array in arrays.items():
        # A stream of zlib has no parts, so that the array is one chunk.
        assert codec != "zlib" or dataset[name].chunks == tuple((length,) for length in array.shape)
        numpy.testing.assert_array_equal(dataset[name].values, array)


def test_chunks_end_with_the_parts_of_a_block(tmp_path):
    import asdf

    array = numpy.zeros((2700, 2700), "f4")
    asdf.AsdfFile({"a": array}).write_to(tmp_path / "x.asdf", all_array_compression="lz4")
    dataset = xarray.open_dataset(tmp_path / "x.asdf", engine="asdf-mount", chunks={})
    # A part of 4 MiB has 388.4 rows, so that the row after four parts is the 1554th.
    assert dataset["a"].chunks == ((1554, 1146), (2700,))


@pytest.mark.rare
@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_an_object_of_s3_is_a_dataset(bucket, monkeypatch, codec):
    import asdf_mount

    address, key, secret = bucket
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    options = {"endpoint": address, "region": "us-east-1"}
    name = f"s3://roman/{codec}.asdf"
    # The processes of the cluster do not have these variables.
    with dask.config.set(scheduler="threads"):
        check(xarray.open_dataset(name, engine="asdf-mount", group="roman", chunks={}, options=options))
    numpy.testing.assert_array_equal(asdf_mount.open(name, options=options).arrays["roman/data"], IMAGE)
    lines = asdf_mount.catalog("s3://roman/", options=options)
    assert f"s3://roman/{codec}.asdf" in [line["uri"] for line in lines]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(asdf_mount.AsdfMountError, match="403"):
        xarray.open_dataset(name, engine="asdf-mount", group="roman", options=options)


def test_a_night_is_one_dataset(files, cluster):
    night = sorted(files.glob("night*.asdf"))
    dataset = xarray.open_mfdataset(night, engine="asdf-mount", group="roman", combine="nested", concat_dim="file")
    assert dataset["data"].shape == (3, *IMAGE.shape)
    numpy.testing.assert_array_equal(dataset["data"].isel(file=2).values, IMAGE + numpy.float32(2))


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_any_part_of_an_array_is_read(files, monkeypatch, codec):
    import asdf_mount.xarray

    monkeypatch.setattr(asdf_mount.xarray, "CHUNK_BYTES", 100_000)
    dataset = xarray.open_dataset(files / f"{codec}.asdf", engine="asdf-mount", group="roman", chunks={})
    # Parts of 100 000 bytes end in the 25th and in the 49th row.
    assert codec == "raw" or dataset["data"].chunks[0][:3] == (25, 24, 25)
    check(dataset)
    dataset = xarray.open_dataset(files / f"{codec}.asdf", engine="asdf-mount", group="roman", cache=False)
    keys = [numpy.s_[2], numpy.s_[::-1], numpy.s_[1:5:3, 2], numpy.s_[4:1:-2, ::-1], numpy.s_[3:3], numpy.s_[[4, 1]]]
    for key in [*keys, numpy.s_[-1, -2, -3], numpy.s_[..., 7], numpy.s_[1:3, 5:2:-1, ::9]]:
        numpy.testing.assert_array_equal(dataset["cube"][key].values, ARRAYS["cube"][key])
    numpy.testing.assert_array_equal(dataset["turned"][5:900:7, 3].values, IMAGE.T[5:900:7, 3])
    assert dataset["line"].values.flags.writeable


def test_a_trajectory_is_a_dataset():
    trajectory = ROOT / "examples/trajectory.gsd"
    dataset = xarray.open_dataset(trajectory, engine="asdf-mount", group="particles", chunks={})
    assert dataset["position"].dims == ("frame_10", "dim2_12", "dim1_3")
    expected = asdf_mount.open(trajectory).arrays["frames/7/particles/position"]
    numpy.testing.assert_array_equal(dataset["position"][7].values, expected)
    assert {"/log/energy"} <= {*xarray.open_groups(trajectory, engine="asdf-mount")}


def test_a_time_of_seconds_stays_a_number(tmp_path):
    import asdf
    from astropy import units

    asdf.AsdfFile({"t": numpy.arange(3.0) * units.s}).write_to(tmp_path / "x.asdf", all_array_storage="internal")
    dataset = xarray.open_dataset(tmp_path / "x.asdf", engine="asdf-mount")
    assert dataset["t"].dtype == "f8" and dataset["t"].attrs == {"units": "s"}


def test_names_that_zarr_escapes_are_one_variable(tmp_path):
    import asdf

    names = ["a*", ".hidden", "back\\slash", "zarr.json", "br[1]", "%41", "ü"]
    tree = {"g": {name: numpy.arange(n, n + 2) for n, name in enumerate(names)}}
    asdf.AsdfFile(tree).write_to(tmp_path / "x.asdf", all_array_storage="internal")
    dataset = xarray.open_dataset(tmp_path / "x.asdf", engine="asdf-mount", group="g")
    assert sorted(dataset[name].values[0] for name in dataset) == [*range(len(names))]


def test_a_file_that_changes_is_an_error(files, tmp_path):
    import shutil

    for codec in ["raw", "zlib"]:
        shutil.copy(files / f"{codec}.asdf", tmp_path / "x.asdf")
        dataset = xarray.open_dataset(tmp_path / "x.asdf", engine="asdf-mount", group="roman", chunks={})
        shutil.copy(files / "night0.asdf", tmp_path / "x.asdf")
        with pytest.raises(OSError, match="has changed"):
            dataset["data"].compute(scheduler="synchronous")


def test_groups_units_and_columns(tmp_path):
    import asdf
    from astropy import units
    from astropy.table import QTable

    table = QTable({"flux": [1.0, 2.0] * units.Jy, "id": [7, 8]})
    tree = {"a": {"speed": numpy.arange(40.0).reshape(5, 8) * units.m / units.s, "table": table}, "deep": {"er": {"x": numpy.arange(9)}}}
    asdf.AsdfFile(tree).write_to(tmp_path / "units.asdf", all_array_storage="internal")
    dataset = xarray.open_dataset(tmp_path / "units.asdf", group="a")
    assert dataset["speed"].attrs["units"] == "m.s**-1" and dataset["speed"].shape == (5, 8)
    columns = xarray.open_dataset(tmp_path / "units.asdf", group="a/table")
    assert columns["flux"].attrs["units"] == "Jy" and columns["id"].values.tolist() == [7, 8]
    groups = xarray.open_datatree(tmp_path / "units.asdf", engine="asdf-mount")
    assert groups["/deep/er"]["x"].values.tolist() == list(range(9))
    with pytest.raises(OSError, match="no arrays in nope; groups with arrays: a, a/table, deep/er"):
        xarray.open_dataset(tmp_path / "units.asdf", group="nope")


def test_the_codecs_are_found_by_numcodecs(files):
    import asdf_mount

    for codec, block_type in [("asdf-lz4", "lz4"), ("asdf-blsc", "blsc")]:
        decoder = numcodecs.get_codec({"id": codec})
        block = asdf_mount.open(files / f"{block_type}.asdf").info()["blocks"][0]
        start = block["offset"] + 6 + block["header_size"] if "header_size" in block else 0
        stored = (files / f"{block_type}.asdf").read_bytes()[start : start + block["used_size"]]
        decoded = bytes(decoder.decode(stored))
        assert len(decoded) == block["data_size"]
        assert bytes(decoder.decode(decoder.encode(decoded))) == decoded
        out = numpy.empty(len(decoded), "u1")
        decoder.decode(stored, out)
        assert out.tobytes() == decoded
        for damaged in [stored[:-1], stored[:2], stored[:20], stored + b"\0", bytes(5), b"\xff" * 50]:
            with pytest.raises((ValueError, RuntimeError)):
                decoder.decode(damaged)
    # The framing of abacusutils.
    parts = [numcodecs.Blosc().encode(bytes([n]) * 1000) for n in range(3)]
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    decoder = numcodecs.get_codec({"id": "asdf-blsc"})
    assert decoder.decode(framed) == b"".join(bytes([n]) * 1000 for n in range(3))
    # A buffer that is shorter than it says, of which numcodecs would read bytes beyond its end.
    short = numcodecs.Blosc().encode(bytes(1000))[:-1]
    for damaged in [short, len(short).to_bytes(4, "big") + short]:
        with pytest.raises(ValueError, match="cut off"):
            decoder.decode(damaged)


def test_whole_blocks_are_chunks_of_zarr(files):
    import zarr

    import asdf_mount

    for version in [2, 3]:
        codecs = {2: numcodecs.get_codec({"id": "asdf-lz4"}), 3: {"name": "numcodecs.asdf-lz4", "configuration": {}}}
        options = {"compressors": [codecs[version]]}
        array = zarr.create_array({}, shape=(50, 60), chunks=(50, 60), dtype="i4", zarr_format=version, **options)
        array[...] = numpy.arange(3000).reshape(50, 60)
        assert (array[...] == numpy.arange(3000).reshape(50, 60)).all()
    assert asdf_mount.__version__


def test_chunks_that_were_never_written_have_the_fill_value():
    import zarr
    from asdf_mount.virtualizarr import AsdfParser
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    source = ROOT / "tests/fixtures/chunked/zarr.asdf"
    arrays = asdf_mount.open(source).arrays
    others = [name for name in arrays if name != "filled"]
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    store = AsdfParser(skip_variables=others)(f"file://{source}", registry)
    filled = zarr.open_group(store, mode="r", zarr_format=3)["filled"][...]
    assert (filled[:2] == 7).all() and (filled[2:4].ravel() == range(12, 24)).all() and (filled[4:] == 7).all()
    assert (filled == arrays["filled"]).all()


def test_masked_elements_are_missing(tmp_path):
    import asdf

    mask = [[False, True, False], [True, False, False]]
    floats = numpy.ma.masked_array(numpy.arange(6, dtype="f4").reshape(2, 3), mask)
    integers = numpy.ma.masked_array(numpy.arange(6, dtype="u2").reshape(2, 3), mask)
    asdf.AsdfFile({"floats": floats, "integers": integers, "plain": numpy.arange(6)}).write_to(tmp_path / "a.asdf")
    dataset = xarray.open_dataset(tmp_path / "a.asdf", engine="asdf-mount")
    assert dataset["floats"].dtype == "f4" and dataset["integers"].dtype == "u2"
    numpy.testing.assert_array_equal(dataset["floats"].values, floats.filled(numpy.nan))
    assert float(dataset["floats"].mean()) == floats.mean()
    numpy.testing.assert_array_equal(dataset["floats"][1, ::-1].values, floats.filled(numpy.nan)[1, ::-1])
    assert numpy.isnan(dataset["floats"][0, 1].values)
    numpy.testing.assert_array_equal(dataset["integers"].values, integers.filled(65535))
    assert dataset["integers"].attrs["_FillValue"] == 65535 and "_FillValue" not in dataset["plain"].attrs
    numpy.testing.assert_array_equal(xarray.decode_cf(dataset)["integers"].values, integers.astype("f8").filled(numpy.nan))


def test_closing_a_dataset_closes_its_file(files):
    path = files / "lz4.asdf"
    with xarray.open_dataset(path, engine="asdf-mount", group="roman") as dataset:
        loaded = dataset["data"].load()
    numpy.testing.assert_array_equal(loaded, IMAGE)
    tree = xarray.open_datatree(path, engine="asdf-mount")
    tree.close()
    for closed in [dataset["cube"], tree["roman/data"]]:
        with pytest.raises(ValueError, match="the file is closed"):
            closed.values  # noqa: B018


def test_messages_show_no_login(server):
    address = server.replace("http://", "http://me:secret@")
    with pytest.raises(asdf_mount.AsdfMountError, match="has no arrays in nope") as missing:
        xarray.open_dataset(f"{address}/lz4.asdf?sig=secret", engine="asdf-mount", group="nope")
    assert "secret" not in str(missing.value)


def test_numbers_that_mean_no_value_in_fits_are_missing():
    dataset = xarray.open_dataset(ROOT / "tests/fixtures/fits/nulls.fits", engine="asdf-mount")
    for name in ("i2", "scaled"):
        assert numpy.isnan(dataset[name].values).sum() == 3
    assert numpy.isnan(xarray.decode_cf(dataset[["u2"]])["u2"].values).sum() == 3
