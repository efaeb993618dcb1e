"""Compressed blocks, read from end to end."""

import os
import shutil
import subprocess

from .files import by_python_asdf, gzipped, in_asdf, picture, smooth, stored_as, zipped
from .machine import (MIB, PEERS, PYTHON, RATARMOUNT, ROOT, TARGET, Mount, at_once, have, median, noise, ours, peak_memory,
                      pid_of, ratio, row, seconds)

C_LIBRARY = {
    "lz4": """
import struct, sys, time
from concurrent.futures import ThreadPoolExecutor
import lz4.block
begun = time.perf_counter()
file = open(sys.argv[1], 'rb')
file.seek(int(sys.argv[2]))
data = memoryview(file.read(int(sys.argv[3])))
def chunks():
    at = 0
    while at < len(data):
        (size,) = struct.unpack('!I', data[at:at + 4])
        yield data[at + 4:at + 4 + size]
        at += 4 + size
with ThreadPoolExecutor(2) as pool:
    assert sum(pool.map(lambda chunk: len(lz4.block.decompress(chunk)), chunks())) == int(sys.argv[4])
print(time.perf_counter() - begun)
""",
    "blsc": """
import blosc, sys, time
blosc.set_nthreads(2)
begun = time.perf_counter()
file = open(sys.argv[1], 'rb')
file.seek(int(sys.argv[2]))
assert len(blosc.decompress(file.read(int(sys.argv[3])))) == int(sys.argv[4])
print(time.perf_counter() - begun)
""",
}
"""Each prints its time in seconds, without the start of Python."""

BY_PYTHON_ASDF = """
import asdf, sys
with asdf.open(sys.argv[1], lazy_load=True) as file:
    assert file['data'][-1] == file['data'][-1]
"""

LIBRARY = TARGET / "library-bench" / "release" / "library-bench"


def fresh(here):
    """Returns an environment without the seek tables of earlier mounts."""
    kept = here / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    return {**os.environ, "XDG_CACHE_HOME": str(kept)}


class FreshMount(Mount):
    """A mount by asdf-mount without kept seek tables, optionally on certain `cores`."""

    def __init__(self, source, here, cores=None):
        super().__init__([*(["taskset", "-c", cores] if cores else []), *ours(source, here / "m").command], here / "m")
        self.here = here

    def __enter__(self):
        subprocess.run(self.command, check=True, env=fresh(self.here))
        return self.point


def library():
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT / "scripts" / "benches" / "library", check=True,
                   env={**os.environ, "CARGO_TARGET_DIR": str(TARGET / "library-bench")})
    return LIBRARY


def compare(what, source, size, here, repeats, peers, goals, cores=None):
    """Reads block 0 of `source`, alternating with the peers; adds a row per peer: its time divided by ours."""
    mine, theirs, memory = [], {name: [] for name in peers}, 0.0
    # Fill the page cache, so that the first run does not read from the disk.
    seconds("cat", source)
    for _ in range(repeats):
        with FreshMount(source, here) as point:
            mine.append(seconds("cat", point / "blocks/0.bin"))
            memory = max(memory, peak_memory(pid_of(point)))
        for name, run in peers.items():
            theirs[name].append(run() / mine[-1])
    row(f"{what}, first read from end to end", f"{size / median(mine) / 1e6:.0f} MB/s",
        f"daemon {memory:.0f} MiB; {noise()}")
    for name, values in theirs.items():
        row(f"… times as fast as {name}", ratio(values), goals.get(name, "goal > 1"))


def mounted(command, here, name):
    """Returns a function that measures the time to mount with another program and read `name`."""
    def run():
        with Mount([*command, here / "peer"], here / "peer") as point:
            return seconds("cat", point / name)
    return run


def told(*command):
    """Returns a function that runs a command and returns the time that it prints."""
    def run():
        return float(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)
    return run


def on_one_core(source, here):
    """Returns a function that measures the time of a read if daemon and reader share one core."""
    def run():
        with FreshMount(source, here, "0") as point:
            return seconds("taskset", "-c", "0", "cat", point / "blocks/0.bin")
    return run


def from_file(command, path):
    def run():
        with open(path, "rb") as file:
            return seconds(*command, stdin=file)
    return run


def bench_zlib(here, repeats, data, mib):
    """Measures both images as zlib, compared with all programs that decode the same stream without an index."""
    for kind in ("f32", "i16"):
        raw = picture(kind, data, mib)
        stream = stored_as("zlib", raw, data)
        source, packed, archive = in_asdf("zlib", stream, mib * MIB), gzipped(stream, raw), zipped(stream, raw)
        peers = {
            "our own single core": on_one_core(source, here),
            "rapidgzip -P 2": lambda: seconds(PEERS / "rapidgzip", "-P", "2", "-d", "-c", packed),
            "rapidgzip-core, 2 workers": lambda: seconds(library(), "rapidgzip-core", stream),
            "pigz": from_file(["pigz", "-dc"], stream),
            "ratarmount": mounted([RATARMOUNT, "-c", "--index-file", ":memory:", archive], here, "data.raw"),
            "Python asdf": lambda: seconds(PYTHON, "-c", BY_PYTHON_ASDF, by_python_asdf("zlib", raw)),
        }
        for program in ("mount-zip", "fuse-zip"):
            if have(program):
                peers[program] = mounted([program, archive], here, "data.raw")
        library()
        compare(f"zlib, {kind}, {mib} MiB", source, mib * MIB, here, repeats, peers,
                {"our own single core": "goal ≥ 1.2", "Python asdf": "goal ≥ 3 where no C call bounds it"})


def bench_bzip2(here, repeats, data, mib):
    """Measures a quarter of both images as bzip2, and numbers that compress well."""
    mib = max(mib // 4, 1)
    for kind in ("f32", "i16", "smooth i16"):
        raw = smooth(data, mib) if kind == "smooth i16" else picture(kind, data, mib)
        stream = stored_as("bzp2", raw, data)
        source = in_asdf("bzp2", stream, mib * MIB)
        compare(f"bzip2, {kind}, {mib} MiB", source, mib * MIB, here, repeats, {
            "our own single core": on_one_core(source, here),
            "lbzip2 -n2": lambda: seconds("lbzip2", "-n2", "-dc", stream),
            "Python asdf": lambda: seconds(PYTHON, "-c", BY_PYTHON_ASDF, by_python_asdf("bzp2", raw)),
        }, {"our own single core": "goal ≥ 1.6", "lbzip2 -n2": "goal ≥ 2", "Python asdf": "goal ≥ 3"})


def bench_fast(here, repeats, data, mib):
    """Measures lz4, Blosc and zstd as Python asdf writes them, compared with their C libraries."""
    raw = picture("f32", data, mib)
    for codec in ("lz4", "blsc", "zstd"):
        source = by_python_asdf(codec, raw)
        with ours(source, here / "m") as point:
            block = point / "blocks/0.bin"
            offset = int(os.getxattr(block, "user.asdf.offset")) + 6 + int(os.getxattr(block, "user.asdf.header_size"))
            used = int(os.getxattr(block, "user.asdf.used_size"))
        if codec == "zstd":
            bare = data / f"{raw.stem}.zst"
            if not bare.exists():
                with open(source, "rb") as file, open(bare, "wb") as out:
                    file.seek(offset)
                    out.write(file.read(used))
            native = {"C zstd": lambda: seconds("zstd", "-dcq", bare)}
            goals = {"C zstd": "goal ≥ 0.9"}
        else:
            script, size = C_LIBRARY[codec], os.path.getsize(raw)
            native = {"its C library on two threads": told(PEERS / "python", "-c", script, source, offset, used, size)}
            goals = {"its C library on two threads": "goal ≥ 0.8"}
        native["Python asdf"] = lambda: seconds(PYTHON, "-c", BY_PYTHON_ASDF, source)
        compare(f"{codec}, f32, {mib} MiB", source, mib * MIB, here, repeats, native,
                {**goals, "Python asdf": "goal ≥ 3 where no C call bounds it"})


def bench_library(here, repeats, data, mib):
    """Measures only our inflate, on one core, in one process with the other decoders."""
    for kind in ("f32", "i16"):
        stream = stored_as("zlib", picture(kind, data, mib), data)
        lines = subprocess.run([library(), "zlib", stream, str(mib * MIB), str(repeats)], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        times = {}
        for name, value in (line.split("\t") for line in lines):
            times.setdefault(name, []).append(float(value))
        own = times["own"]
        row(f"inflate alone, {kind}, one core", f"{mib * MIB / median(own) / 1e6:.0f} MB/s", noise())
        for peer, goal in (("zlib-rs", "goal ≥ 1.1"), ("libdeflate", "aim 1.0")):
            row(f"… times as fast as {peer}", ratio([t / o for t, o in zip(times[peer], own)]), goal)
        row("… with checkpoints, of without", ratio([o / t for t, o in zip(times["own with checkpoints"], own)]), "goal ≥ 0.98")


def bench_readers(here, repeats, data, mib):
    """Measures two concurrent readers of two blocks, relative to one reader."""
    raw = picture("f32", data, mib)
    stream = stored_as("zlib", raw, data)
    source = data / f"two-{mib}.asdf"
    if not source.exists():
        from .files import write_asdf
        write_asdf(source, [(mib * MIB, b"zlib", [stream.read_bytes()])] * 2)
    gains = []
    for _ in range(repeats):
        with FreshMount(source, here, "0") as point:
            one = seconds("cat", point / "blocks/0.bin")
        with FreshMount(source, here) as point:
            two = at_once(["cat", point / "blocks/0.bin"], ["cat", point / "blocks/1.bin"])
        gains.append(2 * one / two)
    row("two readers in two zlib blocks, of one on one core", ratio(gains), "goal ≥ 1.6")
