"""Writes files with every kind of block, to test the exploded form.

    write_exploded.py FOLDER
"""

import os
import sys

import asdf
import without_plugins  # noqa: F401
import numpy as np

folder = sys.argv[1]
RNG = np.random.default_rng(7)


def write(name, tree, **options):
    path = os.path.join(folder, name)
    file = asdf.AsdfFile(tree)
    for key, compression in options.pop("compression", {}).items():
        file.set_array_compression(tree[key], compression)
    file.write_to(path, **options)
    return path


def edit(path, *changes):
    with open(path, "rb") as file:
        data = file.read()
    for old, new in changes:
        assert data.count(old) == 1 and len(old) == len(new), (old, data.count(old))
        data = data.replace(old, new)
    with open(path, "wb") as file:
        file.write(data)


def array(*shape):
    return RNG.random(shape)


base = array(64)
path = write("galaxy, one.asdf", {"a": base, "part": base[3:9], "list": [array(3, 4), {"deep": array(5)}],
                                  "inline": 7, "source": 3}, pad_blocks=True)
path = write("comments.asdf", {"a": array(100), "text": "#### a text"}, all_array_compression=None)
edit(path, (b"text: '#### a text'", b"t: 1 # a comment..."[:19]))
write("shared.asdf", {"a": base, "b": base, "view": base[::2], "last": array(9)})
tree = {key: np.tile(array(1000), 100) for key in ("stored", "zlib", "bzp2", "lz4")}
write("compressed.asdf", tree, compression={key: key for key in ("zlib", "bzp2", "lz4")})
write("inline.asdf", {"a": np.arange(3)}, all_array_storage="inline")
path = write("negative.asdf", {"first": array(4), "second": np.arange(77)})
with open(path, "rb") as file:
    data = file.read()
head, blocks = data[: data.index(b"\n...\n") + 5], data[data.index(b"\n...\n") + 5: data.index(b"#ASDF BLOCK INDEX")]
with open(path, "wb") as file:
    file.write(head.replace(b"source: 1", b"source: -1 # the last one", 1) + blocks)
tree = {"fixed": array(10), "stream": asdf.tags.core.Stream([4], np.float64)}
with open(os.path.join(folder, "streamed.asdf"), "wb") as file:
    asdf.AsdfFile(tree).write_to(file)
    for n in range(10):
        file.write(np.full(4, n, np.float64).tobytes())
