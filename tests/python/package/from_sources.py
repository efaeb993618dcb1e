"""The Python package as it is installed, but from the sources and a build."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def lay_out(place, program):
    """Lay out the package and its entry points in an empty directory. The native module is beside the program."""
    (place / "asdf_mount").mkdir()
    for source in (ROOT / "python/asdf_mount").glob("*.py*"):
        (place / "asdf_mount" / source.name).symlink_to(source)
    (place / "asdf_mount/_native.abi3.so").symlink_to(program.resolve().with_name("lib_native.so"))
    (place / "bin").mkdir()
    (place / "bin/asdf-mount").symlink_to(program.resolve())
    information = place / "asdf_mount-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: asdf-mount\nVersion: 0\n")
    groups = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in given.items()) for group, given in groups.items()]
    (information / "entry_points.txt").write_text("\n".join(lines))
