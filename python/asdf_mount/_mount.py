"""Mounts as context managers, by the program of this package."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from ._error import AsdfMountError
from ._file import Options, Source
from ._native import option_text, shown, source_text

#: The variable with the argument of this number as it was given; in the list of processes it has no login.
TYPED = "ASDF_MOUNT_TYPED_"


def find_program() -> str:
    """Return the path of the program that was installed with this package, else of the first one in ``PATH``."""
    scripts = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    # Where `pip install --target` puts it.
    beside = str(Path(__file__).resolve().parents[1] / "bin")
    found = shutil.which("asdf-mount", path=os.pathsep.join([*scripts, beside])) or shutil.which("asdf-mount")
    if not found:
        raise AsdfMountError("the program asdf-mount is missing: install the package asdf-mount again")
    return found


def run(*arguments: str) -> None:
    """Run the program to its end. Its failure is an `AsdfMountError`."""
    hidden = {f"{TYPED}{n}": text for n, text in enumerate(arguments, 1) if shown(text) != text}
    command = [find_program(), *map(shown, arguments)]
    environment = {**os.environ, **hidden}
    ended = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if ended.returncode != 0:
        text = ended.stderr.decode(errors="replace").strip().replace("asdf-mount: ", "")
        raise AsdfMountError(text or "asdf-mount failed without a message")


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
    given = option_text(options)
    with contextlib.ExitStack() as stack:
        if mountpoint is None:
            parent = Path(tempfile.mkdtemp(prefix="asdf-mount-"))
            stack.callback(remove, parent)
            name = Path(shown(text).partition("?")[0].rstrip("/")).stem
            mountpoint = parent / (name.lstrip(".-") or "mount")
            stack.callback(remove, mountpoint)
        path = Path(os.fsdecode(mountpoint)).absolute()
        try:
            run("--quiet", *["-r"] * read_only, *(["-o", given] if given else []), "--", text, str(path))
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
