"""The Python side of the bench of catalogues.

    catalog_peer.py write FOLDER COUNT  COUNT files with a tree of 54 kB, like Roman's: metadata, 30 arrays in 3 blocks
    catalog_peer.py loop FOLDER COUNT   asdf.open and the tree as JSON, for COUNT of the files

Prints the time of the loop in seconds.
"""

import json
import sys
import time
from pathlib import Path

HEAD = """#ASDF 1.0.0
#ASDF_STANDARD 1.6.0
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
asdf_library: !core/software-1.0.0 {author: The ASDF Developers, homepage: 'http://github.com/asdf-format/asdf',
  name: asdf, version: 6.0.0}
"""
NODE = "!core/ndarray-1.1.0\n      source: %d\n      datatype: float32\n      byteorder: little\n      shape: [4, 8]\n      offset: %d"
BLOCK = b"\xd3BLK" + (48).to_bytes(2, "big") + bytes(8) + 3 * (1 << 11).to_bytes(8, "big") + bytes(16) + bytes(1 << 11)
SIZE = 54_000


def tree(number):
    lines = [f"roman:\n  meta:\n    filename: r{number:09}_cal.asdf\n    exposure: {number % 977}.5\n"]
    lines += [f"    group{n}:\n      array:\n      - {NODE.replace(chr(10), chr(10) + '  ') % (n % 3, n * 32)}\n" for n in range(30)]
    size, n = sum(map(len, lines)), 0
    while size < SIZE:
        line = (f"    key_{n}: {{name: value {n}, unit: s, start_time: '2027-01-{n % 28 + 1:02}T10:11:12.{n % 1000:03}', fwhm: "
                f"{n / 7:.6f}, count: {n * 31}, used: {'true' if n % 2 else 'false'}, id: [{n}, {n + 1}]}}\n")
        lines.append(line)
        size, n = size + len(line), n + 1
    return "".join(lines)


def write(folder, count):
    for number in range(count):
        inner = folder / f"{number // 1000:04}"
        inner.mkdir(exist_ok=True)
        (inner / f"r{number:09}_cal.asdf").write_bytes((HEAD + tree(number) + "...\n").encode() + 3 * BLOCK)


def plain(node):
    import numpy

    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [plain(value) for value in node]
    if isinstance(node, numpy.ndarray) or hasattr(node, "shape"):
        return {"shape": list(node.shape), "datatype": str(node.dtype)}
    return node


def loop(folder, count):
    import asdf

    files = sorted(folder.rglob("*.asdf"))[:count]
    begun = time.perf_counter()
    for file in files:
        with asdf.open(file) as opened:
            json.dumps(plain(opened.tree), default=str)
    print(time.perf_counter() - begun)


if __name__ == "__main__":
    {"write": write, "loop": loop}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
