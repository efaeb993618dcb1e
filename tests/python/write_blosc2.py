"""Writes Blosc2 frames of many kinds with python-blosc2, and ASDF files with blocks of Blosc2, and what they hold.

    write_blosc2.py FOLDER [SEED]

Beside NAME.b2nd or NAME.b2frame are NAME.bin, the decoded chunks, and NAME.npy, if it is an array. Beside NAME.asdf are
NAME.bin, the content of its block, and NAME.npy. Prints the names with their endings.
"""

import random
import sys

import asdf
import without_plugins  # noqa: F401
import blosc2
import numpy as np
from asdf.extension import Compressor, Extension
from blosc2 import Codec, Filter

CODECS = [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD]
TYPES = ["<f4", "<f8", "<i2", ">i4", "u1", "<c16", "?", "S3", "<U5", "<M8[s]", "S300", [("a", "<i4"), ("b", ">f8", (2, 3))]]
PIPELINES = [
    [],
    [Filter.SHUFFLE],
    [Filter.BITSHUFFLE],
    [Filter.DELTA],
    [Filter.DELTA, Filter.SHUFFLE],
    [Filter.SHUFFLE, Filter.BYTEDELTA],
    [Filter.SHUFFLE, Filter.DELTA],
    [Filter.BITSHUFFLE, Filter.DELTA],
]


def settings(dice, itemsize):
    codec = dice.choice(CODECS)
    filters = dice.choice(PIPELINES if itemsize < 128 else PIPELINES[:3])
    return {
        "codec": codec,
        "clevel": dice.randrange(10),
        "filters": filters,
        "filters_meta": [itemsize if one == Filter.BYTEDELTA else 0 for one in filters],
        "splitmode": dice.choice(list(blosc2.SplitMode)),
        "use_dict": codec in (Codec.ZSTD, Codec.LZ4) and dice.random() < 0.2,
        # With several threads, the delta filter of c-blosc2 3.3 reads its reference before it is there.
        "nthreads": 1,
    }


def elements(dice, count, dtype):
    """Returns elements, some of which compress."""
    dtype = np.dtype(dtype)
    numbers = np.arange(count) // dice.choice([1, 3, 50])
    if dice.random() < 0.3:
        numbers[count // 3 : count // 2] = 0
    if dtype.fields:
        out = np.zeros(count, dtype)
        out["a"] = numbers
        out["b"] = numbers[:, None, None]
        return out
    if dtype.kind in "SU":
        return numbers.astype(f"{dtype.kind}{dtype.itemsize}").astype(dtype)
    if dtype.kind == "b":
        return numbers % 3 == 0
    return numbers.astype("<i8" if dtype.kind == "M" else dtype).astype(dtype)


def write_array(path, dice):
    shape = tuple(dice.randrange(1, 16) for _ in range(dice.randrange(5)))
    array = elements(dice, int(np.prod(shape)), dice.choice(TYPES)).reshape(shape)
    chunks = tuple(dice.randrange(1, n + 1) for n in shape)
    blocks = tuple(dice.randrange(1, n + 1) for n in chunks)
    cut = {"chunks": chunks, "blocks": blocks} if shape and dice.random() < 0.8 else {}
    made = blosc2.asarray(
        array, urlpath=path + ".b2nd", mode="w", cparams=settings(dice, array.itemsize), dparams={"nthreads": 1}, **cut)
    if dice.random() < 0.3 and shape and array.dtype.kind not in "MV":
        made[0] = array[0]
    if not (made[()] == array).all():
        raise RuntimeError("Blosc2 does not read what it wrote")
    np.save(path + ".npy", array)
    data = b"".join(bytes(made.schunk.decompress_chunk(n)) for n in range(made.schunk.nchunks))
    return ".b2nd", data


def write_frame(path, dice):
    typesize = dice.choice([1, 2, 4, 7, 8])
    each = typesize * dice.choice([1, 10, 1000, 20_000])
    data = elements(dice, each // typesize * dice.randrange(1, 8) + dice.randrange(2), "<i8").tobytes()
    data = data[: len(data) // 8 * typesize]
    made = blosc2.SChunk(
        chunksize=each, data=data, urlpath=path + ".b2frame", mode="w", cparams={"typesize": typesize, **settings(dice, typesize)})
    assert made[:] == data
    return ".b2frame", data


def compressor(of, encode):
    class Blosc2(Compressor):
        label = of

        def compress(self, data, **options):
            yield encode(bytes(data))

        def decompress(self, data, out, **options):
            raise NotImplementedError

    class Blosc2Extension(Extension):
        extension_uri = "asdf://example.com/extensions/blosc2-1.0.0"
        compressors = [Blosc2()]

    return Blosc2Extension()


def write_asdf(path, dice):
    dtype = dice.choice(["<f4", "<i8", ">i2"])
    array = elements(dice, dice.choice([1, 1000, 200_000]), dtype)

    def frame(data):
        # As abacusutils, the C++ writer of Abacus and asdf-cxx do: one contiguous frame.
        cparams = {"typesize": array.itemsize, **settings(dice, array.itemsize)}
        return blosc2.SChunk(chunksize=array.itemsize * dice.choice([100_000, 1000]), data=data, cparams=cparams).to_cframe()

    def chunk(data):
        # As asdf-compression does.
        return blosc2.compress(data, typesize=array.itemsize)

    label, encode = dice.choice([(b"bsc2", frame), (b"bls2", frame), (b"bls2", chunk)])
    with asdf.config_context() as config:
        config.add_extension(compressor(label, encode))
        asdf.AsdfFile({"data": array}).write_to(path + ".asdf", all_array_compression=label.decode())
    np.save(path + ".npy", array)
    return ".asdf", array.tobytes()


def main():
    folder = sys.argv[1]
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for n in range(60):
        name = f"{n:02}"
        path = f"{folder}/{name}"
        while True:
            try:
                ending, data = (write_array, write_array, write_frame, write_asdf)[n % 4](path, dice)
                break
            except RuntimeError:
                # Blosc2 does not accept all settings, and does not read all that it accepts.
                pass
        with open(path + ".bin", "wb") as file:
            file.write(data)
        print(name + ending)


main()
