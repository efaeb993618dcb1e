"""Writes ASDF files with Python asdf, and beside each the content of its blocks.

    write_files.py FOLDER [NAME-PREFIX]

NAME.asdf            the file
NAME.blocks/N.bin    the bytes of block N, taken from the numpy array before it was written
Prints the names, one per line. Codecs that are not installed are left out.
"""

import importlib.util
import os
import re
import sys
import warnings

import asdf
import without_plugins  # noqa: F401
import numpy as np

warnings.simplefilter("ignore")
FOLDER, PREFIX = sys.argv[1], (sys.argv[2:] or [""])[0]
RNG = np.random.default_rng(20240607)
CODECS = {
    "zlib": None,
    "bzp2": None,
    "lz4": "lz4",
    "lz4f": "asdf_compression",
    "zstd": "asdf_compression",
    "blsc": "asdf_compression",
}


def have(module):
    return module is None or importlib.util.find_spec(module) is not None


def tail_of(path):
    """Returns the `source` of each array in the file's head, in the order of the text, by top-level key."""
    head = open(path, "rb").read().split(b"\n...\n")[0].decode()
    found = re.finditer(r"^(\w+): !core/ndarray.*?source: (-?\d+)", head, re.M | re.S)
    return {match[1]: int(match[2]) for match in found}


def truth(name, arrays, streamed=b""):
    """Writes the expected content of the blocks: for each key the bytes of its *block*."""
    path = os.path.join(FOLDER, f"{name}.asdf")
    folder = os.path.join(FOLDER, f"{name}.blocks")
    os.mkdir(folder)
    sources = tail_of(path)
    blocks = {}
    for key, block in arrays.items():
        assert blocks.setdefault(sources[key], block) == block, f"{name}: {key} shares a block it should not"
    if streamed:
        assert -1 in sources.values(), sources
        blocks[max(blocks, default=-1) + 1] = streamed
    assert sorted(blocks) == list(range(len(blocks))), (name, sources)
    for n, block in blocks.items():
        with open(os.path.join(folder, f"{n}.bin"), "wb") as file:
            file.write(block)
    print(name)


def raw(array):
    return np.ascontiguousarray(array).tobytes()


def write(name, tree, **options):
    name = PREFIX + name
    asdf.AsdfFile(tree).write_to(os.path.join(FOLDER, f"{name}.asdf"), **options)
    return name


def image(height, width):
    """Returns a star field, as compressible as real images."""
    return RNG.poisson(100, (height, width)).astype("<f4") + RNG.random((height, width), dtype="<f4")


def ordinary():
    return {
        "bools": RNG.random(77) < 0.5,
        "bytes": RNG.integers(0, 256, 5000, dtype="u1"),
        "complex": (RNG.random(33) + 1j * RNG.random(33)).astype("<c16"),
        "cube": np.arange(2 * 3 * 4, dtype=">i2").reshape(2, 3, 4),
        "empty": np.zeros((0, 3), "<f8"),
        "image": image(150, 200),
        "scalarish": np.array([3.5], "<f8"),
        "table": np.array([(1, 2.5, b"abc"), (2, -1.0, b"z")], [("n", "<i4"), ("x", ">f8"), ("s", "S3")]),
        "text": np.array(["Æʩ", "𐀠", ""], "<U3"),
    }


# Every codec with every kind of array.
for codec in [None, *(codec for codec, module in CODECS.items() if have(module))]:
    tree = ordinary()
    name = write(codec or "stored", tree, all_array_compression=codec)
    truth(name, {key: raw(array) for key, array in tree.items()})

# Large enough for several chunks of lz4 (4 MiB by default) and several bzip2 blocks.
big = np.cumsum(RNG.integers(-3, 4, 2_500_000), dtype="<i4")
for codec in ["lz4", "zlib", "bzp2"]:
    if have(CODECS[codec]):
        truth(write(f"big-{codec}", {"big": big}, all_array_compression=codec), {"big": raw(big)})

# A different codec for each array, in one file.
mixed = {codec: image(40, 50) for codec, module in CODECS.items() if have(module)} | {"plain": image(40, 50)}
file = asdf.AsdfFile(mixed)
for codec in mixed:
    file.set_array_compression(mixed[codec], None if codec == "plain" else codec)
file.write_to(os.path.join(FOLDER, f"{PREFIX}mixed.asdf"))
truth(f"{PREFIX}mixed", {key: raw(array) for key, array in mixed.items()})

# Views of one base array, which is written once.
base = np.arange(60, dtype="<i4").reshape(6, 10)
views = {"base": base, "columns": base[:, ::3], "row": base[2], "corner": base[1:3, 4:8]}
with asdf.config_context() as config:
    config.default_array_save_base = True
    truth(write("views-shared", views), dict.fromkeys(views, raw(base)))

# Many blocks with allocated space to grow.
many = {f"a{n:04}": np.full(n % 5 + 1, n, "<u4") for n in range(500)}
truth(write("many", many), {key: raw(array) for key, array in many.items()})
tree = ordinary()
truth(write("padded", tree, pad_blocks=True), {key: raw(array) for key, array in tree.items()})
tree = ordinary()
truth(write("no-index", tree, include_block_index=False), {key: raw(array) for key, array in tree.items()})

# Inline data only.
truth(write("inline", {"a": np.arange(10)}, all_array_storage="inline"), {})

# A stream, appended to after the file was written.
rows = RNG.integers(0, 1000, (12, 8)).astype("<i8")
tree = {"a": big[:100].copy(), "rows": asdf.tags.core.Stream([8], "<i8")}
name = write("streamed", tree)
with open(os.path.join(FOLDER, f"{name}.asdf"), "ab") as file:
    file.write(raw(rows))
truth(name, {"a": raw(tree["a"])}, streamed=raw(rows))
