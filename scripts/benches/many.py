"""Verbs for many files."""

import os
import shutil
import subprocess

from .machine import BINARY, PYTHON, ROOT, noise, ratio, row

PEER = ROOT / "scripts/benches/peers/many_peer.py"
LOOPED = 50


def cpu_time(*arguments):
    """Runs the program; returns its CPU time and that of its children."""
    with subprocess.Popen([str(word) for word in (BINARY, *arguments)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} failed")
    return usage.ru_utime + usage.ru_stime


def bench_many(here, repeats, count=1_000):
    """Sets a value in files like the example, filters them and searches them."""
    directory = here / "many"
    directory.mkdir()
    for number in range(count):
        shutil.copy(ROOT / "examples/sample.asdf", directory / f"{number:04}.asdf")
    files = sorted(directory.glob("*.asdf"))
    ratios = {"set": [], "filter": [], "search": []}
    for run in range(repeats):
        loops = {
            work: float(subprocess.run([PYTHON, PEER, work, directory, str(LOOPED)], check=True,
                                       capture_output=True).stdout) / LOOPED
            for work in ("change", "search")
        }
        ratios["set"].append(loops["change"] * count / cpu_time("--set", f"object.filter=F{run}", *files))
        ratios["filter"].append(loops["change"] * count / cpu_time("--filter", f"sed s/F{run}/G{run}/", *files))
        ratios["search"].append(loops["search"] * count / cpu_time("--search", "filter", directory))
    row(f"`--set` of a value in {count} files, of the CPU time of a loop of asdf's update()", ratio(ratios["set"]),
        f"goal ≥ 10; {noise()}")
    row("… `--filter` with sed", ratio(ratios["filter"]), "goal ≥ 10")
    row("`--search` in them, of the CPU time of a loop of asdf's search()", ratio(ratios["search"]), "goal ≥ 50")
