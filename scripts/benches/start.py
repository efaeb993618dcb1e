"""From the command to the first byte."""

import subprocess
import time

from .files import HEAD, block_header, write_asdf
from .machine import GIB, PYTHON, median, ours, ratio, row, seconds


def bench_start(here, repeats):
    """Measures the time from the command to the first byte of tree.yaml."""
    small, large = here / "start-small.asdf", here / "start-large.asdf"
    write_asdf(small, [(100, b"\0" * 4, [b"x" * 100])], index=False)
    with open(large, "wb") as out:
        out.write(HEAD + block_header(64 * GIB))
        out.truncate(len(HEAD) + 54 + 64 * GIB)
    times = {"small": [], "large": [], "python": []}
    for _ in range(repeats):
        for name, source in (("small", small), ("large", large)):
            begun = time.perf_counter()
            mount = ours(source, here / "m")
            with mount as point:
                with open(point / "tree.yaml", "rb") as tree:
                    tree.read(1)
                times[name].append(time.perf_counter() - begun)
        times["python"].append(seconds(PYTHON, "-c", "import asdf"))
    of_python = [mine / peer for mine, peer in zip(times["large"], times["python"])]
    row("mount to first byte of tree.yaml, 64 GiB (sparse) / 1 kB file",
        f"{median(times['large']) * 1e3:.1f} / {median(times['small']) * 1e3:.1f} ms", "goal: the same")
    row("… of `python -c 'import asdf'`", f"{median(of_python):.3f} ({min(of_python):.3f}–{max(of_python):.3f})", "goal ≤ 0.1")


def bench_blocks(here, repeats):
    """Measures 100 000 blocks with an index."""
    source = here / "blocks.asdf"
    write_asdf(source, [(1000, b"\0" * 4, [b"%-1000d" % n]) for n in range(100_000)])
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        with ours(source, here / "m") as point:
            count = subprocess.run(f"ls {point}/blocks | wc -l", shell=True, check=True, capture_output=True).stdout
            data = (point / "blocks/99999.bin").read_bytes()
            times.append(time.perf_counter() - begun)
        if int(count) != 100_000 or data != b"%-1000d" % 99_999:
            raise SystemExit("wrong bytes")
    row("100 000 blocks: mount, count `blocks/*`, read the last", f"{ratio(times)} s", "goal < 1 s")


