"""Processor time of the daemon and the program together, until both are quiet."""

import json
import os
import resource
import shutil
import struct
import subprocess
import time
from pathlib import Path

from .coded import FreshMount
from .files import picture, stored_as
from .folder import Bindfs
from .machine import MIB, PEERS, PYTHON, median, noise, ours, pid_of, ratio, row

PEER = Path(__file__).parent / "peers" / "costs_peer.py"


def of_process(pid):
    """Returns the CPU seconds of a process, precisely: /proc/PID/stat counts in hundredths."""
    spent = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            spent += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        except FileNotFoundError:
            pass
    return spent / 1e9


def of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cost(pid, run):
    """Returns the CPU seconds of the programs of `run`, and of the process `pid` (None for none) until that is quiet."""
    if pid is None:
        own = of_children()
        run()
        return of_children() - own
    daemon, own = of_process(pid), of_children()
    run()
    spent, before = of_process(pid), -1.0
    while spent - before > 1e-4:
        time.sleep(0.3)
        before, spent = spent, of_process(pid)
    return spent - daemon + of_children() - own


def quietly(*command, **options):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)


def peer(*words, python=PYTHON):
    subprocess.run([str(python), str(PEER), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def bench_md5(here, repeats, data, mib):
    """Measures the first read of a block with the MD5 of its stored or of its decoded bytes."""
    import hashlib
    mib = min(mib, 256)
    raw = picture("f32", data, mib)
    streams = {"zlib": stored_as("zlib", raw, data), "bzp2": stored_as("bzp2", picture("f32", data, mib // 4), data)}
    streams["zstd"] = raw.with_suffix(".zst-bare")
    if not streams["zstd"].exists():
        quietly("zstd", "-q", "-3", raw, "-o", streams["zstd"])
    for codec, stream in streams.items():
        plain = raw if codec != "bzp2" else picture("f32", data, mib // 4)
        stored = stream.read_bytes()
        sums = {"no MD5": b"\0" * 16, "the MD5 of the stored bytes": hashlib.md5(stored).digest(),
                "the MD5 of the decoded bytes": hashlib.md5(plain.read_bytes()).digest()}
        costs = {name: [] for name in sums}
        for name, md5 in sums.items():
            with open(here / f"{name}.asdf", "wb") as out:
                out.write(b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- {bench: true}\n...\n\xd3BLK")
                used = len(stored)
                out.write(struct.pack(">HI4sQQQ16s", 48, 0, codec.encode(), used, used, plain.stat().st_size, md5) + stored)
        for _ in range(repeats):
            for name in sums:
                with FreshMount(here / f"{name}.asdf", here) as point:
                    costs[name].append(cost(pid_of(point), lambda: quietly("cat", point / "blocks/0.bin")))
        for name in list(sums)[1:]:
            row(f"{codec}, first read of a block with {name}, of one with none",
                ratio([one / other for one, other in zip(costs[name], costs["no MD5"])]), "goal ≤ 1.15")


def bench_requests(here, repeats):
    """Measures `stat`, and open and close, in a writable mount, compared with bindfs."""
    source, copy = here / "source", here / "copy"
    source.mkdir()
    peer("arrays", source / "a.asdf", 20)
    with ours(source, here / "m") as point:
        shutil.copytree(point, copy)
    for name in ("tree.yaml", "arrays/x01.npy"):
        for call, count in (("stat", 200_000), ("open", 5000)):
            ratios, of_bindfs = [], []
            for _ in range(repeats):
                with ours(source, here / "m") as point, Bindfs(copy, here / "b") as beside:
                    pids = pid_of(point), Bindfs(copy, here / "b").pid()
                    times = [cost(pid, lambda: peer(call, root / "a.asdf" / name, count))
                             - cost(pid, lambda: peer(call, root / "a.asdf" / name, 0)) for pid, root in zip(pids, (point, beside))]
                of_bindfs.append(times[1] / count * 1e6)
                ratios.append(times[0] / times[1])
            row(f"`{call}` of {name} in a writable mount, of bindfs", ratio(ratios), f"bindfs {median(of_bindfs):.1f} µs; goal ≤ 2")


def bench_small_pieces(here, repeats):
    """Measures small reads of a large stored block, compared with bindfs."""
    from .files import write_asdf
    source = here / "source"
    source.mkdir()
    (begin,) = write_asdf(source / "a.asdf", [(256 * MIB, b"\0" * 4, [os.urandom(MIB)] * 256)], index=False)
    plain = here / "plain"
    plain.mkdir()
    (plain / "0.bin").write_bytes((source / "a.asdf").read_bytes()[begin:])
    commands = {
        "dd bs=4k": "dd bs=4k of=/dev/null if={}", "dd bs=16k": "dd bs=16k of=/dev/null if={}",
        "dd bs=32k": "dd bs=32k of=/dev/null if={}", "dd bs=128k": "dd bs=128k of=/dev/null if={}",
        "dd bs=1M": "dd bs=1M of=/dev/null if={}", "wc -l": "wc -l {}", "head": "head -n 300000 {}", "tar": "tar -cf - {} | cat",
    }
    for name, command in commands.items():
        first, again = [], []
        for _ in range(repeats):
            with ours(source / "a.asdf", here / "m") as point, Bindfs(plain, here / "b") as beside:
                mine, other = pid_of(point), Bindfs(plain, here / "b").pid()
                for times in (first, again):
                    run = lambda path: quietly("sh", "-c", command.format(path) + " >/dev/null")
                    times.append(cost(mine, lambda: run(point / "blocks/0.bin")) / cost(other, lambda: run(beside / "0.bin")))
        row(f"stored 256 MiB, `{name}`, CPU time, first / again, of bindfs", f"{ratio(first)} / {ratio(again)}", "goal ≤ 1.5")


WALKS = {
    "find": "find {} >/dev/null", "grep -r": "grep -rl --include=tree.yaml nothing {}; true", "du": "du -s {}", "ls -lR": "ls -lR {} >/dev/null",
    "rsync": "rm -rf {out}; rsync -a {} {out}", "cp -r": "rm -rf {out}; cp -r {} {out}",
    "os.walk": f"{PYTHON} {PEER} walk {{}}",
}


def bench_array_walks(here, repeats):
    """Measures walks through 100 files with 20 arrays each, compared with bindfs on a copy."""
    source, copy = here / "source", here / "copy"
    source.mkdir()
    peer("arrays", source / "0.asdf", 20)
    for n in range(1, 100):
        shutil.copy(source / "0.asdf", source / f"{n}.asdf")
    time.sleep(4)  # recently changed files are opened at each lookup, to detect their format
    with ours(source, here / "m") as point:
        quietly("cp", "-r", point, copy)
    for name, command in WALKS.items():
        ratios = []
        for _ in range(repeats):
            with ours(source, here / "m") as point, Bindfs(copy, here / "b") as beside:
                times = [cost(pid, lambda: quietly("sh", "-c", command.format(root, out=here / "out")))
                         for pid, root in ((pid_of(point), point), (Bindfs(copy, here / "b").pid(), beside))]
            ratios.append(times[0] / times[1])
            shutil.rmtree(here / "out", ignore_errors=True)
        row(f"100 files of 20 arrays, `{name}`, CPU time, of bindfs on a copy", ratio(ratios), "goal ≤ 1.5")


def bench_sed(here, repeats):
    """Measures `sed -i` on a tree of 50 MB, compared with the same text in a plain file."""
    source = here / "a.asdf"
    peer("tree", source, 50_000_000)
    seds, copies = [], []
    for n in range(repeats):
        with ours(source, here / "m") as point:
            pid, tree, plain = pid_of(point), point / "tree.yaml", here / "plain.yaml"
            shutil.copy(tree, plain)
            sed = lambda path: quietly("sed", "-i", f"s/^title: .*/title: {n}/", path)
            seds.append(cost(pid, lambda: sed(tree)) / cost(pid, lambda: sed(plain)))
            shutil.copy(plain, here / "new.yaml")
            quietly("sed", "-i", f"s/^title: .*/title: again {n}/", here / "new.yaml")
            copy = lambda path: quietly("cp", here / "new.yaml", path)
            copies.append(cost(pid, lambda: copy(tree)) / cost(pid, lambda: copy(plain)))
    row("`sed -i` on a tree of 50 MB, CPU time, of the same plain file", ratio(seds), "goal ≤ 8")
    row("… `cp` onto it", ratio(copies), noise())


def bench_many_readers(here, repeats, data, mib):
    """Measures readers of disjoint parts of one zlib stream."""
    raw = picture("f32", data, min(mib, 256))
    stream = stored_as("zlib", raw, data)
    from .files import in_asdf
    source, size = in_asdf("zlib", stream, raw.stat().st_size), raw.stat().st_size
    for count in (8, 16):
        ratios = []
        for _ in range(repeats):
            def costs(readers):
                with FreshMount(source, here) as point:
                    part = size // readers
                    script = " & ".join(f"dd if={point}/blocks/0.bin of=/dev/null bs=1M iflag=skip_bytes,count_bytes skip={n * part} count={part}"
                                        for n in range(readers))
                    return cost(pid_of(point), lambda: quietly("sh", "-c", script + " & wait"))
            one = costs(1)
            ratios.append(costs(count) / one)
        row(f"{count} readers of disjoint parts of one zlib stream, CPU time, of one reader", ratio(ratios), "goal ≤ 1.2")


def bench_parquet(here, repeats):
    """Measures selective queries in one process of DuckDB, compared with a file that DuckDB wrote."""
    peer("table", here / "a.asdf", 10_000_000)
    selective, ranges, read = [], [], []
    for _ in range(repeats):
        with ours(here / "a.asdf", here / "m") as point:
            table, copy = next((point / "tables").glob("**/*.parquet")), here / "copy.parquet"
            peer("copy", table, copy)
            for ratios, where in ((selective, "id = 5000000"), (ranges, "id between 9000000 and 9001000")):
                command = [str(PYTHON), str(PEER), "queries", str(table), str(copy), where, str(pid_of(point))]
                mine, theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                ratios.append(mine[0] / theirs[0])
            read.append(mine[1] / theirs[1])
    row("a DuckDB query for one of 10⁷ rows, CPU time, of a copy by DuckDB", ratio(selective), noise())
    row("… for 1000 rows in a row", ratio(ranges), f"goal ≤ 1.2; bytes read: {ratio(read)} of the copy's")


def bench_libraries(here, repeats, data, mib):
    """Measures two loads of an array in this process, compared with h5py and zarr."""
    mib = min(mib, 256)
    raw = picture("f32", data, mib)
    for codec in ("zlib", "lz4", "zstd", "blsc"):
        source = here / f"{codec}.asdf"
        peer("compressed", source, codec, raw)
        peer("write", here / f"{codec}.h5", here / f"{codec}.zarr", codec, raw, python=PEERS / "python")
        load = lambda path, count: peer("load", path, count, python=PEERS / "python")
        firsts, seconds, of_zarr = [], [], []
        for _ in range(repeats):
            with FreshMount(source, here) as point:
                pid, array = pid_of(point), point / "arrays/data.npy"
                nothing = cost(pid, lambda: load(array, 0))
                mine = [cost(pid, lambda: load(array, count)) - nothing for count in (1, 1)]
            none = {kind: cost(None, lambda: load(here / f"{codec}.{kind}", 0)) for kind in ("h5", "zarr")}
            theirs = {kind: cost(None, lambda: load(here / f"{codec}.{kind}", 1)) - none[kind] for kind in none}
            firsts.append(theirs["h5"] / mine[0])
            seconds.append(theirs["h5"] / mine[1])
            of_zarr.append(2 * theirs["zarr"] / sum(mine))
        row(f"{codec}, {mib} MiB, numpy.load first / again, CPU time, times as cheap as h5py", f"{ratio(firsts)} / {ratio(seconds)}", "")
        row("… both loads together, as zarr", ratio(of_zarr), noise())
