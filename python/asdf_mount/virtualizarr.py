"""A parser for VirtualiZarr."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

from virtualizarr.manifests import ManifestStore
from virtualizarr.parsers.kerchunk.translator import manifestgroup_from_kerchunk_refs

from ._file import File, Options
from ._native import shown


@dataclass
class AsdfParser:
    """Make virtual Zarr stores of ASDF, GSD and Bloscpack files.

    Parameters
    ----------
    group
        The path of a mapping in the tree, such as ``roman``. By default the root.
    skip_variables
        Names of arrays to leave out.
    options
        Options of ``asdf-mount -o``, such as ``{"anonymous": True}``.
    """

    group: Optional[str] = None
    skip_variables: Optional[Iterable[str]] = None
    options: Options = None

    def _references(self, url: str) -> dict[str, Any]:
        text = File(url, options=self.options)._references()
        return dict(json.loads(text)["refs"]) if text else {}

    def __call__(self, url: str, registry: Any) -> ManifestStore:
        """Return the store of the arrays in the file at `url`; `registry` resolves the addresses of the chunks."""
        refs: dict[str, Any] = {}
        unsuitable = set(self.skip_variables or ())
        group = (self.group or "").strip("/")
        prefix = f"{group}/" if group else ""
        for key, value in self._references(url).items():
            name, _, part = key.removeprefix(prefix).partition("/")
            if not key.startswith(prefix) or ".zmetadata" in (name, part):
                continue
            if part == ".zarray":
                # VirtualiZarr looks for codecs among the filters.
                described = json.loads(value)
                filters = [described["compressor"]] if described["compressor"] else None
                value = json.dumps({**described, "compressor": None, "filters": filters})
                if described["fill_value"] is not None:  # VirtualiZarr counts the chunks by the last one.
                    last = [-(-length // chunk) - 1 for length, chunk in zip(described["shape"], described["chunks"])]
                    refs[f"{name}/{'.'.join(map(str, last))}"] = [float("nan")]
            elif part and not part.startswith(".") and "/" not in part and isinstance(value, str):
                if name not in unsuitable:
                    warnings.warn(f"{name} is left out: VirtualiZarr reads no data in references", stacklevel=2)
                unsuitable.add(name)
            refs[key.removeprefix(prefix)] = value
        if not refs:
            raise KeyError(f"{shown(url)} has no group {self.group}")
        found: Any = {"version": 1, "refs": refs}
        return ManifestStore(manifestgroup_from_kerchunk_refs(found, skip_variables=unsuitable), registry=registry)
