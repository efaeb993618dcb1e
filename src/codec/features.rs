//! Features of the CPU that not every CPU has, found when the program runs.
//!
//! A program for x86-64 is compiled for CPUs of 2003. Those of 2013 and later shift by a variable count and
//! extract bits in one instruction each (BMI1, BMI2), and move 32 bytes at once (AVX2): this is worth some 6
//! percent in the loop of inflate. A function that is [`dispatched`] is compiled twice, and the CPU decides
//! which one runs. Other architectures have one version only.
//!
//! Measured and not worth it: the search for deflate blocks, replacing markers, all of bzip2.
//!
//! The `unsafe` that this takes is in fearless_simd; nothing else of it is used.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};

/// Runs `work` compiled for the features that this CPU has.
///
/// Only what is inlined into `work` is compiled for them: mark it, and all the functions that it calls
/// and that are to gain by it, `#[inline(always)]`. It costs some ten loads and tests, so that `work`
/// should be some hundred instructions at least.
#[inline(always)]
pub(super) fn dispatched<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(test)]
    if tests::PLAIN.get() {
        return work();
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Level::new().as_avx2() {
        return avx2.vectorize(work);
    }
    work()
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Whether this thread does without the CPU's features.
        pub(super) static PLAIN: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `test` with the CPU's features, then without.
    pub(in super::super) fn both_ways(test: impl Fn()) {
        test();
        PLAIN.set(true);
        test();
        PLAIN.set(false);
    }

    #[test]
    fn what_is_dispatched_runs_once_and_gives_what_it_gives() {
        both_ways(|| {
            let mut runs = 0;
            let bits = dispatched(|| {
                runs += 1;
                (0..=u8::MAX).map(u8::count_ones).sum::<u32>()
            });
            assert_eq!((runs, bits), (1, 1024));
        });
    }
}
