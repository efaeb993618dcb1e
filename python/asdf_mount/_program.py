"""The program asdf-mount: where it is, how it is called, and its errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
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
    scripts = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    # Where `pip install --target` puts it.
    beside = str(Path(__file__).resolve().parents[1] / "bin")
    found = shutil.which("asdf-mount", path=os.pathsep.join([*scripts, beside])) or shutil.which("asdf-mount")
    if not found:
        raise AsdfMountError("the program asdf-mount is missing: install the package asdf-mount again")
    return found


def source_text(source: Source) -> str:
    """Return a source as the program takes it: an absolute path, or the address of a file on a server."""
    text = os.fsdecode(source)
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is not the name of a file")
    if text.startswith("file://"):
        path = "/" + text[len("file://") :].lstrip("/")
        return path if os.path.exists(path) else unquote(path)
    return text if "://" in text else os.path.join(os.getcwd(), text)


def option_arguments(options: Options) -> list[str]:
    """Return the arguments that pass `options` to the program."""
    if isinstance(options, str):
        return ["-o", options] if options else []
    given = {name: value for name, value in (options or {}).items() if value is not None and value is not False}
    texts = [name if value is True else f"{name}={value}" for name, value in given.items()]
    return ["-o", ",".join(text.replace(",", "\\,") for text in texts)] if texts else []


def failure(stderr: bytes) -> AsdfMountError:
    """Return the error that the program wrote to stderr."""
    text = stderr.decode(errors="replace").strip()
    return AsdfMountError(text.replace("asdf-mount: ", "") or "asdf-mount failed without a message")


def run(*arguments: str, stdout: Any = subprocess.PIPE) -> bytes:
    """Run the program to its end, and return its output. Its failure is an `AsdfMountError`."""
    command = [find_program(), *arguments]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, check=False)
    if ended.returncode != 0:
        raise failure(ended.stderr)
    return ended.stdout or b""
