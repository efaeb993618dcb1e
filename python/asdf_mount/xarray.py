"""The engine ``asdf-mount`` of xarray. Any process can read any part of an array; no mount is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Optional, Union

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ._error import AsdfMountError
from ._file import Array, File, Options

#: Bytes that a chunk has, unless the part of a compressed block is longer: several usual parts.
CHUNK_BYTES = 16 << 20
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
        groups = _Groups(File(filename_or_obj, options=options))
        dataset = groups.dataset((group or "").strip("/"), drop_variables)
        dataset.set_close(groups.file.close)
        return dataset

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, drop_variables: Names = None, options: Options = None
    ) -> dict[str, xr.Dataset]:
        """Open all groups of a file that have arrays; the parameters are those of `open_dataset`."""
        groups = _Groups(File(filename_or_obj, options=options))
        found = {f"/{group}": groups.dataset(group, drop_variables) for group in sorted({"", *groups.names})}
        # They share the file, which the root closes.
        found["/"].set_close(groups.file.close)
        return found

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Open a file as a tree of datasets; the parameters are those of `open_dataset`."""
        groups = self.open_groups_as_dict(filename_or_obj, **kwargs)
        tree = xr.DataTree.from_dict(groups)
        tree.set_close(groups["/"].close)
        return tree


class _Groups:
    """The groups of a file, and their variables."""

    def __init__(self, file: File) -> None:
        self.file = file
        #: The arrays of a trajectory are those of all frames.
        directory = "series/" if file.format == "gsd" else ""
        #: The paths of the arrays, by group and name of the variables.
        self.paths: dict[tuple[str, str], str] = {}
        for path in file._all_arrays(directory.rstrip("/")):
            group, name = self.variable(path.removeprefix(directory))
            if (group, name) in self.paths:
                group, _, name = path.rpartition("/")
            self.paths[group, name] = path
        self.names = {group for group, _ in self.paths}

    def variable(self, path: str) -> tuple[str, str]:
        """Return group and name of the variable that an array becomes."""
        keys = path.split("/")
        if keys[-1] == "value" and len(keys) > 1 and self.file.unit(path) is not None:
            keys.pop()
        if "columns" in keys[-3:-1]:
            # A column is `columns/N` or `columns/N/data` in the mapping of its table.
            place = keys.index("columns", max(0, len(keys) - 3))
            found = [self.file.node([*keys[:place], "colnames", keys[place + 1]]), self.file.node([*keys[: place + 2], "name"])]
            keys[place:] = [name for name in found if isinstance(name, str) and "/" not in name][:1] or keys[place:]
        return "/".join(keys[:-1]), keys[-1]

    def attributes(self, group: str) -> dict[str, Any]:
        """Return the plain values of the group's mapping, and of `meta` in it."""
        keys = group.split("/") if group else []
        found = {}
        for values in (self.file.node([*keys, "meta"]), self.file.node(keys)):
            if isinstance(values, dict):
                found.update({key: value for key, value in values.items() if isinstance(value, (str, int, float))})
        return found

    def dataset(self, group: str, drop_variables: Names) -> xr.Dataset:
        """Return the dataset of a group."""
        if group and not any(f"{other}/".startswith(f"{group}/") for other in self.names):
            known = ", ".join(sorted(self.names - {""})) or "none"
            raise AsdfMountError(f"{self.file.label} has no arrays in {group}; groups with arrays: {known}")
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        variables = {}
        for (of, name), path in self.paths.items():
            if of == group and name not in dropped:
                try:
                    variables[name] = self.xarray_variable(path)
                except (KeyError, AsdfMountError):
                    # Unless the catalogue lists it, it is an alias or a reference that leads to no array.
                    if path in self.file.arrays:
                        raise
        dataset = xr.Dataset(variables, attrs=self.attributes(group))
        dataset.encoding["source"] = self.file.source
        return dataset

    def xarray_variable(self, path: str) -> xr.Variable:
        """Return the variable that an array becomes."""
        array = self.file.arrays[path]
        mask = self.file.arrays[f"{path}.mask"] if f"{path}.mask" in self.paths.values() else None
        lazy = _LazyArray(array, mask)
        names = [f"dim{array.ndim - axis}_{length}" for axis, length in enumerate(array.shape)]
        if path.startswith("series/") and self.file.format == "gsd":
            names[0] = f"frame_{array.shape[0]}"
        attributes = array.attrs
        if lazy.fill is not None and array.dtype.kind in "iu":
            attributes["_FillValue"] = lazy.fill
        encoding = {"preferred_chunks": dict(zip(names, array.chunks_of(CHUNK_BYTES)))}
        return xr.Variable(names, indexing.LazilyIndexedArray(lazy), attributes, encoding)


class _LazyArray(BackendArray):
    """An array as xarray reads it: without what a mask masks."""

    def __init__(self, array: Array, mask: Optional[Array]) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        #: What masked elements are: NaN, or the last integer that one would use; None if no element is masked.
        self.fill: Any = None
        if mask is not None and mask.dtype.kind == "b" and mask.shape == array.shape:
            if self.dtype.kind in "fc":
                self.fill = self.dtype.type(np.nan)
            elif self.dtype.kind in "iu":
                limits = np.iinfo(self.dtype)
                self.fill = self.dtype.type(limits.min if self.dtype.kind == "i" else limits.max)
        self.mask = None if self.fill is None else mask

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._select)

    def _select(self, key: tuple[Any, ...]) -> Any:
        # A map of the file is copied.
        found = np.require(self.array[key], requirements=["E", "W"])
        if self.mask is not None:
            found[self.mask[key]] = self.fill
        return found
