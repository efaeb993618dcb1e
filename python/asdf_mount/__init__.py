"""Mount ASDF, GSD and Bloscpack files, local or on servers, and read them without a mount.

>>> with asdf_mount.mount("galaxy.asdf") as path:
...     text = (path / "tree.yaml").read_text()
>>> asdf_mount.open("galaxy.asdf").arrays["image"][:100].max()
3208
>>> xarray.open_dataset("galaxy.asdf", engine="asdf-mount", chunks={})
"""

from importlib.metadata import PackageNotFoundError, version

from ._error import AsdfMountError
from ._file import Array, Arrays, Defect, File, Options, catalog
from ._mount import find_program, mount
from ._native import Block

open = File
try:
    __version__ = version("asdf-mount")
except PackageNotFoundError:  # run from the sources
    __version__ = "0"

__all__ = ["Array", "Arrays", "AsdfMountError", "Block", "Defect", "File", "Options", "catalog", "find_program", "mount", "open"]
