"""The package asdf with our decoders: the same arrays, errors, files."""

import bz2
import io
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
import zlib

import asdf
import blosc
import lz4.block
import lz4.frame
import numpy
import pytest
import zstandard
from asdf import _compression, generic_io
from asdf_mount import _asdf, _native

RNG = numpy.random.default_rng(17)
CODECS = ["zlib", "bzp2", "lz4", "zstd", "blsc"]


@pytest.fixture(autouse=True)
def used(monkeypatch):
    """All blocks are decoded by us; gets the labels of those that were."""
    assert "asdf-mount" in {point.dist.name for point in asdf._entry_points.entry_points(group="asdf.extensions")}
    assert asdf.get_config().extensions and _compression.decompress is not _compression.decompress.__wrapped__
    monkeypatch.setattr(_asdf, "MIN_SIZE", 0)
    labels = []

    def decode(label, stored, array):
        _native.decode(label, stored, array)
        labels.append(label)

    class Native:
        pass

    Native.decode = staticmethod(decode)
    monkeypatch.setattr("asdf_mount._native", Native)
    return labels


def image(size):
    return (RNG.normal(300, 12, size) + 1000 * (numpy.arange(size) % 999 == 0)).astype("<i2")


def outcome(decompress, stored, used_size, data_size, label):
    """What a decoder makes of a block: the bytes or the error, and the position in the file."""
    file = generic_io.get_file(io.BytesIO(b"before" + stored))
    file.seek(6)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            made = decompress(file, used_size, data_size, label).tobytes()
        except Exception as error:
            made = (type(error), str(error))
    return made, file.tell(), [str(warning.message) for warning in warned]


def check(stored, data_size, label, used_size=None):
    used_size = len(stored) if used_size is None else used_size
    ours, theirs = _compression.decompress, _compression.decompress.__wrapped__
    made = outcome(ours, stored, used_size, data_size, label)
    assert made == outcome(theirs, stored, used_size, data_size, label)
    return made[0]


@pytest.mark.parametrize("codec", CODECS)
def test_arrays_are_equal_and_decoded_by_us(tmp_path, used, codec):
    arrays = {f"a{size}": image(size) for size in [1, 3, 1000, 131072, 131073, 3_000_001]}
    asdf.AsdfFile(arrays).write_to(tmp_path / "a.asdf", all_array_compression=codec)
    opened = [
        lambda: asdf.open(tmp_path / "a.asdf"),
        lambda: asdf.open(tmp_path / "a.asdf", lazy_load=False, memmap=True),
        lambda: asdf.open(tmp_path / "a.asdf", mode="rw", validate_checksums=True),
        lambda: asdf.open((tmp_path / "a.asdf").open("rb")),
        lambda: asdf.open(io.BytesIO((tmp_path / "a.asdf").read_bytes())),
    ]
    for once in opened:
        used.clear()
        with once() as file:
            for name, array in arrays.items():
                read = file[name]
                assert read.dtype == array.dtype and numpy.array_equal(read, array)
        assert used == [codec] * len(arrays)


def piece(block):
    return struct.pack("!I", len(block)) + block


#: An LZ4 block of 24 bytes.
ODD = b"\xf4\x010123456789abcdef\x10\0\0"


def samples():
    values = image(350).tobytes()
    bytes_ = values + values[:200] + bytes(100)
    half = len(bytes_) // 2
    frame = zstandard.ZstdCompressor(write_checksum=True).compress
    unchecked = zstandard.ZstdCompressor().compress
    made = {
        "zlib": (b"zlib", zlib.compress(bytes_)),
        "zlib-stored": (b"zlib", zlib.compress(bytes_, 0)),
        "bzp2": (b"bzp2", bz2.compress(bytes_)),
        "lz4": (b"lz4\0", b"".join(piece(lz4.block.compress(part)) for part in [bytes_[:half], bytes_[half:]])),
        "zstd": (b"zstd", frame(bytes_)),
        "zstd-unchecked": (b"zstd", unchecked(bytes_)),
    }
    for name in blosc.compressor_list():
        made[f"blsc-{name}"] = (b"blsc", blosc.compress(bytes_, 2, 9, blosc.SHUFFLE, name))
    # Forms that only we read.
    others = {
        "bzp2, twice": (b"bzp2", bz2.compress(bytes_[:half]) + bz2.compress(bytes_[half:])),
        "zstd, twice": (b"zstd", frame(bytes_[:half]) + frame(bytes_[half:])),
        "zstd, skipped": (b"zstd", b"\x50\x2a\x4d\x18\2\0\0\0ab" + frame(bytes_)),
        "lz4 frame": (b"lz4\0", lz4.frame.compress(bytes_)),
        "blsc, framed": (b"blsc", piece(blosc.compress(bytes_, 2, 9, blosc.SHUFFLE, "lz4"))),
        # A match that ends the block, which liblz4 refuses.
        "lz4, odd end": (b"lz4\0", piece(struct.pack("<I", 24) + ODD)),
        "blsc, odd end": (b"blsc", struct.pack("<4B5I", 2, 1, 0x30, 1, 24, 24, 24 + len(ODD), 20, len(ODD)) + ODD),
    }
    return bytes_, made, others


BYTES, SAMPLES, OTHERS = samples()


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_streams_have_the_same_outcome(used, name):
    label, stored = SAMPLES[name]
    assert check(stored, len(BYTES), label) == BYTES and used == [label.rstrip(b"\0").decode()]
    for at in range(len(stored)):
        flipped = bytearray(stored)
        flipped[at] ^= 1 << at % 8
        check(bytes(flipped), len(BYTES), label)
        check(stored[:at], len(BYTES), label)
    for size in [0, 1, len(BYTES) - 1, len(BYTES) + 1, 2 * len(BYTES)]:
        check(stored, size, label)
    for after in [b"\0", b"garbage", stored, bytes(9000)]:
        check(stored + after, len(BYTES), label)
        check(stored + after, len(BYTES), label, len(stored))
    check(stored, len(BYTES), label, len(stored) + 1)
    check(b"", 0, label)
    check(b"", 5, label)


@pytest.mark.parametrize("name", OTHERS)
def test_what_asdf_refuses_is_refused(used, name):
    label, stored = OTHERS[name]
    data_size = 24 if name.endswith("odd end") else len(BYTES)
    assert isinstance(check(stored, data_size, label), tuple) and used == []


def test_decoders_that_are_not_known_are_left_alone(used):
    _, stored = SAMPLES["zlib"]

    def decompress(label=b"zlib", **arguments):
        file = generic_io.get_file(io.BytesIO(stored))
        return _compression.decompress(file, len(stored), len(BYTES), label, **arguments).tobytes()

    assert decompress(config={"wbits": 15}) == BYTES and used == []
    with pytest.raises(ValueError, match="Supported compression types"):
        decompress(b"nope")

    class Reversed(asdf.extension.Compressor):
        label = b"zlib"

        def compress(self, data, **_):
            yield zlib.compress(data)[::-1]

        def decompress(self, data, out, **_):
            out[:] = zlib.decompress(b"".join(data)[::-1])
            return len(out)

    class Other(asdf.extension.Extension):
        extension_uri = "asdf://example.com/extensions/other-1.0.0"
        compressors = [Reversed()]

    with asdf.config_context() as config:
        config.add_extension(Other())
        with pytest.warns(asdf.exceptions.AsdfWarning, match="more than one compressor"), pytest.raises(zlib.error):
            decompress()
    assert decompress("zlib") == BYTES and used == ["zlib"]


def test_the_warnings_are_those_of_asdf(used):
    class Again(asdf.extension.Compressor):
        label = b"zstd"

        def compress(self, data, **_):
            raise NotImplementedError

        def decompress(self, data, out, **_):
            raise NotImplementedError

    class Other(asdf.extension.Extension):
        extension_uri = "asdf://example.com/extensions/again-1.0.0"
        compressors = [Again()]

    label, stored = SAMPLES["zlib"]
    with asdf.config_context() as config:
        config.add_extension(Other())
        for decompress in [_compression.decompress, _compression.decompress.__wrapped__]:
            made, _, warned = outcome(decompress, stored, len(stored), len(BYTES), label)
            assert made == BYTES and warned == ['Found more than one compressor for "zstd"']
    assert used == ["zlib"]


def test_small_blocks_and_a_missing_module_are_left_to_asdf(monkeypatch, used):
    label, stored = SAMPLES["zlib"]
    monkeypatch.setattr(_asdf, "MIN_SIZE", len(BYTES) + 1)
    assert check(stored, len(BYTES), label) == BYTES
    monkeypatch.setattr(_asdf, "MIN_SIZE", 0)
    monkeypatch.setitem(sys.modules, "asdf_mount._native", None)
    monkeypatch.delattr("asdf_mount._native")
    assert check(stored, len(BYTES), label) == BYTES and used == []


def run(code, *arguments, **environment):
    """Run a program in a process of its own, with warnings as errors; return what it prints."""
    command = [sys.executable, "-W", "error::asdf.exceptions.AsdfWarning", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


WRITE = """
import sys, asdf, numpy, without_plugins
values = numpy.arange(300_000, dtype="<i4") // 7
for codec in sys.argv[2:]:
    asdf.AsdfFile({"a": values}).write_to(f"{sys.argv[1]}/{codec}.asdf", all_array_compression=codec)
    with asdf.open(f"{sys.argv[1]}/{codec}.asdf") as file:
        assert (file["a"] == values).all()
        file.write_to(f"{sys.argv[1]}/{codec}-again.asdf")
print(hasattr(asdf._compression.decompress, "__wrapped__"))
"""


def test_asdf_writes_the_same_bytes(tmp_path):
    made = []
    for flag, expected in [("0", "False"), ("1", "True")]:
        folder = tmp_path / flag
        folder.mkdir()
        assert run(WRITE, folder, *CODECS, ASDF_MOUNT_CODECS=flag).strip() == expected
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1] and len(made[0]) == 2 * len(CODECS)


def test_other_versions_of_asdf_are_left_alone(monkeypatch):
    old = _compression.decompress.__wrapped__
    for version, known in [("4.5.0", False), ("7.0.0", False), ("5.0.0", True), ("6.1.0.dev3", True)]:
        monkeypatch.setattr(_compression, "decompress", old)
        monkeypatch.setattr(asdf, "__version__", version)
        assert _asdf.extensions() == [] and (_compression.decompress is not old) == known
    replaced = _compression.decompress
    assert _asdf.extensions() == [] and _compression.decompress is replaced
    monkeypatch.setattr(_compression, "decompress", lambda fd, used_size: None)
    assert _asdf.extensions() == [] and _compression.decompress.__name__ == "<lambda>"


def test_threads_read_at_the_same_time(tmp_path):
    arrays = [image(400_000) for _ in range(4)]
    for n, array in enumerate(arrays):
        asdf.AsdfFile({"a": array}).write_to(tmp_path / f"{n}.asdf", all_array_compression=CODECS[n])
    wrong = []

    def read(n):
        for _ in range(5):
            with asdf.open(tmp_path / f"{n % 4}.asdf") as file:
                if not numpy.array_equal(file["a"], arrays[n % 4]):
                    wrong.append(n)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


FORK = """
import faulthandler, os, sys, threading, asdf, numpy, without_plugins
def total():
    with asdf.open(sys.argv[1]) as file:
        return int(file["a"].sum())
expected = total()
assert "asdf_mount._native" in sys.modules
# The process forks while other threads decode.
threads = [threading.Thread(target=lambda: [total() for _ in range(20)], daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        # A process that waits for a lock of the parent's threads says where.
        faulthandler.dump_traceback_later(30, exit=True)
        os._exit(0 if total() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""


@pytest.mark.parametrize("codec", CODECS)
def test_a_forked_process_reads(tmp_path, codec):
    asdf.AsdfFile({"a": image(500_000)}).write_to(tmp_path / "a.asdf", all_array_compression=codec)
    assert run(FORK, tmp_path / "a.asdf").split() == ["done"]


INTERRUPTED = """
import sys, threading, signal, time, numpy
from asdf_mount import _native
stored, size = open(sys.argv[1], "rb").read(), int(sys.argv[2])
out = numpy.empty(size, numpy.uint8)
# A shell starts programs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("ready", flush=True)
    while True:
        _native.decode("bzp2", stored, out)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_it(tmp_path):
    noise = RNG.integers(0, 256, 8 << 20, dtype="u1").tobytes()
    (tmp_path / "stored").write_bytes(bz2.compress(noise))
    command = [sys.executable, "-c", INTERRUPTED, tmp_path / "stored", str(len(noise))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        try:
            assert program.communicate(timeout=60)[0] == "interrupted\n" and program.returncode == 0
        finally:
            program.kill()


def test_the_native_function_checks_its_arguments():
    label, stored = SAMPLES["zlib"]
    out = numpy.empty(len(BYTES), numpy.uint8)
    with pytest.raises(ValueError, match='"nope" is not known'):
        _native.decode("nope", stored, out)
    for wrong in [bytearray(len(BYTES)), out.view("i1"), out.reshape(2, -1), out[::2]]:
        with pytest.raises(TypeError):
            _native.decode("zlib", stored, wrong)
    out.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        _native.decode("zlib", stored, out)
    for place in [(-1, 0, 5), (10**6, 0, 5)]:
        with pytest.raises(ValueError):
            _native.decode("zlib", place, numpy.empty(len(BYTES), numpy.uint8))
