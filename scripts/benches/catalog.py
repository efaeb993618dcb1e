"""A catalogue of many files."""

import contextlib
import os
import subprocess
import sys
import time

from .machine import BINARY, MIB, PYTHON, ROOT, median, noise, peak_memory, ratio, row

PEERS = ROOT / "scripts/benches/peers"
PEER = PEERS / "catalog_peer.py"
DELAY = 0.02
LOOPED = 20


def described(*arguments, **options):
    """Runs --catalog; returns its wall time, CPU time and peak memory in MiB."""
    begun = time.perf_counter()
    with subprocess.Popen([str(word) for word in (BINARY, "--catalog", "-q", *arguments)], stdout=subprocess.DEVNULL,
                          **options) as process:
        ended, peak = 0, 0
        while not ended:
            # The maximum that wait4 returns counts this script, too.
            with contextlib.suppress(OSError):
                peak = max(peak, peak_memory(process.pid))
            time.sleep(0.01)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("--catalog failed")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, peak


def bench_catalog(here, repeats, count=5_000, many=100_000):
    """Measures files with trees of 54 kB, like Roman's."""
    subprocess.run([PYTHON, PEER, "write", here, str(count)], check=True)
    described(here)
    of_core, of_python = [], []
    for _ in range(repeats):
        wall, cpu, _ = described(here)
        loop = float(subprocess.run([PYTHON, PEER, "loop", here, str(LOOPED)], check=True, capture_output=True).stdout)
        of_core.append(count / cpu)
        of_python.append(loop / LOOPED / (wall / count))
    row("`--catalog` of files with trees of 54 kB, files a second of one core's time", f"{median(of_core):.0f}",
        f"goal ≥ 500; {noise()}")
    row("… times as fast as a loop of asdf.open and json.dumps, all cores", ratio(of_python), "goal ≥ 50")
    # The same files again and again, so that the disk need not hold as many.
    names = sorted(here.rglob("*.asdf"))[:1000]
    peaks = []
    for rounds in (1, many // len(names)):
        (here / "names").write_text("".join(f"{name}\n" for name in names) * rounds)
        peaks.append(described("--files-from", here / "names")[2])
    row(f"… peak memory for {len(names)} / {many} files", f"{peaks[0]:.0f} / {peaks[1]:.0f} MiB", "goal: the same")


def bench_catalog_of_server(here, repeats, count=3_000, jobs=64):
    """Measures files with trees of 54 kB and two large blocks on a server that answers after 20 ms."""
    sys.path.insert(0, str(PEERS))
    import catalog_peer
    header = catalog_peer.BLOCK[:14] + 3 * (8 * MIB).to_bytes(8, "big") + bytes(16)
    text = (catalog_peer.HEAD + catalog_peer.tree(1) + "...\n").encode()
    offsets = [len(text) + n * (len(header) + 8 * MIB) for n in range(3)]
    index = "#ASDF BLOCK INDEX\n%YAML 1.1\n---\n" + "".join(f"- {offset}\n" for offset in offsets) + "...\n"
    (here / "x.asdf").write_bytes(text + 3 * (header + bytes(8 * MIB)) + index.encode())
    command = [PYTHON, PEERS / "delayed_server.py", here / "x.asdf", str(DELAY)]
    speeds, cpus = [], []
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().strip()
        (here / "addresses").write_text("".join(f"http://127.0.0.1:{port}/{n}.asdf\n" for n in range(count)))
        for _ in range(repeats):
            wall, cpu, _ = described("-o", "anonymous", "-j", jobs, "--files-from", here / "addresses")
            speeds.append(count / wall)
            cpus.append(cpu / count)
        server.kill()
    row(f"`--catalog -j {jobs}` of files on a server, 20 ms a request, files a second", f"{median(speeds):.0f}",
        f"goal ≥ 500; {noise()}")
    row("… CPU time a file", f"{median(cpus) * 1e3:.2f} ms", "")
