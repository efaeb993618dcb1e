"""A directory of many files."""

import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

from .files import write_asdf
from .machine import Mount, median, memory_of, ours, peak_memory, pid_of, ratio, row, seconds

FILES = 100_000
WALKED = 2000
"""Number of files in the directory that is walked completely."""
EDITED = 500
"""Number of files that are walked after others were edited."""


def folder_of(here, name, files):
    """Writes a directory of small ASDF files."""
    folder = here / name
    folder.mkdir()
    write_asdf(folder / "0.asdf", [(1000, b"\0" * 4, [b"x" * 1000])])
    sample = (folder / "0.asdf").read_bytes()
    for n in range(1, files):
        (folder / f"{n}.asdf").write_bytes(sample)
    time.sleep(4)  # recently changed files are opened at each lookup, to detect their format
    return folder


def processor(pid):
    """Returns the CPU seconds that a process has used, and the commands that were run here."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + own.ru_utime + own.ru_stime


class Bindfs(Mount):
    """A directory mounted by bindfs, from `with` to its end."""

    def __init__(self, source, point):
        super().__init__(["bindfs", source, point], point)

    def pid(self):
        found = subprocess.run(["pgrep", "-xf", " ".join(self.command)], capture_output=True, text=True, check=True)
        return int(found.stdout.split()[0])


def bench_folder(here, repeats):
    """Measures 100 000 files in one directory, listed and searched in a writable mount."""
    folder = folder_of(here, "many", FILES)
    listed, long_listed, of_bindfs, globbed, again, found, peaks, lefts = ([] for _ in range(8))
    for _ in range(repeats):
        with ours(folder, here / "m") as point:
            begun = time.perf_counter()
            seconds("sh", "-c", f"test $(ls -f {point} | wc -l) = {FILES + 2}")
            listed.append(time.perf_counter() - begun)
            globbed.append(seconds("sh", "-c", f"set -- {point}/*; test $# = {FILES}"))
            long_listed.append(seconds("ls", "-l", point))
            with Bindfs(folder, here / "b") as beside:
                of_bindfs.append(long_listed[-1] / seconds("ls", "-l", beside))
                again.append(globbed[-1] / seconds("sh", "-c", f"set -- {beside}/*; test $# = {FILES}"))
            pid = pid_of(point)
            found.append(seconds("sh", "-c", f"find {point} -name tree.yaml | wc -l | grep -qx {FILES}") / FILES * 1e3)
            peaks.append(peak_memory(pid))
            Path("/proc/sys/vm/drop_caches").write_text("2")
            time.sleep(1)
            lefts.append(memory_of(pid, "VmRSS"))
    row("100 000 files: `ls -f`", f"{ratio(listed)} s", "goal ≤ 0.5 s")
    row("… a glob after it, `*`", f"{ratio(globbed)} s", f"{median(again):.1f} times bindfs")
    row("… `ls -l`", f"{ratio(long_listed)} s", f"{ratio(of_bindfs)} of bindfs; goal ≤ 1")
    row("… `find`, of a file", f"{ratio(found)} ms", "goal ≤ 0.6 ms")
    row("… memory, at most / when the kernel forgot them", f"{median(peaks):.0f} / {median(lefts):.0f} MiB", "goal ≤ 64 MiB")


WALKS = {
    "`grep -rl --include=tree.yaml`": "grep -rl --include=tree.yaml bench {} | wc -l | grep -qx " + str(WALKED),
    "`du -s`": "du -s {}",
}


def bench_walk(here, repeats):
    """Measures everything that the mount shows of 2000 files, compared with a copy of it on bindfs."""
    folder, copy = folder_of(here, "some", WALKED), here / "copy"
    with ours(folder, here / "m") as point:
        shutil.copytree(point, copy)
    for name, command in WALKS.items():
        costs, of_bindfs = [], []
        for _ in range(repeats):
            def cost(point, pid):
                begun = processor(pid)
                seconds("sh", "-c", command.format(point))
                return (processor(pid) - begun) / WALKED * 1e3
            with ours(folder, here / "m") as point:
                costs.append(cost(point, pid_of(point)))
            mount = Bindfs(copy, here / "b")
            with mount as point:
                of_bindfs.append(costs[-1] / cost(point, mount.pid()))
        row(f"2000 files: {name}, CPU time of a file", f"{ratio(costs)} ms",
            f"goal ≤ 0.5 ms; {ratio(of_bindfs)} of bindfs on a copy of all that is shown")


def edited_before(here, files):
    """Makes a state directory in which this many other files have a text in their history."""
    history = here / f"state-{files}" / "asdf-mount" / "history"
    history.mkdir(parents=True, mode=0o700)
    history.parent.chmod(0o700)
    for n in range(files):
        key, path = f"{n:032x}", f"{n:016x}"
        (history / key).mkdir(mode=0o700)
        text = history / key / f"00000001-2026-11-23T10-36-37Z-{path}-{n:016x}-1795430197.000000001.yaml"
        text.write_text("# a text\n")
        (history / ".by-path" / path).mkdir(parents=True, mode=0o700)
        (history / ".by-path" / path / key).touch(0o600)
    return history.parent.parent


def bench_edited(here, repeats):
    """Measures a walk over files, and a save, after others were edited."""
    folder = folder_of(here, "walked", EDITED)
    states = {files: edited_before(here, files) for files in (0, 3000, 30_000, 100_000)}

    def costs(state, *options):
        with ours(folder, here / "m", *options, env={"XDG_STATE_HOME": str(state)}) as point:
            pid = pid_of(point)
            begun = processor(pid)
            seconds("find", point)
            walked = processor(pid)
            for n in range(20):
                tree = point / f"{n}.asdf" / "tree.yaml"
                tree.write_text(tree.read_text().replace("...", f"# {time.time_ns()}\n..."))
            return (walked - begun) / EDITED, (processor(pid) - walked) / 20

    pairs = {files: [] for files in states}
    for _ in range(repeats):
        without = costs(states[0], "-o", "history=off")
        for files, state in states.items():
            pairs[files].append([one / other for one, other in zip(costs(state), without)])
    for files, ratios in pairs.items():
        walks, saves = zip(*ratios)
        row(f"find in a mount after edits of {files} other files, CPU time, of history=off", ratio(walks),
            "goal ≤ 1.2")
        row("… a save", ratio(saves), "")
