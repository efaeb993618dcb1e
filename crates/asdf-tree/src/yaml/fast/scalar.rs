//! Plain, quoted and block scalars.

use std::borrow::Cow;

use super::scanner::{PositionedToken, Scanner, Token, TokenPlace, is_blank_or_end};
use super::{NeedsLibyaml, Result};
use crate::yaml::event::Style;

/// The text of a scalar, borrowed as long as it is one piece of the input.
#[derive(Debug)]
struct ScalarText<'t> {
    text: &'t str,
    /// The start of the piece in `text`; `to` is its end.
    from: usize,
    to: usize,
    own: Option<String>,
}

impl<'t> ScalarText<'t> {
    /// Creates the empty text of a scalar that begins at `from` in the input.
    fn new(text: &'t str, from: usize) -> Self {
        Self { text, from, to: from, own: None }
    }

    /// Appends a range of the input.
    fn add(&mut self, from: usize, to: usize) {
        match &mut self.own {
            Some(own) => own.push_str(&self.text[from..to]),
            None if self.from == self.to => (self.from, self.to) = (from, to),
            None if self.to == from => self.to = to,
            None => {
                let text = self.text;
                self.own().push_str(&text[from..to]);
            }
        }
    }

    /// Returns the text as an owned string; the first call copies it.
    fn own(&mut self) -> &mut String {
        self.own.get_or_insert_with(|| self.text[self.from..self.to].to_owned())
    }

    /// Appends the result of line folding: a single break becomes a blank, further breaks stay.
    fn fold(&mut self, further_breaks: usize) {
        match further_breaks {
            0 => self.own().push(' '),
            _ => self.breaks(further_breaks),
        }
    }

    fn breaks(&mut self, count: usize) {
        if count > 0 {
            self.own().extend(std::iter::repeat_n('\n', count));
        }
    }

    fn into_text(self) -> Cow<'t, str> {
        match self.own {
            Some(own) => Cow::Owned(own),
            None => Cow::Borrowed(&self.text[self.from..self.to]),
        }
    }
}

/// Bytes that may end a word of a plain scalar.
const ENDS: [bool; 256] = {
    let mut ends = [false; 256];
    let stops = b" \n:,[]{}";
    let mut n = 0;
    while n < stops.len() {
        ends[stops[n] as usize] = true;
        n += 1;
    }
    ends
};

impl<'t> Scanner<'t> {
    fn scalar(
        value: ScalarText<'t>,
        style: Style,
        start: TokenPlace,
        end: TokenPlace,
    ) -> PositionedToken<'t> {
        PositionedToken { token: Token::Scalar(value.into_text(), style), start, end }
    }

    pub(super) fn plain_scalar(&mut self) -> Result<PositionedToken<'t>> {
        let start = self.place();
        let mut end = self.place();
        let indent = self.indent + 1;
        let in_flow = self.in_flow();
        let mut value = ScalarText::new(self.text, self.at);
        // `broken` is true if a line has ended since the last word; `further` counts the line breaks after
        // the first one.
        let mut broken = false;
        let mut further = 0;
        loop {
            if self.at_document_indicator() || self.byte(0) == b'#' {
                break;
            }
            let to = self.plain_run(in_flow)?;
            if to > self.at {
                if broken {
                    value.fold(further);
                } else {
                    // Includes the blanks before the word.
                    value.add(end.at as usize, self.at);
                }
                value.add(self.at, to);
                (broken, further) = (false, 0);
                self.advance(to);
                end = self.place();
            }
            if !matches!(self.byte(0), b' ' | b'\n') {
                break;
            }
            loop {
                match self.byte(0) {
                    b' ' => self.at += 1,
                    b'\n' => {
                        self.next_line();
                        further += usize::from(broken);
                        broken = true;
                    }
                    _ => break,
                }
            }
            if !in_flow && self.column() < indent {
                break;
            }
        }
        if broken {
            self.simple_key_allowed = true;
        }
        Ok(Self::scalar(value, Style::Plain, start, end))
    }

    /// Returns the end of a word of a plain scalar.
    fn plain_run(&self, in_flow: bool) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let mut to = self.at;
        while let Some(byte) = bytes.get(to) {
            if ENDS[usize::from(*byte)] {
                let next = bytes.get(to + 1).copied().unwrap_or(0);
                match byte {
                    b' ' | b'\n' => break,
                    b':' if in_flow && matches!(next, b',' | b'?' | b'[' | b']' | b'{' | b'}') => {
                        return Err(NeedsLibyaml);
                    }
                    b':' if is_blank_or_end(next) => break,
                    b':' => {}
                    _ if in_flow => break,
                    _ => {}
                }
            }
            to += 1;
        }
        Ok(to)
    }

    pub(super) fn flow_scalar(&mut self, single: bool) -> Result<PositionedToken<'t>> {
        let start = self.place();
        let (quote, style) = if single { (b'\'', Style::SingleQuoted) } else { (b'"', Style::DoubleQuoted) };
        self.at += 1;
        let mut value = ScalarText::new(self.text, self.at);
        loop {
            if self.at_document_indicator() || self.at >= self.text.len() {
                return Err(NeedsLibyaml);
            }
            // True if a backslash joins the line with the next.
            let joined = self.flow_run(&mut value, quote)?;
            if self.byte(0) == quote {
                break;
            }
            // The scanner is at the end of a line, or already on the next line if the two were joined.
            let mut broken = joined;
            let mut further = 0;
            loop {
                match self.byte(0) {
                    b' ' => self.at += 1,
                    b'\n' => {
                        further += usize::from(broken);
                        broken = true;
                        self.next_line();
                    }
                    _ => break,
                }
            }
            if joined { value.breaks(further) } else { value.fold(further) }
        }
        self.at += 1;
        Ok(Self::scalar(value, style, start, self.place()))
    }

    /// Reads a quoted scalar up to the end of the line or the closing quote. True if a backslash has joined
    /// the line with the next; the scanner is then on the next line.
    fn flow_run(&mut self, value: &mut ScalarText<'t>, quote: u8) -> Result<bool> {
        let bytes = self.text.as_bytes();
        loop {
            // Blanks within a line are kept.
            let rest = &bytes[self.at..];
            let second = if quote == b'"' { b'\\' } else { quote };
            let found = memchr::memchr3(quote, second, b'\n', rest).ok_or(NeedsLibyaml)?;
            let to = self.at + found;
            let byte = rest[found];
            if byte == b'\n' {
                // Blanks before a line break are dropped.
                let words = self.text[self.at..to].trim_end_matches(' ').len();
                value.add(self.at, self.at + words);
                self.advance(self.at + words);
                return Ok(false);
            }
            value.add(self.at, to);
            self.advance(to);
            match (byte, self.byte(1)) {
                (b'\'', b'\'') if quote == b'\'' => {
                    // Two quotes stand for one.
                    value.add(to, to + 1);
                    value.own();
                    self.at += 2;
                }
                (b'\\', b'\n') if quote == b'"' => {
                    self.at += 1;
                    self.next_line();
                    return Ok(true);
                }
                (b'\\', escaped) if quote == b'"' => self.escape(value, escaped)?,
                _ => return Ok(false),
            }
        }
    }

    fn escape(&mut self, value: &mut ScalarText<'t>, escaped: u8) -> Result<()> {
        let mut digits = 0;
        let meant = match escaped {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' => '\t',
            b'n' => '\n',
            b'v' => '\x0b',
            b'f' => '\x0c',
            b'r' => '\r',
            b'e' => '\x1b',
            b' ' | b'"' | b'/' | b'\\' => char::from(escaped),
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' | b'u' | b'U' => {
                digits = match escaped {
                    b'x' => 2,
                    b'u' => 4,
                    _ => 8,
                };
                let code = self.text.get(self.at + 2..self.at + 2 + digits).ok_or(NeedsLibyaml)?;
                if !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(NeedsLibyaml);
                }
                u32::from_str_radix(code, 16).ok().and_then(char::from_u32).ok_or(NeedsLibyaml)?
            }
            _ => return Err(NeedsLibyaml),
        };
        value.own().push(meant);
        self.at += 2 + digits;
        Ok(())
    }

    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<PositionedToken<'t>> {
        let start = self.place();
        self.at += 1;
        let mut chomping = None;
        let mut increment = 0;
        for _ in 0..2 {
            match self.byte(0) {
                byte @ (b'+' | b'-') if chomping.is_none() => chomping = Some(byte),
                byte @ b'1'..=b'9' if increment == 0 => increment = i64::from(byte - b'0'),
                _ => break,
            }
            self.at += 1;
        }
        while self.byte(0) == b' ' {
            self.at += 1;
        }
        if self.byte(0) == b'#' {
            self.advance(self.line_end());
        }
        match self.byte(0) {
            b'\n' => self.next_line(),
            0 => {}
            _ => return Err(NeedsLibyaml),
        }
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let mut value = ScalarText::new(self.text, self.at);
        // `broken` is true if a line break is pending; `further` counts the empty lines after it.
        let mut broken = false;
        let mut further = 0;
        let mut leading_blank = false;
        let mut end = self.block_breaks(&mut indent, &mut further);
        while self.column() == indent && self.at < self.text.len() {
            let blank = self.byte(0) == b' ';
            if !literal && broken && !leading_blank && !blank {
                if further == 0 {
                    value.own().push(' ');
                }
            } else {
                value.breaks(usize::from(broken));
            }
            value.breaks(further);
            (leading_blank, further) = (blank, 0);
            let to = self.line_end();
            value.add(self.at, to);
            self.advance(to);
            broken = self.byte(0) == b'\n';
            if broken {
                self.next_line();
            }
            end = self.block_breaks(&mut indent, &mut further);
        }
        if chomping != Some(b'-') {
            value.breaks(usize::from(broken));
        }
        if chomping == Some(b'+') {
            value.breaks(further);
        }
        Ok(Self::scalar(value, if literal { Style::Literal } else { Style::Folded }, start, end))
    }

    /// Skips indentation and empty lines, and detects the indentation if `indent` is 0. Returns the mark
    /// after the last line break.
    fn block_breaks(&mut self, indent: &mut i64, breaks: &mut usize) -> TokenPlace {
        let mut end = self.place();
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.byte(0) == b' ' {
                self.at += 1;
            }
            deepest = deepest.max(self.column());
            if self.byte(0) != b'\n' {
                break;
            }
            self.next_line();
            *breaks += 1;
            end = self.place();
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        end
    }
}
