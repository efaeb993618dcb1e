#!/usr/bin/env python3
"""Compares every text that users can meet with tests/messages.txt, where each stands in full.

    scripts/messages.py            exit status 1 if a text differs, with the lines that do
    scripts/messages.py --write    writes tests/messages.txt anew; read its diff before you commit it

A text is a string of two words or more in the code of `src`, without tests, the log of debugging, and
assertions. `{}` stands for what is filled in. A text that a search and replace changes by mistake shows here.
"""

import difflib
import re
import sys
from pathlib import Path

from imports import SRC, is_test

TEXTS = Path("tests/messages.txt")

# Code before a string that no user meets.
UNSEEN = re.compile(r"\b(debug|trace|debug_assert\w*|assert\w*|unreachable|include\w*|expect|env)!?\([^()\"]*$"
                    r"|(expect|reason|doc|cfg\w*|feature|path|serde|deprecated)\b[^\"\n]*$")

# A character, a string of bytes, a raw string, or a text.
TOKEN = re.compile(r"""b?'(?:\\.|[^'\\])'|b"(?:[^"\\]|\\.)*"|b?r(#*)".*?"\1|"(?P<text>(?:[^"\\]|\\.)*)\"""", re.S)


def code_of(path):
    """Returns the code of a file up to the tests at its end, without comments."""
    text = re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{", path.read_text())[0]
    return re.sub(r"^\s*//[^\n]*", "", text, flags=re.M)


def texts_of(path):
    """Returns the texts of a file, in their order, each once."""
    code, seen = code_of(path), []
    for found in re.finditer(TOKEN, code):
        if found["text"] is None:
            continue
        shown = re.sub(r"\{[^{}]*\}", "{}", re.sub(r"\\\n\s*", "", found["text"])).strip()
        line = code[code.rfind("\n", 0, found.start()) + 1 : found.start()]
        if len(re.findall(r"[A-Za-z]{2,}", shown)) >= 2 and " " in shown and not UNSEEN.search(line):
            if shown not in seen:
                seen.append(shown)
    return seen


def main():
    lines = []
    for path in sorted(SRC.rglob("*.rs")):
        texts = [] if is_test(path) else texts_of(path)
        if texts:
            lines += [f"== {path}", *(text.replace("\n", "\\n") for text in texts), ""]
    if "--write" in sys.argv:
        TEXTS.write_text("\n".join(lines))
        return 0
    held = TEXTS.read_text().split("\n") if TEXTS.exists() else []
    diff = list(difflib.unified_diff(held, "\n".join(lines).split("\n"), str(TEXTS), "src", lineterm="", n=0))
    if diff:
        print("\n".join(diff), file=sys.stderr)
        print("read the texts that differ, then run scripts/messages.py --write", file=sys.stderr)
    return 1 if diff else 0


if __name__ == "__main__":
    sys.exit(main())
