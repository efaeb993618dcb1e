"""Writes files with inline arrays: random ones, and those on which readers disagree.

    write_inline.py FOLDER SEED COUNT
"""

import os
import sys

import numpy as np

folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
RNG = np.random.default_rng(seed)
HEAD = ("#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n"
        "--- !core/asdf-1.1.0\n")
TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
         "complex64", "complex128", "bool8"]
WORDS = ["abc", "'x y'", "ü", '"\\u4e00\\n"', "''", "'12'", "no thing", "!!str 5"]

# Inline arrays in all styles of YAML.
BY_HAND = """
plain: !core/ndarray-1.1.0 [1, 2, 3]
nested: !core/ndarray-1.1.0
- [1, 2.5]
- [0x10, -3]
block: !core/ndarray-1.1.0
  - - 1
    - 2
  - - 3
    - 4
spelt: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> [1_000, 0b11, 017, '8']
sixties: !core/ndarray-1.1.0 [190:20:30, 1:30.5, -.inf, .NaN, 1.0e+3]
bools: !core/ndarray-1.1.0 [yes, No, true]
mixed: !core/ndarray-1.1.0 [true, 2, 2.5]
unsigned: !core/ndarray-1.1.0 [9223372036854775808, 18446744073709551615]
both: !core/ndarray-1.1.0 [1, 9223372036854775808]
complex: !core/ndarray-1.1.0 [!core/complex-1.0.0 1+2j, 3, !core/complex-1.0.0 -0.5i, 1.5]
texts: !core/ndarray-1.1.0 [a, bc, 'ü']
texts_and_numbers: !core/ndarray-1.1.0 [[M110, 110, 205, And], [M31, 31, 224.5, And]]
empty: !core/ndarray-1.1.0 []
empty_rows: !core/ndarray-1.1.0 [[], []]
empty_shape: !core/ndarray-1.1.0 {data: [], shape: [0, 3], datatype: int8}
no_text: !core/ndarray-1.1.0 ['', '']
given: !core/ndarray-1.1.0 {data: [[1, 2], [3, 4]], datatype: float32, shape: [2, 2], byteorder: big}
narrow: !core/ndarray-1.1.0 {data: [abc, d], datatype: [ascii, 2]}
wide: !core/ndarray-1.1.0 {data: [abc, 1.5, true, 12345678901234567890], datatype: [ucs4, 7]}
cut: !core/ndarray-1.1.0 {data: [1.7, -2.9, '3'], datatype: int16}
halves: !core/ndarray-1.1.0 {data: [65519.99, 65520, 0.1, 5.0e-8, 2.9e-8, -.inf, .nan], datatype: float16}
nulls: !core/ndarray-1.1.0 {data: [[1, ~], [null, 4]], datatype: int32}
null_floats: !core/ndarray-1.1.0 {data: [1.5, ~], datatype: float64}
null_texts: !core/ndarray-1.1.0 {data: [ab, ~], datatype: [ucs4, 3]}
untyped_nulls: !core/ndarray-1.1.0 [1, ~, 3]
table: !core/ndarray-1.1.0
  datatype: [[ascii, 4], uint16, {name: third, datatype: float32, byteorder: big}, [ucs4, 3]]
  data:
  - [M110, 110, 205, And]
  - [ M31,  31, 224, And]
square: !core/ndarray-1.1.0
  datatype: [[ascii, 4], uint16, uint16, [ascii, 4]]
  data: [[M110, 110, 205, And], [M31, 31, 224, And], [M32, 32, 221, And], [M103, 103, 581, Cas]]
shapes: !core/ndarray-1.1.0
  datatype: [{name: a, datatype: int8}, {name: b, datatype: int16, shape: [2]}, {name: c, datatype: bool8}]
  data: [[1, [2, 3], true], [4, [5, 6], false]]
record: !core/ndarray-1.1.0 {data: [1, 2.5], datatype: [{name: a, datatype: int8}, {name: b, datatype: float32}], shape: []}
row: &row [1, 2, 3]
number: &number 7
text: &text 'x, y'
lists:
  - &item 5
  - &block
    - 8
    - 9
  - last: 1
aliased: !core/ndarray-1.1.0 [*row, *row, [4, *number, 6]]
aliased_items: !core/ndarray-1.1.0 [*item, *number]
aliased_block: !core/ndarray-1.1.0 [*block, [1, *item]]
aliased_texts: !core/ndarray-1.1.0 [*text, y]
aliased_data: !core/ndarray-1.1.0 {data: *row, datatype: float64}
within: !core/ndarray-1.1.0 [[&one 1.5, 2], [*one, 3]]
"ümlaut": !core/ndarray-1.1.0 [1, 2]
after: {deep: [{flow: !core/ndarray-1.1.0 [[1, 2], [3, 4]]}], &key x: !core/ndarray-1.1.0 [5]}
masked: !core/ndarray-1.1.0 {data: [1, -999, 3], datatype: int16, mask: -999}
masked_nan: !core/ndarray-1.1.0 {data: [1.5, .nan, 3], datatype: float32, mask: .nan}
masked_by: !core/ndarray-1.1.0
  data: [[1, 2], [3, 4]]
  datatype: int8
  mask: !core/ndarray-1.1.0 {data: [[true, false], [false, true]], datatype: bool8}
"""


def literal(kind):
    if kind.startswith("int"):
        return str(int(RNG.integers(-128, 128)))
    if kind.startswith("uint"):
        return str(int(RNG.integers(0, 256)))
    if kind.startswith("float"):
        return RNG.choice([repr(float(RNG.normal())), repr(float(RNG.normal() * 1e-5)), "5", ".inf", "1.0e+2"])
    if kind.startswith("complex"):
        return f"!core/complex-1.0.0 {complex(RNG.normal(), RNG.normal())}".replace("(", "").replace(")", "")
    if kind == "bool8":
        return str(RNG.choice(["true", "false", "no", "Yes"]))
    return str(RNG.choice(WORDS))


def nested(shape, make, flow, indent):
    """Returns the lines of nested sequences, in flow or block style."""
    if not shape:
        return make()
    items = [nested(shape[1:], make, flow or RNG.random() < 0.5, indent + 2) for _ in range(shape[0])]
    if flow or not items:
        # A flow sequence can't contain a block sequence.
        if any("\n" in item for item in items):
            return "".join(f"\n{' ' * indent}- {item.lstrip()}" for item in items)
        return "[" + ", ".join(items) + "]"
    return "".join(f"\n{' ' * indent}- {item.lstrip()}" for item in items)


def some_array():
    kind = str(RNG.choice([*TYPES, "text"]))
    shape = [int(n) for n in RNG.integers(1, 6, RNG.integers(1, 4))]
    text = nested(shape, lambda: literal(kind), RNG.random() < 0.5, 2)
    if RNG.random() < 0.5:
        return f"!core/ndarray-1.1.0 {text}"
    fields = f"  data: {text.replace(chr(10), chr(10) + '    ')}\n"
    if RNG.random() < 0.7:
        width = int(RNG.integers(1, 9))
        fields += f"  datatype: {kind if kind != 'text' else f'[ucs4, {width}]'}\n"
    if RNG.random() < 0.5:
        fields += f"  shape: {shape}\n"
    return "!core/ndarray-1.1.0\n" + fields.rstrip("\n")


def write(name, nodes):
    text = HEAD + nodes + "...\n"
    if name.startswith("random") and RNG.random() < 0.5:
        text = text.replace("STANDARD 1.6.0", "STANDARD 1.5.0").replace("ndarray-1.1.0", "ndarray-1.0.0")
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


write(f"by-hand{seed}.asdf", BY_HAND.lstrip("\n"))
for number in range(count):
    write(f"random{seed}-{number}.asdf", "".join(f"key {n}: {some_array()}\n" for n in range(RNG.integers(1, 12))))
# Longer than a unit of decoding.
values = ", ".join(str(int(n)) for n in RNG.integers(-(2**62), 2**62, 200_000))
rows = "".join(f"- [{n}, {n / 7!r}, w{n}]\n" for n in range(30_000))
write(f"long{seed}.asdf", f"long: !core/ndarray-1.1.0 [{values}]\nrows: !core/ndarray-1.1.0\n{rows}after: 1\n")
