"""Files that are read without a mount."""

from __future__ import annotations

import ast
import functools
import json
import math
import os
import re
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, Union

import numpy as np

from ._program import AsdfMountError, Options, Source, failure, find_program, option_arguments, run, source_text

#: Decoded arrays up to this part of the free memory are kept in memory, longer ones in a temporary file.
SHARE_OF_MEMORY = 4
#: Decoded arrays up to this number of bytes are not mapped, because each map keeps a file open.
SMALL = 1 << 16
#: The codecs of which a block has no parts that are decoded on their own.
WITHOUT_PARTS = ("zlib", "bzp2")
#: Longest header of an .npy file, with very many fields.
MAX_HEADER = 1 << 20


def catalog(
    paths: Union[Source, Iterable[Source]], *, since: Optional[Source] = None, options: Options = None
) -> Iterator[dict[str, Any]]:
    """Describe many files.

    Parameters
    ----------
    paths
        Files, directories, addresses of files, and addresses that end with a slash for all files below.
    since
        An older output of ``asdf-mount --catalog``; files that have not changed since are not opened.
    options
        Options of ``asdf-mount -o``.

    Yields
    ------
    dict
        The description of a file: ``uri``, ``size``, ``format``, ``arrays``, ``tree`` and more. That of a file which
        can't be read has only ``uri`` and ``error``.

    Raises
    ------
    AsdfMountError
        The list of the files, or the older output, can't be read.
    """
    several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    flags = [] if since is None else ["--since", os.fsdecode(since)]
    command = [find_program(), "--catalog", "-q", *option_arguments(options), *flags, "-0", "--files-from", "-"]
    with tempfile.TemporaryFile() as listed, tempfile.TemporaryFile() as errors:
        listed.write(os.fsencode("\0".join(source_text(path) for path in several)))
        listed.seek(0)
        with subprocess.Popen(command, stdin=listed, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout
            try:
                for line in process.stdout:
                    yield json.loads(line)
            except BaseException:
                process.kill()
                raise
        errors.seek(0)
        said = errors.read()
        # 2: there are lines with an error.
        if process.returncode not in (0, 2) or (process.returncode == 2 and said):
            raise failure(said)


class File:
    """A file that is read without a mount; FUSE is not needed.

    Parameters
    ----------
    source
        The path of an ASDF, GSD or Bloscpack file, or its address on a server (``https://``, ``s3://``).
    options
        Options of ``asdf-mount -o``, such as ``{"anonymous": True}``.

    Attributes
    ----------
    source : str
        The path or address.
    arrays : Arrays
        The arrays, by their paths.

    Raises
    ------
    AsdfMountError
        The file can't be read.
    """

    def __init__(self, source: Source, *, options: Options = None) -> None:
        self.source = source_text(source)
        self.options = options
        if self.source.endswith("/") or os.path.isdir(self.source):
            raise AsdfMountError(f"{self.source} is a directory; asdf_mount.catalog() and mount() take directories")
        self.state = state_of(self.source)
        [self._line] = catalog(self.source, options=options)
        if "error" in self._line:
            raise AsdfMountError(self._line["error"])
        #: In a GSD file, the catalogue lists the arrays of the first frame, and refs.json those of all.
        self.directories = ("frames/0/", "series/") if self._line["format"] == "gsd" else ("", "")
        self.arrays = Arrays(self, [self.directories[0] + array["path"] for array in self._line["arrays"]])

    def __repr__(self) -> str:
        return f"<asdf_mount.File {self.source!r}, {self._line['format']}, {self._line['array_count']} arrays>"

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def tree(self) -> dict[str, Any]:
        """The tree by the rules of ``tree.json``; arrays are their descriptions."""
        if self._line["tree"] is None:
            # Longer than a line of the catalogue may be, or without JSON; then the reason is raised.
            self._line["tree"] = json.loads(run("--cat", *option_arguments(self.options), "--", self.source, "tree.json"))
        tree = self._line["tree"]
        return tree if isinstance(tree, dict) else {"": tree}

    def info(self) -> dict[str, Any]:
        """Return size, time, format, version, blocks and arrays, as ``asdf-mount --catalog`` describes them."""
        return {key: value for key, value in self._line.items() if key != "tree"}

    @functools.cached_property
    def refs(self) -> dict[str, Any]:
        """The references to the chunks of the arrays, as ``refs.json`` has them; none for Blosc2, which has none.

        None either for a file on a server whose arrays are all in the catalogue, because finding the parts of its
        compressed blocks takes many requests.
        """
        is_enough = self.state is None and self._line["format"] == "asdf" and self._has_all_arrays()
        return {} if is_enough or self._line["format"] == "blosc2" else references(self.source, self.options)

    def _has_all_arrays(self) -> bool:
        """Return whether the catalogue lists all arrays of the tree: each is in a block, and none has a mask or an alias."""
        nodes, sources = [self._line["tree"]], []
        while nodes:
            node = nodes.pop()
            if isinstance(node, dict):
                if not {"mask", "$ref", "data", "chunks"}.isdisjoint(node) and "datatype" in node or "$ref" in node:
                    return False
                if "source" in node:
                    sources.append(node["source"])
                nodes += node.values()
            elif isinstance(node, list):
                nodes += node
        listed = [array["source"] for array in self._line["arrays"]]
        if not all(isinstance(source, int) for source in [*listed, *sources]) or sorted(listed) != sorted(sources):
            return False
        # Of other codecs, only the references tell whether a block has parts.
        return all(self.codec(path) in (None, "lz4", "blsc", *WITHOUT_PARTS) for path in self.arrays)

    def codec(self, path: str) -> Optional[str]:
        """Return the codec of the block with an array, as far as the catalogue tells.

        Of a file on a server it describes some blocks only. The others probably have the codec of these: if not, reading a
        part of an array takes longer.
        """
        sources = {array["path"]: array["source"] for array in self._line["arrays"]}
        number, blocks = sources.get(path), self._line["blocks"]
        if not isinstance(number, int):
            return None
        known = [block["compression"] for block in [*blocks[number : number + 1], *blocks] if "compression" in block]
        return known[0] or None if known else None

    def zarr_path(self, path: str) -> str:
        """Return the path that an array has in ``refs.json``."""
        special = r"(?<![^/])\.|[\\*]|(?<=zarr)\.(?=json(/|$))"
        return re.sub(special, lambda found: f"%{ord(found[0]):02X}", path.removeprefix(self.directories[1]))

    def stored(self, path: str) -> Optional[tuple[int, np.dtype, tuple[int, ...]]]:
        """Return offset, type and shape of an array that is stored in a local file as it is and in one place."""
        path = self.zarr_path(path)
        zarray = json.loads(self.refs.get(f"{path}/.zarray", "{}")) if self.state else {}
        if not zarray or zarray["compressor"]:
            return None
        # The chunks divide the array, and are whole rows or planes. So they are in the order of their numbers.
        counts = [length // max(1, chunk) for length, chunk in zip(zarray["shape"], zarray["chunks"])]
        numbers = [".".join(map(str, index)) or "0" for index in np.ndindex(*counts)]
        places: list[Any] = [self.refs.get(f"{path}/{number}") for number in numbers]
        if not places or not all(isinstance(place, list) for place in places):
            return None
        is_one = all(offset + length == after for (_, offset, length), (_, after, _) in zip(places, places[1:]))
        return (places[0][1], np.dtype(zarray["dtype"]), tuple(zarray["shape"])) if is_one else None

    def check_unchanged(self) -> None:
        """Raise an error if the file is a local one that has changed since it was opened."""
        if state_of(self.source) != self.state:
            raise AsdfMountError(f"{self.source} has changed since it was opened; open it again")


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of a file by their paths, such as ``roman/data``. An array is read when it is looked up.

    An array that is stored as it is in a local file is a read-only `numpy.memmap` of the file. Others are decoded, and
    mapped from memory or a temporary file. Once a local file has changed, no further array is read.
    """

    def __init__(self, file: File, paths: list[str]) -> None:
        self._file = file
        self._paths = dict.fromkeys(paths)
        self._map: Optional[np.memmap] = None
        self._decoded: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def __getitem__(self, path: str) -> np.ndarray:
        array = self._decoded.get(path)
        if array is None:
            self._file.check_unchanged()
            stored = self._file.stored(path)
            array = self._decode(path) if stored is None else self._mapped(path, *stored)
            self._file.check_unchanged()
            self._decoded[path] = array
        return array

    def _mapped(self, path: str, start: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        if self._map is None:
            # One for all arrays, because each map keeps a file open.
            self._map = np.memmap(self._file.source, np.uint8, "r")
        mapped = self._map[start : start + dtype.itemsize * math.prod(shape)].view(dtype)
        if mapped.size != math.prod(shape):
            raise AsdfMountError(f"{self._file.source}: {path} is cut off: the file ends before it")
        return mapped.reshape(shape)

    def _decode(self, path: str) -> np.ndarray:
        arguments = [*option_arguments(self._file.options), "--", self._file.source, f"arrays/{path}.npy"]
        try:
            size = json.loads(run("--ls", "--json", *arguments))["size"]
        except AsdfMountError as error:
            if path in self._paths:
                raise
            raise KeyError(f"{path}: {error}") from error
        with temporary(size) as file:
            run("--cat", *arguments, stdout=file)
            file.seek(0)
            start, dtype, shape, order = npy_header(file.read(MAX_HEADER))
            if size > SMALL:
                return np.memmap(file, dtype, "r", start, shape, order)
            file.seek(0)
            return np.ndarray(shape, dtype, file.read(), start, order=order)


def state_of(source: str) -> Any:
    """Return what changes when a local file is changed; None if there is none."""
    try:
        state = os.stat(source)
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def references(source: str, options: Options) -> dict[str, Any]:
    """Return the references to the chunks of the arrays in a file, as ``refs.json`` has them."""
    refs = json.loads(run("--refs", "--quiet", *option_arguments(options), "--", source))["refs"]
    assert isinstance(refs, dict)
    return refs


def npy_header(data: bytes) -> tuple[int, np.dtype, tuple[int, ...], Any]:
    """Return from the start of an .npy file, of any length, where the elements begin, their type, shape and order."""
    start = 10 if data[6:7] == b"\1" else 12
    end = start + int.from_bytes(data[8:start], "little")
    if end > len(data):
        raise ValueError("the header of the .npy file is cut off")
    header = ast.literal_eval(data[start:end].decode("utf-8" if data[6] == 3 else "latin1"))
    dtype = np.lib.format.descr_to_dtype(header["descr"])
    return end, dtype, header["shape"], "F" if header["fortran_order"] else "C"


def temporary(size: int) -> Any:
    """Return a file without a name for `size` bytes: in memory, or in the directory for temporary files."""
    fits = size <= os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE_OF_MEMORY
    if fits and hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("asdf-mount", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()
