"""Blocks that the package asdf reads, decoded by `asdf_mount._native` on all cores.

asdf calls `extensions` when it collects its plugins. An extension with compressors would be named in each file that is
written with their labels, and readers without it would be warned. So there is no extension: the function with which asdf
decodes a block is replaced by one that tries our decoder first. In doubt the old one gets the same bytes and decides.
``ASDF_MOUNT_CODECS=0`` turns it off.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from typing import Any

#: Smaller blocks are left to asdf: starting threads takes as long as decoding them.
MIN_SIZE = 1 << 18

#: The classes whose decoders are known: the label that says the same to our decoder, and a test of the first bytes and the
#: size of the stored block.
KNOWN: dict[str, tuple[str, Callable[[bytes, int], bool]]] = {
    "asdf._compression.ZlibCompressor": ("zlib", lambda head, size: True),
    "asdf._compression.Bzp2Compressor": ("bzp2", lambda head, size: True),
    "asdf._compression.Lz4Compressor": ("lz4", lambda head, size: True),
    "asdf_compression.zstd.compressor.ZstdCompressor": ("zstd", lambda head, size: True),
    # One buffer, which states its size.
    "asdf_compression.blsc.compressor.BloscCompressor": (
        "blsc",
        lambda head, size: int.from_bytes(head[12:16], "little") == size,
    ),
    # Buffers, each of which has its size also before it.
    "abacusnbody.data.asdf.BloscCompressor": (
        "blsc",
        lambda head, size: head[:4] == head[16:20][::-1],
    ),
}


def extensions() -> list[Any]:
    """Return no extension, after asdf's function was replaced, if this version of asdf is known."""
    if os.environ.get("ASDF_MOUNT_CODECS") != "0":
        try:
            replace_decompress()
        except Exception:  # noqa: BLE001 - asdf works without us
            pass
    return []


def replace_decompress() -> None:
    """Replace the function with which asdf 5 and 6 decode a block, unless that is done."""
    import asdf
    from asdf import _compression

    old: Any = _compression.decompress
    code = old.__code__
    arguments = code.co_varnames[: code.co_argcount]
    is_known = arguments == ("fd", "used_size", "data_size", "compression", "config")
    if asdf.__version__.split(".")[0] not in ("5", "6") or not is_known or hasattr(old, "__wrapped__"):
        return

    @functools.wraps(old)
    def decompress(fd: Any, used_size: int, data_size: int, compression: Any, config: Any = None) -> Any:
        array = None
        if data_size >= MIN_SIZE and not config and fd.seekable():
            array = decode(fd, used_size, data_size, compression)
        if array is None:
            return old(fd, used_size, data_size, compression, config)
        # Gives the warnings that asdf gives.
        _compression.validate(compression)
        return array

    _compression.decompress = decompress


def decode(fd: Any, used_size: int, data_size: int, compression: Any) -> Any:
    """Read a block, and return its decoded bytes as an array. `None`, and nothing is read, if asdf has to decode them."""
    start = fd.tell()
    array = None
    try:
        fd.seek(0, os.SEEK_END)
        if start + used_size <= fd.tell():
            fd.seek(start)
            array = decode_at(fd, start, used_size, data_size, compression)
    except Exception:  # noqa: BLE001 - asdf's decoder says what is wrong
        pass
    finally:
        fd.seek(start if array is None else start + used_size)
    return array


def decode_at(fd: Any, start: int, used_size: int, data_size: int, compression: Any) -> Any:
    """Decode the block at the position `start` of a file."""
    import numpy
    from asdf import _compression

    from . import _native

    label = compression if isinstance(compression, str) else compression.rstrip(b"\0").decode("ascii")
    compressor = type(_compression._get_compressor(label))
    known = KNOWN.get(f"{compressor.__module__}.{compressor.__qualname__}")
    if known is None or not known[1](fd.read(min(20, used_size)), used_size):
        return None
    stored: Any
    # A file of the system, and not, for example, a compressed one.
    file = fd._fd.raw if type(fd._fd) is io.BufferedReader else fd._fd
    if type(file) is io.FileIO:
        stored = (file.fileno(), start, used_size)
    else:
        fd.seek(start)
        stored = fd.read(used_size)
        if len(stored) != used_size:
            return None
    array = numpy.empty(data_size, numpy.uint8)
    _native.decode(known[0], stored, array)
    return array
