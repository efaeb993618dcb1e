"""A directory of many files."""

import shutil
import time
from pathlib import Path

from .files import write_asdf
from .machine import median, ours, peak_memory, pid_of, ratio, row, seconds

FILES = 100_000


def memory(pid):
    """The current memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def bench_folder(here, repeats):
    """100 000 files in one directory, listed and searched in a writable mount."""
    folder = here / "many"
    if not folder.is_dir():
        making = here / "many.new"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        write_asdf(making / "0.asdf", [(1000, b"\0" * 4, [b"x" * 1000])])
        sample = (making / "0.asdf").read_bytes()
        for n in range(1, FILES):
            (making / f"{n}.asdf").write_bytes(sample)
        making.rename(folder)
    listed, found, peaks, lefts = [], [], [], []
    for _ in range(repeats):
        with ours(folder, here / "m") as point:
            begun = time.perf_counter()
            seconds("sh", "-c", f"test $(ls -f {point} | wc -l) = {FILES + 2}")
            listed.append(time.perf_counter() - begun)
            found.append(seconds("sh", "-c", f"find {point} -name tree.yaml | wc -l | grep -qx {FILES}") / FILES * 1e3)
            pid = pid_of(point)
            peaks.append(peak_memory(pid))
            Path("/proc/sys/vm/drop_caches").write_text("2")
            time.sleep(1)
            lefts.append(memory(pid))
    row("100 000 files: `ls -f`", f"{ratio(listed)} s", "goal ≤ 0.5 s")
    row("… `find`, of a file", f"{ratio(found)} ms", "goal ≤ 0.6 ms")
    row("… memory, at most / when the kernel forgot them", f"{median(peaks):.0f} / {median(lefts):.0f} MiB", "goal ≤ 64 MiB")
