"""Simulates a catalogue with footprints, and compares the query of docs/scale.md with brute force.

    footprints.py COUNT FOLDER    also prints how long cones take for COUNT files
"""

import json
import re
import sys
import time
from pathlib import Path

import duckdb
import numpy
from astropy import units
from astropy_healpix import HEALPix

DOCUMENT = (Path(__file__).parents[2] / "docs/scale.md").read_text()
TABLE, DEFINITIONS, QUERY = re.findall(r"```sql\n(.*?)```", DOCUMENT.split("### Which files")[1], re.S)[:3]
CELLS = HEALPix(nside=1024, order="nested")


def directions(longitude, latitude):
    longitude, latitude = numpy.radians(longitude), numpy.radians(latitude)
    return numpy.stack([numpy.cos(latitude) * numpy.cos(longitude), numpy.cos(latitude) * numpy.sin(longitude), numpy.sin(latitude)], -1)


def simulate(count, side=0.125, seed=0):
    """The corners of square images of any orientation anywhere on the sky, and the cells that each of them touches."""
    rng = numpy.random.default_rng(seed)
    middle = directions(rng.uniform(0, 360, count), numpy.degrees(numpy.arcsin(rng.uniform(-1, 1, count))))
    along = numpy.cross(middle, rng.normal(size=(count, 3)))
    along /= numpy.linalg.norm(along, axis=1)[:, None]
    across = numpy.cross(middle, along)
    half = numpy.tan(numpy.radians(side / 2))

    def at(u, v):
        points = middle[:, None] + half * (along[:, None] * u[:, None] + across[:, None] * v[:, None])
        x, y, z = numpy.moveaxis(points / numpy.linalg.norm(points, axis=2)[..., None], 2, 0)
        return numpy.degrees(numpy.arctan2(y, x)) % 360, numpy.degrees(numpy.arcsin(z))

    corners = numpy.stack(at(numpy.array([-1, -1, 1, 1]), numpy.array([-1, 1, 1, -1])), 2)
    # Denser than the cells, and beyond the border by a cell.
    steps = numpy.arange(-side / 2 - 0.07, side / 2 + 0.08, 0.025) / (side / 2)
    u, v = (grid.ravel() for grid in numpy.meshgrid(steps, steps))
    cells = []
    for part in range(0, count, 10_000):
        whole, middle_, along_, across_ = slice(part, part + 10_000), middle, along, across
        middle, along, across = middle_[whole], along_[whole], across_[whole]
        longitude, latitude = at(u, v)
        middle, along, across = middle_, along_, across_
        cells += [numpy.unique(row) for row in CELLS.lonlat_to_healpix(longitude * units.deg, latitude * units.deg)]
    return corners, cells


def write(corners, cells, folder):
    with (folder / "catalog.jsonl").open("w") as file:
        for n, (image, touched) in enumerate(zip(corners.tolist(), cells)):
            edges = numpy.flatnonzero(numpy.diff(touched) > 1)
            ranges = zip(touched[numpy.r_[0, edges + 1]].tolist(), touched[numpy.r_[edges, -1]].tolist())
            footprint = {"path": "roman/data", "corners": image, "healpix": list(ranges)}
            file.write(json.dumps({"uri": f"file:///night/{n}.asdf", "tree": {}, "footprints": [footprint]}) + "\n")


def brute_force(corners, ra, dec, radius):
    """The numbers of the images that a cone touches, in the plane that touches the sky in its middle."""
    middle = directions(ra, dec)
    east = numpy.cross([0, 0, 1], middle)
    east /= numpy.linalg.norm(east)
    points = directions(corners[..., 0], corners[..., 1])
    height = points @ middle
    number = numpy.flatnonzero((height > 0.5).all(1))
    # Distances from the middle are those of the sky, as tangents; sides are straight.
    x = (points[number] @ east) / height[number]
    y = (points[number] @ numpy.cross(middle, east)) / height[number]
    dx, dy = numpy.roll(x, -1, 1) - x, numpy.roll(y, -1, 1) - y
    turn = x * dy - y * dx
    part = numpy.clip(-(x * dx + y * dy) / (dx * dx + dy * dy), 0, 1)
    nearest = numpy.hypot(x + part * dx, y + part * dy).min(1)
    inside = (turn >= 0).all(1) | (turn <= 0).all(1)
    return set(number[inside | (nearest <= numpy.tan(numpy.radians(radius)))].tolist())


def database(folder):
    made = duckdb.connect()
    made.execute(f"SET file_search_path = '{folder}'")
    made.execute(TABLE.replace("'footprints.parquet'", f"'{folder}/footprints.parquet'"))
    made.execute(DEFINITIONS)
    return made


def found(made, ra, dec, radius):
    rows = made.execute("SELECT uri, path FROM files_at($ra, $dec, radius := $radius)", {"ra": ra, "dec": dec, "radius": radius}).fetchall()
    assert all(path == "roman/data" for _, path in rows)
    numbers = [int(Path(uri).stem) for uri, _ in rows]
    assert len(numbers) == len(set(numbers))
    return set(numbers)


def cones(corners, count, seed=1):
    rng = numpy.random.default_rng(seed)
    for _ in range(count):
        ra, dec = corners[rng.integers(len(corners)), 0] + rng.uniform(-0.1, 0.1, 2)
        yield float(ra % 360), float(numpy.clip(dec, -90, 90)), [0.0, 0.01, 0.1, 0.5, 3.0][rng.integers(5)]


def main(count, folder):
    corners, cells = simulate(count)
    write(corners, cells, folder)
    begin = time.perf_counter()
    made = database(folder)
    print(f"{count} files: table and definitions in {time.perf_counter() - begin:.1f} s")
    times = []
    for cone in cones(corners, 100):
        begin = time.perf_counter()
        files = found(made, *cone)
        times.append(time.perf_counter() - begin)
        assert files == brute_force(corners, *cone), cone
    times.sort()
    print(f"100 cones of up to 3 degrees: median {times[50] * 1e3:.0f} ms, longest {times[-1] * 1e3:.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
