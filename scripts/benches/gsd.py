"""Trajectories compared with the gsd package."""

import json
import os
import subprocess
import time
from pathlib import Path

from .machine import PYTHON, median, ours, peak_memory, pid_of, ratio, row

PEER = Path(__file__).parent / "peers" / "gsd_peer.py"
MANY, SOME = 1_000_000, 100_000


def peer(*words):
    """Returns the output of gsd_peer.py, which runs alone on the machine."""
    done = subprocess.run([str(PYTHON), str(PEER), *map(str, words)], check=True, capture_output=True)
    return json.loads(done.stdout or "null")


def bench_gsd(here, repeats):
    """Measures a million frames of three chunks, and the series of a hundred thousand."""
    many, some = here / "many.gsd", here / "some.gsd"
    peer("write", many, MANY)
    peer("write", some, SOME)
    listed, chunk, of_fl, of_pygsd, memory = [], [], [], [], []
    for _ in range(repeats):
        begun = time.perf_counter()
        with ours(many, here / "m") as point:
            names = os.listdir(point / f"arrays/frames/{MANY // 2}")
            listed.append(time.perf_counter() - begun)
            if sorted(names) != ["configuration", "log", "particles"]:
                raise SystemExit("wrong names")
            times = peer("random", many, point)
            chunk.append(times["mount"])
            of_fl.append(times["mount"] / times["gsd.fl"])
            of_pygsd.append(peer("pygsd", many)["pygsd"] / times["mount"])
            series = point / "arrays/series/log/energy.npy"
            if series.stat().st_size != 128 + 8 * MANY:
                raise SystemExit("wrong size")
            series.read_bytes()
            memory.append(peak_memory(pid_of(point)))
    row("GSD, 10⁶ frames × 3 chunks: mount and list a frame", f"{median(listed) * 1e3:.1f} ms", "goal ≤ 20 ms")
    row("… open, read, close a chunk of a random frame", f"{median(chunk) * 1e6:.0f} µs, {ratio(of_fl)} of gsd.fl in process",
        "goal ≤ 10")
    row("… that, beside opening the file by gsd.pygsd", f"{median(of_pygsd):.0f} times as fast", "goal ≥ 100")
    row("… memory of the mount, with a series of 8 MB read", f"{median(memory):.0f} MiB", "goal < 64 MiB")
    bench_series(some, here, repeats)


def bench_series(source, here, repeats):
    """Measures the first read of one array over all frames in a mount."""
    took, of_fl, of_hoomd, memory = [], [], [], []
    for _ in range(repeats):
        with ours(source, here / "m") as point:
            times = peer("series", source, point)
            took.append(times["mount"])
            of_fl.append(times["gsd.fl"] / times["mount"])
            of_hoomd.append(times["gsd.hoomd"] / times["mount"])
            memory.append(peak_memory(pid_of(point)))
    row("GSD, numpy.load of a series over 10⁵ frames", f"{median(took) * 1e3:.0f} ms, {median(memory):.0f} MiB", "goal < 64 MiB")
    row("… gsd.fl's read_chunk in a loop / gsd.hoomd's loop", f"{ratio(of_fl)} / {ratio(of_hoomd)} times as long", "goal ≥ 5")
