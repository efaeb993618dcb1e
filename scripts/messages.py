#!/usr/bin/env python3
"""Compares every text that users can meet with tests/messages.txt, where each stands in full.

    scripts/messages.py            exit status 1 if a text differs, with the lines that do
    scripts/messages.py --write    writes tests/messages.txt anew; read its diff before you commit it

A text is a string of words in the code of `src`, without tests, the log of debugging, and assertions. A text that
stands in two files is listed with the first. `{}` stands for what is filled in. A text that a search and replace
changes by mistake shows here. The texts of options are in tests/help.txt.
"""

import difflib
import re
import sys
from pathlib import Path

from imports import SRC, is_test

TEXTS = Path("tests/messages.txt")

# Code before a string that no user meets.
UNSEEN = re.compile(r"\b(debug|trace|debug_assert\w*|assert\w*|unreachable|include\w*|expect|env)!?\([^()\"]*$")

# An attribute whose strings no user meets.
ATTRIBUTE = re.compile(r"#!?\[(?:allow|arg|cfg|cfg_attr|command|deprecated|doc|expect|path|serde)\b"
                       r"(?:\"(?:\\.|[^\"\\])*\"|'.'|\[[^\]]*\]|[^\[\]\"'])*\]")

# Text without the signs of code, paths and addresses.
PROSE = re.compile(r"""[\w\s{}\\.,;:'"()…-]*""")

# A character, a string of bytes, a raw string, or a text.
TOKEN = re.compile(r"""b?'(?:\\.|[^'\\])'|b"(?:[^"\\]|\\.)*"|b?r(#*)".*?"\1|"(?P<text>(?:[^"\\]|\\.)*)\"""", re.S)


def code_of(path):
    """Returns the code of a file up to the tests at its end, without comments."""
    text = re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{", path.read_text())[0]
    return ATTRIBUTE.sub("", re.sub(r"^\s*//[^\n]*", "", text, flags=re.M))


def is_text(string):
    words = re.findall(r"[A-Za-z]{2,}", string)
    return " " in string and (len(words) > 1 or bool(words) and bool(PROSE.fullmatch(string)))


def texts_of(path):
    """Returns the texts of a file, in their order."""
    code = code_of(path)
    for found in re.finditer(TOKEN, code):
        if found["text"] is None:
            continue
        shown = re.sub(r"\{[^{}]*\}", "{}", re.sub(r"\\\n\s*", "", found["text"])).strip()
        line = code[code.rfind("\n", 0, found.start()) + 1 : found.start()]
        if is_text(shown) and not UNSEEN.search(line):
            yield shown


def main():
    lines, seen = [], set()
    for path in sorted(SRC.rglob("*.rs")):
        texts = [text for text in dict.fromkeys([] if is_test(path) else texts_of(path)) if text not in seen]
        seen.update(texts)
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
