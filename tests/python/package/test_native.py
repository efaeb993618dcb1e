"""The native module: parts of arrays against numpy, versions, processes, signals."""

import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading

import asdf
import asdf_mount
import numpy
import pytest
from conftest import ROOT
from write import ARRAYS, CODECS, IMAGE

#: Slices of each array that are compared with numpy's.
SLICES = int(os.environ.get("ASDF_MOUNT_SLICES", "150"))


def random_key(chance, shape):
    """Return a key of basic indexing: integers, slices, an ellipsis, new axes."""
    key = []
    for length in shape[: chance.randint(0, len(shape))]:
        if length and chance.random() < 0.3:
            key.append(chance.choice([int, numpy.int32, numpy.uint64])(chance.randrange(length)))
            if chance.random() < 0.3:
                key[-1] = chance.randrange(-length, length)
        else:
            ends = [chance.choice([None, chance.randint(-length - 2, length + 2)]) for _ in range(2)]
            key.append(slice(*ends, chance.choice([None, 1, 2, 3, 7, -1, -2, -5, length + 1])))
    if chance.random() < 0.3:
        at = chance.randint(0, len(key))
        key[at:at] = [Ellipsis]
        if at < len(key) - 1:
            # What follows an ellipsis counts from the end.
            del key[at + 1 :]
            key += [slice(None, None, chance.choice([1, -1, 2]))] * chance.randint(0, len(shape) - at)
    if chance.random() < 0.2:
        key.insert(chance.randint(0, len(key)), None)
    return key[0] if len(key) == 1 and chance.random() < 0.5 else tuple(key)


def compare(array, expected, seed):
    chance = random.Random(seed)
    for _ in range(SLICES):
        key = random_key(chance, expected.shape)
        found, wanted = array[key], expected[key]
        assert type(found) is type(wanted) or isinstance(found, numpy.memmap), key
        assert found.shape == wanted.shape and found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("="), key
        assert found.astype(wanted.dtype).tobytes() == wanted.tobytes(), key
    for wrong in [(0,) * (expected.ndim + 1), (expected.shape + (0,))[0], "nope", 1.5, (..., ...)]:
        with pytest.raises(Exception) as ours:
            array[wrong]
        with pytest.raises(type(ours.value)):
            expected[wrong]


@pytest.mark.parametrize("codec", CODECS)
def test_any_part_is_that_of_numpy(files, codec):
    arrays = asdf_mount.open(files / f"{codec}.asdf").arrays
    expected = {**ARRAYS, "turned": IMAGE.T, "stepped": IMAGE[::7, ::5]}
    for seed, (name, values) in enumerate(expected.items()):
        compare(arrays[f"roman/{name}"], values, seed)


def test_any_part_of_other_formats_is_that_of_numpy():
    cube = numpy.arange(7 * 11 * 13).reshape(7, 11, 13).astype(">i2")
    compare(asdf_mount.open(ROOT / "tests/fixtures/blosc2/cube.b2nd").arrays["data"], cube, 1)
    for source in ["examples/trajectory.gsd", "tests/fixtures/chunked/zarr.asdf", "tests/fixtures/fits/nulls.fits"]:
        file = asdf_mount.open(ROOT / source)
        assert len(file.arrays) > 1
        for path, array in file.arrays.items():
            compare(array, numpy.array(array[...]), path)


def test_an_array_is_used_like_one_of_numpy(files):
    array = asdf_mount.open(files / "lz4.asdf").arrays["roman/data"]
    assert array.max() == IMAGE.max() and len(array) == 511 and array.ndim == 2 and array.size == IMAGE.size
    numpy.testing.assert_array_equal(array + 1, IMAGE + 1)
    numpy.testing.assert_array_equal(2 * array, 2 * IMAGE)
    numpy.testing.assert_array_equal(numpy.asarray(array, "f8"), IMAGE)
    numpy.testing.assert_array_equal(array[[3, 1], :5], IMAGE[[3, 1], :5])
    numpy.testing.assert_array_equal(array[array[:, 0] > 1], IMAGE[IMAGE[:, 0] > 1])
    numpy.testing.assert_array_equal(numpy.stack([*array]), IMAGE)
    part = array[:2]
    part[0, 0] = 7
    assert array[0, 0] == IMAGE[0, 0]


def test_a_replaced_file_is_an_error_and_never_a_mixture(files, tmp_path):
    for codec in CODECS:
        path = tmp_path / f"{codec}.asdf"
        path.write_bytes((files / f"{codec}.asdf").read_bytes())
        file = asdf_mount.open(path)
        array = file.arrays["roman/data"]
        numpy.testing.assert_array_equal(array[:3], IMAGE[:3])
        (tmp_path / "other").write_bytes((files / "night1.asdf").read_bytes())
        os.replace(tmp_path / "other", path)
        copy = pickle.dumps(file)
        # The file that is open is as it was; with a map, too.
        numpy.testing.assert_array_equal(array[...], IMAGE)
        with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
            pickle.loads(copy)
        path.write_bytes((files / f"{codec}.asdf").read_bytes())
        file = asdf_mount.open(path)
        array = file.arrays["roman/data"]
        path.write_bytes((files / "night2.asdf").read_bytes())
        with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
            array[400:]


def test_pickles_carry_source_options_and_version(files):
    file = asdf_mount.open(files / "zlib.asdf", options={"cache": "32M"})
    array = pickle.loads(pickle.dumps(file.arrays["roman/cube"]))
    assert array.file.options == "cache=32M" and array.file.source == file.source
    numpy.testing.assert_array_equal(array[...], ARRAYS["cube"])


def test_a_forked_process_starts_anew(files):
    """Threads decode meanwhile, and hold locks of the parent at the moment of the fork."""
    code = """
        import os, sys, threading
        import numpy, asdf_mount
        files = [asdf_mount.open(path) for path in sys.argv[1:]]
        arrays = [file.arrays["roman/data"] for file in files]
        expected = numpy.array(arrays[0][...])
        stop = threading.Event()
        def read():
            while not stop.is_set():
                for array in arrays:
                    asdf_mount.open(array.file.source, options={"cache": "16M"}).arrays["roman/data"][::3, 5]
                    array[...]
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n in range(30):
            child = os.fork()
            if child == 0:
                right = all(numpy.array_equal(array[...], expected) for array in arrays)
                right &= numpy.array_equal(asdf_mount.open(files[1].source).arrays["roman/data"][...], expected)
                os._exit(0 if right else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        print("all")
    """
    sources = [str(files / f"{codec}.asdf") for codec in CODECS]
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *sources], capture_output=True, text=True, timeout=300)
    assert child.stdout == "all\n", child.stderr


def test_ctrl_c_ends_a_long_read(tmp_path):
    code = """
        import signal, sys
        import asdf_mount
        # A shell starts programs in the background with the signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        array = asdf_mount.open(sys.argv[1], options={"index-cache": "off", "cache": "16M"}).arrays["a"]
        try:
            print("ready", flush=True)
            while True:
                array[-1]
                array[...]
        except KeyboardInterrupt:
            print("interrupted", array[0])
    """
    asdf.AsdfFile({"a": numpy.ones(1 << 28, "u1")}).write_to(tmp_path / "x.asdf", all_array_compression="zlib")
    command = [sys.executable, "-c", textwrap.dedent(code), tmp_path / "x.asdf"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout.readline() == "ready\n"
            program.send_signal(signal.SIGINT)
            assert program.communicate(timeout=100)[0] == "interrupted 1\n"
        finally:
            program.kill()


def test_a_save_is_that_of_a_mount(tmp_path):
    (tmp_path / "a.asdf").write_bytes((ROOT / "examples/sample.asdf").read_bytes())
    file = asdf_mount.open(tmp_path / "a.asdf")
    before = file.arrays["image"]
    other = asdf_mount.open(tmp_path / "a.asdf")
    file.set_tree(file.text.replace("filter: V", "filter: B"))
    assert "filter: B" in file.text and file.arrays["image"].max() == 3208
    with pytest.raises(asdf_mount.AsdfMountError):
        before[:]
    with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
        other.set_tree(other.text.replace("filter: V", "filter: R"))
    with pytest.raises(asdf_mount.AsdfMountError) as refused:
        file.set_tree("a: [")
    assert refused.value.errno == 22 and "filter: B" in asdf_mount.open(tmp_path / "a.asdf").text


def test_blocks_and_defects(files, tmp_path):
    file = asdf_mount.open(files / "lz4.asdf")
    blocks = file.blocks
    assert blocks[0].facts["compression"] == "lz4" and len(blocks) == len([*blocks]) and blocks[-1].number == len(blocks) - 1
    sizes = [len(block) for block in blocks]
    assert IMAGE.nbytes in sizes and file.check() == []
    image = blocks[sizes.index(IMAGE.nbytes)]
    whole = image.read(0, 1 << 40).tobytes()
    assert whole in (IMAGE.tobytes(), ARRAYS["dq"].tobytes()) and image.read(1000, 24).tobytes() == whole[1000:1024]
    assert image.read(len(whole), 5).size == image.read(1 << 62, 5).size == 0
    with pytest.raises(IndexError):
        blocks[len(blocks)]
    data = bytearray((files / "lz4.asdf").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "x.asdf").write_bytes(data)
    assert {defect.severity for defect in asdf_mount.open(tmp_path / "x.asdf").check()} == {"damage"}


def test_keys_are_set_and_found(tmp_path):
    (tmp_path / "a.asdf").write_bytes((ROOT / "examples/sample.asdf").read_bytes())
    file = asdf_mount.open(tmp_path / "a.asdf")
    before = file.text
    [(path, value)] = file.search("filter: V")
    file.set({path: "yes", "object.name": "M 31 \u20ac"})
    assert file.tree["object"]["name"] == "M 31 \u20ac" and file.search("^YES$", ignore_case=True) == [(path, "yes")]
    assert len({*before.splitlines()} - {*file.text.splitlines()}) == 1
    with asdf.open(tmp_path / "a.asdf") as opened:
        assert opened["object"]["name"] == "M 31 \u20ac"
    for wrong, errno in [({"nope.x": 1}, 2), ({"object": 1}, 22), ({"": 1}, 22)]:
        with pytest.raises(asdf_mount.AsdfMountError) as refused:
            file.set(wrong)
        assert refused.value.errno == errno
    file.set({"new": [1, {"a": None}]}, create=True)
    assert file.tree["new"] == [1, {"a": None}]
    with pytest.raises(ValueError):
        file.set({"object.name": float("nan")})
    with pytest.raises(asdf_mount.AsdfMountError, match="regex"):
        file.search("(")


def test_a_catalogue_can_be_left_and_its_file_is_the_held_one(files, tmp_path):
    before = threading.active_count()
    for _ in range(20):
        for line in asdf_mount.catalog([files] * 50):
            assert "uri" in line
            break
    assert threading.active_count() == before
    path = tmp_path / "a.asdf"
    path.write_bytes((files / "lz4.asdf").read_bytes())
    file = asdf_mount.open(path)
    info = file.info()
    [line] = asdf_mount.catalog(path)
    assert info == {key: value for key, value in line.items() if key != "tree"}
    path.rename(tmp_path / "b.asdf")
    path.write_bytes((files / "raw.asdf").read_bytes())
    assert file.info()["blocks"][0]["compression"] == "lz4"
    assert asdf_mount.open(path).info()["blocks"][0].get("compression") != "lz4"


def test_nothing_is_written_to_a_temporary_file(files):
    code = """
        import resource, sys
        import numpy, asdf_mount
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        for path in sys.argv[1:]:
            print(asdf_mount.open(path, options={"index-cache": "off"}).arrays["roman/data"][...].shape)
    """
    sources = [str(files / f"{codec}.asdf") for codec in CODECS]
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *sources], capture_output=True, text=True, timeout=100)
    assert run.stdout == "(511, 1022)\n" * len(CODECS), run.stderr


@pytest.mark.parametrize("reads", range(3))
@pytest.mark.parametrize("codec", ["raw", "zlib", "lz4"])
def test_an_object_that_changes_is_an_error_and_never_a_mixture(files, server, codec, reads):
    """The server's ETag is the length of the file."""
    path = files / f"changing-{codec}-{reads}.asdf"
    path.write_bytes((files / f"{codec}.asdf").read_bytes())
    array = asdf_mount.open(f"{server}/{path.name}").arrays["roman/data"]
    for n in range(reads):
        numpy.testing.assert_array_equal(array[200 * n], IMAGE[200 * n])
    copy = pickle.dumps(array)
    path.write_bytes((files / "night1.asdf").read_bytes())
    # What was read already may come from the cache.
    with pytest.raises(asdf_mount.AsdfMountError):
        for row in range(511):
            numpy.testing.assert_array_equal(array[row], IMAGE[row])
    with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
        pickle.loads(copy)
    path.unlink()


def test_an_address_is_never_a_local_file(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:/127.0.0.1:9").mkdir(parents=True)
    (tmp_path / "http:/127.0.0.1:9/a.asdf").write_bytes((files / "raw.asdf").read_bytes())
    with pytest.raises(asdf_mount.AsdfMountError, match="127.0.0.1:9"):
        asdf_mount.open("http://127.0.0.1:9/a.asdf", options={"read-timeout": 1})
    [line] = asdf_mount.catalog("http://127.0.0.1:9/a.asdf", options={"read-timeout": 1})
    assert "error" in line
    assert asdf_mount.open("./http://127.0.0.1:9/a.asdf").format == "asdf"
    (tmp_path / "a%41.asdf").write_bytes((files / "raw.asdf").read_bytes())
    assert asdf_mount.open(f"file://{tmp_path}/a%2541.asdf").format == "asdf"
    monkeypatch.chdir("/")
    with pytest.raises(asdf_mount.AsdfMountError, match="scheme|kind of address"):
        asdf_mount.open("ftp://h/a.asdf")


def test_an_array_that_does_not_fit_in_memory_is_an_error(tmp_path):
    """A stride of 0 repeats one element 2**50 times."""
    head = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    array = "!core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: little, shape: [1125899906842624], strides: [0]}"
    block = b"\xd3BLK" + (48).to_bytes(2, "big") + bytes(8) + 3 * (9).to_bytes(8, "big") + bytes(16) + bytes(range(9))
    empty = "!core/ndarray-1.0.0 {source: 0, datatype: [ucs4, 0], byteorder: little, shape: [3]}"
    (tmp_path / "x.asdf").write_bytes(f"{head}a: {array}\nempty: {empty}\n...\n".encode() + block)
    file = asdf_mount.open(tmp_path / "x.asdf")
    with pytest.raises(MemoryError):
        file.arrays["a"][...]
    assert file.arrays["a"][5:8].tolist() == [0, 0, 0] and file.arrays["a"].chunks == (16 << 20,)
    assert file.arrays["empty"][...].tolist() == ["", "", ""]
