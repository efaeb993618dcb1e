"""``python -m asdf_mount`` runs the program."""

import os
import sys

from ._mount import find_program

if __name__ == "__main__":
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])
