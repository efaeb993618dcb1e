"""Codecs of zarr version 3, which decode by those of numcodecs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from numcodecs.abc import Codec
from zarr.abc.codec import BytesBytesCodec

from .codecs import AsdfBlosc, AsdfLz4


class _ZarrCodec(BytesBytesCodec):
    codec: ClassVar[type[Codec]]
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _ZarrCodec:
        return cls()

    def to_dict(self) -> dict[str, Any]:
        return {"name": f"numcodecs.{self.codec.codec_id}", "configuration": {}}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        decoded = await asyncio.to_thread(self.codec().decode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(bytes(decoded))

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        encoded = await asyncio.to_thread(self.codec().encode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(encoded)


@dataclass(frozen=True)
class ZarrLz4(_ZarrCodec):
    codec = AsdfLz4


@dataclass(frozen=True)
class ZarrBlosc(_ZarrCodec):
    codec = AsdfBlosc
