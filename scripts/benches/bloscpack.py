"""Bloscpack files compared with the bloscpack package."""

import json
import os
import random
import struct
import subprocess
import time
import zlib
from pathlib import Path

from .machine import MIB, PYTHON, median, ours, ratio, row, seconds

PEER = Path(__file__).parent / "peers" / "bloscpack_peer.py"
SIZE = 512
SKIPS = 40
FEW, TINY, ITEMS = 1024, 24, 1_000_000
"""Bytes of small and of tiny chunks; how many of these there are."""


def peer(*words):
    """Returns the output of bloscpack_peer.py."""
    done = subprocess.run([str(PYTHON), str(PEER), *map(str, words)], check=True, capture_output=True)
    return json.loads(done.stdout or "null")


def bench_bloscpack(here, repeats):
    """Measures an array of 512 MiB in chunks of 1 MiB, read as a whole and at random offsets."""
    source, out = here / "a.blp", here / "out"
    peer("write", source, SIZE)
    rate, beside, decoded, skip, mapped = [], [], [], [], []
    dice = random.Random(13)
    for _ in range(repeats):
        with ours(source, here / "m") as point:
            data = point / "data.bin"
            if data.stat().st_size != SIZE * MIB:
                raise SystemExit("wrong size")
            took = seconds("cat", data)
            rate.append(SIZE / took)
            beside.append(peer("decompress", source, out) / took)
            out.unlink()
            decoded.append(peer("decompress", source, os.devnull) / took)
        with ours(source, here / "m") as point:
            for _ in range(SKIPS):
                skip.append(first_bytes(point / "data.bin", dice.randrange(SIZE * MIB // 4096)))
            mapped.append(peer("map", point / "arrays/data.npy"))
    row("Bloscpack, cat data.bin of 512 MiB", f"{median(rate):.0f} MiB/s", f"{source.stat().st_size / MIB:.0f} MiB packed")
    row("… of blpk decompress into a file, python-blosc on all cores", ratio(beside), "goal ≥ 1")
    row("… of the same into /dev/null, which crosses no kernel", ratio(decoded))
    row("… dd skip= anywhere", f"{median(skip) * 1e3:.2f} ms, {max(skip) * 1e3:.1f} at most", "goal ≤ 5 ms")
    row("… numpy.load(mmap_mode='r'), an element in each MiB", f"{median(mapped) * 1e3:.0f} ms")
    bench_small(here, repeats)


def bench_small(here, repeats):
    """Measures chunks of 1 KiB, and tiny ones; items of variable length (document 004)."""
    files = {
        "of 1 KiB": chunked(here / "few.blp", os.urandom(SIZE * MIB // 2), FEW),
        "of 24 bytes": chunked(here / "tiny.blp", os.urandom(ITEMS * TINY), TINY),
        "of 0 to 48 bytes, of variable length": items(here / "items.blp", [os.urandom(n % 49) for n in range(ITEMS)]),
    }
    for what, (source, size, count) in files.items():
        took, anywhere = [], []
        for _ in range(repeats):
            with ours(source, here / "m") as point:
                took.append(seconds("cat", point / "data.bin"))
            with ours(source, here / "m") as point:
                anywhere.append(median(reads_anywhere(point / "data.bin", size)))
        figure = f"{size / median(took) / 1e6:.0f} MB/s, {count / median(took) / 1e6:.2f} million chunks/s"
        row(f"Bloscpack, cat data.bin of chunks {what}", figure, "goal ≥ 100 MB/s at 1 KiB, ≥ 1 million/s of tiny ones")
        row("… 10 bytes anywhere", f"{median(anywhere) * 1e3:.2f} ms", "goal ≤ 1 ms")


def reads_anywhere(path, size):
    """Returns the times of reads of 10 bytes at random offsets."""
    dice, times = random.Random(13), []
    with open(path, "rb", buffering=0) as file:
        for _ in range(200):
            at, begun = dice.randrange(size - 10), time.perf_counter()
            if len(os.pread(file.fileno(), 10, at)) != 10:
                raise SystemExit("short read")
            times.append(time.perf_counter() - begun)
    return times


def stored(data):
    """Returns an uncompressed chunk and its checksum."""
    chunk = bytes([2, 1, 0x22, 1]) + struct.pack("<3I", len(data), len(data), len(data) + 16) + data
    return chunk + struct.pack("<I", zlib.adler32(chunk))


def write(path, options, sizes, between, chunks):
    """Writes a file with offsets; returns its path, size of the data and number of chunks."""
    at, offsets = 32 + len(between) + 8 * len(chunks), []
    for chunk in chunks:
        offsets.append(at)
        at += len(chunk)
    header = b"blpk" + bytes([3, options, 1, 1]) + struct.pack("<2i2q", *sizes, len(chunks), len(between))
    path.write_bytes(header + between + struct.pack(f"<{len(offsets)}q", *offsets) + b"".join(chunks))
    return path, at - offsets[0] - 20 * len(chunks), len(chunks)


def chunked(path, data, each):
    """Writes a file of equal chunks; the chunk size divides the size of the data."""
    return write(path, 1, (each, each), b"", [stored(data[at:at + each]) for at in range(0, len(data), each)])


def items(path, data):
    """Writes a file of items of variable length."""
    return write(path, 7, (-1, -1), b"{}", [stored(item) for item in data])


def first_bytes(path, page):
    """Returns the time of dd for a page, without the time to start dd."""
    empty = seconds("dd", "if=/dev/null", f"of={os.devnull}", "bs=4096", "count=1")
    return max(seconds("dd", f"if={path}", f"of={os.devnull}", "bs=4096", f"skip={page}", "count=1") - empty, 0)
