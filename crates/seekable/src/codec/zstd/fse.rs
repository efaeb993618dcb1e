//! FSE tables of a sequences section (RFC 8878, 4.1): their descriptions and their decoded states.

use super::bits::Forwards;

/// Minimum accuracy of a table, in bits.
const MIN_LOG: u32 = 5;

/// Maximum number of states: literal and match lengths have an accuracy of at most 9 bits.
const STATES: usize = 1 << 9;

/// The kind of codes in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeKind {
    LiteralLengths,
    Offsets,
    MatchLengths,
}

impl CodeKind {
    /// Returns the number of codes.
    pub(super) fn codes(self) -> usize {
        match self {
            Self::LiteralLengths => 36,
            Self::Offsets => 32,
            Self::MatchLengths => 53,
        }
    }

    /// Returns the maximum accuracy in bits.
    fn most_log(self) -> u32 {
        match self {
            Self::LiteralLengths | Self::MatchLengths => 9,
            Self::Offsets => 8,
        }
    }

    /// Returns the description of the predefined table (RFC 8878, 3.1.1.3.2.2).
    pub(super) fn predefined(self) -> &'static [u8] {
        match self {
            Self::LiteralLengths => &[
                0x51, 0x10, 0x63, 0x8c, 0x31, 0xc6, 0x18, 0x63, 0x0c, 0x21, 0xc4, 0x18, 0x63, 0x66, 0x66,
                0x86, 0x46, 0x92, 0x04, 0x00,
            ],
            Self::Offsets => {
                &[0x20, 0x84, 0x10, 0x42, 0x66, 0x46, 0x44, 0x44, 0x44, 0x44, 0x24, 0x49, 0x02, 0x00]
            }
            Self::MatchLengths => &[
                0x21, 0x14, 0xc4, 0x18, 0x63, 0x8c, 0x21, 0x84, 0x10, 0x42, 0x08, 0x21, 0x84, 0x10, 0x42,
                0x08, 0x21, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x24, 0x09, 0x00, 0x00,
            ],
        }
    }
}

/// The frequency of each code, out of `1 << log`; -1 is "less than once".
pub(super) struct Counts {
    log: u32,
    frequencies: [i16; 64],
    codes: usize,
    /// Size of the description in bytes.
    pub(super) len: usize,
}

impl Counts {
    /// Reads the description at the start of `bytes`; `None` if it is broken.
    pub(super) fn read(bytes: &[u8], kind: CodeKind) -> Option<Self> {
        let mut bits = Forwards::new(bytes);
        let log = bits.take(4)? + MIN_LOG;
        if log > kind.most_log() {
            return None;
        }
        let mut counts = [0; 64];
        let mut codes = 0;
        let mut total_left = 1_u32 << log;
        while total_left > 0 {
            if codes >= kind.codes() {
                return None;
            }
            let count = read_count(&mut bits, total_left)?;
            *counts.get_mut(codes)? = count;
            codes += 1;
            total_left = total_left.checked_sub(u32::from(count.unsigned_abs()))?;
            // A code of frequency 0 is followed by the number of further ones.
            let mut more = if count == 0 { 3 } else { 0 };
            while more == 3 {
                more = bits.take(2)?;
                codes += more as usize;
            }
        }
        (codes <= kind.codes()).then_some(Self { log, frequencies: counts, codes, len: bits.bytes_taken() })
    }
}

/// Reads a count; `total_left` is the rest of the total.
fn read_count(bits: &mut Forwards<'_>, total_left: u32) -> Option<i16> {
    let most = total_left + 1;
    let width = 32 - most.leading_zeros();
    // The lowest values take one bit less.
    let short = (1 << width) - 1 - most;
    let low = bits.take(width - 1)?;
    let value = if low < short || bits.take(1)? == 0 { low } else { low + (1 << (width - 1)) - short };
    i16::try_from(value).ok()?.checked_sub(1)
}

/// A state: its code, and the data that give the next state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FseState {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) base: u16,
}

/// The states of a table.
pub(super) struct Table {
    pub(super) log: u32,
    states: [FseState; STATES],
}

impl Table {
    /// Returns the table of a single code.
    pub(super) fn of_one(code: u8) -> Self {
        let mut states = [FseState::default(); STATES];
        states[0].code = code;
        Self { log: 0, states }
    }

    /// Returns the table for `counts`; `None` if they are invalid.
    pub(super) fn new(counts: &Counts) -> Option<Self> {
        let size = 1_usize << counts.log;
        let mut states = [FseState::default(); STATES];
        let states_used = states.get_mut(..size)?;
        let mut next = [0_u16; 64];
        let codes = || (0_u8..).zip(counts.frequencies.iter().take(counts.codes));
        let mut end = size;
        for (code, _) in codes().filter(|(_, count)| **count == -1) {
            end = end.checked_sub(1)?;
            states_used[end].code = code;
            next[usize::from(code)] = 1;
        }
        let step = (size >> 1) + (size >> 3) + 3;
        let mut at = 0;
        for (code, &count) in codes().filter(|(_, count)| **count > 0) {
            next[usize::from(code)] = count.unsigned_abs();
            for _ in 0..count {
                states_used.get_mut(at)?.code = code;
                at = (at + step) % size;
                // States from `end` on are occupied. All states are occupied only if nothing is left to
                // spread.
                while end > 0 && at >= end {
                    at = (at + step) % size;
                }
            }
        }
        for state in states_used {
            let next = next.get_mut(usize::from(state.code))?;
            let bits = counts.log.checked_sub(next.checked_ilog2()?)?;
            (state.bits, state.base) = (bits as u8, (*next << bits).checked_sub(1 << counts.log)?);
            *next += 1;
        }
        Some(Self { log: counts.log, states })
    }

    /// Returns a state by its number.
    pub(super) fn state(&self, number: u32) -> Option<FseState> {
        self.states.get(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_predefined_tables_are_those_of_the_rfc() {
        let tables: [(CodeKind, u32, &[i16]); 3] = [
            (
                CodeKind::LiteralLengths,
                6,
                &[
                    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1,
                    1, 1, -1, -1, -1, -1,
                ],
            ),
            (
                CodeKind::Offsets,
                5,
                &[1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1],
            ),
            (
                CodeKind::MatchLengths,
                6,
                &[
                    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
                ],
            ),
        ];
        for (kind, log, expected) in tables {
            let counts = Counts::read(kind.predefined(), kind).unwrap();
            assert_eq!((counts.log, &counts.frequencies[..counts.codes]), (log, expected), "{kind:?}");
            assert_eq!(counts.len, kind.predefined().len());
        }
        // Appendix A of the RFC: some states of literal lengths and of offsets.
        let states = |kind: CodeKind| Table::new(&Counts::read(kind.predefined(), kind).unwrap()).unwrap();
        let table = states(CodeKind::LiteralLengths);
        let state = |code, bits, base| Some(FseState { code, bits, base });
        assert_eq!(
            [0, 1, 2, 63].map(|at| table.state(at)),
            [state(0, 4, 0), state(0, 4, 16), state(1, 5, 32), state(32, 6, 0)]
        );
        let table = states(CodeKind::Offsets);
        assert_eq!([0, 1, 31].map(|at| table.state(at)), [state(0, 5, 0), state(6, 4, 0), state(24, 5, 0)]);
    }

    #[test]
    fn broken_descriptions_are_refused() {
        let good = CodeKind::Offsets.predefined();
        assert!((0..good.len() - 1).all(|len| Counts::read(&good[..len], CodeKind::Offsets).is_none()));
        // An accuracy of 20 bits, and one of 9 with a maximum of 8.
        assert!(Counts::read(&[0xff; 9], CodeKind::MatchLengths).is_none());
        assert!(Counts::read(&[0x04; 99], CodeKind::Offsets).is_none());
    }
}
