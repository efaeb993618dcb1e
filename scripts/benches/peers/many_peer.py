"""Changes and searches files with Python asdf; prints the seconds of its loop."""

import sys
import time
from pathlib import Path

import asdf


def change(path):
    """Sets a value as `--set object.filter=P` does."""
    with asdf.open(path, mode="rw") as file:
        file["object"]["filter"] = "P"
        file.update()


def search(path):
    """Finds a key as `--search filter` does."""
    with asdf.open(path) as file:
        return file.search("filter").paths


if __name__ == "__main__":
    work = {"change": change, "search": search}[sys.argv[1]]
    begun = time.process_time()
    for path in sorted(Path(sys.argv[2]).glob("*.asdf"))[: int(sys.argv[3])]:
        work(path)
    print(time.process_time() - begun)
