"""Running commands, mounting, timing, and the rows of the table."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / (os.environ.get("CARGO_TARGET_DIR") or "target")
"""Cargo's build directory."""
BINARY = TARGET / "release" / "asdf-mount"
PYTHON = ROOT / ".venv" / "bin" / "python"
"""Python with the newest asdf, installed by scripts/bench."""
PEERS = ROOT / ".venv-bench" / "bin"
"""Directory of the Python peers."""
RATARMOUNT = ROOT / ".venv-ratarmount" / "bin" / "ratarmount"
GIB = 1 << 30
MIB = 1 << 20

rows = []


def row(what, figure, beside=""):
    """Adds a row to the table, and prints it to stderr immediately."""
    rows.append((what, figure, beside))
    print(f"  {what}: {figure}  {beside}", file=sys.stderr, flush=True)


def median(values):
    return statistics.median(values)


def ratio(values):
    """Returns a median with its range."""
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def noise():
    """Returns the load average of the machine."""
    return f"load {os.getloadavg()[0]:.1f}"


def have(command):
    return shutil.which(str(command)) is not None


def seconds(*command, **options):
    """Returns the wall time of a command that must succeed."""
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    begun = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, **options)
    return time.perf_counter() - begun


def at_once(*commands):
    """Returns the wall time of commands that run concurrently."""
    begun = time.perf_counter()
    running = [subprocess.Popen([str(w) for w in c], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for c in commands]
    if any([process.wait() for process in running]):
        raise SystemExit(f"failed: {commands}")
    return time.perf_counter() - begun


class Mount:
    """A file system mounted by a command, for the duration of a `with` block."""

    def __init__(self, command, point, env=None):
        self.point, self.env = Path(point), {**os.environ, **(env or {})}
        self.point.mkdir(parents=True, exist_ok=True)
        self.command = [str(word) for word in command]

    def __enter__(self):
        subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL, env=self.env)
        return self.point

    def __exit__(self, *_):
        for _ in range(100):
            if not os.path.ismount(self.point):
                return
            subprocess.run(["umount", str(self.point)], check=False, stderr=subprocess.DEVNULL)
            time.sleep(0.02)


def ours(source, point, *options, env=None):
    """Mounts `source` with asdf-mount, with additional environment variables."""
    return Mount([BINARY, *options, source, point], point, env)


def pid_of(point):
    return int(os.getxattr(point, "user.asdf-mount.pid"))


def memory_of(pid, key):
    """Returns the value of a line of a process's status, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return float("nan")


def peak_memory(pid):
    """Returns the peak memory of a process, in MiB. Mapped pages of the page cache count."""
    return memory_of(pid, "VmHWM")


def own_memory(pid):
    """Returns the memory of a process now, in MiB, without pages of the page cache."""
    return memory_of(pid, "RssAnon")


def bytes_moved(pid):
    """Returns the number of bytes that a process has read and written with system calls."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["rchar"]), int(fields["wchar"])


def build(*more):
    subprocess.run(["cargo", "build", "--release", "--quiet", *more], cwd=ROOT, check=True)
