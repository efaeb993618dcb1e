"""Bloscpack files beside the bloscpack package."""

import json
import os
import random
import subprocess
from pathlib import Path

from .machine import MIB, PYTHON, median, ours, ratio, row, seconds

PEER = Path(__file__).parent / "peers" / "bloscpack_peer.py"
SIZE = 512
SKIPS = 40


def peer(*words):
    """What bloscpack_peer.py prints."""
    done = subprocess.run([str(PYTHON), str(PEER), *map(str, words)], check=True, capture_output=True)
    return json.loads(done.stdout or "null")


def bench_bloscpack(here, repeats):
    """An array of 512 MiB in chunks of one MiB, all of it and anywhere in it."""
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


def first_bytes(path, page):
    """Time of dd for a page, without that of starting it."""
    empty = seconds("dd", "if=/dev/null", f"of={os.devnull}", "bs=4096", "count=1")
    return max(seconds("dd", f"if={path}", f"of={os.devnull}", "bs=4096", f"skip={page}", "count=1") - empty, 0)
