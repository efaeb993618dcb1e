#!/usr/bin/env python3
"""Fails if a function in src has more than four parameters, self not counted. Tests are not checked."""

import re
import sys
from pathlib import Path

MOST = 4

# Implements fuser's trait.
EXEMPT = "src/fuse/requests.rs"

FUNCTION = re.compile(r"\bfn (\w+)(<[^>(]*>)?\(")
SELF = re.compile(r"(&\s*('\w+ )?)?(mut )?self\b")


def parameters(text):
    """Splits `text` at its outermost commas, up to the closing parenthesis."""
    found, start, brackets, angles = [], 0, 0, 0
    for at, char in enumerate(text):
        if char == ")" and not brackets or char == "," and brackets == angles == 0:
            found.append(text[start:at].strip())
            start = at + 1
            if char == ")":
                break
        brackets += (char in "([{") - (char in ")]}")
        angles += (char == "<") - (char == ">" and text[at - 1] not in "-=")
    return [one for one in found if one and not SELF.match(one)]


def long_functions(file):
    text = re.sub(r"//[^\n]*", "", file.read_text())
    text = re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]
    for function in FUNCTION.finditer(text):
        count = len(parameters(text[function.end() :]))
        if count > MOST:
            line = text.count("\n", 0, function.start()) + 1
            yield f"{file}:{line}: {function[1]} has {count} parameters"


def main():
    found = []
    for file in sorted(Path("src").rglob("*.rs")):
        if str(file) == EXEMPT or "tests" in file.parts or file.stem in ("tests", "fake"):
            continue
        found.extend(long_functions(file))
    if found:
        print(*found, sep="\n", file=sys.stderr)
        print(f"a function may have at most {MOST} parameters", file=sys.stderr)
    return bool(found)


sys.exit(main())
