"""Random access to compressed blocks."""

import json
import subprocess

from .coded import FreshMount, fresh
from .files import by_python_asdf, gzipped, in_asdf, picture, stored_as, zipped
from .machine import BINARY, MIB, PEERS, PYTHON, RATARMOUNT, Mount, median, noise, peak_memory, pid_of, ratio, row, seconds

READS = """
import json, os, random, sys, time
path, count = sys.argv[1], int(sys.argv[2])
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
random.seed(7)
times = []
for _ in range(count):
    at = random.randrange(size - 4096)
    begun = time.perf_counter()
    assert len(os.pread(file, 4096, at)) == 4096
    times.append(time.perf_counter() - begun)
print(json.dumps(sorted(times)))
"""

PEER_READS = """
import json, random, sys, time
kind, path, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if kind == 'rapidgzip':
    import rapidgzip
    file = rapidgzip.open(path, parallelization=2)
    file.block_offsets()
else:
    import indexed_gzip
    file = indexed_gzip.IndexedGzipFile(path, spacing=1 << 20)
    file.build_full_index()
random.seed(7)
times = []
for _ in range(count):
    at = random.randrange(size - 4096)
    begun = time.perf_counter()
    file.seek(at)
    assert len(file.read(4096)) == 4096
    times.append(time.perf_counter() - begun)
file.close()
print(json.dumps(sorted(times)))
"""

MAPPED = """
import json, sys, time, numpy as np
def at_random(path):
    data = np.memmap(path, dtype='<f4', mode='r')
    places = np.random.default_rng(7).integers(0, data.size, 200_000)
    begun = time.perf_counter()
    data[places].sum()
    return time.perf_counter() - begun
for path in sys.argv[1:]: at_random(path)
print(json.dumps([at_random(path) for path in sys.argv[1:]]))
"""


def answer(*command):
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def bench_seek(here, repeats, data, mib):
    """Measures the last 4 KiB, and 4 KiB at random, of every codec."""
    raw = picture("f32", data, mib)
    quarter = picture("f32", data, max(mib // 4, 1))
    stream = stored_as("zlib", raw, data)
    sources = {
        "zlib": (in_asdf("zlib", stream, mib * MIB), mib, 20, 3),
        "bzp2": (in_asdf("bzp2", stored_as("bzp2", quarter, data), quarter.stat().st_size), quarter.stat().st_size // MIB, 20, 25),
        "lz4": (by_python_asdf("lz4", raw), mib, 20, 3),
        "blsc": (by_python_asdf("blsc", raw), mib, 20, 0),
        "zstd": (by_python_asdf("zstd", raw), mib, 20, 0),
    }
    packed, archive = gzipped(stream, raw), zipped(stream, raw)
    peers = {"rapidgzip with its index": [], "indexed_gzip with its index": [], "ratarmount on a zip": []}

    def peers_at_random(mine):
        """Measures the same reads by the peers, immediately after ours, because the machine's speed varies."""
        for name, gains in peers.items():
            kind = name.split()[0]
            if kind == "ratarmount":
                with Mount([RATARMOUNT, "-c", "--index-file", ":memory:", archive, here / "peer"], here / "peer") as point:
                    reads = answer("python3", "-c", READS, point / "data.raw", 3)
            else:
                reads = answer(PEERS / "python", "-c", PEER_READS, kind, packed, 60, mib * MIB)
            gains.append(median(reads) * 1e3 / mine)

    for codec, (source, size, goal, goal_random) in sources.items():
        first, kept, middle, memory = [], [], [], 0.0
        for _ in range(repeats):
            with FreshMount(source, here) as point:
                first.append(seconds("tail", "-c", "4096", point / "blocks/0.bin") * 1e3)
                memory = max(memory, peak_memory(pid_of(point)))
            environment = fresh(here)
            subprocess.run([BINARY, "--index", source], check=True, env=environment)
            mount = FreshMount(source, here)
            subprocess.run(mount.command, check=True, env=environment)
            try:
                kept.append(seconds("tail", "-c", "4096", mount.point / "blocks/0.bin") * 1e3)
                reads = answer("python3", "-c", READS, mount.point / "blocks/0.bin", 200)
                middle.append(median(reads) * 1e3)
                memory = max(memory, peak_memory(pid_of(mount.point)))
            finally:
                mount.__exit__()
            if codec == "zlib":
                peers_at_random(middle[-1])
        no_table = f"goal ≤ {goal} ms" if codec in ("lz4", "blsc") else "one pass on all cores"
        row(f"{codec}, {size} MiB: last 4 KiB, fresh mount, no table", f"{ratio(first)} ms", f"{no_table}; daemon {memory:.0f} MiB")
        row("… with the table kept", f"{ratio(kept)} ms", f"goal ≤ {goal} ms; {noise()}")
        row("… 4 KiB at random after that, median", f"{ratio(middle)} ms", f"goal ≤ {goal_random} ms" if goal_random else "")
    for name, gains in peers.items():
        row(f"zlib at random, times as fast as {name}", ratio(gains), "goal ≥ 20" if "zip" in name.split() else "goal ≥ 5")


def bench_again(here, repeats, data, mib):
    """Measures a second read of a compressed block, relative to the plain file."""
    raw = picture("f32", data, mib)
    source = in_asdf("zlib", stored_as("zlib", raw, data), mib * MIB)
    image = here / "raw.squashfs"
    image.unlink(missing_ok=True)
    seconds("mksquashfs", raw, image, "-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress")
    again, mapped, beside = [], [], []
    seconds("cat", raw)
    for _ in range(repeats):
        with FreshMount(source, here) as point, Mount(["squashfuse", image, here / "s"], here / "s") as peer:
            block, same = point / "blocks/0.bin", peer / raw.name
            seconds("cat", same)
            seconds("cat", block)
            seconds("cat", block)  # the first read that the kernel may cache
            again.append(seconds("cat", raw) / seconds("cat", block))
            plain, mine, theirs = answer(PYTHON, "-c", MAPPED, raw, block, same)
            mapped.append(plain / mine)
            beside.append(theirs / mine)
    image.unlink()
    row(f"zlib, {mib} MiB, read again, of `cat` of the plain file", ratio(again), "goal ≥ 0.5")
    row("… numpy.memmap at random, of squashfuse's (kernel's cache)", ratio(beside), "goal ≥ 1: the page cache's speed")
    row("… numpy.memmap at random, of the plain file", ratio(mapped), "")
