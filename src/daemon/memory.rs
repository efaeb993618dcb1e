//! How the process takes memory from the system, and gives it back.

#![allow(unsafe_code)] // settings of the C library's allocator

use rustix::process::{Resource, getrlimit};

use crate::error::{Error, Kind, Result};

/// Bytes from which on a buffer is taken from the system by itself, and given back when it is dropped.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 192 << 10;

/// Bytes of one thread that answers the kernel: fuser's buffer for a request, and the stack.
const THREAD: u64 = (16 << 20) + (2 << 20) + (64 << 10);

/// Bytes that a daemon needs beside these threads and the budget of its cache: stacks of other threads,
/// tables, mappings of sources.
const WORK: u64 = 64 << 20;

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

/// Gives back what was freed in small pieces, as far as whole pages are free: glibc keeps it otherwise.
pub(super) fn give_back_small_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the allocator takes its own locks, and gives back only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Says how many of `wanted` threads can answer the kernel, in a daemon whose cache has `budget` bytes.
///
/// A buffer that can't be had ends the process, so this is found out before anything is mounted. Only a
/// limit of address space (`ulimit -v`) makes a difference, and a machine that lends no memory it lacks.
///
/// # Errors
/// When there is not even room for one.
pub(super) fn threads(wanted: usize, budget: u64) -> Result<usize> {
    let limit = getrlimit(Resource::As).current;
    if limit.is_some() {
        use_one_arena();
    }
    let beside = WORK + limit.map_or(0, |_| budget);
    let needed = |threads: usize| (threads as u64 * THREAD).saturating_add(beside);
    (1..=wanted.max(1)).rev().find(|&threads| can_be_had(needed(threads))).ok_or_else(|| {
        let needed = needed(1) >> 20;
        Error::new(
            Kind::System(libc::ENOMEM),
            format!(
                "too little memory can be had for a daemon, which needs {needed} MiB: raise the limit (ulimit -v) \
                 or give less to the cache (-o cache=)"
            ),
        )
    })
}

/// Whether so many bytes more of address space can be had; they are given back untouched.
fn can_be_had(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Has all threads allocate from one heap: glibc reserves 64 MiB of address space for each thread otherwise.
fn use_one_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: as in `give_back_large_buffers`.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_as_many_as_there_is_room_for() {
        assert_eq!(threads(4, 1 << 20).unwrap(), 4);
        assert!(!can_be_had(u64::MAX) && !can_be_had(1 << 60));
    }
}
