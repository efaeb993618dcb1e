"""Large trees, and files with very many blocks. No other program does the same, so there is no peer."""

import random
import struct

from .machine import BINARY, median, noise, ours, row, seconds

HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


def bench_json(here, repeats):
    """Measures an array of 99 MB that is written in the tree."""
    source = here / "inline.asdf"
    dice = random.Random(1)
    numbers = ", ".join(repr(dice.random()) for _ in range(4_900_000)).encode()
    array = b"a: !core/ndarray-1.0.0\n  data: [" + numbers + b"]\n  datatype: float64\n...\n"
    source.write_bytes(HEAD + array)
    times = []
    for _ in range(repeats):
        with ours(source, here / "m") as point:
            times.append(seconds("cat", point / "tree.json"))
    row("`cat tree.json`, an array of 99 MB in the tree", f"{median(times):.1f} s", f"goal ≤ 4.7 s; {noise()}")


def bench_headers(here, repeats):
    """Measures 10⁶ blocks of 8 bytes, sound and damaged."""
    header = struct.pack(">HI4sQQQ16s", 48, 0, b"", 8, 8, 8, b"")
    for name, goal, magics in (("sound", 2.2, [b"\xd3BLK"]), ("every other damaged", 5.9, [b"\xd3BLK", b"\xffBLK"])):
        source, start = here / f"{name.split()[0]}.asdf", len(HEAD) + len(b"a: 1\n...\n")
        blocks = b"".join(magics[n % len(magics)] + header + b"12345678" for n in range(1_000_000))
        size = len(blocks) // 1_000_000
        offsets = b", ".join(b"%d" % (start + n * size) for n in range(1_000_000))
        index = b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n[" + offsets + b"]\n...\n"
        source.write_bytes(HEAD + b"a: 1\n...\n" + blocks + index)
        times = []
        for _ in range(repeats):
            times.append(seconds("bash", "-c", '"$0" --check -q "$1" || [ $? -eq 1 ]', BINARY, source))
        row(f"`--check`, 10⁶ blocks, {name}", f"{median(times):.1f} s", f"goal ≤ {goal} s; {noise()}")
