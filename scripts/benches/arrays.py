"""`arrays/` compared with numpy on another mount, and with Python asdf."""

import json
import os
import subprocess
import time
from pathlib import Path

from .machine import PYTHON, Mount, median, noise, ours, peak_memory, pid_of, ratio, row

PEER = Path(__file__).parent / "peers" / "arrays_peer.py"


def peer(*words):
    """Returns the output of arrays_peer.py, which runs alone on the machine."""
    done = subprocess.run([str(PYTHON), str(PEER), *map(str, words)], check=True, capture_output=True)
    return json.loads(done.stdout or "null")


def bench_arrays(here, repeats):
    """Measures an array of 1 GiB, in each codec."""
    data = here / "arrays"
    data.mkdir(exist_ok=True)
    peer("write", data, 1024)
    loads, maps = [], []
    for _ in range(repeats):
        with Mount(["bindfs", data, here / "b"], here / "b") as beside, ours(data / "big.asdf", here / "m") as point:
            loads.append(peer("load", point / "arrays/big.npy") / peer("load", beside / "big.npy"))
            maps.append(peer("map", point / "arrays/big.npy") / peer("map", data / "big.npy"))
    row("numpy.load of a stored array of 1 GiB, of the same .npy on bindfs", ratio(loads), "goal ≤ 1.3")
    row("… 10⁵ random elements of it mapped, of the same .npy without a mount", ratio(maps), "goal 1")
    for codec in ("lz4", "zlib", "bzp2", "zstd", "blsc"):
        times = []
        for _ in range(repeats):
            with ours(data / f"{codec}.asdf", here / "m") as point:
                times.append(peer("open", data / f"{codec}.asdf") / peer("load", point / "arrays/big.npy"))
        row(f"numpy.load of it in {codec}, beside asdf.open", f"{ratio(times)} times as fast", "goal > 1")


def bench_permuted(here, repeats):
    """Measures a non-contiguous array of 1 GiB."""
    data = here / "arrays"
    data.mkdir(exist_ok=True)
    peer("permuted", data, 1024)
    copies = [1024 / peer("copy", data, 1024) for _ in range(repeats)]
    for name in ("permuted", "permuted-lz4"):
        loads, memory = [], []
        for _ in range(repeats):
            with ours(data / f"{name}.asdf", here / "m") as point:
                loads.append(1024 / peer("load", point / "arrays/big.npy"))
                memory.append(peak_memory(pid_of(point)))
        row(f"numpy.load of {name}.asdf, 1 GiB with its axes turned", f"{median(loads):.0f} MiB/s", "goal ≥ 200 MiB/s")
        row("… memory of the mount", f"{median(memory):.0f} MiB", "goal < 640 MiB")
    row("numpy.ascontiguousarray of the same array", f"{median(copies):.0f} MiB/s", noise())


def bench_array_trees(here, repeats):
    """Measures the time to list many arrays in a tree."""
    data = here / "arrays"
    data.mkdir(exist_ok=True)
    peer("trees", data)
    listed, memory, roman = [], [], []
    for _ in range(repeats):
        with ours(data / "many.asdf", here / "m") as point:
            begun = time.perf_counter()
            done = subprocess.run(["ls", "-R", str(point / "arrays")], check=True, capture_output=True)
            listed.append(time.perf_counter() - begun)
            if done.stdout.count(b".npy") != 40_000:
                raise SystemExit("arrays are missing")
            memory.append(peak_memory(pid_of(point)))
        begun = time.perf_counter()
        with ours(data / "roman.asdf", here / "m") as point:
            if len(os.listdir(point / "arrays/roman")) != 30:
                raise SystemExit("arrays are missing")
            roman.append(time.perf_counter() - begun)
    row("`ls -R arrays`, 40 000 arrays in a tree of 100 MB", f"{median(listed):.2f} s", "goal < 3 s")
    row("… memory of the mount", f"{median(memory):.0f} MiB", "goal < 200 MiB")
    row("mount to `ls arrays`, 30 arrays in a tree of 54 kB", f"{median(roman) * 1e3:.1f} ms", f"goal ≤ 10 ms; {noise()}")
