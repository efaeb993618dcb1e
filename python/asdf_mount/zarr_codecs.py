"""Codecs of zarr version 3, which decode by those of numcodecs."""

from zarr.codecs.numcodecs import LZ4, Blosc


class ZarrLz4(LZ4, codec_name="asdf-lz4"):
    """The codec ``numcodecs.asdf-lz4``."""


class ZarrBlosc(Blosc, codec_name="asdf-blsc"):
    """The codec ``numcodecs.asdf-blsc``."""
