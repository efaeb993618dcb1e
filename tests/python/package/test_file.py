"""mount(), open(), catalog()."""

import json
import os
import subprocess
from pathlib import Path

import asdf_mount
import numpy
import pytest
from conftest import ROOT
from write import ARRAYS, CODECS, IMAGE


@pytest.mark.parametrize("codec", CODECS)
def test_arrays_of_each_codec_are_equal(files, codec):
    with asdf_mount.open(files / f"{codec}.asdf") as file:
        assert file.tree["roman"]["meta"]["telescope"] == "ROMAN"
        for name, expected in ARRAYS.items():
            array = file.arrays[f"roman/{name}"]
            assert array.dtype == expected.dtype and not array.flags.writeable
            numpy.testing.assert_array_equal(array, expected)
        numpy.testing.assert_array_equal(file.arrays["roman/turned"], IMAGE.T)
        numpy.testing.assert_array_equal(file.arrays["roman/stepped"], IMAGE[::7, ::5])
        assert file.arrays["roman/stars"]["x"].tolist() == [2.5, 4.5]
        assert file.arrays["roman/masked.mask"].tolist() == [0, 1, 0, 1, 0, 0]


def test_a_stored_array_is_a_map_of_the_source(files):
    array = asdf_mount.open(files / "raw.asdf").arrays["roman/data"]
    assert isinstance(array, numpy.memmap) and Path(array.filename) == files / "raw.asdf"
    decoded = asdf_mount.open(files / "zlib.asdf").arrays
    assert decoded["roman/data"] is not None and isinstance(decoded["roman/data"], numpy.memmap)
    first = decoded["roman/data"]
    assert decoded["roman/data"] is first


def test_arrays_is_a_mapping(files):
    arrays = asdf_mount.open(str(files / "raw.asdf")).arrays
    assert {"roman/data", "top"} <= set(arrays) and len(arrays) == len(list(arrays)) and "nope" not in arrays
    with pytest.raises(KeyError, match="nope"):
        arrays["nope"]


def test_other_formats_are_read():
    frames = asdf_mount.open(ROOT / "examples/trajectory.gsd")
    assert frames.info()["format"] == "gsd" and frames.tree["frames"] == 10
    assert frames.arrays["series/particles/position"].shape[0] == 10
    assert frames.arrays["frames/1/particles/position"].shape == (12, 3)


def test_info_and_errors(files, tmp_path):
    info = asdf_mount.open(files / "lz4.asdf").info()
    assert info["format"] == "asdf" and info["blocks"][0]["compression"] == "lz4" and "tree" not in info
    with pytest.raises(asdf_mount.AsdfMountError, match="^[^:]*: no such file"):
        asdf_mount.open(tmp_path / "missing.asdf")
    with pytest.raises(asdf_mount.AsdfMountError, match="is a directory"):
        asdf_mount.open(tmp_path)


def test_a_catalogue_has_a_dict_for_each_file(files, tmp_path):
    (tmp_path / "broken.asdf").write_text("404 Not Found")
    lines = list(asdf_mount.catalog([files, tmp_path / "broken.asdf"]))
    sound = [line for line in lines if "error" not in line]
    assert len(lines) == len(CODECS) + 4 and [set(line) for line in lines if line not in sound] == [{"uri", "error"}]
    (tmp_path / "older.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(asdf_mount.catalog(files, since=tmp_path / "older.jsonl")) == sound
    # One that is not read to its end leaves no process.
    for line in asdf_mount.catalog(files):
        break
    with pytest.raises(asdf_mount.AsdfMountError):
        list(asdf_mount.catalog(files, since=tmp_path / "missing.jsonl"))


def test_a_mount_lasts_as_long_as_its_context(files, tmp_path):
    with asdf_mount.mount(files / "zlib.asdf", read_only=True) as path:
        assert os.path.ismount(path) and path.name == "zlib"
        numpy.testing.assert_array_equal(numpy.load(path / "arrays/roman/data.npy"), IMAGE)
        with pytest.raises(OSError):
            (path / "tree.yaml").write_text("")
    assert not path.exists() and not path.parent.exists()
    with asdf_mount.mount(files, tmp_path / "here", options={"views": "arrays,none", "cache": "64M"}) as path:
        assert path == tmp_path / "here" and (path / "lz4.asdf/arrays").is_dir()
        assert not (path / "lz4.asdf/fits").exists()
    assert not path.exists()
    with pytest.raises(ZeroDivisionError), asdf_mount.mount(files / "raw.asdf", read_only=True) as path:
        1 / 0
    assert not path.exists()
    with pytest.raises(asdf_mount.AsdfMountError, match="no such file"), asdf_mount.mount(tmp_path / "missing.asdf"):
        pass


def test_a_map_outlives_its_mount(files):
    with asdf_mount.mount(files / "zlib.asdf", read_only=True) as path:
        array = numpy.load(path / "arrays/roman/data.npy", mmap_mode="r")
    assert not os.path.ismount(path)
    numpy.testing.assert_array_equal(array, IMAGE)


def test_the_module_runs_the_program():
    import sys

    run = subprocess.run([sys.executable, "-m", "asdf_mount", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("asdf-mount ")
