"""The engine ``asdf-mount`` of xarray.

Arrays that are stored as they are in a local file are read from it, others by the program, a range of bytes at a time.
No mount and no daemon is needed, and any process can read any part.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import Any, Optional, Union
from urllib.parse import unquote

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ._file import MAX_HEADER, WITHOUT_PARTS, File, npy_header, state_of
from ._program import AsdfMountError, Options, option_arguments, run

#: Bytes that a chunk has, unless the part of a compressed block is longer: several usual parts.
CHUNK_BYTES = 16 << 20
#: The usual number of bytes in a part of a compressed block, decoded.
PART_BYTES = 4 << 20
#: The usual length of the header of an .npy file, and the shortest.
HEADER_BYTES = 128
#: The reason for which ``refs.json`` leaves out a mask.
IS_MASK = "it is the mask of an array"
Names = Union[str, Iterable[str], None]


class AsdfBackend(BackendEntrypoint):
    """Open the arrays of a mapping in an ASDF file as the variables of a dataset."""

    description = "ASDF, GSD and Bloscpack files, local or on servers"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "group", "options")
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether the name is that of an ASDF file."""
        return isinstance(filename_or_obj, (str, os.PathLike)) and os.fspath(filename_or_obj).endswith(".asdf")

    def open_dataset(
        self, filename_or_obj: Any, *, drop_variables: Names = None, group: Optional[str] = None, options: Options = None
    ) -> xr.Dataset:
        """Open a group of a file.

        Parameters
        ----------
        filename_or_obj
            The path of the file, or its address on a server.
        drop_variables
            Names of arrays to leave out.
        group
            The path of a mapping in the tree, such as ``roman``. By default the root.
        options
            Options of ``asdf-mount -o``, such as ``{"anonymous": True, "region": "eu-west-1"}``.

        Returns
        -------
        xarray.Dataset
            A variable for each array; for a quantity and the column of a table, too, with its unit. Masked floats are
            NaN, masked integers the number in the attribute ``_FillValue``. The attributes are the plain values of the
            mapping and of its ``meta``.
        """
        return _OpenedFile(filename_or_obj, options).dataset((group or "").strip("/"), drop_variables)

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, drop_variables: Names = None, options: Options = None
    ) -> dict[str, xr.Dataset]:
        """Open all groups of a file that have arrays; the parameters are those of `open_dataset`."""
        file = _OpenedFile(filename_or_obj, options)
        return {f"/{group}": file.dataset(group, drop_variables) for group in sorted({"", *file.groups})}

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Open a file as a tree of datasets; the parameters are those of `open_dataset`."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **kwargs))


class _OpenedFile:
    """A file and its variables."""

    def __init__(self, source: Any, options: Options) -> None:
        self.file = File(source, options=options)
        directory = self.file.directories[1]
        described = [directory + key.removesuffix("/.zarray") for key in self.file.refs if key.endswith("/.zarray")]
        left_out = json.loads(self.file.refs.get(".zattrs", "{}")).get("left_out", {})
        listed = {} if directory else {self.file.zarr_path(path): path for path in self.file.arrays}
        #: The paths of the arrays, by group and name of the variables.
        self.paths: dict[tuple[str, str], str] = {}
        for path in [*listed.values(), *(path for path in dict.fromkeys([*described, *left_out]) if path not in listed)]:
            group, name = self.variable(path.removeprefix(directory))
            if (group, name) in self.paths:
                group, _, name = path.rpartition("/")
            self.paths[group, name] = path
        self.groups = {group for group, _ in self.paths}
        #: The paths of masks.
        self.masks = {directory + path for path, why in left_out.items() if why == IS_MASK}

    def node(self, names: list[str]) -> Any:
        """Return the node of the tree with these names of directories in ``arrays``; None if there is none."""
        node: Any = self.file.tree
        for name in names:
            try:
                node = node[int(name)] if isinstance(node, list) else node[unquote(name)]
            except (KeyError, IndexError, ValueError, TypeError):
                return None
        return node

    def unit(self, path: str) -> Optional[str]:
        """Return the unit beside an array: of a quantity, a column, or the mapping that it is in."""
        keys = path.split("/")[:-1]
        units = (self.node([*keys, "unit"]), self.node([*keys, "units"]))
        return next((unit for unit in units if isinstance(unit, str)), None)

    def variable(self, path: str) -> tuple[str, str]:
        """Return group and name of the variable that an array becomes."""
        keys = path.split("/")
        if keys[-1] == "value" and len(keys) > 1 and self.unit(path) is not None:
            keys.pop()
        if "columns" in keys[-3:-1]:
            # A column is `columns/N` or `columns/N/data` in the mapping of its table.
            place = keys.index("columns", max(0, len(keys) - 3))
            names = [self.node([*keys[:place], "colnames", keys[place + 1]]), self.node([*keys[: place + 2], "name"])]
            keys[place:] = [name for name in names if isinstance(name, str) and "/" not in name][:1] or keys[place:]
        return "/".join(keys[:-1]), keys[-1]

    def attributes(self, group: str) -> dict[str, Any]:
        """Return the plain values of the group's mapping, and of `meta` in it."""
        keys = group.split("/") if group else []
        found = {}
        for values in (self.node([*keys, "meta"]), self.node(keys)):
            if isinstance(values, dict):
                found.update({key: value for key, value in values.items() if isinstance(value, (str, int, float))})
        return found

    def dataset(self, group: str, drop_variables: Names) -> xr.Dataset:
        """Return the dataset of a group."""
        if group and not any(f"{other}/".startswith(f"{group}/") for other in self.groups):
            known = ", ".join(sorted(self.groups - {""})) or "none"
            raise AsdfMountError(f"{self.file.source} has no arrays in {group}; groups with arrays: {known}")
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        wanted = {name: path for (of, name), path in self.paths.items() if of == group and name not in dropped}
        headers = self.headers([path for path in wanted.values() if self.file.stored(path) is None])
        variables = {}
        for name, path in wanted.items():
            try:
                array = AsdfArray(self.file, path, headers.get(path, b""))
                array.set_mask(self.mask(path, headers))
            except AsdfMountError:
                # Without an entry in the catalogue, it is an alias or a reference that leads to no array.
                if path in self.file.arrays:
                    raise
            else:
                unit = self.unit(path)
                encoding = {"preferred_chunks": dict(zip(array.dimensions, array.chunks))}
                data = indexing.LazilyIndexedArray(array)
                attributes: dict[str, Any] = {} if unit is None else {"units": unit}
                if array.mask is not None and array.fill is not None and array.dtype.kind in "iu":
                    attributes["_FillValue"] = array.fill
                variables[name] = xr.Variable(array.dimensions, data, attributes, encoding)
        dataset = xr.Dataset(variables, attrs=self.attributes(group))
        dataset.encoding["source"] = self.file.source
        return dataset

    def mask(self, path: str, headers: dict[str, bytes]) -> Optional[AsdfArray]:
        """Return the mask of an array; None if it has none."""
        mask = f"{path}.mask"
        return AsdfArray(self.file, mask, headers.get(mask, b"")) if mask in self.masks else None

    def headers(self, paths: list[str]) -> dict[str, bytes]:
        """Return the starts of the arrays' .npy files by one call of the program; empty ones if one can't be read."""
        names = [f"arrays/{path}.npy" for path in paths]
        flags = ["--cat", "--range", f"0-{HEADER_BYTES - 1}", *option_arguments(self.file.options)]
        try:
            starts = run(*flags, "--", self.file.source, *names) if names else b""
        except AsdfMountError:
            starts = b""
        return {path: starts[n * HEADER_BYTES : (n + 1) * HEADER_BYTES] for n, path in enumerate(paths)}


def chunks_by_parts(row: int, rows: int) -> Union[int, tuple[int, ...]]:
    """Return the numbers of rows in chunks of `row` bytes each that end where a part of the block ends, or in the row after.

    The program decodes of a part on a server only what is read from its beginning, so that no part is decoded twice.
    """
    step = CHUNK_BYTES - CHUNK_BYTES % PART_BYTES or CHUNK_BYTES
    ends = [min(rows, -(-end // row)) for end in range(step, rows * row + step, step)]
    chunks = tuple(end - start for start, end in zip([0, *ends], ends) if end > start)
    return chunks[0] if len({*chunks[:-1]}) <= 1 and chunks[-1] <= chunks[0] else chunks


class AsdfArray(BackendArray):
    """An array of which any process can read any part. `header` is the start of its .npy file."""

    def __init__(self, file: File, path: str, header: bytes) -> None:
        self.source, self.options, self.state = file.source, file.options, file.state
        self.name = f"arrays/{path}.npy"
        stored = file.stored(path)
        self.is_stored = stored is not None
        if stored is not None:
            self.start, self.dtype, self.shape, order = *stored, "C"
        else:
            try:
                self.start, self.dtype, self.shape, order = npy_header(header)
            except ValueError:
                self.start, self.dtype, self.shape, order = npy_header(self.read(0, MAX_HEADER))
        axes = range(len(self.shape))
        after = [self.shape[axis + 1 :] if order == "C" else self.shape[:axis] for axis in axes]
        self.strides = [self.dtype.itemsize * math.prod(lengths) for lengths in after]
        zarray = json.loads(file.refs.get(f"{file.zarr_path(path)}/.zarray", "{}"))
        # With our codecs, the whole block is a chunk only because its parts are not whole rows.
        is_whole = (zarray.get("compressor") or {}).get("id", "").startswith("asdf-")
        is_known = bool(zarray) and not is_whole
        codec = file.codec(path)
        lengths: list[int] = zarray["chunks"] if is_known else [1] * len(self.shape)
        if not is_known and codec in WITHOUT_PARTS:
            lengths = [*self.shape]
        self.chunks: list[Union[int, tuple[int, ...]]] = [*lengths]
        for axis in axes if order == "F" else reversed(axes):
            row = self.dtype.itemsize * math.prod(lengths)
            count = CHUNK_BYTES // max(1, row)
            lengths[axis] = max(1, min(self.shape[axis], lengths[axis] * max(1, count)))
            self.chunks[axis] = lengths[axis]
            if row > 0 and 1 < lengths[axis] < self.shape[axis] and not is_known and codec is not None:
                self.chunks[axis] = chunks_by_parts(row, self.shape[axis])
        attributes = json.loads(file.refs.get(f"{file.zarr_path(path)}/.zattrs", "{}"))
        dimensions = [f"dim{len(axes) - axis}_{length}" for axis, length in enumerate(self.shape)]
        self.dimensions: list[str] = attributes.get("_ARRAY_DIMENSIONS", dimensions)
        self.mask: Optional[AsdfArray] = None
        self.fill: Any = None

    def set_mask(self, mask: Optional[AsdfArray]) -> None:
        """Replace the elements that a mask of bool masks: by NaN, or the last integer that one would use."""
        if mask is None or mask.dtype.kind != "b" or mask.shape != self.shape:
            return
        if self.dtype.kind in "fc":
            self.fill = self.dtype.type(np.nan)
        elif self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            self.fill = self.dtype.type(limits.min if self.dtype.kind == "i" else limits.max)
        self.mask = mask if self.fill is not None else None

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the file, if the elements are stored there as they are; else of the .npy file."""
        if self.is_stored:
            with open(self.source, "rb") as file:
                file.seek(start)
                return file.read(length)
        where = f"{start}-{start + length - 1}"
        return run("--cat", "--range", where, *option_arguments(self.options), "--", self.source, self.name)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._select)

    def _select(self, key: tuple[Any, ...]) -> Any:
        found = self._elements(key)
        if self.mask is not None:
            found[self.mask._elements(key) != 0] = self.fill
        return found[tuple(slice(None) if isinstance(part, slice) else 0 for part in key)].copy()

    def _elements(self, key: tuple[Any, ...]) -> Any:
        """Return the elements at a key, of which a number becomes a slice of one."""
        slices = [part if isinstance(part, slice) else slice(part, part + 1) for part in key]
        rows = [range(length)[part] for length, part in zip(self.shape, slices)]
        counts = tuple(map(len, rows))
        data = b""
        if 0 not in counts:
            # The bytes from the first element to the last one.
            first, last = (sum(row[end] * step for row, step in zip(rows, self.strides)) for end in (0, -1))
            data = self.read(self.start + first, last - first + self.dtype.itemsize)
            if state_of(self.source) != self.state or len(data) != last - first + self.dtype.itemsize:
                raise AsdfMountError(f"{self.source} has changed since it was opened; open it again")
        steps = [row.step * step for row, step in zip(rows, self.strides)]
        return np.ndarray(counts, self.dtype, data, strides=steps).copy()
