"""The error of this package."""


class AsdfMountError(OSError):
    """A file can't be read, saved or mounted. The text says why; `errno` is that of a mount, where there is one."""

    __module__ = "asdf_mount"

    def __str__(self) -> str:
        return self.strerror or super().__str__()
