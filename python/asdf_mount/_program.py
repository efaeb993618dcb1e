"""The program asdf-mount: where it is, how it is called, and its errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import unquote

#: Options of ``asdf-mount -o``: the text, or a mapping such as ``{"anonymous": True, "region": "eu-west-1"}``.
Options = Optional[Union[str, Mapping[str, Any]]]
Source = Union[str, "os.PathLike[str]"]


class AsdfMountError(OSError):
    """The program failed; the text is its message."""


def find_program() -> str:
    """Return the path of the program that was installed with this package, else of the first one in ``PATH``."""
    here = Path(__file__).resolve().parent
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    # The last one is that of `pip install --target`.
    for directory in [*schemes, str(here.parent / "bin")]:
        program = os.path.join(directory, "asdf-mount")
        if os.access(program, os.X_OK):
            return program
    found = shutil.which("asdf-mount")
    if not found:
        raise AsdfMountError("the program asdf-mount is missing: install the package asdf-mount again")
    return found


def source_text(source: Source) -> str:
    """Return a source as the program takes it: a path, or the address of a file on a server."""
    text = os.fspath(source)
    if text.startswith("file://"):
        path = "/" + text[len("file://") :].lstrip("/")
        return path if os.path.exists(path) else unquote(path)
    return text


def option_arguments(options: Options) -> list[str]:
    """Return the arguments that pass `options` to the program."""
    if not options:
        return []
    if isinstance(options, str):
        return ["-o", options]
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    texts = [name if value is True else f"{name}={value}" for name, value in given.items()]
    return ["-o", ",".join(text.replace(",", "\\,") for text in texts)] if texts else []


def start(arguments: Iterable[str], **pipes: Any) -> subprocess.Popen[bytes]:
    """Start the program; stderr is a pipe."""
    return subprocess.Popen([find_program(), *arguments], stderr=subprocess.PIPE, **pipes)


def failure(stderr: bytes) -> AsdfMountError:
    """Return the error that the program wrote to stderr."""
    text = stderr.decode(errors="replace").strip()
    return AsdfMountError(text.replace("asdf-mount: ", "") or "asdf-mount failed without a message")


def run(*arguments: str, **pipes: Any) -> bytes:
    """Run the program to its end, and return its output. Its failure is an `AsdfMountError`."""
    pipes.setdefault("stdout", subprocess.PIPE)
    process = start(arguments, **pipes)
    output, errors = process.communicate()
    if process.returncode != 0:
        raise failure(errors)
    return output or b""
