"""Writes files with external arrays: `all.asdf`, and `some.asdf`, which also has blocks.

    write_imploded.py FOLDER
"""

import os
import sys

import asdf
import without_plugins  # noqa: F401
import numpy as np

folder = sys.argv[1]
tree = {"a": np.arange(10.0), "b": np.tile(np.arange(1000), 9), "c": np.arange(6, dtype=">i2")}
file = asdf.AsdfFile(tree)
file.set_array_compression(tree["b"], "zlib")
file.write_to(os.path.join(folder, "all.asdf"), all_array_storage="external", pad_blocks=True)
with open(os.path.join(folder, "stream.asdf"), "wb") as out:
    asdf.AsdfFile({"s": asdf.tags.core.Stream([2], np.float64)}).write_to(out)
    out.write(np.arange(8.0).tobytes())


def node(source, length):
    return f"!core/ndarray-1.1.0 {{source: {source}, datatype: float64, byteorder: little, shape: {length}}}"


def mixed(name, streamed):
    """Writes two blocks in the file itself; the second is streamed."""
    path = os.path.join(folder, name)
    last = asdf.tags.core.Stream([2], np.float64) if streamed else np.arange(16.0).reshape(8, 2)
    with open(path, "wb") as out:
        asdf.AsdfFile({"one": np.arange(5.0), "last": last}).write_to(out)
        if streamed:
            out.write(np.arange(16.0).tobytes())
    with open(path, "rb") as file:
        data = file.read()
    at = data.index(b"\n...\n") + 1
    more = f"x: {node('all0000.asdf', '[10]')} # elsewhere\ny: {node('stream.asdf', '[4, 2]')}\n" \
        f"again: {node('all0000.asdf', '[10]')}\nnegative: {node(-1, '[8, 2]')}\n"
    blocks = data[at:] if streamed else data[at:data.index(b"#ASDF BLOCK INDEX")]
    with open(path, "wb") as file:
        file.write(data[:at] + more.encode() + blocks)


mixed("some.asdf", False)
mixed("streamed.asdf", True)
