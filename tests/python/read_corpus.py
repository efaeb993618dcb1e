"""Holds each view of each file of the corpus against other readers: astropy, pyarrow, Pillow, zarr, gwcs.

    read_corpus.py FOLDER MOUNTPOINT

Prints a table of what each product shows, and the share of arrays in refs.json. Arrays are the
files of `arrays/` that are neither links nor masks, and are compared with those that Python asdf reads.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import asdf
import blosc2
import fsspec
import gsd.hoomd
import gwcs
import numcodecs
import numcodecs.abc
import numcodecs.compat
import numpy as np
import pyarrow.parquet as pq
import zarr
from asdf.tags.core import NDArrayType
import sunpy.coordinates  # noqa: F401, teaches astropy the frames of the Sun
from astropy import units as u
from astropy.io import fits
from astropy.wcs import WCS
from PIL import Image



class Parts(numcodecs.abc.Codec):
    """A whole block of ASDF: parts with their length."""

    def encode(self, buf):
        raise NotImplementedError

    def decode(self, buf, out=None):
        rest, parts = memoryview(bytes(buf)), []
        while rest:
            length = int.from_bytes(rest[:4], "big")
            parts.append(bytes(self.part.decode(bytes(rest[4:4 + length]))))
            rest = rest[4 + length:]
        decoded = b"".join(parts)
        return decoded if out is None else numcodecs.compat.ndarray_copy(np.frombuffer(decoded, "u1"), out)


class AsdfLz4(Parts):
    codec_id, part = "asdf-lz4", numcodecs.LZ4()


class AsdfBlosc(Parts):
    codec_id, part = "asdf-blsc", numcodecs.Blosc()


numcodecs.registry.register_codec(AsdfLz4)
numcodecs.registry.register_codec(AsdfBlosc)
warnings.simplefilter("ignore")
folder, mountpoint = Path(sys.argv[1]), Path(sys.argv[2])


def arrays(node, path, seen):
    """Yields path and array of each ndarray that arrays/ shows as a file."""
    if isinstance(node, (dict, list)):
        if id(node) in seen:
            return
        seen = seen | {id(node)}
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from arrays(value, (*path, str(key)), seen)
    elif isinstance(node, NDArrayType):
        yield path, node


def raw_tree(file):
    """The tree with its ndarrays, without the objects that other packages make."""
    with asdf.config_context() as config:
        for extension in list(config.extensions):
            if not str(extension.package_name).startswith(("asdf", "None")) or "astropy" in str(extension.package_name):
                config.remove_extension(extension)
        return asdf.open(file, memmap=False, ignore_unrecognized_tag=True)


def files(view):
    """Yields path and place of each file of a view that is not a link."""
    for top, _, names in os.walk(view):
        for name in names:
            place = Path(top) / name
            if not place.is_symlink():
                yield str(place.relative_to(view)), place


def same(one, other):
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    if not other.itemsize:  # strings without characters, for which Zarr has no type
        return one.shape == other.shape and not one.astype(bool).any()
    return one.shape == other.shape and one.astype(other.dtype).tobytes() == other.tobytes()


def check_arrays(file, view):
    shown = {path[:-4]: np.load(place) for path, place in files(view)
             if path.endswith(".npy") and not path.endswith(".mask.npy")}
    if file.suffix == ".asdf":
        with raw_tree(file) as opened:
            expected = {"/".join(path): array for path, array in arrays(dict(opened.tree), (), frozenset())}
            for path, array in expected.items():
                if path in shown and shown[path].itemsize:
                    assert same(np.ma.getdata(array._make_array()), shown[path]), (file, path)
            missing = {path for path in expected if path not in shown and not (view / f"{path}.npy").exists()}
            assert len(missing) <= len(expected) / 10, (file, sorted(missing)[:5])
    elif file.suffix == ".b2nd":
        assert same(blosc2.open(str(file))[...], shown["data"]), file
    return shown


def masked(array, arrays, path):
    """An array of floats with NaN under its own mask, or under that of an NDCube or a spectrum."""
    beside = path.removesuffix("/data").removesuffix("/value").removesuffix("/flux") + "/mask.npy"
    for place in [arrays / f"{path}.mask.npy", arrays / beside]:
        if array.dtype.kind == "f" and place.exists() and place != arrays / f"{path}/mask.npy":
            return np.where(np.load(place), array.dtype.type(np.nan), array)
    return array


def check_fits(view, shown):
    """Returns the numbers of files, and of those with sky coordinates."""
    count, skies = 0, 0
    for path, place in files(view):
        with fits.open(place, memmap=False) as opened:
            opened.verify("exception")
            count += 1
            skies += any("CTYPE1" in unit.header for unit in opened)
            if path[:-5] in shown and len(opened) == 1 and opened[0].header["NAXIS"] and shown[path[:-5]].size:
                array = shown[path[:-5]]
                array = array.view("u1") if array.dtype == bool else array
                array = masked(array, view.parent / "arrays", path[:-5])
                assert same(opened[0].data, array.astype("f4") if array.dtype == "f2" else array), place
    return count, skies


def check_sky(file, view):
    """Compares the coordinates of `data` beside a gwcs with those of the gwcs."""
    compared = 0
    with asdf.open(file, memmap=False) as opened:
        for path in [("roman",), ()]:
            node = opened.tree
            for key in path:
                node = node[key] if key in node else {}
            found = node.get("meta", {}).get("wcs") if hasattr(node, "get") else None
            if not isinstance(found, gwcs.WCS):
                continue
            header = fits.getheader(view / "/".join(path) / "data.fits")
            if node["data"].ndim != 2 or header["CTYPE1"].startswith("HP"):
                compared += check_axes(file, header, found)
                continue
            x, y = np.random.default_rng(1).random((2, 1000)) * np.array(node["data"].shape)[::-1, None] - 0.5
            ra, dec = found(x, y, with_bounding_box=False)
            ours = WCS(header).all_pix2world(x, y, 0)
            away = np.hypot((ours[0] - ra) * np.cos(np.radians(dec)), ours[1] - dec).max()
            assert away < 1.1e-3 * np.sqrt(abs(np.linalg.det(WCS(header).pixel_scale_matrix))), (file, away)
            compared += 1
    return compared


def check_axes(file, header, expected):
    """Compares coordinates of any kind with those of a gwcs, and their frame with that of sunpy."""
    ours = WCS(header)
    pixels = [np.random.default_rng(1).uniform(-0.5, length - 0.5, 1000) for length in header["NAXIS*"].values()]
    frame = expected.output_frame
    for found, truth, of_ours, unit in zip(ours.pixel_to_world_values(*pixels), expected.pixel_to_world_values(*pixels), ours.world_axis_units, frame.unit):
        away = (u.Quantity(found, of_ours) - u.Quantity(truth, unit)).to_value(unit)
        turn = (360 * u.deg).to_value(unit) if unit.physical_type == "angle" else np.inf
        assert np.minimum(abs(away), abs(turn - abs(away))).max() < 1e-9 * max(1, abs(np.asarray(truth)).max()), file
    celestial = [one for one in getattr(frame, "frames", [frame]) if isinstance(one, gwcs.coordinate_frames.CelestialFrame)]
    for one in celestial:
        assert ours.celestial.pixel_to_world(1, 2).frame.is_equivalent_frame(one.reference_frame), file
    return 1


def check_refs(file, shown):
    if file.suffix == ".b2nd":  # numcodecs has no codec for its chunks
        return 0, {}
    refs = json.loads((mountpoint / file.name / "refs.json").read_text())
    left_out = json.loads(refs["refs"].get(".zattrs", "{}")).get("left_out", {})
    mapper = fsspec.filesystem("reference", fo=refs).get_mapper("")
    group, found = zarr.open_group(mapper, mode="r"), 0
    if file.suffix == ".gsd":
        series = mountpoint / file.name / "arrays" / "series"
        shown = {path[:-4]: np.load(place) for path, place in files(series) if path.endswith(".npy") and not path.endswith(".frames.npy")}
    def visit(path, item):
        nonlocal found
        if isinstance(item, zarr.Array):
            found += 1
            if path in shown:
                assert same(item[...], shown[path]), (file, path)
    group.visititems(visit)
    # Masks belong to their arrays, records are not arrays of Zarr, and a link to a group is none.
    known = ("mask of an array", "structured", "asdf-lz4", "asdf-blsc", "which is not an array")
    reasons = {path: why for path, why in left_out.items() if not any(part in why for part in known)}
    return found, reasons


rows, referenced, without = [], 0, {}
for file in sorted(folder.iterdir()):
    place = mountpoint / file.name
    if not place.is_dir():
        rows.append([file.name, "a plain file"] + [""] * 5)
        continue
    if file.suffix == ".asdf":
        json.loads((place / "tree.json").read_text())
    status = (place / ".asdf-mount" / "status.yaml").read_text()
    assert "errors: []" in status or "severity: damage" not in status, (file, status)
    shown = check_arrays(file, place / "arrays")
    images, skies = check_fits(place / "fits", shown) if (place / "fits").exists() else (0, 0)
    if file.suffix == ".asdf" and file.name.startswith(("roman-", "jwst-")):
        check_sky(file, place / "fits")
    tables = [pq.read_table(path) for _, path in files(place / "tables")]
    pictures = 0
    for _, path in files(place / "preview"):
        Image.open(path).load()
        pictures += 1
    found, reasons = check_refs(file, shown)
    referenced += found
    without |= {f"{file.name}: {path}": why for path, why in reasons.items()}
    columns = sum(table.num_columns for table in tables)
    rows.append([file.name, len(shown), f"{images} ({skies})", f"{len(tables)} ({columns})",
                 f"{pictures}{' *' if (place / 'preview.png').exists() else ''}", f"{found} of {found + len(reasons)}",
                 "; ".join(sorted({why.split(' on line')[0] for why in reasons.values()}))])
print("| file | `arrays/` | `fits/` (with sky) | `tables/` (columns) | `preview/` | `refs.json` | left out |\n|---|---|---|---|---|---|---|")
for row in rows:
    print("| " + " | ".join(map(str, row)) + " |")
print(f"refs.json has {referenced} of {referenced + len(without)} arrays")
