"""Writes a GSD file while other programs read it.

    grow_gsd.py FILE

Executes the commands on its standard input, and prints after each the number of finished frames:

    frame NAMES    writes and ends a frame: chunk `quantity/K` for each K below NAMES holds 1000·frame + K three times
    chunk K        writes a chunk of an unfinished frame
    flush          flushes all finished frames to the file
    truncate       removes all frames; the next values start as for frame 500
    upgrade        upgrades a file from version 1 to version 2
"""

import sys

import gsd.fl
import numpy as np


def main():
    path = sys.argv[1]
    try:
        file = gsd.fl.open(path, "r+")
    except FileNotFoundError:
        file = gsd.fl.open(path, "w", application="grow_gsd", schema="growing", schema_version=[1, 0])
    ended, first = file.nframes, 0

    def chunk(number):
        file.write_chunk(f"quantity/{number}", np.full(3, 1000 * (first + ended) + number, "i4"))

    print(ended, flush=True)
    for line in sys.stdin:
        what, *number = line.split()
        if what == "frame":
            for n in range(int(number[0])):
                chunk(n)
            file.end_frame()
            ended += 1
        elif what == "chunk":
            chunk(int(number[0]))
        elif what == "truncate":
            file.truncate()
            ended, first = 0, 500
        else:
            {"flush": file.flush, "upgrade": file.upgrade}[what]()
        print(ended, flush=True)
    file.close()


main()
