//! Reads the header of a header/data unit (HDU) of a FITS file.

use std::collections::HashMap;

use seekable::error::Result;

use crate::container::ReadAt;

/// Length of a record: headers and data are padded to whole records.
pub(super) const RECORD: u64 = 2880;
/// Length of a card.
pub(super) const CARD: usize = 80;
/// Bytes read at first, and from then on at once.
const FIRST: usize = 4 * RECORD as usize;
const STEP: usize = 16 * RECORD as usize;
/// Maximum length of a header in bytes.
const MAX_HEADER: usize = 4 << 20;

/// The cards of a header, without `END`.
#[derive(Debug, Default)]
pub(super) struct Header {
    cards: Vec<u8>,
    /// The first card with each keyword.
    by_keyword: HashMap<[u8; 8], usize>,
}

impl Header {
    /// Reads the header at an offset. Returns the offset of its data, too; `None` if there is no header.
    pub(super) fn read(read: ReadAt<'_>, at: u64) -> Result<Option<(Self, u64)>> {
        let mut header = Self::default();
        let mut bytes = Vec::new();
        let mut seen = 0;
        loop {
            let from = bytes.len();
            let step = if from == 0 { FIRST } else { STEP };
            bytes.resize(from + step, 0);
            let Some(place) = at.checked_add(from as u64) else { return Ok(None) };
            let count = read_fully(read, place, &mut bytes[from..])?;
            bytes.truncate(from + count);
            while let Some(card) = bytes.get(seen..seen + CARD) {
                let keyword: [u8; 8] = std::array::from_fn(|n| card[n]);
                if !keyword.iter().all(|byte| matches!(byte, b' '..=b'~')) {
                    return Ok(None);
                }
                if keyword == *b"END     " {
                    bytes.truncate(seen);
                    header.cards = bytes;
                    let len = (seen + CARD).next_multiple_of(RECORD as usize) as u64;
                    return Ok(at.checked_add(len).map(|end| (header, end)));
                }
                header.by_keyword.entry(keyword).or_insert(seen);
                seen += CARD;
            }
            if count < step || bytes.len() > MAX_HEADER {
                return Ok(None);
            }
        }
    }

    /// Returns the cards.
    pub(super) fn cards(&self) -> impl Iterator<Item = &[u8]> {
        self.cards.chunks_exact(CARD)
    }

    /// Returns the value of a card without its comment: a number, `T` or `F`, or a text in quotes.
    fn value(&self, keyword: &str) -> Option<&str> {
        let mut key = [b' '; 8];
        key.get_mut(..keyword.len())?.copy_from_slice(keyword.as_bytes());
        let card = self.cards.get(*self.by_keyword.get(&key)?..)?.get(..CARD)?;
        let value = card.strip_prefix(&key)?.strip_prefix(b"= ")?;
        let value = std::str::from_utf8(value).ok()?.trim();
        if value.starts_with('\'') {
            return Some(value);
        }
        Some(value.split('/').next().unwrap_or_default().trim())
    }

    /// Returns an integer.
    pub(super) fn integer(&self, keyword: &str) -> Option<i64> {
        self.value(keyword)?.parse().ok()
    }

    /// Returns a number from 0 on.
    pub(super) fn count(&self, keyword: &str) -> Option<u64> {
        self.value(keyword)?.parse().ok()
    }

    /// Returns a number, which may be written as Fortran does.
    pub(super) fn float(&self, keyword: &str) -> Option<f64> {
        self.value(keyword)?.replace(['D', 'd'], "E").parse().ok()
    }

    /// True if a logical value is `T`.
    pub(super) fn is_true(&self, keyword: &str) -> bool {
        self.value(keyword) == Some("T")
    }

    /// Returns a text without trailing blanks.
    pub(super) fn text(&self, keyword: &str) -> Option<String> {
        let mut rest = self.value(keyword)?.strip_prefix('\'')?.chars().peekable();
        let mut text = String::new();
        while let Some(character) = rest.next() {
            if character == '\'' && rest.next_if_eq(&'\'').is_none() {
                break;
            }
            text.push(character);
        }
        text.truncate(text.trim_end_matches(' ').len());
        Some(text)
    }
}

/// Reads until `buf` is full or the file ends; returns the number of bytes.
pub(super) fn read_fully(read: ReadAt<'_>, at: u64, buf: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match read(at.saturating_add(done as u64), &mut buf[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}
