"""Mounts as context managers."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from ._program import AsdfMountError, Options, Source, option_arguments, run, source_text


@contextlib.contextmanager
def mount(
    source: Source,
    mountpoint: Optional[Source] = None,
    *,
    read_only: bool = False,
    options: Options = None,
) -> Iterator[Path]:
    """Mount a file or directory while the context lasts.

    Parameters
    ----------
    source
        An ASDF, GSD or Bloscpack file, a directory with such files, or the address of one on a server.
    mountpoint
        The directory to mount on; created if it is missing. By default a new one below the directory for temporary
        files.
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
    parent = None
    text = source_text(source)
    if mountpoint is None:
        parent = tempfile.mkdtemp(prefix="asdf-mount-")
        name = Path(text.partition("?")[0].rstrip("/") or "root").stem
        mountpoint = os.path.join(parent, name.lstrip(".-") or "mount")
    path = Path(mountpoint).absolute()
    try:
        flags = ["-r"] if read_only else []
        # The daemon keeps stdout and stderr of its start open otherwise.
        run("--quiet", *flags, *option_arguments(options), "--", text, str(path), stdin=subprocess.DEVNULL)
        try:
            yield path
        finally:
            unmount(path)
    finally:
        if parent is not None:
            # Not below the mountpoint, which may be there for a moment still.
            with contextlib.suppress(OSError):
                os.rmdir(path)
            with contextlib.suppress(OSError):
                os.rmdir(parent)


def unmount(path: Path) -> None:
    """Unmount `path`; lazily if something in it is open."""
    try:
        run("-u", "--", str(path))
    except AsdfMountError:
        if not os.path.ismount(path):
            return
        program = "umount" if os.geteuid() == 0 else "fusermount3"
        arguments = ["-l"] if program == "umount" else ["-u", "-z"]
        lazily = [shutil.which(program) or program, *arguments, "--", str(path)]
        if subprocess.run(lazily, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            raise
