"""Files that are read without a mount."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, Union

import numpy as np

from ._program import AsdfMountError, Options, Source, failure, option_arguments, run, source_text, start

#: Decoded arrays up to this part of the free memory are kept in memory, longer ones in a temporary file.
SHARE_OF_MEMORY = 4


def open(source: Source, *, options: Options = None) -> File:
    """Open a file without a mount; FUSE is not needed.

    Parameters
    ----------
    source
        The path of an ASDF, GSD or Bloscpack file, or its address on a server (``https://``, ``s3://``).
    options
        Options of ``asdf-mount -o``, such as ``{"anonymous": True}``.

    Returns
    -------
    File
        The file. Nothing of it stays open.

    Raises
    ------
    AsdfMountError
        The file can't be read.
    """
    return File(source, options)


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
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = "\0".join(source_text(path) for path in several)
    flags = ["--since", os.fspath(since)] if since is not None else []
    with tempfile.TemporaryFile() as listed:
        listed.write(os.fsencode(names))
        listed.seek(0)
        arguments = ["--catalog", "--quiet", *option_arguments(options), *flags, "-0", "--files-from", "-"]
        process = start(arguments, stdin=listed, stdout=subprocess.PIPE)
    assert process.stdout and process.stderr
    try:
        for line in process.stdout:
            yield json.loads(line)
        errors = process.stderr.read()
        # 2: there are lines with an error.
        if process.wait() not in (0, 2) or (process.returncode == 2 and errors):
            raise failure(errors)
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
        process.wait()


class File:
    """A file that is read without a mount.

    Attributes
    ----------
    source : str
        The path or address.
    arrays : Arrays
        The arrays, by their paths.
    """

    def __init__(self, source: Source, options: Options = None) -> None:
        self.source = source_text(source)
        self._options = options
        if self.source.endswith("/") or os.path.isdir(self.source):
            raise AsdfMountError(f"{self.source} is a directory; asdf_mount.catalog() and mount() take directories")
        self._line = next(catalog(self.source, options=options))
        if "error" in self._line:
            raise AsdfMountError(self._line["error"])
        self.arrays = Arrays(self.source, options, [array["path"] for array in self._line["arrays"]])

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
            text = run("--cat", *option_arguments(self._options), "--", self.source, "tree.json")
            self._line["tree"] = json.loads(text)
        tree = self._line["tree"]
        return tree if isinstance(tree, dict) else {"": tree}

    def info(self) -> dict[str, Any]:
        """Return size, time, format, version, blocks and arrays, as ``asdf-mount --catalog`` describes them."""
        return {key: value for key, value in self._line.items() if key != "tree"}


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of a file by their paths, such as ``roman/data``. An array is read when it is looked up.

    An array that is stored as it is in a local file is a read-only `numpy.memmap` of the file. Others are decoded, and
    mapped from memory or a temporary file.
    """

    def __init__(self, source: str, options: Options, paths: list[str]) -> None:
        self._source = source
        self._options = options
        self._paths = paths
        self._refs: Optional[dict[str, Any]] = None
        self._decoded: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def __repr__(self) -> str:
        return f"<asdf_mount.Arrays of {self._source!r}: {', '.join(self._paths)}>"

    def __getitem__(self, path: str) -> np.ndarray:
        array = self._decoded.get(path)
        if array is None:
            array = self._mapped(path)
            if array is None:
                array = self._decode(path)
            self._decoded[path] = array
        return array

    def _mapped(self, path: str) -> Optional[np.ndarray]:
        """Return a map of the source, if the array is stored there as it is and in one place."""
        if "://" in self._source:
            return None
        if self._refs is None:
            self._refs = references(self._source, self._options)
        described = self._refs.get(f"{path}/.zarray")
        place = described and contiguous(self._refs, path, json.loads(described))
        if not place:
            return None
        offset, dtype, shape = place
        return np.memmap(self._source, dtype, "r", offset, shape)

    def _decode(self, path: str) -> np.ndarray:
        name = f"arrays/{path}.npy"
        arguments = [*option_arguments(self._options), "--", self._source, name]
        try:
            listed = run("--ls", "--json", *arguments)
        except AsdfMountError as error:
            raise KeyError(f"{path}: {error}") from error
        size = json.loads(listed)["size"]
        with temporary(size) as file:
            run("--cat", *arguments, stdout=file)
            array: np.ndarray = np.load(f"/proc/self/fd/{file.fileno()}", mmap_mode="r" if size > 1 << 16 else None)
        array.flags.writeable = False
        return array


def references(source: str, options: Options) -> dict[str, Any]:
    """Return the references to the chunks of the arrays in a file, as ``refs.json`` has them."""
    refs = json.loads(run("--refs", "--quiet", *option_arguments(options), "--", source))["refs"]
    assert isinstance(refs, dict)
    return refs


def contiguous(refs: dict[str, Any], path: str, zarray: dict[str, Any]) -> Optional[tuple[int, np.dtype, tuple[int, ...]]]:
    """Return offset, type and shape of an array whose chunks are uncompressed and follow each other."""
    shape, chunks = zarray["shape"], zarray["chunks"]
    # In C order only if all dimensions after the first one that is cut are whole.
    cut = next((n for n, chunk in enumerate(chunks) if chunk > 1), len(chunks))
    if zarray["compressor"] or zarray["filters"] or chunks[cut + 1 :] != shape[cut + 1 :] or 0 in shape:
        return None
    offset = end = None
    for index in np.ndindex(*(-(-length // chunk) for length, chunk in zip(shape, chunks))):
        place = refs.get(f"{path}/{'.'.join(map(str, index)) or '0'}")
        if not isinstance(place, list) or (end is not None and place[1] != end):
            return None
        offset = place[1] if offset is None else offset
        end = place[1] + place[2]
    assert offset is not None and end is not None
    dtype = np.dtype(zarray["dtype"])
    if end - offset != dtype.itemsize * int(np.prod(shape, dtype=object)):
        return None
    return offset, dtype, tuple(shape)


def temporary(size: int) -> Any:
    """Return a file without a name for `size` bytes: in memory, or in the directory for temporary files."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size <= free // SHARE_OF_MEMORY and hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("asdf-mount", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()
