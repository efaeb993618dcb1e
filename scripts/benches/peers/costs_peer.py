"""The programs of costs.py: they write the files, and run as clients.

    costs_peer.py WHAT ARGUMENT...
"""

import glob
import json
import os
import statistics
import sys
import time

import numpy as np

what, *arguments = sys.argv[1:]


def arrays(path, count):
    import asdf
    asdf.AsdfFile({f"x{n:02}": np.arange(1000, dtype="f4") + n for n in range(int(count))}).write_to(path)


def tree(path, size):
    import asdf
    asdf.AsdfFile({"title": "0", "x": np.arange(100)}).write_to(path, pad_blocks=False)
    with open(path, "rb") as file:
        head, rest = file.read().split(b"...\n", 1)
    line = b"- {name: 'NGC 0001', telescope: ROMAN, position: [12.5, -0.25], flags: {calibrated: true, quality: 3}}\n"
    with open(path, "wb") as out:
        out.write(head + b"observations:\n" + line * (int(size) // len(line)) + b"...\n" + b" " * 8192)
        out.write(rest.split(b"#ASDF BLOCK INDEX")[0])


def table(path, rows):
    import asdf
    rows, random = int(rows), np.random.default_rng(1)
    columns = {"id": np.arange(rows), "x": random.normal(0, 1, rows), "y": random.normal(0, 1, rows), "flag": np.arange(rows) % 7}
    asdf.AsdfFile({"stars": columns}).write_to(path)


def copy(source, target):
    import duckdb
    duckdb.sql(f"copy (select * from read_parquet('{source}')) to '{target}' (format parquet)")


def queries(ours, theirs, where, pid):
    """Prints the CPU seconds, with those of our daemon, and the bytes read of a query of each file, without DuckDB's start.

    The files alternate. The first query of each file is not counted: the daemon finds the statistics then.
    """
    import duckdb
    database = duckdb.connect()
    database.execute("set enable_external_file_cache = false")  # it would keep what was read
    spent, rounds = {}, 21
    for turn in range(rounds):
        for path in (ours, theirs):
            daemon, own, before = of_process(pid), time.process_time(), bytes_read()
            database.execute(f"select sum(x), count(*) from read_parquet('{path}') where {where}").fetchall()
            used = time.process_time() - own + of_process(pid) - daemon
            if turn > 0:
                spent.setdefault(path, []).append((used, bytes_read() - before))
    print(json.dumps([[statistics.median(numbers) for numbers in zip(*spent[path])] for path in (ours, theirs)]))


def of_process(pid):
    """Returns the CPU seconds of a process."""
    tasks = glob.glob(f"/proc/{pid}/task/*/schedstat")
    return sum(int(open(task).read().split()[0]) for task in tasks) / 1e9


def bytes_read():
    """Returns the number of bytes that this process has read with system calls."""
    return int(open("/proc/self/io").read().split()[1])


def stat(path, count):
    for _ in range(int(count)):
        os.stat(path)


def open_(path, count):
    for _ in range(int(count)):
        os.close(os.open(path, os.O_RDONLY))


def walk(root):
    for at, _, names in os.walk(root):
        for name in names:
            if name.endswith(".npy"):
                np.load(os.path.join(at, name))


def compressed(path, codec, raw):
    import asdf
    asdf.AsdfFile({"data": np.fromfile(raw, "f4")}).write_to(path, all_array_compression=codec)


def write(h5, zarr_path, codec, raw):
    import h5py
    import hdf5plugin
    import zarr
    from zarr import codecs
    data, chunks = np.fromfile(raw, "f4"), (1 << 20,)
    filters = {"zlib": {"compression": "gzip"}, "lz4": dict(hdf5plugin.LZ4()), "zstd": dict(hdf5plugin.Zstd()), "blsc": dict(hdf5plugin.Blosc())}
    with h5py.File(h5, "w") as file:
        file.create_dataset("data", data=data, chunks=chunks, **filters[codec])
    packer = {"zlib": codecs.GzipCodec(), "lz4": codecs.BloscCodec(cname="lz4", shuffle="noshuffle"), "zstd": codecs.ZstdCodec(),
              "blsc": codecs.BloscCodec()}[codec]
    array = zarr.create_array(zarr_path, shape=data.shape, chunks=chunks, dtype="f4", compressors=packer, overwrite=True)
    array[:] = data


def load(path, count):
    if path.endswith(".h5"):
        import h5py
        import hdf5plugin  # noqa: F401
    elif path.endswith(".zarr"):
        import zarr
    for _ in range(int(count)):
        if path.endswith(".h5"):
            with h5py.File(path) as file:
                file["data"][:]
        elif path.endswith(".zarr"):
            zarr.open_array(path)[:]
        else:
            np.load(path)


{"open": open_}.get(what, globals().get(what))(*arguments)
