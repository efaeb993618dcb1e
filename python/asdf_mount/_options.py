"""Sources and options as the program and the native module take them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

#: Options of ``asdf-mount -o``: the text, or a mapping such as ``{"anonymous": True, "region": "eu-west-1"}``.
Options = Optional[Union[str, Mapping[str, Any]]]
Source = Union[str, "os.PathLike[str]"]


def source_text(source: Source) -> str:
    """Return a source as an absolute path, or the address of a file on a server."""
    text = os.fsdecode(source)
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is not the name of a file")
    return text if "://" in text else os.path.join(os.getcwd(), text)


def option_text(options: Options) -> str:
    """Return options as a list after ``-o``."""
    if isinstance(options, str):
        return options
    given = {name: value for name, value in (options or {}).items() if value is not None and value is not False}
    texts = [name if value is True else f"{name}={value}" for name, value in given.items()]
    return ",".join(text.replace("\\", "\\\\").replace(",", "\\,") for text in texts)
