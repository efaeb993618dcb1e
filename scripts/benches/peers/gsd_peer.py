"""Measures the gsd package on the same work as the mount, and writes the files for both.

    gsd_peer.py write FILE FRAMES     a trajectory: step, position of three particles, and energy in each frame
    gsd_peer.py random FILE MOUNT     reads chunks of random frames, with gsd.fl and through the mount
    gsd_peer.py pygsd FILE            opens the file with gsd.pygsd
    gsd_peer.py series FILE MOUNT     the positions of all frames: gsd.hoomd, gsd.fl, numpy.load in the mount

Prints the times in seconds, as JSON.
"""

import json
import os
import random
import struct
import sys
import time

import gsd.fl
import gsd.hoomd
import gsd.pygsd
import numpy as np

NAMES = ["configuration/step", "particles/position", "log/energy", "particles/N"]
ENTRY = np.dtype([("frame", "<u8"), ("n", "<u8"), ("location", "<i8"), ("m", "<u4"), ("id", "<u2"), ("type", "u1"), ("flags", "u1")])
FRAME = np.dtype([("step", "<u8"), ("position", "<f4", (3, 3)), ("energy", "<f8")])
READS = 3000


def write(path, frames):
    """Writes the same bytes as gsd 5, which takes a minute for a million frames, in one step."""
    data = np.zeros(frames, FRAME)
    data["step"] = np.arange(frames)
    data["position"] = np.arange(9 * frames, dtype="f4").reshape(frames, 3, 3)
    data["energy"] = np.sqrt(data["step"])
    slots = 1 << (3 * frames + 1).bit_length()
    index = np.zeros(slots, ENTRY)
    start = 256 + 1024 + slots * 32 + 4
    # The only chunk that no other frame has comes last in frame 0.
    at = np.arange(frames) * 3
    at[1:] += 1
    for number, (name, n, m, kind) in enumerate([("step", 1, 1, 4), ("position", 3, 3, 9), ("energy", 1, 1, 10)]):
        entries = np.zeros(frames, ENTRY)
        entries["frame"], entries["n"], entries["m"], entries["id"] = np.arange(frames), n, m, number
        entries["type"], entries["location"] = kind, start + np.arange(frames) * FRAME.itemsize + FRAME.fields[name][1]
        index[at + number] = entries
    index[3] = (0, 1, start - 4, 1, 3, 3, 0)
    names = b"".join(name.encode() + b"\0" for name in NAMES).ljust(1024, b"\0")
    header = struct.pack("<QQQQQII64s64s80x", 0x65DF65DF65DF65DF, 256 + 1024, slots, 256, 16, 0x20000, 0x20001, b"bench", b"hoomd")
    with open(path, "wb") as file:
        for part in (header, names, index, struct.pack("<I", 3), data):
            file.write(part)
    with gsd.hoomd.open(path) as trajectory:
        last = trajectory[frames - 1]
        if len(trajectory) != frames or last.log["energy"] != data["energy"][-1] or last.particles.N != 3:
            raise SystemExit("the file is not what gsd reads")


def timed(work):
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def read_random(path, mount):
    with gsd.fl.open(path, "r") as file:
        wanted = [random.randrange(file.nframes) for _ in range(READS)]
        peer, chunks = timed(lambda: [file.read_chunk(n, "particles/position") for n in wanted])

    def through_the_mount():
        found = []
        for n in wanted:
            handle = os.open(f"{mount}/arrays/frames/{n}/particles/position.npy", os.O_RDONLY)
            found.append(os.read(handle, 4096))
            os.close(handle)
        return found

    ours, files = timed(through_the_mount)
    if any(file[128:] != chunk.tobytes() for file, chunk in zip(files, chunks)):
        raise SystemExit("wrong bytes")
    return {"gsd.fl": peer / READS, "mount": ours / READS}


def read_series(path, mount):
    def by_hoomd():
        with gsd.hoomd.open(path) as trajectory:
            return np.array([frame.particles.position for frame in trajectory])

    def by_fl():
        with gsd.fl.open(path, "r") as file:
            return np.array([file.read_chunk(n, "particles/position") for n in range(file.nframes)])

    ours, found = timed(lambda: np.load(f"{mount}/arrays/series/particles/position.npy"))
    again, _ = timed(lambda: np.load(f"{mount}/arrays/series/particles/position.npy"))
    fl, wanted = timed(by_fl)
    hoomd, _ = timed(by_hoomd)
    if found.dtype != wanted.dtype or not np.array_equal(found, wanted):
        raise SystemExit("wrong bytes")
    return {"gsd.fl": fl, "gsd.hoomd": hoomd, "mount": ours, "again": again}


def main():
    what, path, *more = sys.argv[1:]
    if what == "write":
        return write(path, int(more[0]))
    if what == "pygsd":
        took, _ = timed(lambda: gsd.pygsd.GSDFile(open(path, "rb")))
        found = {"pygsd": took}
    else:
        found = {"random": read_random, "series": read_series}[what](path, *more)
    print(json.dumps(found))


main()
