"""Files, their arrays and blocks, as the native module reads them."""

from __future__ import annotations

import ast
import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Optional, Union
from urllib.parse import unquote

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _native
from ._error import AsdfMountError
from ._native import Block

#: Options of ``asdf-mount -o``: the text, or a mapping such as ``{"anonymous": True, "region": "eu-west-1"}``.
Options = Optional[Union[str, Mapping[str, Any]]]
Source = Union[str, "os.PathLike[str]"]


class Defect(NamedTuple):
    """A defect that a check finds."""

    #: ``damage``, ``warning`` or ``note``.
    severity: str
    offset: int
    #: The number of the block; None outside of blocks.
    block: Optional[int]
    what: str


class File(_native.File):
    """A file in one version: that of its opening, or of its last save by this object.

    Once another program has changed the file, reads raise an error. A pickled file, and that of a forked process, is opened
    anew; if the file has another version there, that is an error, too. `close`, or the end of a ``with``, releases it.

    Parameters
    ----------
    source
        The path of an ASDF, GSD, Bloscpack or Blosc2 file, or its address on a server (``https://``, ``s3://``).
    options, **keywords
        Options of ``asdf-mount -o``, such as ``{"token-file": "t"}`` or ``token_file="t", anonymous=True``.

    Raises
    ------
    AsdfMountError
        The file can't be read. After `close`, it is a ValueError.
    """

    def __repr__(self) -> str:
        return f"<asdf_mount.File {self.label!r}>"

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file. Its arrays and blocks can't be read any more; arrays of numpy that were taken stay valid."""
        self.__dict__.pop("bytes", None)
        super().close()

    def __reduce__(self) -> Any:
        return partial(File, options=self.options, _version=self.version), (self.source,)

    @cached_property
    def arrays(self) -> Arrays:
        """The arrays, by their paths."""
        return Arrays(self)

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The tree by the rules of ``tree.json``; arrays are their descriptions."""
        tree = json.loads(self._tree_json())
        return tree if isinstance(tree, dict) else {"": tree}

    def set_tree(self, text: str) -> list[str]:
        """Replace the tree of an ASDF file by a text, as a save in a mount does, and return the warnings, a line each.

        Arrays and blocks of this file that were taken before can no longer be read. Maps of it may show other bytes, as
        those of any file that is written to.

        Raises
        ------
        AsdfMountError
            The text is refused, the file has changed, or it can't be written. Then the file is as it was.
        """
        return self._saved(self._set_tree(text))

    def set(self, values: Mapping[str, Any], *, create: bool = False, force: bool = False) -> list[str]:
        """Set keys such as ``meta.exposure.filter`` to values, as ``asdf-mount --set`` does, and save as `set_tree` does.

        The rest of the text stays as it is, comments included. A value is what `json` can write. ``create`` makes missing
        keys; ``force`` replaces mappings, sequences and arrays.
        """
        texts = [(key, json.dumps(value, ensure_ascii=False, allow_nan=False)) for key, value in values.items()]
        return self._saved(self._set(texts, create, force))

    def _saved(self, warnings: list[str]) -> list[str]:
        for name in ("arrays", "tree", "bytes"):
            self.__dict__.pop(name, None)
        return warnings

    def info(self) -> dict[str, Any]:
        """Return size, time, format, version, blocks and arrays, as ``asdf-mount --catalog`` describes them."""
        line: dict[str, Any] = json.loads(self._line())
        line.pop("tree", None)
        return line

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks; each has ``facts``, a length, and ``read(offset, length)`` of its decoded bytes."""
        return Blocks(self)

    def check(self) -> list[Defect]:
        """Read the whole file and return its defects, as ``asdf-mount --check`` finds them."""
        return [Defect(*found) for found in self._check()]

    @cached_property
    def bytes(self) -> np.memmap:
        """A map of the local file, read-only."""
        descriptor = self._descriptor()
        if descriptor is None:
            raise AsdfMountError(f"{self.label} is on a server; no local file can be mapped")
        with os.fdopen(descriptor, "rb") as file:
            mapped = np.memmap(file, np.uint8, "r")
        mapped.filename = self.source
        return mapped

    def node(self, keys: Sequence[str]) -> Any:
        """Return the node of the tree that these keys of a path lead to; None if there is none."""
        node: Any = self.tree
        for key in keys:
            try:
                node = node[int(key)] if isinstance(node, list) else node[unquote(key)]
            except (KeyError, IndexError, ValueError, TypeError):
                return None
        return node

    def unit(self, path: str) -> Optional[str]:
        """Return the unit beside an array: of a quantity, a column, or the mapping that it is in."""
        keys = path.split("/")[:-1]
        units = (self.node([*keys, "unit"]), self.node([*keys, "units"]))
        return next((unit for unit in units if isinstance(unit, str)), None)


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
        The older output can't be read.
    """
    several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    for line in _native.Catalog(list(several), since, options):
        yield json.loads(line)


class Blocks(Sequence[Block]):
    """The blocks of a file."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __len__(self) -> int:
        return self._file._block_count()

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [Block(self._file, n) for n in range(len(self))[number]]
        return Block(self._file, range(len(self))[number])


class Arrays(Mapping[str, "Array"]):
    """The arrays of a file by their paths, such as ``roman/data``.

    Masks, aliases and the frames of trajectories can be looked up, too; only the arrays of the catalogue are listed.
    """

    def __init__(self, file: File) -> None:
        self._file = file

    @cached_property
    def _paths(self) -> dict[str, None]:
        return dict.fromkeys(self._file._listed_arrays())

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def __getitem__(self, path: str) -> Array:
        return Array(self._file, path)


class Array(NDArrayOperatorsMixin):
    """An array, of which only what is asked for is read: ``array[2:5, ::3]`` is a numpy array.

    A part of an array that is stored uncompressed in a local file is a read-only map of that file; others are decoded, and
    can be changed. ``numpy.asarray(array)``, calculations, and the methods of numpy's arrays read all of it.
    """

    def __init__(self, file: File, path: str) -> None:
        self.file = file
        self.path = path
        self._native = _native.Array(file, path)
        self.shape = self._native.shape
        self.dtype: np.dtype = np.lib.format.descr_to_dtype(ast.literal_eval(self._native.descr))
        self.ndim = len(self.shape)

    def __repr__(self) -> str:
        return f"<asdf_mount.Array {self.path!r}, {self.dtype}, {self.shape}>"

    def __reduce__(self) -> Any:
        return Array, (self.file, self.path)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The lengths of chunks that are read without decoding a part twice, for each dimension: a number or a tuple."""
        return self.chunks_of(16 << 20)

    def chunks_of(self, size: int) -> tuple[Any, ...]:
        """Return the lengths of such chunks of about `size` bytes."""
        return tuple(tuple(found) if len(found) > 1 else found[0] for found in self._native.chunks(size))

    @property
    def attrs(self) -> dict[str, Any]:
        """What the tree says beside the array: its unit as ``units``."""
        unit = self.file.unit(self.path)
        return {} if unit is None else {"units": unit}

    def __getitem__(self, key: Any) -> Any:
        offset = self._native.stored
        if offset is not None and self.dtype.itemsize:
            size = self.dtype.itemsize * int(np.prod(self.shape, dtype=object))
            return self.file.bytes[offset : offset + size].view(self.dtype).reshape(self.shape)[key]
        keys = [_plain(part) for part in (key if isinstance(key, tuple) else (key,))]
        if not all(part is None or part is Ellipsis or type(part) in (int, slice) for part in keys):
            return self[...][key]
        # It takes no memory, and has the shape of the result; a wrong key is numpy's error.
        result = self._hollow[key]
        parts = [part for part in keys if part is not None]
        if Ellipsis not in parts:
            parts.append(Ellipsis)
        place = parts.index(Ellipsis)
        parts[place : place + 1] = [slice(None)] * (self.ndim - len(parts) + 1)
        selections = []
        for part, length in zip(parts, self.shape):
            indices = range(length)[part] if isinstance(part, slice) else range(length)[part : part + 1 or None]
            selections.append((indices.start if indices else 0, indices.step, len(indices)))
        found = np.ndarray(np.shape(result), self.dtype, self._native.read(selections))
        return found if isinstance(result, np.ndarray) else found[()]

    @property
    def _hollow(self) -> np.ndarray:
        """An array of this shape and type that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        found = self[...]
        is_map = not found.flags.writeable
        if copy is False and not is_map:
            raise ValueError("the elements are decoded, so there is no array without a copy")
        return np.array(found, dtype, copy=copy if is_map else None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        changed = options.get("out", ()) if method != "at" else inputs[:1]
        if any(isinstance(part, Array) for part in changed):
            raise TypeError("an array of a file is read-only: change a copy, such as array[...].copy(), or use File.set")
        inputs = tuple(np.asarray(part) if isinstance(part, Array) else part for part in inputs)
        options = {name: np.asarray(part) if isinstance(part, Array) else part for name, part in options.items()}
        return getattr(ufunc, method)(*inputs, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("file", "path", "shape", "dtype", "ndim"):
            raise AttributeError(name)
        found = self[...]
        # A method that changes the elements would change a copy.
        found.flags.writeable = False
        return getattr(found, name)

    @property
    def _one(self) -> np.ndarray:
        """The only element; of an array with more or none, an array for which numpy raises its error."""
        return self[...] if self._hollow.size == 1 else self._hollow

    def __bool__(self) -> bool:
        return bool(self._one)

    def __int__(self) -> int:
        return int(self._one)

    def __float__(self) -> float:
        return float(self._one)

    def __complex__(self) -> complex:
        return complex(self._one)

    def __index__(self) -> int:
        return operator.index(self._one)


def _plain(part: Any) -> Any:
    """Return a part of a key; an index as Python's integer, as a narrow one of numpy overflows."""
    is_index = hasattr(type(part), "__index__") and not isinstance(part, (bool, np.bool_, np.ndarray, Array))
    return operator.index(part) if is_index else part
