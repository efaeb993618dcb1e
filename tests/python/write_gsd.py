"""Writes GSD files into a directory, some with gsd.fl and names and shapes of all kinds, some with gsd.hoomd.

    write_gsd.py FOLDER [SEED]

Prints the names of the files, without `.gsd`, one per line. The seed determines the files.
"""

import os
import sys

import gsd.fl
import gsd.hoomd
import numpy as np

TYPES = "u1 u2 u4 u8 i1 i2 i4 i8 f4 f8".split()
NAMES = ["a", "a/b", "a/b/c", "x", "x.npy", "x.frames", "x.txt", "..", "../up", ".", "./dot", "//x", "/abs", "trail/",
         "new\nline", "tab\t", "per%cent", "per%41cent", "größe/α", "e\u0301", "\u00e9", "sp ace", "x~1", "x~", "~1",
         "n" * 239, "n" * 240, "n" * 241, "long/" + "x" * 300, "%-", "%+", "a%+", "CON", "-rf", "*"]


def numbers(rng, dtype, shape):
    """Returns random elements of a type, some of them special."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(size), dtype).reshape(shape)


def open_new(path, schema="random", version=(1, 0)):
    return gsd.fl.open(path, "w", application="write_gsd", schema=schema, schema_version=list(version))


def write_random(path, rng, frames=12):
    """Writes some names in each frame, in any order; half of them have the same type and shape in all frames."""
    names = list(rng.permutation(NAMES)[: rng.integers(3, len(NAMES))])
    fixed = {name: (rng.choice(TYPES), tuple(rng.integers(0, 6, rng.integers(1, 3)))) for name in names}
    varies = {name: rng.random() < 0.5 for name in names}
    often = {name: rng.choice([0.3, 1.0]) for name in names}
    with open_new(path) as file:
        for frame in range(frames):
            for name in rng.permutation(names):
                if rng.random() >= often[name] and frame != frames - 1:
                    continue
                dtype, shape = fixed[name]
                if varies[name] and rng.random() < 0.3:
                    dtype, shape = rng.choice(TYPES), tuple(rng.integers(0, 6, rng.integers(1, 3)))
                # gsd can't write a second axis of length 0.
                shape = tuple(max(size, 1) if axis else size for axis, size in enumerate(shape))
                file.write_chunk(name, numbers(rng, dtype, shape))
            file.end_frame()


def write_words(path, rng):
    """Writes strings of equal lengths and of different lengths, with empty frames between."""
    with open_new(path) as file:
        for frame in range(8):
            if frame != 3:
                file.write_chunk("same", f"frame {frame}")
                file.write_chunk("other", "e" * (frame + 1))
                file.write_chunk("scalar", np.array([frame], "u4"))
            file.end_frame()


def write_large(path, rng):
    """Writes chunks of some hundred kilobytes, with a small one between."""
    with open_new(path) as file:
        for frame in range(9):
            file.write_chunk("small", numbers(rng, "f8", (1,)))
            file.write_chunk("large", numbers(rng, "f4", (20_011, 3)))
            file.end_frame()


def write_many(path, rng):
    """Writes more frames than between two checkpoints, and a name that only few of them have."""
    with open_new(path) as file:
        for frame in range(5000):
            file.write_chunk("step", np.array([frame], "u8"))
            file.write_chunk("position", numbers(rng, "f4", (2, 3)))
            if frame % 7 == 0:
                file.write_chunk("rare", numbers(rng, "i2", (3,)))
            file.end_frame()


def random_frame(rng, number, log):
    """Returns a frame with some quantities."""
    frame = gsd.hoomd.Frame()
    frame.configuration.step = int(number * rng.integers(0, 3))
    if rng.random() < 0.5:
        frame.configuration.box = rng.random(6) * (2 if rng.random() < 0.9 else 0)
    frame.particles.N = int(rng.choice([0, 4, 4, 4, 7]))
    count = frame.particles.N
    if rng.random() < 0.4:
        frame.particles.types = list(rng.permutation(["A", "B", "colloid", "x" * 70]))[: rng.integers(1, 5)]
    if rng.random() < 0.3:
        frame.particles.type_shapes = [{}, {"type": "Sphere", "diameter": 1.5}]
    columns = dict(position=3, orientation=4, velocity=3, angmom=4, moment_inertia=3, image=3,
                   mass=1, charge=1, diameter=1, body=1, typeid=1)
    for name, width in columns.items():
        if rng.random() < 0.5:
            shape = (count, width) if width > 1 else (count,)
            high = 2 if rng.random() < 0.5 else 1
            value = rng.integers(0, high, shape) if name in ("image", "body", "typeid") else high * rng.random(shape)
            setattr(frame.particles, name, value)
    for group, width in dict(bonds=2, angles=3, dihedrals=4, impropers=4, pairs=2, constraints=2).items():
        container = getattr(frame, group)
        if rng.random() < 0.5:
            continue
        container.N = int(rng.choice([0, 2, 3]))
        container.group = rng.integers(0, 3, (container.N, width))
        if group == "constraints":
            container.value = rng.random(container.N)
        elif rng.random() < 0.5:
            container.types, container.typeid = ["p", "q-r"], rng.integers(0, 2, container.N)
    for name, shape in log.items():
        if number == 0 or rng.random() < 0.5:
            frame.log[name] = rng.random(shape)
    frame.log["note"] = f"frame {number}"
    return frame


def write_hoomd(path, rng, precision="single"):
    log = {"energy": (1,), "md/pressure": (6,), "particles/force": (4, 3)}
    with gsd.hoomd.open(path, "w", precision=precision) as trajectory:
        for number in range(6):
            trajectory.append(random_frame(rng, number, log))


def write_logs(path, rng):
    """Writes logs of all kinds: in all frames, in some, only in frame 0, from some frame on; strings; changing types."""
    with gsd.hoomd.open(path, "w") as trajectory:
        for number in range(23):
            frame = gsd.hoomd.Frame()
            frame.configuration.step = 1000 * number
            some = number == 0 or rng.random() < 0.5
            for dtype in TYPES:
                frame.log[f"all/{dtype}"] = numbers(rng, dtype, (1,)) if dtype[0] != "f" else rng.random(1).astype(dtype)
                if some:
                    frame.log[f"some/{dtype}"] = np.array([number], dtype)
            for shape in (2,), (3, 3), (2, 1):
                if some:
                    frame.log[f"shape/{shape}"] = rng.random(shape).astype("f4")
            if number == 0:
                frame.log["once"] = np.array([2.5])
                frame.log["once/vector"] = np.arange(20_000)
            frame.log["large"] = rng.random(20_000) if number != 5 else rng.integers(0, 9, 20_000).astype("i2")
            if number > 4:
                frame.log["late"] = np.array([number / 4])
                frame.log["late/integer"] = np.array([number], "i4")
                frame.log["late/text"] = f"from frame {number} on"
                frame.log["late/vector"] = np.arange(3)
            frame.log["text"] = "text " + "x" * number
            if some:
                frame.log["text/some"] = f"{number}"
            # numpy converts these to the type of frame 0.
            frame.log["mixed"] = np.array([number]) if number < 9 else np.array([-number - 0.75], "f4")
            frame.log["mixed/list"] = np.array([number, 7][: 1 + number % 2], "f4") if number else np.array([0.5])
            frame.log["mixed/vector"] = np.arange(3, dtype="i4" if number % 3 else "f8")
            trajectory.append(frame)


def write_no_step(path, rng):
    """Writes files in which no frame has a step; some have no log either."""
    with open_new(path, "hoomd", (1, 4)) as file:
        for number in range(9):
            if number in (0, 3, 4):
                file.write_chunk("log/a", np.array([number], "u2"))
            file.write_chunk("particles/N", np.array([number], "u4"))
            file.end_frame()


def write_states(path, rng):
    """Writes states, which no frame takes from another one."""
    with open_new(path, "hoomd", (1, 4)) as file:
        for number in range(4):
            if number != 1:
                file.write_chunk("state/hpmc/sphere/radius", np.arange(number + 1.0))
            if number < 2:
                file.write_chunk("state/hpmc/d", np.array([0.5]))
            file.write_chunk("configuration/step", np.array([number], "u8"))
            file.end_frame()


def write_many_logs(path, rng):
    """Writes a frame with so many chunks that frames are searched one by one."""
    with gsd.hoomd.open(path, "w") as trajectory:
        for number in range(3):
            frame = gsd.hoomd.Frame()
            frame.configuration.step = number
            for name in range(300):
                if number == 0 or (name + number) % 2 or name > 20:
                    frame.log[str(name)] = np.array([number + 1000 * name])
            trajectory.append(frame)


def main():
    folder, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = np.random.default_rng(seed)
    writers = {f"random{n}": write_random for n in range(3)}
    writers |= {"words": write_words, "large": write_large, "many": write_many}
    writers |= {f"hoomd{n}": write_hoomd for n in range(3)}
    writers["double"] = lambda path, rng: write_hoomd(path, rng, "double")
    writers |= {"logs": write_logs, "no_step": write_no_step, "states": write_states, "many_logs": write_many_logs}
    for name, write in writers.items():
        write(os.path.join(folder, f"{name}.gsd"), rng)
        print(name)


main()
