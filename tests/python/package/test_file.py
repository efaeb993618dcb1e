"""mount(), open(), catalog()."""

import contextlib
import functools
import http.server
import json
import os
import subprocess
import threading
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
    array = asdf_mount.open(files / "raw.asdf").arrays["roman/data"][...]
    assert isinstance(array, numpy.memmap) and Path(array.filename) == files / "raw.asdf"
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        asdf_mount.open(files / "zlib.asdf").arrays["roman/data"].sort()


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
    assert all(array.size for array in frames.arrays.values())
    # Chunks of Blosc2, which have no references.
    cube = asdf_mount.open(ROOT / "tests/fixtures/blosc2/cube.b2nd").arrays["data"]
    assert cube.dtype == ">i2" and numpy.array_equal(cube, numpy.arange(7 * 11 * 13).reshape(7, 11, 13))


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


def test_a_login_is_in_no_command_line(server, tmp_path, monkeypatch):
    commands = []
    started = subprocess.run

    def note(command, **options):
        commands.append(command)
        return started(command, **options)

    monkeypatch.setattr(subprocess, "run", note)
    address = server.replace("http://", "http://me:secret@")
    with asdf_mount.mount(f"{address}/lz4.asdf?sig=secret", tmp_path / "x") as path:
        numpy.testing.assert_array_equal(numpy.load(path / "arrays/roman/data.npy"), IMAGE)
    assert len(commands) == 2 and "secret" not in str(commands)
    file = asdf_mount.open(f"{address}/lz4.asdf?sig=secret")
    assert "secret" not in repr(file) and numpy.array_equal(file.arrays["roman/data"], IMAGE)


def test_the_login_of_a_servers_root_is_shown_nowhere(files, monkeypatch):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=files)
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{served.server_port}/"
        with asdf_mount.mount(f"http://me:secret@{address}") as path:
            shown = [Path("/proc/self/mounts").read_bytes(), str(path).encode()]
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    shown.append((process / "cmdline").read_bytes())
            assert os.path.ismount(path) and any(f"http://{address}".encode() in text for text in shown)
        served.shutdown()
    assert not any(b"secret" in text for text in shown)


def test_options_with_a_login_start_no_process(files, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    for options in [{"endpoint": "http://me:secret@h"}, "endpoint=http://h/?secret"]:
        with pytest.raises(asdf_mount.AsdfMountError, match="endpoint") as refused, asdf_mount.mount(files, options=options):
            pass
        assert "secret" not in str(refused.value) and refused.value.errno == 22


def test_arrays_of_every_kind_are_read(tmp_path):
    import asdf

    arrays = {
        "empty": numpy.zeros((0, 3), "f4"),
        "scalar": numpy.array(7, "i2"),
        "big": numpy.arange(6, dtype=">f8").reshape(2, 3),
        "text": numpy.array(["a", "\u20ac"]),
        "bytes": numpy.array([b"abc", b"d"]),
        "bools": numpy.array([True, False]),
        "complex": numpy.array([1 + 2j]),
        "half": numpy.arange(3, dtype="f2"),
        "fields": numpy.array([(1, 2.5)], [("a b", "<i4"), ("x", ">f8")]),
        "strided": numpy.arange(100.0).reshape(10, 10)[::3, 1::4],
        "reversed": numpy.arange(10)[::-1],
        "fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        "wide": numpy.zeros(1, [(f"column{n}", "f4") for n in range(4000)]),
        "a[1]": numpy.arange(3),
        "*": numpy.arange(4),
    }
    for storage in ["internal", "inline"]:
        if storage == "inline":
            arrays = {name: array for name, array in arrays.items() if name not in ("fields", "wide", "empty", "scalar")}
        path = tmp_path / f"{storage}.asdf"
        asdf.AsdfFile({"all": arrays}).write_to(path, all_array_storage=storage)
        file = asdf_mount.open(path)
        assert {*file.arrays} >= {f"all/{name}" for name in arrays}
        for name, expected in arrays.items():
            found = file.arrays[f"all/{name}"]
            assert found.shape == expected.shape and found.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
            assert not found.flags.writeable
            numpy.testing.assert_array_equal(found, expected)
        for missing in ["all/a?", "all/[a-z]*", "all/", "", "../tree"]:
            with pytest.raises(KeyError):
                file.arrays[missing]


def test_many_arrays_keep_one_file_open(tmp_path):
    import asdf

    tree = {f"a{n}": numpy.full(3, n) for n in range(50)}
    asdf.AsdfFile(tree).write_to(tmp_path / "x.asdf", all_array_storage="internal")
    arrays = dict(asdf_mount.open(tmp_path / "x.asdf").arrays)
    first = arrays["a0"][...]
    before = len(os.listdir("/proc/self/fd"))
    all_of_them = [array[...] for array in arrays.values()]
    assert len(os.listdir("/proc/self/fd")) == before and {part[0] for part in all_of_them} == {*range(50)} and first[0] == 0


def test_damage_and_changes_are_errors(files, tmp_path):
    whole = (files / "raw.asdf").read_bytes()
    (tmp_path / "cut.asdf").write_bytes(whole[: len(whole) // 2])
    file = asdf_mount.open(tmp_path / "cut.asdf")
    failed = 0
    for path in file.arrays:
        try:
            file.arrays[path][...]
        except asdf_mount.AsdfMountError:
            failed += 1
    assert 0 < failed < len(file.arrays)
    file = asdf_mount.open(tmp_path / "cut.asdf")
    (tmp_path / "cut.asdf").write_bytes(whole)
    with pytest.raises(asdf_mount.AsdfMountError, match="has changed"):
        file.arrays["top"][...]
    for name in ["", "a\0b"]:
        with pytest.raises(ValueError, match="not the name of a file"):
            asdf_mount.open(name)


def test_an_interrupted_start_leaves_nothing(files, tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started = subprocess.run

    def interrupt(command, **options):
        ended = started(command, **options)
        if "-u" not in command:
            raise KeyboardInterrupt
        return ended

    monkeypatch.setattr(subprocess, "run", interrupt)
    with pytest.raises(KeyboardInterrupt), asdf_mount.mount(files / "raw.asdf"):
        pass
    assert os.listdir(tmp_path) == [] and str(tmp_path) not in Path("/proc/self/mounts").read_text()
    # A mount of somebody else stays.
    monkeypatch.undo()
    with asdf_mount.mount(files / "raw.asdf", tmp_path / "here", read_only=True) as path:
        with pytest.raises(asdf_mount.AsdfMountError, match="already mounted"), asdf_mount.mount(files / "zlib.asdf", path):
            pass
        assert os.path.ismount(path)


def test_a_map_outlives_its_mount(files):
    with asdf_mount.mount(files / "zlib.asdf", read_only=True) as path:
        array = numpy.load(path / "arrays/roman/data.npy", mmap_mode="r")
    assert not os.path.ismount(path)
    numpy.testing.assert_array_equal(array, IMAGE)


def test_the_module_runs_the_program():
    import sys

    run = subprocess.run([sys.executable, "-m", "asdf_mount", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("asdf-mount ")
