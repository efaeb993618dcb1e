//! Errors of file systems that lack a feature.

/// True if the error is one that a file system returns for a request that it does not support or permit.
pub(super) fn cannot(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EOPNOTSUPP
                | libc::ENOSYS
                | libc::EINVAL
                | libc::EXDEV
                | libc::ENOTTY
                | libc::ETXTBSY
                | libc::EPERM
                | libc::EACCES
                | libc::EISDIR
                | libc::EROFS
                | libc::EFBIG
                | libc::ENAMETOOLONG
                | libc::EBUSY
        )
    )
}
