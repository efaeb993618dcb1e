"""Compares the arrays of mounted GSD files with the gsd package.

    compare_gsd.py SOURCE MOUNTPOINT [SOURCE MOUNTPOINT …]

No unexpected file may be below `arrays/`, and each must be, byte for byte, numpy's `.npy` file of the value that
gsd.fl or gsd.hoomd returns. Prints the number of compared files.
"""

import io
import json
import os
import re
import sys
import warnings

import gsd.fl
import gsd.hoomd
import numpy as np
import pyarrow.parquet as pq

import gsd_index

MOST = 40
"""So many frames of a file are compared one by one."""
ENDINGS = (".frames.npy", ".npy", ".txt", ".json")
GROUPS = "configuration particles bonds angles dihedrals impropers constraints pairs".split()


def saved(value):
    """Returns the bytes that numpy saves for a value."""
    out = io.BytesIO()
    np.save(out, value, allow_pickle=False)
    return out.getvalue()


def original(components):
    """Returns the original name for path components (see content/names.rs)."""
    name, joined = b"", True
    for component in components:
        part = os.fsencode(component)
        name += b"" if joined else b"/"
        joined = part.endswith(b"%+")
        part = part[:-2] if joined else part
        if part != b"%-":
            name += re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), part)
    return name


def files_below(folder):
    """Returns all files below a directory: a dictionary from (name, ending) to the path."""
    found = {}
    for here, _, names in os.walk(folder):
        for file in names:
            path = os.path.join(here, file)
            stem, ending = next((file[: -len(end)], end) for end in ENDINGS if file.endswith(end))
            within = os.path.relpath(here, folder).split(os.sep)
            key = (original([part for part in within if part != "."] + [stem]), ending)
            assert key not in found, f"{path} and {found[key]} have the same name"
            found[key] = path
    return found


def compare(folder, wanted):
    """Compares all files below a directory with a dictionary from (name, ending) to bytes."""
    found = files_below(folder)
    missing, strange = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    assert not missing and not strange, f"{folder}: missing {sorted(missing)}, not expected {sorted(strange)}"
    for key, path in found.items():
        with open(path, "rb") as file:
            data = file.read()
        assert os.stat(path).st_size == len(wanted[key]), f"{path}: its size is {os.stat(path).st_size}, not {len(wanted[key])}"
        assert data == wanted[key], f"{path}\n{data[:300]}\n{wanted[key][:300]}"
    return len(found)


def some(count):
    """Returns the frames to compare: the first and the last ones."""
    return range(count) if count <= MOST else [*range(MOST // 2), *range(count - MOST // 2, count)]


def value_file(name, value):
    """Returns the expected file for a value from gsd.fl: key and bytes."""
    if isinstance(value, str):
        return (name, ".txt"), value.encode()
    return (name, ".npy"), saved(value)


def frames(source, root):
    """Compares arrays/frames with gsd.fl."""
    with gsd.fl.open(source, "r") as file:
        count, names = file.nframes, file.find_matching_chunk_names("")
        assert sorted(os.listdir(f"{root}/arrays/frames")) == sorted(str(n) for n in range(count))
        compared = 0
        for frame in some(count):
            there = [name for name in names if file.chunk_exists(frame, name)]
            wanted = dict(value_file(name.encode(), file.read_chunk(frame, name)) for name in there)
            compared += compare(f"{root}/arrays/frames/{frame}", wanted)
    return compared, count


def series(source, root, count):
    """Compares arrays/series with all chunks of the file."""
    by_name = {}
    for chunk in gsd_index.chunks(source):
        by_name.setdefault(chunk.name, []).append(chunk)
    wanted = {}
    for name, chunks in by_name.items():
        if len({(chunk.dtype, chunk.n, chunk.m) for chunk in chunks}) > 1:
            continue
        first = chunks[0]
        stacked = np.stack([gsd_index.array(chunk) for chunk in chunks])
        if first.dtype.kind == "S" and first.m == 1 and first.n > 0:
            stacked = np.ascontiguousarray(stacked).view(f"S{first.n}").reshape(len(chunks))
        wanted[name, ".npy"] = saved(stacked)
        if len(chunks) != count:
            wanted[name, ".frames.npy"] = saved(np.array([chunk.frame for chunk in chunks], "<u8"))
    return compare(f"{root}/arrays/series", wanted)


def resolved(source, root):
    """Compares arrays/resolved with gsd.hoomd."""
    compared = 0
    with gsd.hoomd.open(source, "r") as trajectory:
        frames = {str(n) for n in range(len(trajectory))}
        assert set(os.listdir(f"{root}/arrays/resolved")) == frames | {"series"}
        for number in some(len(trajectory)):
            wanted = {}
            try:
                frame = trajectory[number]
            except (AttributeError, KeyError):
                # gsd.hoomd can't read a frame that lacks a string, or a log that frame 0 also lacks.
                assert os.path.basename(source) == "logs.gsd"
                continue
            for group in GROUPS:
                container = getattr(frame, group)
                for quantity in container._default_value:
                    value, name = getattr(container, quantity), f"{group}/{quantity}".encode()
                    if quantity == "type_shapes":
                        wanted[name, ".json"] = None
                        with open(f"{root}/arrays/resolved/{number}/{group}/type_shapes.json", "rb") as file:
                            text = file.read()
                        assert json.loads(text) == value, text
                        wanted[name, ".json"] = text
                        continue
                    if quantity == "types":
                        wanted[name, ".txt"] = "".join(f"{word}\n" for word in value).encode()
                    wanted[name, ".npy"] = saved(value)
            for name, value in frame.log.items():
                key, data = value_file(b"log/" + name.encode(), value)
                wanted[key] = data
            # Up to version 3, gsd.hoomd read states, but only those stored in the frame itself.
            if trajectory.file.schema_version < (2, 0):
                for name in trajectory.file.find_matching_chunk_names("state/"):
                    if trajectory.file.chunk_exists(number, name):
                        key, data = value_file(name.encode(), trajectory.file.read_chunk(number, name))
                        wanted[key] = data
            compared += compare(f"{root}/arrays/resolved/{number}", wanted)
    return compared


def read_log(source):
    """Returns what gsd.hoomd.read_log reads, with step 0 for a frame without a step, where read_log itself fails."""
    class File(gsd.fl.GSDFile):
        def read_chunk(self, frame, name):
            if name == "configuration/step" and not self.chunk_exists(frame, name):
                return np.zeros(1, np.uint64)
            return super().read_chunk(frame, name)

    opened = gsd.fl.open
    gsd.fl.open = lambda name, mode, **options: File(name, mode, **options)
    try:
        return gsd.hoomd.read_log(source)
    finally:
        gsd.fl.open = opened


def stacked(source):
    """Returns the quantities of the schema that have one type and shape in all frames, as gsd.hoomd reads them."""
    values = {}
    with gsd.hoomd.open(source, "r") as trajectory:
        for frame in trajectory:
            for group in GROUPS:
                container = getattr(frame, group)
                for quantity in container._default_value:
                    if quantity not in ("types", "type_shapes", "step"):
                        values.setdefault(f"{group}/{quantity}", []).append(np.asarray(getattr(container, quantity)))
        return {name: np.stack(of_frames) for name, of_frames in values.items()
                if len({(value.shape, value.dtype) for value in of_frames}) == 1}


def quantities(source, root):
    """Compares the quantities of arrays/resolved/series with gsd.hoomd."""
    found = {key: place for key, place in files_below(f"{root}/arrays/resolved/series").items()
             if not key[0].startswith((b"log/", b"configuration/step"))}
    try:
        expected = stacked(source)
    except (AttributeError, KeyError):
        assert os.path.basename(source) == "logs.gsd"
        return 0
    for (name, ending), place in found.items():
        assert open(place, "rb").read() == saved(expected[name.decode()]), (source, name)
    # A group without rows may have N 0, and none later: its type is that of Python's integer.
    missing = {name for name in expected if (name.encode(), ".npy") not in found}
    with gsd.fl.open(source, "r") as file:
        stored = {name for name in expected if file.find_matching_chunk_names(name)}
    assert not missing & stored or os.path.basename(source).startswith(("random", "states")), (source, missing & stored)
    assert len(found) >= len(expected) - len(missing) > 0
    return len(found)


def logs(source, root):
    """Compares arrays/resolved/series and tables/log.parquet with gsd.hoomd.read_log."""
    log = read_log(source)
    is_text = {name: isinstance(rows.dtype, np.dtypes.StringDType) for name, rows in log.items()}
    found = {key: place for key, place in files_below(f"{root}/arrays/resolved/series").items()
             if key[0].startswith((b"log/", b"configuration/step"))}
    assert found.keys() == {(name.encode(), ".npy") for name in log}, (found.keys(), log.keys())
    table = pq.read_table(f"{root}/tables/log.parquet")
    assert os.listdir(f"{root}/tables") == ["log.parquet"]
    scalars = [name for name, rows in log.items() if rows.ndim == 1]
    late = table.column_names[len(scalars):] if table.column_names[:len(scalars)] == scalars else None
    if late is None:
        late = [name for name in table.column_names if name not in scalars]
    assert [name for name in table.column_names if name not in late] == scalars, (table.column_names, scalars)
    for name, rows in log.items():
        shown = np.load(found[name.encode(), ".npy"])
        if is_text[name]:
            assert shown.dtype.kind == "U" and shown.tolist() == rows.tolist(), (shown, rows)
        else:
            assert open(found[name.encode(), ".npy"], "rb").read() == saved(rows), (name, shown, rows)
        if rows.ndim == 1:
            column = table.column(name)
            assert column.null_count == 0
            assert is_text[name] or str(column.type) == {"float32": "float", "float64": "double"}.get(str(rows.dtype), str(rows.dtype))
            np.testing.assert_array_equal(np.array(column.to_pylist(), None if is_text[name] else rows.dtype),
                                          rows.tolist() if is_text[name] else rows)
    with gsd.fl.open(source, "r") as file:
        frames = [[file.read_chunk(n, name) if file.chunk_exists(n, name) else None for n in range(file.nframes)]
                  for name in late]
    for name, values in zip(late, frames):
        wanted = [value if value is None or isinstance(value, str) else value[0].item() for value in values]
        assert table.column(name).to_pylist() == wanted, (name, wanted)
    return len(log) + table.num_columns


def main():
    warnings.simplefilter("ignore")
    arguments = iter(sys.argv[1:])
    compared = 0
    for source, root in zip(arguments, arguments):
        files, count = frames(source, root)
        compared += files + series(source, root, count)
        with gsd.fl.open(source, "r") as file:
            is_hoomd = file.schema == "hoomd"
        assert os.path.exists(f"{root}/arrays/resolved") == os.path.exists(f"{root}/tables") == is_hoomd
        if is_hoomd:
            compared += resolved(source, root) + logs(source, root) + quantities(source, root)
    print(compared)


main()
