//! How the process takes memory from the system, and gives it back.

#![allow(unsafe_code)] // a setting of the C library's allocator

/// Bytes from which on a buffer is taken from the system by itself, and given back when it is dropped.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 192 << 10;

/// Has large buffers given back as soon as they are dropped.
///
/// glibc would raise the limit, up to 32 MiB, with each such buffer that is dropped, and then keep those
/// of decoders on many threads in as many arenas: twice as much as is in use.
pub(super) fn give_back_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number of the allocator, which takes its own lock; no memory is touched.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
