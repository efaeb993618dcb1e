"""Mounts as context managers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from ._program import AsdfMountError, Options, Source, option_arguments, run, source_text


@contextlib.contextmanager
def mount(
    source: Source, mountpoint: Optional[Source] = None, *, read_only: bool = False, options: Options = None
) -> Iterator[Path]:
    """Mount a file or directory while the context lasts.

    Parameters
    ----------
    source
        An ASDF, GSD, Bloscpack or Blosc2 file, a directory with such files, or the address of one on a server.
    mountpoint
        The directory to mount on; created if it is missing. By default a new temporary one.
    read_only
        Refuse changes of ``tree.yaml``.
    options
        Options of ``asdf-mount -o``, such as ``{"cache": "1G"}``.

    Yields
    ------
    pathlib.Path
        The mountpoint; the mount is ready. At the end it is unmounted. If something in it is still open, such as an
        array that `numpy.load` mapped, the mount disappears from the file system at once, and its daemon ends when the
        last such file is closed.

    Raises
    ------
    AsdfMountError
        The source can't be mounted, or not be unmounted.
    """
    text = source_text(source)
    with contextlib.ExitStack() as stack:
        if mountpoint is None:
            parent = Path(tempfile.mkdtemp(prefix="asdf-mount-"))
            stack.callback(remove, parent)
            name = Path(text.partition("?")[0].rstrip("/")).stem
            mountpoint = parent / (name.lstrip(".-") or "mount")
            stack.callback(remove, mountpoint)
        path = Path(os.fsdecode(mountpoint)).absolute()
        try:
            run("--quiet", *["-r"] * read_only, *option_arguments(options), "--", text, str(path))
        except BaseException as error:
            if not isinstance(error, AsdfMountError):
                # After Ctrl-C the mount may be ready.
                unmount(path)
            raise
        stack.callback(unmount, path)
        yield path


def unmount(path: Path) -> None:
    """Unmount `path`; lazily if something in it is open."""
    try:
        run("-u", "--", str(path))
    except AsdfMountError:
        if not os.path.ismount(path):
            return
        lazily = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-uz"]
        if subprocess.run([*lazily, "--", str(path)], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            raise


def remove(directory: Path) -> None:
    """Remove an empty directory, on which something may be mounted for a moment still."""
    for _ in range(50):
        try:
            return directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
