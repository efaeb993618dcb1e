"""The engine ``asdf-mount`` of xarray.

Arrays whose chunks Zarr can express are read by zarr and fsspec from the file or the server, without the program. Others,
and all if these packages are missing, are read by the program, a range of rows at a time. No mount and no daemon is
needed, and any process can read any chunk.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Optional, Union

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ._file import File, references
from ._program import AsdfMountError, Options, option_arguments, run, source_text

#: Bytes that the program reads at a time of an array without chunks. Longer than the parts of compressed blocks, usually
#: 4 MiB, because those at both ends are decoded twice.
ROWS_BYTES = 16 << 20
#: The header of an .npy file with numbers has this length, and with many fields at most the other one.
HEADER_BYTES = 128
MAX_HEADER_BYTES = 1 << 17
#: The packages for each kind of address, besides zarr and fsspec.
PACKAGES = {"file": "fsspec", "http": "aiohttp", "https": "aiohttp", "s3": "s3fs"}


class AsdfBackend(BackendEntrypoint):
    """Open the arrays of a mapping in an ASDF file as the variables of a dataset.

    Examples
    --------
    >>> xarray.open_dataset("https://host/r0000101.asdf", engine="asdf-mount", group="roman", chunks={})
    """

    description = "ASDF, GSD and Bloscpack files, local or on servers"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "group", "options", "storage_options")
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether the name is that of an ASDF file."""
        return isinstance(filename_or_obj, (str, os.PathLike)) and os.fspath(filename_or_obj).endswith(".asdf")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: Union[str, Iterable[str], None] = None,
        group: Optional[str] = None,
        options: Options = None,
        storage_options: Optional[Mapping[str, Any]] = None,
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
        storage_options
            Options of the fsspec file system that reads chunks from a server; by default those that match `options`.

        Returns
        -------
        xarray.Dataset
            A variable for each array; for a quantity and the column of a table, too, with its unit. The attributes are
            the plain values of the mapping and of its ``meta``.
        """
        return _OpenedFile(filename_or_obj, options, storage_options).dataset((group or "").strip("/"), drop_variables)

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, drop_variables: Any = None, options: Options = None, storage_options: Any = None
    ) -> dict[str, xr.Dataset]:
        """Open all groups of a file that have arrays; the parameters are those of `open_dataset`."""
        file = _OpenedFile(filename_or_obj, options, storage_options)
        return {f"/{group}": file.dataset(group, drop_variables) for group in sorted({"", *file.groups()})}

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Open a file as a tree of datasets; the parameters are those of `open_dataset`."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **kwargs))


class _OpenedFile:
    """A file with its references and its tree."""

    def __init__(self, source: Any, options: Options, storage_options: Optional[Mapping[str, Any]]) -> None:
        self.source = source_text(source)
        self.options = options
        self.storage_options = storage_options
        self.scheme = self.source.partition("://")[0] if "://" in self.source else "file"
        self.file = File(self.source, options)
        self.refs = references(self.source, options)
        self.left_out = json.loads(self.refs.get(".zattrs", "{}")).get("left_out", {})
        #: Paths of the arrays that refs.json has, and of those that it has not.
        self.paths = [key[: -len("/.zarray")] for key in self.refs if key.endswith("/.zarray")]
        self.paths += [path for path in dict.fromkeys([*self.file.arrays, *self.left_out]) if path not in self.paths]

    def variable(self, path: str) -> tuple[str, str]:
        """Return group and name of the variable that an array becomes."""
        keys = path.split("/")
        if keys[-1] == "value" and len(keys) > 1 and isinstance(self.unit(path), str):
            keys.pop()
        if "columns" in keys[-3:-1]:
            # The column of a table, `columns/N` or `columns/N/data`.
            place = len(keys) - 1 - keys[::-1].index("columns")
            column = self.node(keys[: place + 2])
            table = self.node(keys[:place])
            name = column.get("name") if isinstance(column, dict) else None
            if isinstance(table, dict) and isinstance(table.get("colnames"), list) and keys[place + 1].isdecimal():
                name = dict(enumerate(table["colnames"])).get(int(keys[place + 1]), name)
            if isinstance(name, str) and "/" not in name:
                keys[place:] = [name]
        return "/".join(keys[:-1]), keys[-1]

    def unit(self, path: str) -> Any:
        """Return the unit beside an array: of a quantity, a column, or the mapping that it is in."""
        beside = self.node(path.split("/")[:-1])
        return beside.get("unit", beside.get("units")) if isinstance(beside, dict) else None

    def node(self, keys: list[str]) -> Any:
        """Return a node of the tree; None if there is none."""
        node: Any = self.file.tree
        for key in keys:
            try:
                node = node[int(key)] if isinstance(node, list) else node[key]
            except (KeyError, IndexError, ValueError, TypeError):
                return None
        return node

    def groups(self) -> list[str]:
        """Return the groups that have arrays, some repeatedly."""
        return [self.variable(path)[0] for path in self.paths]

    def dataset(self, group: str, drop_variables: Union[str, Iterable[str], None]) -> xr.Dataset:
        """Return the dataset of a group."""
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        groups = self.groups()
        if group and not any(f"{other}/".startswith(f"{group}/") for other in groups):
            known = ", ".join(sorted(set(filter(None, groups)))) or "none"
            raise AsdfMountError(f"{self.source} has no arrays in {group}; groups with arrays: {known}")
        by_zarr: dict[str, Any] = {}
        by_program = {}
        for path in self.paths:
            of_group, name = self.variable(path)
            if of_group != group or name in dropped:
                continue
            unit = self.unit(path)
            attributes = {"units": unit} if isinstance(unit, str) else {}
            if self.suits_zarr(path):
                prefix = f"{path}/"
                chunks = {key[len(prefix) :]: value for key, value in self.refs.items() if key.startswith(prefix)}
                chunks[".zattrs"] = json.dumps(json.loads(chunks[".zattrs"]) | attributes)
                by_zarr.update({f"{name}/{key}": value for key, value in chunks.items()})
            else:
                by_program[path] = (name, attributes)
        headers = self.headers([*by_program])
        variables = {}
        for path, (name, attributes) in by_program.items():
            try:
                variables[name] = ProgramArray(self.source, self.options, path, headers.get(path)).variable(attributes)
            except AsdfMountError:
                # Without an entry in the catalogue, it is an alias or a reference that leads to no array.
                if path in self.file.arrays:
                    raise
        dataset = (self.by_zarr(by_zarr) if by_zarr else xr.Dataset()).assign(variables)
        dataset.attrs = self.attributes(group)
        dataset.encoding["source"] = self.source
        return dataset

    def suits_zarr(self, path: str) -> bool:
        """True if zarr is here, can read the array, and not only as a whole where the program reads parts."""
        described = self.refs.get(f"{path}/.zarray")
        if described is None or not all(map(find_spec, ["zarr", "fsspec", "numcodecs", PACKAGES[self.scheme]])):
            return False
        zarray = json.loads(described)
        size = np.dtype(zarray["dtype"]).itemsize * int(np.prod(zarray["chunks"], dtype=object))
        return not str((zarray["compressor"] or {}).get("id")).startswith("asdf-") or size <= ROWS_BYTES

    def headers(self, paths: list[str]) -> dict[str, bytes]:
        """Return the starts of the arrays' .npy files by one call of the program; none if one can't be read."""
        names = [f"arrays/{path}.npy" for path in paths]
        flags = ["--cat", "--range", f"0-{HEADER_BYTES - 1}", *option_arguments(self.options)]
        try:
            starts = run(*flags, "--", self.source, *names) if names else b""
        except AsdfMountError:
            return {}
        return {path: starts[n * HEADER_BYTES : (n + 1) * HEADER_BYTES] for n, path in enumerate(paths)}

    def by_zarr(self, refs: dict[str, Any]) -> xr.Dataset:
        """Return the dataset of a group without groups in it."""
        import fsspec
        import zarr

        described = {key: json.loads(value) for key, value in refs.items() if key.endswith(("/.zarray", "/.zattrs"))}
        metadata = {".zgroup": {"zarr_format": 2}, **described}
        refs[".zgroup"] = json.dumps(metadata[".zgroup"])
        refs[".zmetadata"] = json.dumps({"metadata": metadata, "zarr_consolidated_format": 1})
        options = self.storage_options
        if options is None:
            options = fsspec_options(self.options) if self.scheme == "s3" else {}
        filesystem = fsspec.filesystem(
            "reference",
            fo={"version": 1, "refs": refs},
            remote_protocol=self.scheme,
            remote_options={**options, "asynchronous": self.scheme != "file"},
            asynchronous=True,
        )
        store: Any = zarr.storage.FsspecStore(filesystem, read_only=True)
        return xr.open_dataset(store, engine="zarr", consolidated=True, zarr_format=2, cache=False)

    def attributes(self, group: str) -> dict[str, Any]:
        """Return the plain values of the group's mapping, and of `meta` in it."""
        found = {}
        mapping = self.node(group.split("/") if group else [])
        if isinstance(mapping, dict):
            for values in (mapping.get("meta"), mapping):
                if isinstance(values, dict):
                    found.update({key: value for key, value in values.items() if isinstance(value, (str, int, float))})
        return found


def fsspec_options(options: Options) -> dict[str, Any]:
    """Return the options of s3fs that mean the same as those of the program."""
    if isinstance(options, str):
        pairs = [option.partition("=") for option in options.split(",")]
        options = {name: value if equals else True for name, equals, value in pairs}
    options = options or {}
    client = {"endpoint_url": options.get("endpoint"), "region_name": options.get("region")}
    return {
        "anon": bool(options.get("anonymous")),
        "client_kwargs": {name: value for name, value in client.items() if value},
    }


class ProgramArray(BackendArray):
    """An array whose rows the program reads, in a process of its own for each read."""

    def __init__(self, source: str, options: Options, path: str, header: Optional[bytes]) -> None:
        self.source = source
        self.options = options
        self.name = f"arrays/{path}.npy"
        # Its length is at byte 8.
        if header is None or len(header) < 10 or header[8] + 10 > len(header) or header[9] != 0:
            header = self.read(0, MAX_HEADER_BYTES)
        file = io.BytesIO(header)
        is_first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
        described: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file, max_header_size=MAX_HEADER_BYTES)
        self.shape, self.is_fortran, self.dtype = described
        self.offset = file.tell()

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the .npy file."""
        where = f"{start}-{start + length - 1}"
        return run("--cat", "--range", where, *option_arguments(self.options), "--", self.source, self.name)

    def variable(self, attributes: dict[str, Any]) -> xr.Variable:
        """Return the array as a variable, with dimensions as in refs.json."""
        count = len(self.shape)
        dimensions = [f"dim{count - n}_{length}" for n, length in enumerate(self.shape)]
        encoding = {}
        if count:
            rows = self.shape[0] if self.is_fortran else max(1, ROWS_BYTES // max(1, self.row_bytes))
            chunks = (max(1, min(rows, self.shape[0])), *self.shape[1:])
            encoding = {"preferred_chunks": dict(zip(dimensions, chunks))}
        return xr.Variable(dimensions, indexing.LazilyIndexedArray(self), attributes, encoding)

    @property
    def row_bytes(self) -> int:
        """Bytes of an element of the first dimension."""
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=object))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._select)

    def _select(self, key: tuple[Any, ...]) -> Any:
        if not key or self.is_fortran:
            return self._rows(0, self.shape[0] if self.shape else 1)[key]
        rows = range(self.shape[0])[key[0]]
        if isinstance(rows, int):
            return self._rows(rows, rows + 1)[0][key[1:]]
        block = self._rows(min(rows), max(rows) + 1) if rows else self._rows(0, 0)
        return block[:: rows.step][(slice(None), *key[1:])]

    def _rows(self, first: int, last: int) -> np.ndarray:
        shape = (last - first, *self.shape[1:]) if self.shape else ()
        length = self.dtype.itemsize * int(np.prod(shape, dtype=object))
        if length == 0:
            return np.empty(shape, self.dtype)
        data = self.read(self.offset + first * self.row_bytes, length)
        if len(data) != length:
            raise AsdfMountError(f"{self.source}: {self.name} has changed")
        return np.frombuffer(data, self.dtype).reshape(shape, order="F" if self.is_fortran else "C")
