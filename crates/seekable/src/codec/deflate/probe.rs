//! A search for the window bytes to which the output after a position refers. The window is the 32 KiB
//! before the position.
//!
//! The 32 KiB after the position are decoded as symbols, with a marker for each byte before the position. The
//! markers that occur in the output tell which window bytes the output refers to. These markers are then
//! replaced by their bytes, so that nothing is decoded twice. Matches after these 32 KiB can't reach back
//! before the position.

use super::WINDOW;
use super::fault::Fault;
use super::inflate::{Inflate, Position, Stop};
use super::output::OutputBuffer;
use super::symbol::{MARKER, OutputSymbol};
use crate::content::Content;

/// Number of output symbols or bytes that a probe decodes, and for which it needs room.
pub(super) const PROBE: usize = WINDOW;

/// A bitmap of the window bytes to which later output refers, lowest bit first; `None` means all bytes.
#[derive(Clone, Debug)]
pub(super) struct Used(Option<Box<[u8; WINDOW / 8]>>);

impl Used {
    /// Returns the bytes whose markers are among `symbols`.
    pub(super) fn by(symbols: &[u16]) -> Self {
        let mut seen = vec![0; 1 << 16];
        for &symbol in symbols {
            seen[usize::from(symbol)] = 1;
        }
        Self::of(&seen[usize::from(MARKER)..])
    }

    /// Returns the bytes whose markers are set to 1 in `seen`.
    fn of(seen: &[u8]) -> Self {
        let mut used = Box::new([0; WINDOW / 8]);
        for (bits, eight) in used.iter_mut().zip(seen.chunks_exact(8)) {
            *bits = gather(eight.first_chunk().expect("a chunk of eight"));
        }
        Self(Some(used))
    }

    /// Returns `window` with unused bytes zeroed. A window of less than 32 KiB stays as it is.
    pub(super) fn sparse(&self, mut window: Vec<u8>) -> Vec<u8> {
        let used = self.0.as_ref().filter(|_| window.len() == WINDOW);
        for (eight, &bits) in window.chunks_exact_mut(8).zip(used.iter().flat_map(|used| used.iter())) {
            let bytes = u64::from_le_bytes(*eight.first_chunk().expect("a chunk of eight"));
            eight.copy_from_slice(&(bytes & spread(bits)).to_le_bytes());
        }
        window
    }
}

/// Returns a byte whose bit `i` is the lowest bit of byte `i` of `eight`. All other bits of `eight` must be
/// zero.
fn gather(eight: &[u8; 8]) -> u8 {
    // Moves bit 8 i to bit 56 + i: by 56 - 7 i.
    const MOVES: u64 = 0x0102_0408_1020_4080;
    (u64::from_le_bytes(*eight).wrapping_mul(MOVES) >> 56) as u8
}

/// Returns eight bytes, one for each bit, 255 if the bit is set.
fn spread(bits: u8) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Byte i keeps bit i of its copy; adding 127 then sets its highest bit if the byte is not zero.
    let own = (u64::from(bits) * EACH) & 0x8040_2010_0804_0201;
    (((own + 0x7f * EACH) >> 7) & EACH) * 0xff
}

/// A position where decoding can start again, and the preceding bytes that the later output refers to.
#[derive(Clone, Debug)]
pub(super) struct Probed {
    pub(super) position: Position,
    pub(super) used: Used,
}

/// The buffers for probing.
#[derive(Debug)]
pub(super) struct Probe {
    /// The markers of a window, then room for output.
    symbols: Vec<u16>,
    /// 1 for each symbol that occurs, else 0.
    seen: Box<[u8; 1 << 16]>,
}

impl Probe {
    pub(super) fn new() -> Self {
        let markers = (MARKER..=u16::MAX).chain(std::iter::repeat_n(0, PROBE));
        Self { symbols: markers.collect(), seen: Box::new([0; 1 << 16]) }
    }

    /// Marks the position of `inflate`, with nothing pending, and decodes up to [`PROBE`] items from there
    /// into `out`, as [`Inflate::run`] does. Stops where a block ends unless `continues` returns true.
    ///
    /// Makes no mark if decoding stopped before the used bytes were known.
    pub(super) fn mark<S: OutputSymbol>(
        &mut self,
        inflate: &mut Inflate,
        stored: &dyn Content,
        out: &mut OutputBuffer<'_, S>,
        mut continues: impl FnMut(&mut Inflate) -> bool,
    ) -> (Option<Probed>, Result<Stop, Fault>) {
        debug_assert_eq!(inflate.pending(), 0, "a mark lies between two symbols");
        let position = inflate.position();
        let (window, room) = out.items.split_at_mut(out.filled);
        let Some(window) = window.last_chunk::<WINDOW>() else {
            // Near the start of a stream little output comes before the position: all of it is kept.
            let stop = inflate.run(stored, out, true);
            return (Some(Probed { position, used: Used(None) }), stop);
        };
        let wanted = WINDOW + room.len().min(PROBE);
        let mut symbols = OutputBuffer { items: &mut self.symbols[..wanted], filled: WINDOW };
        let stop = loop {
            let stop = inflate.run(stored, &mut symbols, true);
            if !matches!(stop, Ok(Stop::Block)) || !continues(inflate) {
                break stop;
            }
        };
        let symbols = &symbols.items[WINDOW..symbols.filled];
        self.seen[usize::from(MARKER)..].fill(0);
        for (to, &symbol) in room.iter_mut().zip(symbols) {
            // Both values are computed, without a branch: the choice can't be predicted.
            self.seen[usize::from(symbol)] = 1;
            let known = window[usize::from(symbol) % WINDOW];
            let literal = S::from_byte(symbol as u8);
            *to = if symbol >= MARKER { known } else { literal };
        }
        let complete = symbols.len() == PROBE || matches!(stop, Ok(Stop::End));
        let mark = complete.then(|| Probed { position, used: Used::of(&self.seen[usize::from(MARKER)..]) });
        out.filled += symbols.len();
        (mark, stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_gathered_and_spread_in_order() {
        for bits in 0..=u8::MAX {
            let eight = std::array::from_fn(|at| bits >> at & 1);
            assert_eq!(gather(&eight), bits);
            assert_eq!(spread(bits).to_le_bytes(), eight.map(|bit| bit * 0xff));
        }
    }
}
