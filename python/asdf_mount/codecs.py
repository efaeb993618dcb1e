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


class _Parts(Codec):  # type: ignore[misc]
    """Parts that another codec decodes, each with its length before it."""

    part: Codec

    def encode(self, buf: Any) -> bytes:
        """Compress `buf` as one part."""
        part = self.part.encode(ensure_contiguous_ndarray(buf))
        return len(part).to_bytes(4, "big") + bytes(part)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decompress the parts in `buf`, into `out` if it is given."""
        stored = memoryview(ensure_contiguous_ndarray(buf)).cast("B")
        if self._is_alone(stored):
            return self.part.decode(stored, out)
        parts = []
        at = 0
        while at < len(stored):
            end = at + 4 + int.from_bytes(stored[at : at + 4], "big")
            if end > len(stored) or end == at + 4:
                raise ValueError(f"{self.codec_id}: the part at byte {at} is cut off")
            parts.append(self.part.decode(stored[at + 4 : end]))
            at = end
        decoded = b"".join(parts)
        return decoded if out is None else ndarray_copy(np.frombuffer(decoded, np.uint8), out)

    def _is_alone(self, stored: memoryview) -> bool:
        """True for a single part without its length."""
        return False


class AsdfLz4(_Parts):
    """A block of type ``lz4``: LZ4 blocks, each after its lengths stored and decoded."""

    codec_id = "asdf-lz4"
    part = numcodecs.LZ4()


class AsdfBlosc(_Parts):
    """A block of type ``blsc``: one Blosc buffer, or the buffers of abacusutils, each with its length before it."""

    codec_id = "asdf-blsc"
    part = numcodecs.Blosc()

    def _is_alone(self, stored: memoryview) -> bool:
        # A buffer has its own length at byte 12.
        return len(stored) >= 16 and int.from_bytes(stored[12:16], "little") == len(stored)
