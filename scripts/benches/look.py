"""Without a mount: --cat and --ls."""

import os
import subprocess
import tempfile
import time

from .coded import FreshMount, fresh
from .files import in_asdf, picture, stored_as, write_asdf
from .machine import BINARY, GIB, MIB, PYTHON, ROOT, median, noise, ratio, row, seconds


def bench_look(here, repeats, data, mib):
    """Measures a stored block of 1 GiB, a zlib block, and the names in a tree of 54 kB with 30 arrays."""
    stored = here / "stored.asdf"
    noise_bytes = os.urandom(16 * MIB)
    (begin,) = write_asdf(stored, [(GIB, b"\0" * 4, [noise_bytes] * 64)], padding=b" " * 4242, index=False)
    zlib = in_asdf("zlib", stored_as("zlib", picture("f32", data, mib), data), mib * MIB)
    subprocess.run([PYTHON, ROOT / "scripts/benches/peers/arrays_peer.py", "trees", here], check=True)
    for path in (stored, zlib):
        seconds("cat", path)

    def through_pipe(command, **options):
        """Returns the time of a command that writes to `cat`."""
        begun = time.perf_counter()
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, **options) as process:
            subprocess.run(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)
        if process.returncode:
            raise SystemExit(f"failed: {command}")
        return time.perf_counter() - begun

    def to_file(command, **options):
        # On a disk, the kernel slows a program at times until pages are written back.
        with tempfile.TemporaryFile(dir="/dev/shm") as out:
            return seconds(*command, stdout=out, **options)

    def peer(run):
        """Returns the time of `cat` for the same bytes of the file: the page cache may hold two files differently."""
        with open(stored, "rb", buffering=0) as file:
            file.seek(begin)
            return run(["cat"], stdin=file)

    ways = {"/dev/null": lambda command, **options: seconds(*command, **options), "a pipe": through_pipe, "a file on tmpfs": to_file}
    cats, zlibs, listed = {way: [] for way in ways}, [], []
    for _ in range(repeats):
        for way, run in ways.items():
            cats[way].append(peer(run) / run([BINARY, "--cat", stored, "blocks/0.bin"]))
        with FreshMount(zlib, here) as point:
            mounted = seconds("cat", point / "blocks/0.bin")
        zlibs.append(mounted / seconds(BINARY, "--cat", zlib, "blocks/0.bin", env=fresh(here)))
        listed.append(seconds(BINARY, "--ls", here / "roman.asdf"))
    for way, ratios in cats.items():
        row(f"`--cat` of a stored block of 1 GiB to {way}, of `cat` of the same bytes", ratio(ratios), f"goal ≥ 0.8; {noise()}")
    row(f"`--cat` of a zlib block, f32, {mib} MiB, times as fast as `cat` through a mount", ratio(zlibs), "goal ≥ 1.1")
    row("`--ls`, 30 arrays in a tree of 54 kB", f"{median(listed) * 1e3:.1f} ms", "goal ≤ 10 ms")
