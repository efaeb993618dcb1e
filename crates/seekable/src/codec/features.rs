//! Optional CPU features, detected at run time.
//!
//! A program for x86-64 is compiled for CPUs of 2003. CPUs of 2013 and later shift by a variable count and
//! extract bits in one instruction each (BMI1, BMI2), and move 32 bytes at once (AVX2). This makes the
//! inflate loop some 6 percent faster. A function that is [`dispatched`] is compiled twice, and the CPU
//! decides which version runs. Other architectures have one version only.
//!
//! Measured without a gain: the search for deflate blocks, the replacement of markers, all of bzip2.
//!
//! The required `unsafe` code is in fearless_simd; nothing else of that crate is used.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};

/// Runs `work` compiled for the features of this CPU.
///
/// Only code inlined into `work` is compiled for them: mark `work`, and all functions in it that should gain,
/// `#[inline(always)]`. A dispatch costs some ten loads and tests, so `work` should take at least some
/// hundred instructions.
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

/// Returns the optional features of this CPU that [`dispatched`] functions use.
pub fn cpu_features() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if Level::new().as_avx2().is_some() {
        return "AVX2, BMI1, BMI2 are used";
    }
    "none are used"
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// True if this thread ignores the CPU's features.
        pub(super) static PLAIN: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `test` with the CPU's features, then without them.
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
