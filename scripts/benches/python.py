"""The Python package: parts of arrays, and blocks that asdf reads."""

import json
import os
import subprocess
import sys

from .machine import BINARY, PYTHON, ROOT, median, noise, ratio, row

sys.path.insert(0, str(ROOT / "tests/python/package"))
from from_sources import lay_out  # noqa: E402

PEER = ROOT / "scripts/benches/peers/python_peer.py"
CODECS = {"zlib": 3, "bzp2": 3.5, "lz4": 1.3, "zstd": 1.3, "blsc": 1}


def package(here):
    """Makes the package importable, with its entry points; returns the environment for it."""
    place = here / "package"
    place.mkdir()
    lay_out(place, BINARY)
    return {**os.environ, "PYTHONPATH": str(place)}


def peer(environment, *arguments):
    """Returns the figures that the peer prints as JSON."""
    command = [str(word) for word in [PYTHON, PEER, *arguments]]
    return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)


def bench_python(here, repeats):
    """Measures cut-outs and chunks of an lz4 array through xarray, and the memory of it."""
    environment = package(here)
    peer(environment, "write", here)
    found = [peer(environment, "parts", here) for _ in range(repeats)]
    cuts = [one["cut"] * 1e3 for one in found]
    chunks = [one["chunks"] for one in found]
    peak = max(one["peak"] - one["before"] for one in found) >> 20
    row("cut-out of 32 × 32 of an lz4 array of 29 MB by xarray, warm", f"{median(cuts):.2f} ms", f"goal ≤ 3 ms; {noise()}")
    row("… 1000 chunks of one of 146 MB by four threads of Dask", f"{median(chunks):.2f} s", f"memory beside Python's: {peak} MiB with a cache of 64 MiB")


def bench_asdf_open(here, repeats):
    """Measures asdf.open with the package beside asdf.open without it, on blocks of 256 MiB."""
    environment = package(here)
    without = {**environment, "ASDF_MOUNT_CODECS": "0"}
    for codec, goal in CODECS.items():
        peer(environment, "block", here, codec)
        ratios, memory = [], []
        for _ in range(repeats):
            old = peer(without, "open", here, codec)
            new = peer(environment, "open", here, codec)
            if old["sum"] != new["sum"]:
                raise SystemExit(f"{codec}: the arrays differ")
            ratios.append(old["seconds"] / new["seconds"])
            memory.append((new["peak"] - old["peak"]) >> 20)
        row(f"asdf.open with the package, a block of 256 MiB of {codec}, times as fast as without", ratio(ratios), f"goal ≥ {goal}; memory {median(memory):+} MiB; {noise()}")
        (here / f"{codec}.asdf").unlink()
