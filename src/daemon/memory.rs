//! The process's memory: allocator settings and limits.

#![allow(unsafe_code)] // settings of the C library's allocator

use rustix::process::{Resource, getrlimit};

use seekable::error::{Error, Kind, Result};

/// Minimum size of a buffer that is mapped separately, and returned to the system when dropped.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 192 << 10;

/// Bytes per thread that answers the kernel: fuser's request buffer and the stack.
const THREAD: u64 = (16 << 20) + (2 << 20) + (64 << 10);

/// Bytes that a daemon needs besides its cache and the threads that answer the kernel: other threads' stacks,
/// tables, mappings.
const WORK: u64 = 64 << 20;

/// Number of heaps for all threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: libc::c_int = 2;

/// Makes the allocator return large buffers to the system as soon as they are dropped, and use few heaps.
///
/// By default glibc maps only buffers above a threshold separately, and raises that threshold, up to 32 MiB,
/// when such a buffer is dropped. Later buffers of decoders then stay in the arenas of their threads when
/// dropped: twice as much memory as is in use. By default it also uses up to eight heaps for each core, and each keeps
/// the smaller buffers that were dropped, such as blocks of files on servers: 64 readers of a zstd block on a server
/// took 145 MiB so, 111 with two heaps.
pub(super) fn give_back_large_buffers() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the calls set numbers of the allocator, which takes its own lock; no memory is touched.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Returns the free pages of the heap to the system; glibc keeps them otherwise.
pub(super) fn give_back_small_pieces() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the allocator takes its own locks, and returns only free pages.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns how many of `wanted` threads can answer the kernel, in a daemon with a cache of `budget` bytes.
///
/// A failed allocation ends the process, so memory is checked before mounting. This matters under a limit of
/// the address space (`ulimit -v`), and on machines that do not overcommit memory.
///
/// # Errors
/// There is not enough memory for one thread.
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
                "not enough memory: a daemon needs {needed} MiB; raise the limit (ulimit -v) or reduce the cache \
                 (-o cache=)"
            ),
        )
    })
}

/// True if another `bytes` bytes can be allocated. They are freed at once, without being written.
fn can_be_had(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Makes all threads use one heap; otherwise glibc reserves 64 MiB of address space for each thread.
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
