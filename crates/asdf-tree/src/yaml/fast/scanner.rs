//! libyaml's scanner, which splits a text in memory into tokens.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::{NeedsLibyaml, Result};
use crate::limits::MAX_DEPTH;
use crate::yaml::event::{Mark, Style};

/// Maximum length of a key before its `:`, in bytes.
const MAX_KEY: u32 = 1024;

/// A token without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    StreamEnd,
    /// The line `%YAML`.
    Version,
    /// A line `%TAG`, with handle and prefix.
    TagLine(&'t str, &'t str),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'t str),
    Anchor(&'t str),
    /// A tag, with handle and suffix. The handle of `!<...>` is empty.
    Tag(&'t str, &'t str),
    Scalar(Cow<'t, str>, Style),
}

/// A [`Mark`] in half its size: most of a scanner's time goes into moving tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenPlace {
    pub(super) at: u32,
    line: u32,
    column: u32,
}

impl TokenPlace {
    /// The start of a text.
    pub(super) const START: Self = Self { at: 0, line: 1, column: 1 };
}

impl From<TokenPlace> for Mark {
    fn from(TokenPlace { at, line, column }: TokenPlace) -> Self {
        Self { offset: at.into(), line: line.into(), column: column.into() }
    }
}

/// A token and its place.
#[derive(Debug)]
pub(super) struct PositionedToken<'t> {
    pub(super) token: Token<'t>,
    pub(super) start: TokenPlace,
    pub(super) end: TokenPlace,
}

const _: () = assert!(size_of::<PositionedToken<'_>>() <= 64);

/// A place where a key may have begun.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// The number of the token that the key would begin with.
    token_number: u64,
    place: TokenPlace,
}

#[derive(Debug)]
pub(super) struct Scanner<'t> {
    pub(super) text: &'t str,
    is_ascii: bool,
    pub(super) at: usize,
    /// The current line, from 0.
    line: u32,
    /// The start of the line, and the number of UTF-8 continuation bytes in it so far.
    line_start: usize,
    inner_bytes: usize,
    tokens: VecDeque<PositionedToken<'t>>,
    /// Number of tokens consumed.
    parsed: u64,
    simple_keys: Vec<SimpleKey>,
    /// The index in `simple_keys` of the first key that may still be possible.
    first_key: usize,
    pub(super) simple_key_allowed: bool,
    pub(super) indent: i64,
    indents: Vec<i64>,
    pub(super) tag_lines: usize,
    has_ended: bool,
}

/// True if a byte ends a word: a blank, a line break, or 0 at the end of the text.
pub(super) fn is_blank_or_end(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | 0)
}

/// True if a text has no characters that need libyaml.
fn is_plain(text: &str) -> bool {
    let odd = |byte: &u8| (*byte < b' ' && *byte != b'\n') || *byte == 0x7f;
    // The text is tested in pieces, so that the inner loop has no early exit and is vectorized.
    if text.as_bytes().chunks(4096).any(|piece| piece.iter().fold(false, |any, byte| any | odd(byte))) {
        return false;
    }
    let rare = |c: char| {
        matches!(c, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    text.is_ascii() || !text.contains(rare)
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t [u8]) -> Option<Self> {
        let text =
            std::str::from_utf8(text).ok().filter(|text| text.len() < u32::MAX as usize && is_plain(text))?;
        Some(Self {
            text,
            is_ascii: text.is_ascii(),
            at: 0,
            line: 0,
            line_start: 0,
            inner_bytes: 0,
            tokens: VecDeque::new(),
            parsed: 0,
            simple_keys: vec![SimpleKey::default()],
            first_key: 0,
            simple_key_allowed: true,
            indent: -1,
            indents: Vec::new(),
            tag_lines: 0,
            has_ended: false,
        })
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> Result<&mut PositionedToken<'t>> {
        if self.needs_more() {
            self.scan()?;
        }
        self.tokens.front_mut().ok_or(NeedsLibyaml)
    }

    /// Scans until the next token is known. Not inlined, because most calls of [`peek`](Self::peek) need no scan.
    #[inline(never)]
    fn scan(&mut self) -> Result<()> {
        while self.needs_more() {
            self.fetch()?;
            self.stale_simple_keys()?;
        }
        Ok(())
    }

    /// Consumes the next token.
    pub(super) fn skip(&mut self) {
        self.tokens.pop_front();
        self.parsed += 1;
    }

    /// True if the next token is not known yet, because it may turn out to be a key.
    fn needs_more(&self) -> bool {
        let first = self.simple_keys.get(self.first_key).filter(|key| key.possible);
        self.tokens.is_empty() || first.is_some_and(|key| key.token_number == self.parsed)
    }

    /// Returns the byte `n` bytes after the current position; 0 past the end.
    pub(super) fn byte(&self, n: usize) -> u8 {
        self.text.as_bytes().get(self.at + n).copied().unwrap_or(0)
    }

    pub(super) fn column(&self) -> i64 {
        (self.at - self.line_start - self.inner_bytes) as i64
    }

    pub(super) fn place(&self) -> TokenPlace {
        let column = self.at - self.line_start - self.inner_bytes;
        TokenPlace { at: self.at as u32, line: self.line + 1, column: column as u32 + 1 }
    }

    /// Advances to `to` in the same line.
    pub(super) fn advance(&mut self, to: usize) {
        if !self.is_ascii {
            let passed = &self.text.as_bytes()[self.at..to];
            self.inner_bytes += passed.iter().filter(|byte| matches!(byte, 0x80..=0xbf)).count();
        }
        self.at = to;
    }

    /// Advances past a line break.
    pub(super) fn next_line(&mut self) {
        self.at += 1;
        self.line += 1;
        (self.line_start, self.inner_bytes) = (self.at, 0);
    }

    /// Returns the end of the line.
    pub(super) fn line_end(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        self.at + memchr::memchr(b'\n', rest).unwrap_or(rest.len())
    }

    pub(super) fn at_document_indicator(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        self.at == self.line_start
            && (rest.starts_with(b"---") || rest.starts_with(b"..."))
            && is_blank_or_end(self.byte(3))
    }

    pub(super) fn in_flow(&self) -> bool {
        self.simple_keys.len() > 1
    }

    fn stale_simple_keys(&mut self) -> Result<()> {
        let line = self.line + 1;
        let at = self.at as u32;
        // Keys are in order of nesting and of the text. If a key is not stale, neither are the keys after it.
        while let Some(key) = self.simple_keys.get_mut(self.first_key) {
            if key.possible {
                if key.place.line >= line && key.place.at.saturating_add(MAX_KEY) >= at {
                    break;
                }
                if key.required {
                    return Err(NeedsLibyaml);
                }
                key.possible = false;
            }
            self.first_key += 1;
        }
        // The innermost key may become possible again.
        self.first_key = self.first_key.min(self.simple_keys.len().saturating_sub(1));
        Ok(())
    }

    pub(super) fn save_simple_key(&mut self) -> Result<()> {
        let required = !self.in_flow() && self.indent == self.column();
        if self.simple_key_allowed {
            let token_number = self.parsed + self.tokens.len() as u64;
            let key = SimpleKey { possible: true, required, token_number, place: self.place() };
            self.remove_simple_key()?;
            *self.simple_keys.last_mut().ok_or(NeedsLibyaml)? = key;
        }
        Ok(())
    }

    pub(super) fn remove_simple_key(&mut self) -> Result<()> {
        let key = self.simple_keys.last_mut().ok_or(NeedsLibyaml)?;
        if key.possible && key.required {
            return Err(NeedsLibyaml);
        }
        key.possible = false;
        Ok(())
    }

    /// Begins a block collection at `column` if that is deeper than the current indent. `number` is the token
    /// before which it begins.
    fn roll_indent(&mut self, column: i64, number: Option<u64>, token: Token<'t>, place: TokenPlace) {
        if self.in_flow() || self.indent >= column {
            return;
        }
        self.indents.push(self.indent);
        self.indent = column;
        self.insert(number, PositionedToken { token, start: place, end: place });
    }

    fn insert(&mut self, number: Option<u64>, token: PositionedToken<'t>) {
        let index = number.and_then(|number| usize::try_from(number - self.parsed).ok());
        match index.filter(|index| *index < self.tokens.len()) {
            Some(index) => self.tokens.insert(index, token),
            None => self.tokens.push_back(token),
        }
    }

    pub(super) fn unroll_indent(&mut self, column: i64) {
        if self.in_flow() {
            return;
        }
        let place = self.place();
        while self.indent > column {
            self.tokens.push_back(PositionedToken { token: Token::BlockEnd, start: place, end: place });
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    /// Scans at least one token.
    fn fetch(&mut self) -> Result<()> {
        if self.has_ended {
            return Err(NeedsLibyaml);
        }
        self.pass_blanks();
        self.stale_simple_keys()?;
        self.unroll_indent(self.column());
        if self.at >= self.text.len() {
            return self.stream_end();
        }
        let byte = self.byte(0);
        let next = self.byte(1);
        if self.at == self.line_start {
            if byte == b'%' {
                return self.directive();
            }
            if self.at_document_indicator() {
                return self.document_indicator(byte);
            }
        }
        let blank_follows = is_blank_or_end(next);
        match byte {
            b'[' => self.flow_start(Token::FlowSequenceStart),
            b'{' => self.flow_start(Token::FlowMappingStart),
            b']' => self.flow_end(Token::FlowSequenceEnd),
            b'}' => self.flow_end(Token::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if blank_follows => self.block_entry(),
            b'?' if self.in_flow() || blank_follows => Err(NeedsLibyaml),
            b':' if self.in_flow() || blank_follows => self.value(),
            b'*' | b'&' => self.anchor(byte == b'*'),
            b'!' => self.tag(),
            b'|' | b'>' if !self.in_flow() => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                let scalar = self.block_scalar(byte == b'|')?;
                self.tokens.push_back(scalar);
                Ok(())
            }
            b'\'' | b'"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let scalar = self.flow_scalar(byte == b'\'')?;
                self.tokens.push_back(scalar);
                Ok(())
            }
            b'|' | b'>' | b'#' | b'%' | b'@' | b'`' => Err(NeedsLibyaml),
            _ => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let scalar = self.plain_scalar()?;
                self.tokens.push_back(scalar);
                Ok(())
            }
        }
    }

    fn pass_blanks(&mut self) {
        loop {
            while self.byte(0) == b' ' {
                self.at += 1;
            }
            if self.byte(0) == b'#' {
                self.advance(self.line_end());
            }
            if self.byte(0) != b'\n' {
                return;
            }
            self.next_line();
            if !self.in_flow() {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Adds a token of `len` bytes.
    pub(super) fn push(&mut self, token: Token<'t>, len: usize) {
        let start = self.place();
        self.at += len;
        self.tokens.push_back(PositionedToken { token, start, end: self.place() });
    }

    fn stream_end(&mut self) -> Result<()> {
        if self.column() != 0 {
            self.line += 1;
            (self.line_start, self.inner_bytes) = (self.at, 0);
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        (self.simple_key_allowed, self.has_ended) = (false, true);
        self.push(Token::StreamEnd, 0);
        Ok(())
    }

    fn document_indicator(&mut self, byte: u8) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(if byte == b'-' { Token::DocumentStart } else { Token::DocumentEnd }, 3);
        Ok(())
    }

    fn flow_start(&mut self, token: Token<'t>) -> Result<()> {
        self.save_simple_key()?;
        if self.simple_keys.len() > MAX_DEPTH {
            return Err(NeedsLibyaml);
        }
        self.simple_keys.push(SimpleKey::default());
        self.simple_key_allowed = true;
        self.push(token, 1);
        Ok(())
    }

    fn flow_end(&mut self, token: Token<'t>) -> Result<()> {
        self.remove_simple_key()?;
        if self.in_flow() {
            self.simple_keys.pop();
        }
        self.simple_key_allowed = false;
        self.push(token, 1);
        Ok(())
    }

    fn flow_entry(&mut self) -> Result<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push(Token::FlowEntry, 1);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<()> {
        if !self.in_flow() {
            if !self.simple_key_allowed {
                return Err(NeedsLibyaml);
            }
            self.roll_indent(self.column(), None, Token::BlockSequenceStart, self.place());
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push(Token::BlockEntry, 1);
        Ok(())
    }

    fn value(&mut self) -> Result<()> {
        let key = *self.simple_keys.last().ok_or(NeedsLibyaml)?;
        if key.possible {
            let number = Some(key.token_number);
            let place = key.place;
            self.insert(number, PositionedToken { token: Token::Key, start: place, end: place });
            self.roll_indent(i64::from(place.column) - 1, number, Token::BlockMappingStart, place);
            self.simple_keys.last_mut().ok_or(NeedsLibyaml)?.possible = false;
            self.simple_key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.simple_key_allowed {
                    return Err(NeedsLibyaml);
                }
                self.roll_indent(self.column(), None, Token::BlockMappingStart, self.place());
            }
            self.simple_key_allowed = !self.in_flow();
        }
        self.push(Token::Value, 1);
        Ok(())
    }
}
