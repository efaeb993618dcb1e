"""The files for the measurements: ASDF files made by hand, and images of the sky."""

import bz2
import math
import os
import struct
import subprocess
import zlib

from .machine import MIB, PYTHON

HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- {bench: true}\n...\n"


def block_header(data_size, label=b"\0\0\0\0", used=None):
    used = data_size if used is None else used
    return b"\xd3BLK" + struct.pack(">HI4sQQQ16s", 48, 0, label, used, used, data_size, b"\0" * 16)


def write_asdf(path, blocks, index=True, padding=b"", head=HEAD):
    """Writes blocks (data_size, label, list of byte pieces); returns the offset of each block's data."""
    offsets = []
    with open(path, "wb", buffering=4 * MIB) as out:
        out.write(head + padding)
        at = len(head) + len(padding)
        for data_size, label, pieces in blocks:
            used = sum(map(len, pieces))
            offsets.append(at)
            out.write(block_header(data_size, label, used))
            for piece in pieces:
                out.write(piece)
            at += 54 + used
        if index:
            out.write(b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n")
            out.write(b"".join(b"- %d\n" % offset for offset in offsets) + b"...\n")
    return [offset + 54 for offset in offsets]


PICTURE = r"""
import sys, numpy as np
kind, path, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(42)

def stars(height, width, count, brightness):
    sky = np.zeros((height, width), np.float32)
    ys, xs = rng.integers(0, height, count), rng.integers(0, width, count)
    fluxes = brightness * (rng.pareto(1.3, count) + 1)
    for y, x, flux, sigma in zip(ys, xs, fluxes, np.clip(rng.normal(2.0, 0.7, count), 1, 6)):
        r = int(6 * sigma) + 1
        y0, y1, x0, x1 = max(0, y - r), min(height, y + r + 1), max(0, x - r), min(width, x + r + 1)
        yy, xx = np.mgrid[y0:y1, x0:x1]
        sky[y0:y1, x0:x1] += flux / (2 * np.pi * sigma**2) * np.exp(-((yy - y)**2 + (xx - x)**2) / (2 * sigma**2))
    return sky

width = 8192
rows_each = (4 << 20) // width // (1 if kind == 'f32' else 1)
with open(path, 'wb') as out:
    while out.tell() < mib << 20:
        light = stars(rows_each, width, 3000, 3000) + 200 + 20 * np.sin(np.linspace(0, 3, width))[None, :]
        if kind == 'f32':  # calibrated; 8 bits of the mantissa are kept
            counts = rng.poisson(light) + rng.normal(0, 5, light.shape)
            picture = ((counts - 200) / (1 + 0.03 * rng.normal(size=light.shape)) * 1.31).astype('<f4')
            bits = picture.view('<u4')
            data = (((bits + (1 << 14)) >> 15) << 15).astype('<u4').tobytes()
        else:  # raw counts of a detector
            counts = 1000 + rng.poisson(light - 140) / 1.5 + rng.normal(0, 4, light.shape)
            data = np.clip(np.round(counts), 0, 32767).astype('<i2').tobytes()
        out.write(data[: (mib << 20) - out.tell()])
"""

WRITTEN_BY_PYTHON = """
import sys, asdf, numpy as np
source, path, codec = sys.argv[1:]
asdf.AsdfFile({'data': np.fromfile(source, '<f4')}).write_to(path, all_array_compression=codec)
"""


def picture(kind, here, mib):
    """Writes `mib` MiB of sky, `f32` (calibrated) or `i16` (raw), unless the file exists, because it takes long."""
    path = here / f"{kind}-{mib}.raw"
    if not path.exists():
        made = path.with_suffix(".part")
        subprocess.run([PYTHON, "-c", PICTURE, kind, made, str(mib)], check=True)
        made.rename(path)
    return path


def smooth(here, mib):
    """Writes `mib` MiB of slowly changing int16, which compress well, unless the file exists."""
    path = here / f"smooth-{mib}.raw"
    if not path.exists():
        made = path.with_suffix(".part")
        with open(made, "wb") as out:
            for n in range(mib):
                row = [int(1000 * math.sin((at + n * 1024) / 5000)) for at in range(1024)]
                out.write(struct.pack("<1024h", *row) * (MIB // 2048))
        made.rename(path)
    return path


def stored_as(codec, source, here):
    """Writes the bytes of `source` as one zlib or bzip2 stream, in a file."""
    path = source.with_suffix({"zlib": ".zlib", "bzp2": ".bz2"}[codec])
    if not path.exists():
        made = path.with_suffix(".part")
        packer = zlib.compressobj() if codec == "zlib" else bz2.BZ2Compressor()
        with open(source, "rb") as data, open(made, "wb") as out:
            while piece := data.read(4 * MIB):
                out.write(packer.compress(piece))
            out.write(packer.flush())
        made.rename(path)
    return path


def in_asdf(codec, stream, data_size):
    """Writes an ASDF file whose block 0 is `stream`."""
    path = stream.with_name(stream.name + ".asdf")
    if not path.exists():
        write_asdf(path, [(data_size, codec.encode(), [stream.read_bytes()])])
    return path


def by_python_asdf(codec, source):
    """Writes an ASDF file with Python asdf, with an array compressed with `codec`."""
    path = source.with_name(f"{source.stem}-{codec}.asdf")
    if not path.exists():
        made = path.with_suffix(".part")
        subprocess.run([PYTHON, "-c", WRITTEN_BY_PYTHON, source, made, codec], check=True)
        made.rename(path)
    return path


def gzipped(stream, raw):
    """Writes the deflate data of `stream` with a gzip header, for most of the peers."""
    path = stream.with_suffix(".gz")
    if not path.exists():
        sum32 = 0
        with open(raw, "rb") as data:
            while piece := data.read(4 * MIB):
                sum32 = zlib.crc32(piece, sum32)
        tail = struct.pack("<II", sum32, os.path.getsize(raw) & 0xFFFFFFFF)
        path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + stream.read_bytes()[2:-4] + tail)
    return path


def zipped(stream, raw):
    """Writes the deflate data of `stream` as the only member of a zip archive."""
    path = stream.with_suffix(".zip")
    if not path.exists():
        deflated, name = stream.read_bytes()[2:-4], b"data.raw"
        sum32 = 0
        with open(raw, "rb") as data:
            while piece := data.read(4 * MIB):
                sum32 = zlib.crc32(piece, sum32)
        facts = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, sum32, len(deflated), os.path.getsize(raw), len(name), 0)
        local = b"PK\3\4" + facts + name
        entry = b"PK\1\2" + struct.pack("<H", 20) + facts + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
        end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local) + len(deflated), 0)
        path.write_bytes(local + deflated + entry + end)
    return path
