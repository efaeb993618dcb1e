#!/usr/bin/env python3
"""Compares the table of limits in docs/design.md with the constants of the code.

Each row names a file below `src`, a constant and its value, as the code writes it. All constants called MAX_…
in the files of TREES must have a row.
"""

import re
import sys
from pathlib import Path

SRC = Path("src")
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
        found = dict(CONSTANT.findall((SRC / path).read_text())) if (SRC / path).exists() else {}
        if found.get(name) != value:
            wrong.append(f"{DOCUMENT}: {path} has {name} = {found.get(name)}, not {value}")
    for tree in TREES:
        paths = [SRC / tree] if tree.endswith(".rs") else [*(SRC / tree).rglob("*.rs"), SRC / f"{tree}.rs"]
        for path in filter(Path.exists, paths):
            for name, value in CONSTANT.findall(path.read_text()):
                key = (str(path.relative_to(SRC)), name)
                if key not in rows:
                    wrong.append(f"{DOCUMENT} has no row for {name} = {value} of {key[0]}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
