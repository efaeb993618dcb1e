"""Codecs of numcodecs for whole blocks of ASDF files.

A block of type ``lz4`` or ``blsc`` is a sequence of parts, each with its length before it as a big-endian number of 32
bits. Where the parts are not whole rows of an array, no chunk of zarr can be one part; then the chunk is the whole block.
"""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ndarray_copy


class AsdfLz4(Codec):  # type: ignore[misc]
    """A block of type ``lz4``: LZ4 blocks, each after its lengths stored and decoded."""

    codec_id = "asdf-lz4"
    part = numcodecs.LZ4()

    def encode(self, buf: Any) -> bytes:
        """Compress `buf` as one part."""
        part = self.part.encode(ensure_contiguous_ndarray(buf))
        return len(part).to_bytes(4, "big") + bytes(part)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decompress the parts in `buf`, into `out` if it is given."""
        stored = memoryview(ensure_contiguous_ndarray(buf)).cast("B")
        decoded = b"".join(self.part.decode(part) for part in self.parts(stored))
        return decoded if out is None else ndarray_copy(np.frombuffer(decoded, np.uint8), out)

    def parts(self, stored: memoryview) -> list[memoryview]:
        """Return the parts without their lengths."""
        parts = []
        at = 0
        while at < len(stored):
            end = at + 4 + int.from_bytes(stored[at : at + 4], "big")
            if end > len(stored) or end == at + 4:
                raise ValueError(f"{self.codec_id}: the part at byte {at} is cut off")
            parts.append(stored[at + 4 : end])
            at = end
        return parts


class AsdfBlosc(AsdfLz4):
    """A block of type ``blsc``: one Blosc buffer, or the buffers of abacusutils, each with its length before it."""

    codec_id = "asdf-blsc"
    part = numcodecs.Blosc()

    def parts(self, stored: memoryview) -> list[memoryview]:
        """Return the buffers. numcodecs does not check that a buffer has the length that is written at its byte 12."""
        parts = [stored] if is_whole(stored) else super().parts(stored)
        if not all(map(is_whole, parts)):
            raise ValueError(f"{self.codec_id}: a buffer is cut off")
        return parts


def is_whole(buffer: memoryview) -> bool:
    """True if a Blosc buffer has the length that its header names."""
    return len(buffer) >= 16 and int.from_bytes(buffer[12:16], "little") == len(buffer)
