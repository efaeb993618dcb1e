#!/usr/bin/env python3
"""Compares the table of limits in docs/design.md with the constants of the code.

Each row names a file below `src` of a crate, a constant and its value, as the code writes it. All constants called MAX_…
in the files of TREES must have a row.
"""

import re
import sys
from pathlib import Path

SOURCES = [Path("src"), *Path("crates").glob("*/src")]
DOCUMENT = Path("docs/design.md")

# What is computed from a tree when a program lists or reads the views of a file.
TREES = ["yaml/read.rs", "yaml/parser.rs", "yaml/document", "yaml/survey", "format/asdf/arrays", "format/asdf/tables", "format/asdf/fits/nodes.rs",
         "format/asdf/head.rs", "format/asdf/json.rs", "format/asdf/sources.rs", "format/asdf/view.rs", "content/zarr.rs"]

CONSTANT = re.compile(r"^(?:pub(?:\([a-z: ]+\))? )?const (MAX[A-Z_]*): [^=]+ = ([^;]+);", re.M)
ROW = re.compile(r"^\| `([\w/]+\.rs)` \| `([A-Z_]+)` \| `([^`]+)` \| .+ \|$", re.M)


def main():
    wrong = []
    rows = {(path, name): value for path, name, value in ROW.findall(DOCUMENT.read_text())}
    for (path, name), value in rows.items():
        files = [src / path for src in SOURCES if (src / path).exists()]
        found = dict(CONSTANT.findall(files[0].read_text())) if files else {}
        if found.get(name) != value:
            wrong.append(f"{DOCUMENT}: {path} has {name} = {found.get(name)}, not {value}")
    for tree in TREES:
        for src in SOURCES:
            paths = [src / tree] if tree.endswith(".rs") else [*(src / tree).rglob("*.rs"), src / f"{tree}.rs"]
            for path in filter(Path.exists, paths):
                for name, value in CONSTANT.findall(path.read_text()):
                    key = (str(path.relative_to(src)), name)
                    if key not in rows:
                        wrong.append(f"{DOCUMENT} has no row for {name} = {value} of {key[0]}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
