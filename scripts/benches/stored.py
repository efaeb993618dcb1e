"""Uncompressed blocks."""

import os
import subprocess
import time

from .files import write_asdf
from .machine import GIB, MIB, Mount, at_once, median, noise, ours, own_memory, peak_memory, pid_of, ratio, row, seconds


def dd(path, first=0, count=1024, begin=0):
    """Returns the command that reads `count` MiB after the first `first` MiB of the data at byte `begin` of a file."""
    at = begin + first * MIB
    return ["dd", f"if={path}", "of=/dev/null", "bs=1M", f"count={count}", "iflag=skip_bytes", f"skip={at}"]


def seconds_of_cat(path, begin=0):
    with open(path, "rb", buffering=0) as file:
        file.seek(begin)
        begun = time.perf_counter()
        subprocess.run(["cat"], stdin=file, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - begun


def bench_stored(here, repeats):
    """Measures an uncompressed block of 1 GiB at an odd offset, everything in the page cache.

    Each read is compared with a read of the same bytes from the source, with the same command.
    """
    peers = here / "peers"
    peers.mkdir(exist_ok=True)
    source = peers / "stored.asdf"
    noise_bytes = os.urandom(16 * MIB)
    (begin,) = write_asdf(source, [(GIB, b"\0" * 4, [noise_bytes] * 64)], padding=b" " * 4242, index=False)
    image = here / "stored.squashfs"
    image.unlink(missing_ok=True)
    seconds("mksquashfs", peers, image, "-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress")

    def read(tool, path, begin):
        return seconds_of_cat(path, begin) if tool == "cat" else seconds(*dd(path, begin=begin))

    names = ["dd first", "dd again", "cat first", "cat again"]
    ratios = {name: {n: [] for n in names} for name in ("ours", "bindfs", "squashfuse")}
    two, raws, own, peak = [], [], 0.0, 0.0
    read("cat", source, 0), read("cat", image, 0)
    for _ in range(repeats):
        for peer in ratios:
            if peer == "ours":
                mount, name, skip = ours(source, here / "m"), "blocks/0.bin", 0
            elif peer == "bindfs":
                mount, name, skip = Mount(["bindfs", peers, here / "b"], here / "b"), "stored.asdf", begin
            else:
                mount, name, skip = Mount(["squashfuse", image, here / "s"], here / "s"), "stored.asdf", begin
            for tool in ("dd", "cat"):
                with mount as point:
                    for when in ("first", "again"):
                        raw = read(tool, source, begin)
                        raws.append(GIB / raw / 1e9)
                        ratios[peer][f"{tool} {when}"].append(raw / read(tool, point / name, skip))
                    if peer == "ours":
                        raw = at_once(*(dd(source, half, 512, begin) for half in (0, 512)))
                        two.append(raw / at_once(*(dd(point / name, half, 512) for half in (0, 512))))
                        own = max(own, own_memory(pid_of(point)))
                        peak = max(peak, peak_memory(pid_of(point)))
    goal = {"dd first": 0.6, "dd again": 0.6, "cat first": 0.5, "cat again": 0.5}
    for n in names:
        beside = {peer: median(ratios[peer][n]) for peer in ("bindfs", "squashfuse")}
        row(f"stored 1 GiB, `{n}`, of the same read of the source", ratio(ratios["ours"][n]),
            f"bindfs {beside['bindfs']:.2f}, squashfuse {beside['squashfuse']:.2f}; goal {goal[n]}")
    cores = os.cpu_count()
    row(f"two `dd` at once, of two on the source, {cores} cores", ratio(two), "goal 0.9 where reader and daemon have a core each")
    row("memory of the daemon's own", f"{own:.0f} MiB",
        f"goal < 64 MiB; with the source's pages in the page cache, which it lends to the kernel, {peak:.0f} MiB at most")
    row("noise: the source itself, GB/s", ratio(raws), noise())


def bench_small(here, repeats):
    """Measures a small block, read repeatedly: the kernel's page cache should serve it."""
    peers = here / "small"
    peers.mkdir(exist_ok=True)
    source = peers / "small.asdf"
    line = b"0123456789 abcdefghijklmnopqrstuvwxyz\n"
    data = (line * (MIB // len(line)))[: MIB - 100]
    write_asdf(source, [(len(data), b"\0" * 4, [data])])
    image = here / "small.squashfs"
    image.unlink(missing_ok=True)
    seconds("mksquashfs", peers, image, "-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress")
    grep = "for i in $(seq 100); do grep -c 9.a \"$0\" >/dev/null; done"
    reads = "import os,sys\nf=os.open(sys.argv[1],0)\nfor _ in range(200):\n for at in range(0,1000000,4096): os.pread(f,4096,at)"
    result = {"grep": [], "reads": []}
    for _ in range(repeats):
        with ours(source, here / "m") as m, Mount(["squashfuse", image, here / "s"], here / "s") as s:
            mine, peer = m / "blocks/0.bin", s / "small.asdf"
            for path in (mine, peer):
                seconds("cat", path)
            result["grep"].append(seconds("bash", "-c", grep, peer) / seconds("bash", "-c", grep, mine))
            result["reads"].append(seconds("python3", "-c", reads, peer) / seconds("python3", "-c", reads, mine))
    row("`grep -c` of a 1 MiB block, of squashfuse (kernel's cache)", ratio(result["grep"]), "goal ≥ 1")
    row("4 KiB reads of it, of squashfuse", ratio(result["reads"]), "goal ≥ 1")


