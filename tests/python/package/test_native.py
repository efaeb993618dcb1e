"""The native module: parts of arrays against numpy, versions, processes, signals."""

import errno
import operator
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import asdf
import asdf_mount
import numpy
import pytest
from conftest import ROOT
from write import ARRAYS, CODECS, IMAGE

#: Slices of each array that are compared with numpy's.
SLICES = int(os.environ.get("ASDF_MOUNT_SLICES", "150"))


INTEGERS = [int, numpy.int8, numpy.uint8, numpy.int16, numpy.uint16, numpy.int32, numpy.uint32, numpy.int64, numpy.uint64]


def random_key(chance, shape):
    """Return a key of basic indexing: integers, slices, an ellipsis, new axes."""
    key = []
    for length in shape[: chance.randint(0, len(shape))]:
        if length and chance.random() < 0.3:
            kind = chance.choice(INTEGERS)
            limits = range(-length, length) if kind is int else range(numpy.iinfo(kind).min, numpy.iinfo(kind).max + 1)
            valid = range(max(-length, limits[0]), min(length - 1, limits[-1]) + 1)
            # The extremes of a type are where arithmetic in it overflows.
            key.append(kind(chance.choice([valid[0], valid[-1], chance.choice(valid)])))
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


class Index:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


def test_an_index_is_what_numpy_takes_for_one(files):
    array = asdf_mount.open(files / "lz4.asdf").arrays["roman/data"]
    for kind in INTEGERS[1:]:
        limits = numpy.iinfo(kind)
        for number in {limits.min, -1, 0, limits.max} & {*range(-511, 511)}:
            if limits.min <= number:
                assert numpy.array_equal(array[kind(number)], IMAGE[number]), kind
                assert numpy.array_equal(array[:, kind(number)], IMAGE[:, number]), kind
    assert numpy.array_equal(array[Index(3), Index(-1)], IMAGE[3, -1])
    for key in [True, False, numpy.True_, (numpy.array(3), 2), [True] * 511, numpy.array([2, 1])]:
        assert numpy.array_equal(array[key], IMAGE[key])
    for wrong in [10**30, numpy.uint64(2**64 - 1), numpy.uint16(511), Index(-512), 1.0, "a", (0, 0, 0)]:
        with pytest.raises(Exception) as wanted:
            IMAGE[wrong]
        with pytest.raises(wanted.type):
            array[wrong]


def test_an_array_of_a_file_is_not_written_to(files):
    for codec in ["raw", "lz4"]:
        array = asdf_mount.open(files / f"{codec}.asdf").arrays["roman/data"]

        def add_in_place(other):
            other += 1

        for write in [
            lambda: add_in_place(array),
            lambda: numpy.add(array, 1, out=array),
            lambda: numpy.add.at(array, 0, 1),
            lambda: array.__setitem__(0, 1),
        ]:
            with pytest.raises((TypeError, AttributeError), match="read-only|__setitem__"):
                write()
        out = numpy.zeros_like(IMAGE)
        numpy.add(array, 1, out=out, where=array[...] > 0)
        numpy.add(array, 1, out=out, where=asdf_mount.open(files / "lz4.asdf").arrays["roman/data"] > 0)
        numpy.testing.assert_array_equal(out, numpy.where(IMAGE > 0, IMAGE + 1, 0))


def test_one_element_is_converted_as_numpys_is(tmp_path):
    tree = {"seven": numpy.array(7, "i2"), "half": numpy.array([[0.5]]), "none": numpy.zeros((0, 2)), "two": numpy.zeros(2)}
    asdf.AsdfFile(tree).write_to(tmp_path / "x.asdf", all_array_compression="zlib")
    arrays = asdf_mount.open(tmp_path / "x.asdf").arrays
    for name, expected in tree.items():
        for convert in [bool, int, float, complex, operator.index]:
            results = []
            for array in [arrays[name], expected]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        results.append(convert(array))
                    except (TypeError, ValueError) as error:
                        results.append(type(error))
            assert results[0] == results[1], (name, convert)


def test_an_array_without_a_copy_is_a_map_or_an_error(files):
    raw, lz4 = (asdf_mount.open(files / f"{codec}.asdf").arrays["roman/data"] for codec in ["raw", "lz4"])
    assert isinstance(raw.__array__(copy=False).base, numpy.memmap)
    for array, dtype in [(lz4, None), (raw, "f8")]:
        with pytest.raises(ValueError, match="copy"):
            numpy.array(array, dtype, copy=False)
    for array in [raw, lz4]:
        copy = numpy.array(array, copy=True)
        copy[0] = 0
        assert copy.flags.writeable and not numpy.array_equal(copy, array)


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


def test_a_change_with_the_old_size_and_time_is_an_error(files, tmp_path):
    path = tmp_path / "a.asdf"
    data = (files / "zlib.asdf").read_bytes()
    path.write_bytes(data)
    file = asdf_mount.open(path)
    copy, before = pickle.dumps(file), path.stat()
    path.write_bytes(data.replace(b"ROMAN", b"NAMOR"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
        pickle.loads(copy)
    with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
        file.set({"new": 1}, create=True)
    with pytest.raises(asdf_mount.AsdfMountError, match="changed"):
        file.set_tree(file.text + "\n")


def test_an_error_is_pickled_whole(tmp_path):
    with pytest.raises(asdf_mount.AsdfMountError) as missing:
        asdf_mount.open(tmp_path / "missing.asdf")
    error = missing.value
    for _ in range(2):
        error = pickle.loads(pickle.dumps(error))
        assert (error.errno, str(error), error.args) == (2, str(missing.value), missing.value.args)
    assert str(asdf_mount.AsdfMountError("a text")) == "a text"


@pytest.mark.parametrize("codec", ["raw", "zlib", "lz4"])
def test_a_file_is_closed_with_its_context(files, tmp_path, codec):
    path = tmp_path / f"{codec}.asdf"
    path.write_bytes((files / path.name).read_bytes())

    def is_open():
        descriptors = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return str(path) in [os.readlink(name) for name in descriptors if os.path.lexists(name)]

    assert not is_open()
    with asdf_mount.open(path) as file:
        arrays, block = file.arrays, file.blocks[0]
        array, part = arrays["roman/data"], arrays["roman/data"][5:9]
        assert is_open()
    numpy.testing.assert_array_equal(part, IMAGE[5:9])
    # A map has a descriptor of its own.
    del part
    assert not is_open()
    for read in [
        lambda: array[0],
        lambda: array.chunks,
        lambda: arrays["top"],
        lambda: block.read(0, 5),
        lambda: file.blocks[0],
        lambda: file.tree,
        lambda: file.text,
        lambda: file.check(),
        lambda: file.set({"new": 1}, create=True),
        lambda: file.__enter__().info(),
    ]:
        with pytest.raises(ValueError, match=f"{codec}.asdf: the file is closed"):
            read()
    file.close()
    assert str(path) in repr(file)
    assert numpy.array_equal(pickle.loads(pickle.dumps(array))[0], IMAGE[0])


def test_options_are_keywords_too(files):
    for options, text in [
        (dict(cache="16M", anonymous=True, index_cache="off", region=None), "cache=16M,anonymous,index-cache=off"),
        (dict(options="cache=16M", read_timeout=5), "cache=16M,read-timeout=5"),
        (dict(options={"token-file": 'a,"b\\c', "history": "off"}), 'token-file=a\\,\\"b\\\\c,history=off'),
    ]:
        file = asdf_mount.open(files / "lz4.asdf", **options)
        assert file.options == text and pickle.loads(pickle.dumps(file)).options == text
    for wrong in [5, ["cache=16M"], b"cache=16M", {1: 2}]:
        for function in [asdf_mount.open, lambda source, options: next(asdf_mount.catalog(source, options=options))]:
            with pytest.raises(TypeError, match="a text or a mapping"):
                function(files / "lz4.asdf", options=wrong)
    with pytest.raises(asdf_mount.AsdfMountError, match="opts"):
        asdf_mount.open(files / "lz4.asdf", opts=1)


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
        for n in range(6):
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


def test_no_read_looks_for_numpy(tmp_path):
    """Ctrl-C in the first read interrupted this search, which ended in a panic."""
    code = """
        import sys
        import asdf_mount, numpy
        def interrupted(version):
            raise KeyboardInterrupt
        # Searching begins with the version of numpy.
        numpy.lib.NumpyVersion = interrupted
        file = asdf_mount.open(sys.argv[1])
        print(file.arrays["a"][-1], file.blocks[0].read(0, 4))
    """
    asdf.AsdfFile({"a": numpy.ones(16, "u1")}).write_to(tmp_path / "x.asdf")
    command = [sys.executable, "-c", textwrap.dedent(code), tmp_path / "x.asdf"]
    read = subprocess.run(command, capture_output=True, text=True)
    assert read.stdout == "1 [1 1 1 1]\n", read.stderr


LITTLE = '''
import os, resource, sys
import asdf, asdf_mount, numpy, without_plugins
reader, path, warm = sys.argv[1:]
def read(path):
    if reader == "asdf":
        with asdf.open(path) as file:
            return int(numpy.asarray(file["a"]).sum())
    return int(asdf_mount.open(path, index_cache="off").arrays["a"][...].sum())
read(warm)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
for room in [30, 60, 100, 180, 4000]:
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20),) * 2)
        try:
            print(read(path), flush=True)
        except MemoryError:
            print("MemoryError", flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(room, "ended", flush=True)
'''


@pytest.mark.parametrize("codec", ["zlib", "bzp2", "lz4", "zstd", "blsc"])
def test_little_memory_is_an_error_and_not_the_end(tmp_path, codec):
    values = numpy.arange(4 << 20, dtype="<u4") >> 3
    asdf.AsdfFile({"a": values}).write_to(tmp_path / "x.asdf", all_array_compression=codec)
    asdf.AsdfFile({"a": values[:100_000]}).write_to(tmp_path / "warm.asdf", all_array_compression=codec)
    for reader in ["asdf", "asdf_mount"]:
        command = [sys.executable, "-c", LITTLE, reader, tmp_path / "x.asdf", tmp_path / "warm.asdf"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        found, whole = {*run.stdout.splitlines()}, str(int(values.sum()))
        # Python's decoders need little.
        assert found == {"MemoryError", whole} or reader == "asdf" and found == {whole}, run.stderr


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
    for wrong, number in [({"nope.x": 1}, 2), ({"object": 1}, 22), ({"": 1}, 22)]:
        with pytest.raises(asdf_mount.AsdfMountError) as refused:
            file.set(wrong)
        assert refused.value.errno == number
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


def test_only_a_missing_key_is_a_key_error(files, server, tmp_path):
    whole = (files / "zlib.asdf").read_bytes()
    path = files / "goes.asdf"
    # The blocks are found after the head is read.
    path.write_bytes(whole + bytes(1 << 20))
    file = asdf_mount.open(f"{server}/goes.asdf", options={"index-cache": "off"})
    path.unlink()
    for look_up in [lambda: file.arrays["roman/data"], lambda: file.arrays.get("roman/data")]:
        with pytest.raises(asdf_mount.AsdfMountError, match="does not exist") as gone:
            look_up()
        assert gone.value.errno == 2
    for name in ["exploded.asdf", "exploded0000.asdf"]:
        (tmp_path / name).write_bytes((ROOT / "tests/fixtures/asdf" / name).read_bytes())
    (tmp_path / "exploded0000.asdf").unlink()
    parts = asdf_mount.open(tmp_path / "exploded.asdf").arrays
    assert len(parts) > 0 and parts.get("nope") is None
    with pytest.raises(asdf_mount.AsdfMountError):
        parts[next(iter(parts))][...]


def test_a_path_may_look_like_an_address(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d/x:/").mkdir(parents=True)
    (tmp_path / "d/x:/y.asdf").write_bytes((files / "raw.asdf").read_bytes())
    file = asdf_mount.open("d/x://y.asdf")
    monkeypatch.chdir("/")
    assert file.source == f"{tmp_path}/d/x://y.asdf" and pickle.loads(pickle.dumps(file)).format == "asdf"


def test_a_directory_is_an_error_without_its_login(tmp_path):
    for source in [tmp_path, f"{tmp_path}/", "http://me:secret@127.0.0.1:9/a/?sig=secret", "http://me:secret@127.0.0.1:9/a/"]:
        with pytest.raises(asdf_mount.AsdfMountError) as refused:
            asdf_mount.open(source, options={"read-timeout": 1})
        assert "secret" not in str(refused.value)
        if "?" not in str(source):
            assert refused.value.errno == errno.EISDIR and "is a directory" in str(refused.value)


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
