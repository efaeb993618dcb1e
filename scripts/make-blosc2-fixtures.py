#!/usr/bin/env python3
"""Makes tests/fixtures/blosc2: chunks and frames of Blosc2 by its own writer, with what they hold.

    chunks.bin      chunks one after the other
    chunks.json     for each chunk: name, offset, length, MD5 of what it decodes to
    NAME.b2nd, …    frames
    frames.json     for each frame: MD5 of the decoded chunks, and of the array as numpy.save writes it

Needs blosc2 (tests/python/requirements.txt). A chunk that blosc2 itself does not decode to its input is left out.

usage: scripts/make-blosc2-fixtures.py FOLDER
"""

import hashlib
import io
import itertools
import json
import sys
from pathlib import Path

import blosc2
import numpy as np
from blosc2 import Codec, Filter

CODECS = [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD]
# The filters in the order in which they are applied, with their metadata; None: the size of an element.
PIPELINES = {
    "none": [],
    "shuffle": [(Filter.SHUFFLE, 0)],
    "shuffle2": [(Filter.SHUFFLE, 2)],
    "bitshuffle": [(Filter.BITSHUFFLE, 0)],
    "delta": [(Filter.DELTA, 0)],
    "delta-shuffle": [(Filter.DELTA, 0), (Filter.SHUFFLE, 0)],
    "delta-bitshuffle": [(Filter.DELTA, 0), (Filter.BITSHUFFLE, 0)],
    "shuffle-bytedelta": [(Filter.SHUFFLE, 0), (Filter.BYTEDELTA, None)],
    "shuffle-bitshuffle": [(Filter.SHUFFLE, 0), (Filter.BITSHUFFLE, 0)],
    "trunc-shuffle": [(Filter.TRUNC_PREC, 10), (Filter.SHUFFLE, 0)],
}


def digest(data):
    return hashlib.md5(bytes(data)).hexdigest()


def smooth(count, seed=3):
    """Returns bytes that all codecs can compress."""
    steps = np.random.default_rng(seed).integers(-3, 4, count // 8 + 1)
    return np.cumsum(steps).astype("<i8").tobytes()[:count]


def lossy(pipeline):
    return pipeline == "trunc-shuffle"


def chunks():
    """Yields name, input and parameters of chunks."""
    for codec, pipeline, typesize in itertools.product(CODECS, PIPELINES, (1, 4, 8)):
        if lossy(pipeline) and typesize == 1:
            continue
        given = {"codec": codec, "typesize": typesize, "blocksize": 512}
        yield f"{codec.name.lower()} {pipeline} of {typesize}", smooth(1304), pipeline, given
    for pipeline, typesize in itertools.product(PIPELINES, (2, 3, 16, 17, 255)):
        if lossy(pipeline):
            continue
        given = {"codec": Codec.LZ4, "typesize": typesize, "blocksize": typesize * 40}
        yield f"{pipeline} of {typesize}", smooth(100 * typesize), pipeline, given
    for length in (0, 1, 15, 16, 17, 31, 127, 128, 129, 1000, 1023, 1025):
        for pipeline in ("shuffle", "bitshuffle", "delta-shuffle"):
            yield f"{pipeline}, {length} bytes", smooth(length), pipeline, {"codec": Codec.ZSTD, "typesize": 4}
    for mode in blosc2.SplitMode:
        given = {"codec": Codec.BLOSCLZ, "typesize": 8, "blocksize": 2048, "splitmode": mode}
        yield f"{mode.name.lower()}", smooth(5000), "shuffle", given
    for codec in (Codec.ZSTD, Codec.LZ4, Codec.LZ4HC):
        given = {"codec": codec, "typesize": 4, "blocksize": 2048, "use_dict": True}
        yield f"dictionary of {codec.name.lower()}", smooth(12_000, 7), "shuffle", given
    noise = np.random.default_rng(1).bytes(700)
    yield "noise", noise, "shuffle", {"codec": Codec.ZSTD, "typesize": 4}
    yield "stored", smooth(900), "shuffle", {"codec": Codec.ZSTD, "typesize": 4, "clevel": 0}
    yield "zeros", bytes(100_000), "shuffle", {"codec": Codec.ZSTD, "typesize": 4}
    yield "one byte", b"\x07" * 100_000, "none", {"codec": Codec.LZ4, "typesize": 1, "blocksize": 4096}
    half = bytes(4096) + b"\xfe" * 4096 + smooth(4096) + bytes(100)
    for typesize in (1, 4):
        given = {"codec": Codec.LZ4, "typesize": typesize, "blocksize": 2048}
        yield f"runs of {typesize}", half, "shuffle", given
    yield "half noise", noise + smooth(3000), "none", {"codec": Codec.LZ4, "typesize": 1, "blocksize": 512}


def chunk(data, pipeline, given):
    steps = PIPELINES[pipeline]
    filters = [step[0] for step in steps]
    meta = [given["typesize"] if step[1] is None else step[1] for step in steps]
    return blosc2.compress2(data, filters=filters, filters_meta=meta, nthreads=1, **given)


def write_chunks(folder):
    stored, listed = b"", []
    for name, data, pipeline, given in chunks():
        try:
            one = chunk(data, pipeline, given)
            back = blosc2.decompress2(one) if data else b""
        except (RuntimeError, ValueError, OverflowError) as error:
            print(f"left out: {name}: {error}")
            continue
        if back != data and not lossy(pipeline):
            print(f"left out: {name}: blosc2 decodes it to other bytes")
            continue
        listed.append({"name": name, "offset": len(stored), "len": len(one), "nbytes": len(back), "md5": digest(back)})
        stored += one
    (folder / "chunks.bin").write_bytes(stored)
    (folder / "chunks.json").write_text(json.dumps(listed, indent=0) + "\n")


def numbers(shape, dtype):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def frames():
    """Yields the name of a file, and an array or a frame."""
    fields = np.dtype([("a", "<f8"), ("b", "S3"), ("c", "<i2", (2,))])
    small = {"cparams": {"codec": Codec.ZSTD}}
    for name, array, chunks, blocks in [
        ("scalar", np.float64(3), None, None),
        ("row", numbers((1000,), "<f4"), (300,), (70,)),
        ("even_row", numbers((1000,), "<i8"), (300,), (100,)),
        ("edges", numbers((5, 7), "<f4"), (3, 4), (2, 3)),
        ("rows", numbers((40, 30), "<i4"), (10, 30), (5, 30)),
        ("cube", numbers((7, 11, 13), ">i2"), (4, 5, 6), (2, 3, 4)),
        ("four", numbers((3, 4, 5, 6), "<f8"), (2, 2, 3, 5), (1, 2, 2, 3)),
        ("thin", numbers((1, 9, 1), "<c16"), (1, 4, 1), (1, 3, 1)),
        ("whole", numbers((20, 20), "<u2"), (20, 20), (20, 20)),
        ("text", np.array([f"s{n}" for n in range(20)]).reshape(4, 5), (3, 2), (2, 2)),
        ("wide", np.array([b"x" * 300, b"y" * 290] * 4).reshape(2, 4), (2, 3), (1, 2)),
        ("bool", numbers((9, 9), "?"), (5, 5), (5, 2)),
        ("dates", numbers((10,), "<M8[s]"), (4,), (3,)),
        ("fields", np.zeros(10, fields), (4,), (3,)),
        ("empty", np.zeros((0, 5), "<f8"), None, None),
    ]:
        shapes = {} if chunks is None else {"chunks": chunks, "blocks": blocks}
        yield f"{name}.b2nd", blosc2.asarray(array, **shapes, **small)
    for name, made in [
        ("zeros", blosc2.zeros((100, 100), dtype="<f4", chunks=(50, 60), blocks=(20, 30))),
        ("nans", blosc2.nans((50, 50), dtype="<f8", chunks=(30, 30), blocks=(10, 10))),
        ("full", blosc2.full((50, 50), 3.5, chunks=(30, 30), blocks=(10, 10))),
        ("wide_full", blosc2.full((10, 10), b"a" * 300, dtype="S300", chunks=(5, 5), blocks=(2, 2))),
        ("unset", blosc2.uninit((50,), dtype="<f8", chunks=(30,), blocks=(10,))),
    ]:
        yield f"{name}.b2nd", made
    partly = blosc2.zeros((100, 100), dtype="<i4", chunks=(30, 30), blocks=(10, 10))
    partly[40:50, 20:70] = numbers((10, 50), "<i4")
    partly.schunk.vlmeta["note"] = {"why": ["a test", 1.5, None], "n": -3}
    partly.schunk.vlmeta["raw"] = b"\x00\xff"
    yield "partly.b2nd", partly
    labelled = blosc2.asarray(numbers((6,), "<i4"), chunks=(4,), blocks=(2,), meta={"units": b"not msgpack \xc1", "axes": ["x"]})
    yield "labelled.b2nd", labelled
    for name, data, size in [("bytes", smooth(5000), 1024), ("tiny", smooth(3000), 24), ("none", b"", 64)]:
        frame = blosc2.SChunk(chunksize=size, cparams={"typesize": 8 if size % 8 == 0 else 1})
        if data:
            frame.append_data(data[:size])
            for start in range(size, len(data), size):
                frame.append_data(data[start : start + size])
        yield f"{name}.b2frame", frame
    moved = blosc2.SChunk(chunksize=800, data=smooth(4000), cparams={"typesize": 8})
    moved.insert_data(1, smooth(800, 9), False)
    moved.update_data(3, smooth(800, 11), False)
    moved.delete_chunk(4)
    yield "moved.b2frame", moved


def saved(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def write_frames(folder):
    truth = {}
    for name, made in frames():
        array = made if isinstance(made, blosc2.NDArray) else None
        frame = made.schunk if array is not None else made
        (folder / name).write_bytes(frame.to_cframe())
        decoded = [bytes(frame.decompress_chunk(n)) for n in range(frame.nchunks)]
        known = {"nbytes": frame.nbytes, "nchunks": frame.nchunks}
        if not name.startswith("unset"):
            known["md5"] = digest(b"".join(decoded))
            if array is not None:
                known["npy"] = digest(saved(array[()]))
        truth[name] = known
    packed = numbers((6, 7), "<f4")
    blosc2.save_array(packed, str(folder / "packed.b2frame"), mode="w")
    frame = blosc2.open(str(folder / "packed.b2frame"))
    truth["packed.b2frame"] = {
        "nbytes": frame.nbytes, "nchunks": frame.nchunks, "md5": digest(packed.tobytes()), "npy": digest(saved(packed))
    }
    (folder / "frames.json").write_text(json.dumps(truth, indent=1) + "\n")


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    write_chunks(folder)
    write_frames(folder)


main()
