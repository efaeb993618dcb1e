"""Changing the tree: asdf-mount compared with `asdftool edit`, which runs a non-interactive editor."""

import os
import re
import struct
import subprocess
import time
from pathlib import Path

from .files import block_header, write_asdf
from .machine import GIB, MIB, PYTHON, ROOT, bytes_moved, median, noise, ours, peak_memory, pid_of, ratio, row, seconds

TREE = b"""#ASDF 1.0.0
#ASDF_STANDARD 1.5.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
note: before
data: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: little, shape: [SHAPE]}
...
"""


SLOW = 5
"""Milliseconds added to each fsync, to simulate a slower disk."""


def save(point, tree):
    """Writes a tree through the mount as a careful program does: write, fsync, close."""
    begun = time.perf_counter()
    with open(point / "tree.yaml", "r+b") as file:
        file.truncate(0)
        file.write(tree)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun


def fsync_alone(folder):
    """Returns the time of one fsync of a changed page on this disk."""
    path = folder / "fsync.probe"
    with open(path, "wb") as file:
        file.write(b"x" * 8192)
        os.fsync(file.fileno())
        times = []
        for n in range(5):
            file.seek(0)
            file.write(bytes([n]) * 4096)
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    path.unlink()
    return median(times)


def slow_disk(folder, milliseconds):
    """Returns the environment of a daemon in which each fsync in `folder` takes `milliseconds` longer."""
    library, control = folder / "faults.so", folder / "faults"
    source = ROOT / "tests/mount/write/faults.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    control.write_bytes(struct.pack("<7i", -1, 0, 0, 0, milliseconds, 0, 0))
    return {"LD_PRELOAD": str(library), "FAULTS": str(control), "FAULTS_UNDER": str(folder)}


def file_with(path, size, sparse, padding):
    """Writes an ASDF file with a block of `size` bytes, and waits until it is on disk. Returns its tree."""
    tree = TREE.replace(b"SHAPE", b"%d" % size)
    if sparse:
        with open(path, "wb") as out:
            out.write(tree + b" " * padding + block_header(size))
            out.truncate(out.tell() + size)
        os.sync()
        return tree
    piece = os.urandom(16 * MIB)
    write_asdf(path, [(size, b"\0" * 4, [piece] * (size // len(piece)))], padding=b" " * padding, head=tree)
    os.sync()
    return tree


def fsyncs_of(pid, point, tree, here):
    """Returns the number of fsyncs during one save."""
    log = here / "fsyncs"
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-p", str(pid), "-o", log, "-e",
                               "trace=fsync,fdatasync,sync_file_range,syncfs"], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    save(point, tree)
    tracer.terminate()
    tracer.wait()
    return len(re.findall(r"(?:fsync|fdatasync|syncfs|sync_file_range)\(", log.read_text()))


def bench_fit(here, repeats):
    """Measures a save of one changed word; the text fits before the first block."""
    small, large = here / "fit-1.asdf", here / "fit-16.asdf"
    trees = {small: file_with(small, GIB, False, 4096), large: file_with(large, 16 * GIB, True, 4096)}
    times, syncs, memory = {small: [], large: []}, [], 0.0
    disk, slowed, slow = [], [], slow_disk(here, SLOW)
    for n in range(repeats):
        for path, tree in trees.items():
            with ours(path, here / "m") as point:
                disk.append(fsync_alone(here))
                times[path].append(save(point, tree.replace(b"before", b"after%d" % n)))
                if n == 0:
                    syncs.append(fsyncs_of(pid_of(point), point, tree.replace(b"before", b"synced"), here))
                memory = max(memory, peak_memory(pid_of(point)))
        with ours(small, here / "m", env=slow) as point:
            one = SLOW / 1e3 + fsync_alone(here)
            slowed.append(save(point, trees[small].replace(b"before", b"slowed%d" % n)) / (3 * one))
    row("a save that fits: 1 GiB / 16 GiB (sparse)",
        f"{median(times[small]) * 1e3:.1f} / {median(times[large]) * 1e3:.1f} ms", "goal: the same")
    row("… fsyncs in it", f"{max(syncs)}", "goal ≤ 3")
    row("… of three fsyncs of this disk", f"{median(times[small]) / (3 * median(disk)):.2f}",
        f"goal < 1; one is {median(disk) * 1e3:.2f} ms")
    row(f"… of three fsyncs, where one takes {SLOW} ms more", ratio(slowed), "goal < 1")
    row("… peak memory of the daemon", f"{memory:.0f} MiB", "goal < 64 MiB + 4 × the tree")


class Image:
    """A file system in a file."""

    def __init__(self, here, kind, size):
        self.file, self.point = here / f"{kind}.image", here / kind
        self.kind, self.size = kind, size

    def __enter__(self):
        self.point.mkdir(exist_ok=True)
        if self.kind == "tmpfs":
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size}", "none", self.point], check=True)
            return self.point
        with open(self.file, "wb") as out:
            out.truncate(self.size)
        quiet = {"ext4": ["-q", "-F"], "xfs": ["-q", "-f", "-m", "reflink=1"]}[self.kind]
        subprocess.run([f"mkfs.{self.kind}", *quiet, self.file], check=True)
        subprocess.run(["mount", "-o", "loop", self.file, self.point], check=True)
        return self.point

    def __exit__(self, *_):
        subprocess.run(["umount", self.point], check=True)
        self.file.unlink(missing_ok=True)


def edit_by_asdftool(path, tree, here):
    """Measures `asdftool edit` with an editor that replaces the text by `tree`."""
    text, editor = here / "tree.new", here / "editor"
    text.write_bytes(tree)
    editor.write_text(f'#!/bin/sh\ncat "{text}" >"$1"\n')
    editor.chmod(0o755)
    answers = here / "answers"
    answers.write_text("c\n")  # to "File must be rewritten. (c)ontinue or (a)bort?"
    with open(answers, "rb") as answer:
        return seconds(Path(PYTHON).with_name("asdftool"), "edit", path, stdin=answer,
                       env={**os.environ, "EDITOR": str(editor)})


def bench_grow(here, repeats):
    """Measures a save if the tree grows beyond the padding, with 1 GiB of data, on three file systems."""
    more = b"".join(b"key%05d: 'grown'\n" % n for n in range(8000))
    for kind in ("ext4", "xfs", "tmpfs"):
        with Image(here, kind, 4 * GIB) as disk:
            path, mine, theirs, copying, moved = disk / "grow.asdf", [], [], [], []
            for _ in range(repeats):
                tree = file_with(path, GIB, False, 0)
                grown = tree.replace(b"note: before\n", b"note: before\n" + more)
                if kind == "tmpfs":
                    copying.append(seconds("cp", path, disk / "copied"))
                    (disk / "copied").unlink()
                with ours(path, here / "m") as point:
                    pid = pid_of(point)
                    before = bytes_moved(pid)
                    mine.append(save(point, grown))
                    moved.append(sum(bytes_moved(pid)) - sum(before))
                file_with(path, GIB, False, 0)
                theirs.append(edit_by_asdftool(path, grown, here))
                path.unlink()
            plan = {"ext4": "insert range", "xfs": "clone", "tmpfs": "copy"}[kind]
            row(f"a save that grows, 1 GiB on {kind} ({plan})", f"{median(mine) * 1e3:.0f} ms", noise())
            row("… times as fast as `asdftool edit`", ratio([t / m for t, m in zip(theirs, mine)]),
                "goal ≥ 20" if kind != "tmpfs" else "")
            if copying:
                row("… times as fast as `cp`", ratio([c / m for c, m in zip(copying, mine)]), "goal ≥ 1")
            else:
                row("… bytes that the daemon read and wrote", f"{max(moved) / MIB:.1f} MiB", "goal: none of the blocks'")


def bench_large_tree(here, repeats):
    """Measures a save of a tree of 100 MB, including the check."""
    entry = b"""- name: 'NGC 0001'
  telescope: ROMAN
  start_time: !time/time-1.1.0 '2026-11-20T12:00:00.000'
  description: a line of free text, as long as those that people write into their metadata
  position: [12.5, -0.25]
  flags: {calibrated: true, quality: 3}
"""
    tree = TREE.replace(b"SHAPE", b"%d" % (16 * MIB))
    tree = tree.replace(b"...\n", b"observations:\n" + entry * (100_000_000 // len(entry)) + b"...\n")
    path, times, memory = here / "large-tree.asdf", [], 0.0
    for _ in range(repeats):
        file_with(path, 16 * MIB, False, 0)
        with ours(path, here / "m") as point:
            times.append(save(point, tree))
            memory = max(memory, peak_memory(pid_of(point)))
    row("a tree of 100 MB saved, check included", f"{len(tree) / median(times) / 1e6:.0f} MB/s ({len(tree) / max(times) / 1e6:.0f}–{len(tree) / min(times) / 1e6:.0f})", "goal ≥ 40")
    row("… peak memory of the daemon", f"{memory:.0f} MiB", f"goal < {64 + 4 * len(tree) // MIB} MiB")
