"""Writes ASDF files without blocks into FOLDER: values of every type, and random trees."""

import random
import sys
from pathlib import Path

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
PLAIN = """\
object: {name: M 31, ra: 10.68, flags: [yes, No, on, ~, null, '']}
ints: [0, -1, +1_000, 0x1F, 017, 0b101, -0x10, 190:20:30, 99999999999999999999999999999]
floats: [1., -1.5e+3, .5, 1:30.5, .inf, -.INF, .nan, 1e3, 6.02e+23, 5.0e-324, 0.1]
times: [2001-12-14, 2001-12-14t21:59:43.10-05:00, 2001-12-14 21:59:43, 2001-12-14 1:59:43.1234567 Z]
texts: ['5', "a\\tb", "\\u00e9 \\u2028 \\U0001F600", 08, 0o17, yES]
tagged: [!!str 5, !!int '3', !!float 3, !!bool yES, !!null x, !foo 5, !!binary aGk=, ! 5, !core/complex-1.0.0 1+2j]
keys: {2: a, true: b, ~: c, 1.5: d, 2001-12-14: e}
block: |
  two
  lines
folded: >
  one
  line
shared: &shared {list: &list [1, 2], 'a/b~c': &deep {x: y}}
again: [*shared, *list, *deep, &scalar word, *scalar]
anchored: {&key k: 1, other: *key}
twice: {a: [2], b: 1, a: &twice [1], 1: x, c: *twice}
meant: {$tag: a, $value: 1, $$ref: 2}
merged: {one: &one {a: 1, l: [1]}, two: &two {b: 2, <<: *one, a: !foo 3}}
merges:
  after: {<<: *two, b: 4}
  before: {b: 4, <<: *two}
  list: {<<: [*two, *one], <<: *one}
set: !!set {x, y}
empty: [{}, [], ]
"""


def value(dice, depth):
    kinds = ["int", "float", "text", "bool", "null"] + ["list", "map"] * (2 if depth else 0)
    match dice.choice(kinds):
        case "int":
            return str(dice.randrange(-(2**70), 2**70) >> dice.randrange(70))
        case "float":
            return repr(dice.uniform(-1, 1) * 10.0 ** dice.randrange(-300, 300)).replace("e", "e+").replace("+-", "-")
        case "bool":
            return dice.choice(["true", "no", "On"])
        case "null":
            return "~"
        case "text":
            letters = [dice.choice('ab é"\\:#-{}[],&*!|>%@`\'1.\u4e2d') for _ in range(dice.randrange(12))]
            return "'" + "".join(letters).replace("'", "''") + "'"
        case "list":
            return "[" + ", ".join(value(dice, depth - 1) for _ in range(dice.randrange(6))) + "]"
        case "map":
            return "{" + ", ".join(f"k{n}: {value(dice, depth - 1)}" for n in range(dice.randrange(6))) + "}"


def main(folder):
    folder.mkdir(exist_ok=True)
    (folder / "plain.asdf").write_text(HEAD + PLAIN + "...\n")
    for seed in range(60):
        dice = random.Random(seed)
        lines = "".join(f"m{n}: {value(dice, 5)}\n" for n in range(20))
        (folder / f"random{seed}.asdf").write_text(HEAD + lines + "...\n")


main(Path(sys.argv[1]))
