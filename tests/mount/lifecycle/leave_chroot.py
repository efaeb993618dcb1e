"""Runs a command with the root folder as the root of a mount namespace of its own.

In a chroot the kernel makes no user namespaces, and a bare Debian is often tried in one.
usage: leave_chroot.py COMMAND...
"""

import ctypes
import os
import sys

NEW_NAMESPACE = 0x20000
PRIVATE = 0x44000
DETACH = 2
# These have the same number on every kind of machine, and no name in older C libraries.
OPEN_TREE, MOVE_MOUNT = 428, 429
CLONE_RECURSIVELY = 0x9001  # of the descriptor itself, with all that is mounted below it
FROM_AND_TO_DESCRIPTORS = 0x44

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    result = libc[name](*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


folder = os.getcwd()
call("unshare", NEW_NAMESPACE)
root = os.open("/", os.O_PATH)
# Entering a mount namespace, be it one's own, makes its root the process's root.
call("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), NEW_NAMESPACE)
call("mount", None, b"/", None, PRIVATE, None)
tree = call("syscall", OPEN_TREE, root, b"", CLONE_RECURSIVELY)
call("syscall", MOVE_MOUNT, tree, b"", root, b"", FROM_AND_TO_DESCRIPTORS)
os.fchdir(tree)
call("pivot_root", b".", b".")
call("umount2", b".", DETACH)
os.chdir(folder)
os.execvp(sys.argv[1], sys.argv[1:])
