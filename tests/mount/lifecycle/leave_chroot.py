"""Runs a command with the root directory as the root of a new mount namespace.

In a chroot the kernel refuses user namespaces, and a bare Debian is often tested in a chroot.
usage: leave_chroot.py COMMAND...
"""

import ctypes
import os
import sys

NEW_NAMESPACE = 0x20000
PRIVATE = 0x44000
DETACH = 2
# These numbers are equal on all architectures; older C libraries have no names for them.
OPEN_TREE, MOVE_MOUNT = 428, 429
CLONE_RECURSIVELY = 0x9001  # the descriptor itself, with all mounts below it
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
# Entering a mount namespace, even the current one, makes its root the process's root.
call("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), NEW_NAMESPACE)
call("mount", None, b"/", None, PRIVATE, None)
tree = call("syscall", OPEN_TREE, root, b"", CLONE_RECURSIVELY)
call("syscall", MOVE_MOUNT, tree, b"", root, b"", FROM_AND_TO_DESCRIPTORS)
os.fchdir(tree)
call("pivot_root", b".", b".")
call("umount2", b".", DETACH)
os.chdir(folder)
os.execvp(sys.argv[1], sys.argv[1:])
