"""The native module, `python/src`."""

import numpy
from numpy.typing import NDArray

def decode(label: str, stored: bytes | tuple[int, int, int], out: NDArray[numpy.uint8], /) -> None: ...
