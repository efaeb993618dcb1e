//! Cards of a FITS header: 80 characters each.
//!
//! Cards look as `astropy.io.fits` writes them, except that floats keep all their digits.

use std::fmt::Write;

/// Length of a card and of its keyword, in bytes.
const CARD: usize = 80;
const KEYWORD: usize = 8;
/// Headers and data are padded to a multiple of this length.
pub(super) const RECORD: usize = 2880;
/// Maximum length of a text that fits in one card.
pub(super) const MAX_TEXT: usize = 68;
/// Maximum length of a text, and of a comment, in a continuation card.
const LONG_TEXT: usize = 67;
const LONG_COMMENT: usize = 64;

/// The value of a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'v> {
    /// No value.
    Undefined,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    Text(&'v str),
}

/// A sequence of cards.
#[derive(Clone, Debug, Default)]
pub(super) struct Cards(pub(super) Vec<u8>);

impl Cards {
    /// Adds those of the other cards whose keywords these do not have. `WCSAXES` comes first: it has to stand before all
    /// other world coordinates (FITS 4.0, section 8.2).
    pub(super) fn extend_missing(&mut self, others: &Self) {
        let cards = others.0.chunks_exact(CARD);
        let (first, rest): (Vec<_>, Vec<_>) = cards.partition(|card| card.starts_with(b"WCSAXES"));
        let mut is_missing = false;
        for card in first.into_iter().chain(rest) {
            let keyword = &card[..KEYWORD];
            if keyword != b"CONTINUE" {
                is_missing = !self.0.chunks_exact(CARD).any(|own| own.starts_with(keyword));
            }
            if is_missing {
                self.0.extend_from_slice(card);
            }
        }
    }

    /// Returns the keywords, in order.
    pub(super) fn keywords(&self) -> impl Iterator<Item = &str> {
        self.0.chunks_exact(CARD).map(keyword_of)
    }

    /// Returns the number that the card with a keyword has.
    pub(super) fn number(&self, keyword: &str) -> Option<f64> {
        let card = self.0.chunks_exact(CARD).find(|card| keyword_of(card) == keyword)?;
        let value = str::from_utf8(card).ok()?.get(KEYWORD..)?.strip_prefix("= ")?;
        value.split('/').next()?.trim().replace('D', "E").parse().ok()
    }

    /// Returns the text that the card with a keyword has, without blanks at its end.
    pub(super) fn text(&self, keyword: &str) -> Option<String> {
        let card = self.0.chunks_exact(CARD).find(|card| keyword_of(card) == keyword)?;
        let quoted =
            str::from_utf8(card).ok()?.get(KEYWORD..)?.strip_prefix("= ")?.trim_start().strip_prefix('\'')?;
        let end = quoted.find('\'')?;
        Some(quoted.get(..end)?.trim_end().to_owned())
    }

    /// Replaces the card with a keyword, or adds it at the end.
    pub(super) fn replace(&mut self, keyword: &str, value: Value<'_>, comment: &str) {
        let mut new = Self::default();
        new.set(keyword, value, comment);
        let place = self.0.chunks_exact(CARD).position(|card| keyword_of(card) == keyword);
        match place.and_then(|n| self.0.get_mut(n * CARD..(n + 1) * CARD)) {
            Some(card) if new.0.len() == CARD => card.copy_from_slice(&new.0),
            _ => self.extend(&new),
        }
    }

    /// Returns the cards with other keywords, where `rename` returns one. Its length is at most eight.
    pub(super) fn renamed(&self, rename: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut renamed = self.clone();
        for card in renamed.0.chunks_exact_mut(CARD) {
            if let Some(name) = rename(keyword_of(card)).filter(|name| name.len() <= KEYWORD) {
                card[..KEYWORD].copy_from_slice(format!("{name:<KEYWORD$}").as_bytes());
            }
        }
        renamed
    }

    /// Adds a card with a value that is known to fit.
    pub(super) fn set(&mut self, keyword: &str, value: Value<'_>, comment: &str) {
        let added = self.add(keyword, value, comment);
        debug_assert!(added.is_ok(), "{keyword}");
    }

    /// Adds a card, or several if its text is long.
    ///
    /// # Errors
    /// The reason why no card can hold the keyword, the value or the comment.
    pub(super) fn add(&mut self, keyword: &str, value: Value<'_>, comment: &str) -> Result<(), String> {
        let keyword = keyword.trim_end();
        for (what, text) in [("keyword", keyword), ("comment", comment)] {
            is_printable(text).then_some(()).ok_or_else(|| not_ascii(keyword, what))?;
        }
        if let Value::Text(text) = value {
            is_printable(text).then_some(()).ok_or_else(|| not_ascii(keyword, "value"))?;
        }
        let upper = keyword.to_ascii_uppercase();
        let is_plain = upper.len() <= KEYWORD
            && upper.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-'));
        match upper.as_str() {
            "" | "COMMENT" | "HISTORY" => self.comment(&upper, value),
            "END" | "CONTINUE" => Err(format!("{upper} is a keyword that can't have a value")),
            _ if is_plain => self.value(&format!("{upper:<KEYWORD$}= "), value, comment, true),
            _ if keyword.contains('=') => Err(format!("no keyword can be {keyword:?}")),
            _ => {
                let name = if upper.starts_with("HIERARCH ") {
                    keyword.get(9..).unwrap_or_default().trim()
                } else {
                    keyword.trim()
                };
                self.value(&format!("HIERARCH {name} = "), value, comment, name.len() <= KEYWORD)
            }
        }
    }

    /// Adds a commentary card, such as `COMMENT` or `HISTORY`: it has a text and no value.
    fn comment(&mut self, keyword: &str, value: Value<'_>) -> Result<(), String> {
        let text = match value {
            Value::Undefined => String::new(),
            Value::Text(text) => text.to_owned(),
            Value::Bool(value) => if value { "True" } else { "False" }.to_owned(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => float(value),
            Value::Complex(re, im) => format!("({}, {})", float(re), float(im)),
        };
        let mut rest = text.as_str();
        loop {
            let (part, more) = rest.split_at(rest.len().min(CARD - KEYWORD));
            self.push(&format!("{keyword:<KEYWORD$}{part}"));
            rest = more;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn value(&mut self, start: &str, value: Value<'_>, comment: &str, padded: bool) -> Result<(), String> {
        let keyword = start.trim_end_matches(['=', ' ']);
        let text = match value {
            Value::Undefined => String::new(),
            Value::Bool(value) => format!("{:>20}", if value { 'T' } else { 'F' }),
            Value::Int(value) => format!("{value:>20}"),
            Value::Float(value) if value.is_finite() => format!("{:>20}", float(value)),
            Value::Complex(re, im) if re.is_finite() && im.is_finite() => {
                format!("{:>20}", format!("({}, {})", float(re), float(im)))
            }
            Value::Float(value) => {
                return Err(format!("the value of {keyword} is {value}, and no card can hold it"));
            }
            Value::Complex(..) => {
                return Err(format!("a part of {keyword} is infinite or NaN, which no card can hold"));
            }
            Value::Text("") => "''".to_owned(),
            Value::Text(text) => format!("{:20}", format!("'{:8}'", text.replace('\'', "''"))),
        };
        let text = if padded { text.as_str() } else { text.trim() };
        // Like astropy, omits a blank if the value fits only without it.
        let shorter = start.replace(" = ", "= ");
        let start = if !padded && start.len() + text.len() == CARD + 1 { &shorter } else { start };
        if start.len() + text.trim_end().len() <= CARD {
            let mut card = format!("{start}{text}");
            if !comment.is_empty() {
                // Like astropy, cuts a comment that is too long.
                let _ = write!(card, " / {comment}");
            }
            self.push(&card[..card.len().min(CARD)]);
            return Ok(());
        }
        match value {
            Value::Text(unquoted) if start.len() + 16 <= CARD => {
                self.long_text(start, unquoted, comment);
                Ok(())
            }
            _ => Err(format!("the value of {keyword} is longer than a card")),
        }
    }

    /// Adds a text that continues in `CONTINUE` cards.
    fn long_text(&mut self, start: &str, text: &str, comment: &str) {
        let text = text.replace('\'', "''");
        let mut start = start;
        let text_parts = words(&text, LONG_TEXT + KEYWORD + 2 - start.len(), LONG_TEXT);
        for (n, part) in text_parts.iter().enumerate() {
            let more = if n + 1 < text_parts.len() || !comment.is_empty() { "&" } else { "" };
            self.push(&format!("{start}'{part}{more}'"));
            start = "CONTINUE  ";
        }
        let comment_parts =
            if comment.is_empty() { Vec::new() } else { words(comment, LONG_COMMENT, LONG_COMMENT) };
        for (n, part) in comment_parts.iter().enumerate() {
            let more = if n + 1 < comment_parts.len() { "&" } else { "" };
            self.push(&format!("CONTINUE  '{more}' / {part}"));
        }
    }

    /// Adds a card of at most 80 characters.
    fn push(&mut self, card: &str) {
        debug_assert!(card.len() <= CARD && card.is_ascii(), "{card}");
        self.0.extend_from_slice(card.as_bytes());
        self.0.resize(self.0.len().next_multiple_of(CARD), b' ');
    }

    /// Appends cards.
    pub(super) fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// Returns the whole header: the cards, `END`, and blanks to the end of a record.
    pub(super) fn header(mut self) -> Vec<u8> {
        self.push("END");
        self.0.resize(self.0.len().next_multiple_of(RECORD), b' ');
        self.0
    }
}

fn keyword_of(card: &[u8]) -> &str {
    str::from_utf8(&card[..KEYWORD]).unwrap_or_default().trim_end()
}

/// Splits an ASCII text into parts of at most `first` characters, then at most `width`. It is split after a
/// blank, or else within a word, but never between the two quotes of an escaped quote.
fn words(text: &str, first: usize, width: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut width_here = first;
    while rest.len() >= width_here {
        let blank = rest[..width_here].rfind(' ').map(|at| at + 1);
        let at = blank.unwrap_or_else(|| {
            let quotes = rest[..width_here].bytes().rev().take_while(|byte| *byte == b'\'').count();
            width_here - quotes % 2
        });
        let (part, more) = rest.split_at(at);
        parts.push(part);
        (rest, width_here) = (more, width);
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

/// True if a card can hold the text.
pub(super) fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns the name of a node as that of an image, a table or a column: in ASCII, and cut off at [`MAX_TEXT`].
pub(super) fn name(of_node: &str) -> String {
    let mut name = ascii(of_node);
    name.truncate(MAX_TEXT);
    name
}

/// Percent-encodes a path component in ASCII. Trailing blanks and ampersands are encoded, too: FITS drops
/// blanks at the end of a value, and astropy takes a final ampersand for the continuation mark.
pub(super) fn ascii(part: &str) -> String {
    let hex = |byte: u8| format!("%{byte:02X}");
    let kept = part.trim_end_matches([' ', '&']).len();
    let mut ascii = String::with_capacity(part.len());
    for (at, character) in part.char_indices() {
        match character {
            ' '..='~' if at < kept => ascii.push(character),
            _ => ascii.extend(character.encode_utf8(&mut [0; 4]).bytes().map(hex)),
        }
    }
    ascii
}

fn not_ascii(keyword: &str, what: &str) -> String {
    let keyword = keyword.escape_debug();
    format!("the {what} of the card \"{keyword}\" has a character that is not in printable ASCII")
}

/// Formats a finite number as Python's `str` does, with `E` in place of `e`.
fn float(value: f64) -> String {
    let scientific = format!("{value:E}");
    let (digits, exponent) = scientific.split_once('E').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        format!("{value:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}E{sign}{:02}", exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cards without trailing blanks.
    fn cards(keyword: &str, value: Value<'_>, comment: &str) -> Vec<String> {
        let mut cards = Cards::default();
        cards.add(keyword, value, comment).unwrap();
        let text = String::from_utf8(cards.0).unwrap();
        assert_eq!(text.len() % CARD, 0);
        (0..text.len() / CARD).map(|n| text[n * CARD..][..CARD].trim_end().to_owned()).collect()
    }

    #[test]
    fn the_number_of_world_axes_comes_before_them() {
        let mut others = Cards::default();
        for keyword in ["CRPIX1", "OWN", "WCSAXES"] {
            others.set(keyword, Value::Int(1), "");
        }
        let mut cards = Cards::default();
        cards.set("OWN", Value::Int(2), "");
        cards.extend_missing(&others);
        let keywords: Vec<&[u8]> =
            cards.0.chunks_exact(CARD).map(|card| card[..KEYWORD].trim_ascii()).collect();
        assert_eq!(keywords, [&b"OWN"[..], b"WCSAXES", b"CRPIX1"]);
    }

    /// Expected texts are from astropy 8.0.2: `fits.Card(keyword, value, comment).image`.
    #[test]
    fn cards_are_those_of_astropy() {
        for (keyword, value, comment, expected) in [
            ("SIMPLE", Value::Bool(true), "conforms", "SIMPLE  =                    T / conforms"),
            ("EXTEND", Value::Bool(false), "", "EXTEND  =                    F"),
            ("bitpix", Value::Int(-32), "x", "BITPIX  =                  -32 / x"),
            ("EXTNAME", Value::Text("SCI"), "name", "EXTNAME = 'SCI     '           / name"),
            ("OBJECT", Value::Text("it's"), "", "OBJECT  = 'it''s   '"),
            ("EMPTY", Value::Text(""), "c", "EMPTY   = '' / c"),
            ("NONE", Value::Undefined, "c", "NONE    =  / c"),
            ("F", Value::Float(1.0), "", "F       =                  1.0"),
            ("F", Value::Float(1e-5), "", "F       =                1E-05"),
            ("F", Value::Float(-1.5e300), "", "F       =            -1.5E+300"),
            ("F", Value::Float(1e16), "", "F       =                1E+16"),
            ("F", Value::Float(1e15), "", "F       =   1000000000000000.0"),
            ("F", Value::Float(0.0001), "", "F       =               0.0001"),
            ("F", Value::Float(-0.0), "", "F       =                 -0.0"),
            ("", Value::Text("Top Level"), "lost", "        Top Level"),
            ("COMMENT", Value::Text("hello"), "", "COMMENT hello"),
            ("", Value::Undefined, "", ""),
            ("ESO DET ID", Value::Int(5), "c", "HIERARCH ESO DET ID = 5 / c"),
            ("HIERARCH a.b", Value::Text("x"), "c", "HIERARCH a.b = 'x       '           / c"),
            ("HIERARCH a.b", Value::Int(5), "", "HIERARCH a.b =                    5"),
            ("C", Value::Complex(1.0, 2.0), "c", "C       =           (1.0, 2.0) / c"),
            ("C", Value::Complex(1e300, -2.5e-7), "", "C       =   (1E+300, -2.5E-07)"),
        ] {
            assert_eq!(cards(keyword, value, comment), [expected]);
        }
        // astropy cuts off digits of floats longer than 20 characters.
        let long = cards("CDELT1", Value::Float(-5.630_555_555_555_556e-6), "");
        assert_eq!(long, ["CDELT1  = -5.630555555555556E-06"]);
    }

    #[test]
    fn long_texts_and_comments_take_several_cards() {
        let text = "x".repeat(69);
        let expected = [format!("LONG    = '{}&'", &text[..67]), "CONTINUE  'xx'".to_owned()];
        assert_eq!(cards("LONG", Value::Text(&text), ""), expected);
        assert_eq!(cards("LONG", Value::Text(&text[..68]), ""), [format!("LONG    = '{}'", &text[..68])]);
        let with_comment = cards("LONG", Value::Text(&text), &"c".repeat(65));
        assert_eq!(
            with_comment[1..],
            ["CONTINUE  'xx&'", &format!("CONTINUE  '&' / {}", "c".repeat(64)), "CONTINUE  '' / c"]
        );
        // An escaped quote is not split.
        let quotes = cards("LONG", Value::Text(&"'".repeat(40)), "");
        assert_eq!(
            quotes,
            [format!("LONG    = '{}&'", "''".repeat(33)), format!("CONTINUE  '{}'", "''".repeat(7))]
        );
        let words = cards("LONG", Value::Text(&"word ".repeat(20)), "");
        assert_eq!(words[0], format!("LONG    = '{}&'", "word ".repeat(13)));
        let cut = cards("N", Value::Int(1), &"c".repeat(90));
        assert_eq!(cut, [format!("N       =                    1 / {}", "c".repeat(47))]);
        let comment = cards("HISTORY", Value::Text(&"h".repeat(100)), "");
        assert_eq!(comment, [format!("HISTORY {}", "h".repeat(72)), format!("HISTORY {}", "h".repeat(28))]);
    }

    #[test]
    fn what_no_card_holds_is_refused() {
        let refused =
            |keyword: &str, value, comment: &str| Cards::default().add(keyword, value, comment).is_err();
        assert!(refused("A", Value::Float(f64::NAN), ""));
        assert!(refused("A", Value::Float(f64::INFINITY), ""));
        assert!(refused("A", Value::Text("é"), ""));
        assert!(refused("A", Value::Text("a\nb"), ""));
        assert!(refused("A", Value::Int(1), "µm"));
        assert!(refused("a=b", Value::Int(1), ""));
        assert!(refused("END", Value::Undefined, ""));
        assert!(refused("CONTINUE", Value::Text("x"), ""));
        assert!(refused("Ä", Value::Int(1), ""));
        assert!(refused(&"k ".repeat(60), Value::Int(1), ""));
    }

    #[test]
    fn a_header_ends_with_its_record() {
        let mut cards = Cards::default();
        for n in 0..35 {
            cards.set("N", Value::Int(n), "");
        }
        let header = cards.clone().header();
        assert_eq!((header.len(), &header[35 * 80..35 * 80 + 5]), (2880, &b"END  "[..]));
        cards.set("N", Value::Int(0), "");
        assert_eq!(cards.header().len(), 5760);
    }
}
