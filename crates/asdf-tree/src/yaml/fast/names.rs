//! Directives, anchors, aliases and tags.

use super::scanner::{Scanner, Token, is_blank_or_end};
use super::{NeedsLibyaml, Result};

/// Maximum number of `%TAG` lines. libyaml may read more.
const MAX_TAG_LINES: usize = 100;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// True for bytes of a tag. `verbatim` is for a tag between `<` and `>`, or a `%TAG` prefix.
fn is_uri(byte: u8, verbatim: bool) -> bool {
    is_word(byte)
        || matches!(byte, b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b'.' | b'!' | b'~')
        || matches!(byte, b'*' | b'\'' | b'(' | b')')
        || (verbatim && matches!(byte, b',' | b'[' | b']'))
}

impl<'t> Scanner<'t> {
    /// Reads a line `%YAML 1.1`, `%YAML 1.2` or `%TAG`.
    pub(super) fn directive(&mut self) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let text: &'t str = self.text;
        let line = &text[self.at..self.line_end()];
        let words = line.trim_end_matches(' ');
        let token = match words {
            "%YAML 1.1" | "%YAML 1.2" => Token::Version,
            _ => {
                let words = words.strip_prefix("%TAG ").ok_or(NeedsLibyaml)?;
                let (handle, prefix) = words.split_once(' ').ok_or(NeedsLibyaml)?;
                let name = handle.strip_prefix('!').ok_or(NeedsLibyaml)?;
                let named = name.strip_suffix('!').is_some_and(|name| name.bytes().all(is_word));
                let is_prefix = !prefix.is_empty() && prefix.bytes().all(|byte| is_uri(byte, true));
                self.tag_lines += 1;
                if !(name.is_empty() || named) || !is_prefix || self.tag_lines > MAX_TAG_LINES {
                    return Err(NeedsLibyaml);
                }
                Token::TagLine(handle, prefix)
            }
        };
        self.push(token, words.len());
        self.advance(self.line_end());
        if self.byte(0) == b'\n' {
            self.next_line();
        }
        Ok(())
    }

    pub(super) fn anchor(&mut self, alias: bool) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let text: &'t str = self.text;
        let rest = &text[self.at + 1..];
        let name = &rest[..rest.bytes().take_while(|byte| is_word(*byte)).count()];
        let after = rest.as_bytes().get(name.len()).copied().unwrap_or(0);
        let ends =
            is_blank_or_end(after) || matches!(after, b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(NeedsLibyaml);
        }
        self.push(if alias { Token::Alias(name) } else { Token::Anchor(name) }, 1 + name.len());
        Ok(())
    }

    pub(super) fn tag(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let text: &'t str = self.text;
        let rest = &text[self.at..];
        let uri = |from: usize, verbatim| {
            rest.bytes().skip(from).take_while(|byte| is_uri(*byte, verbatim)).count() + from
        };
        let (handle, suffix, len) = match rest.strip_prefix("!<") {
            Some(_) => {
                let end = uri(2, true);
                if end == 2 || rest.as_bytes().get(end) != Some(&b'>') {
                    return Err(NeedsLibyaml);
                }
                ("", &rest[2..end], end + 1)
            }
            None => {
                let word = rest.bytes().skip(1).take_while(|byte| is_word(*byte)).count() + 1;
                let named = rest.as_bytes().get(word) == Some(&b'!');
                let handle = &rest[..if named { word + 1 } else { 1 }];
                let end = uri(handle.len(), false);
                match &rest[handle.len()..end] {
                    "" if named => return Err(NeedsLibyaml),
                    // The tag `!` itself.
                    "" => ("", handle, end),
                    suffix => (handle, suffix, end),
                }
            }
        };
        let after = rest.as_bytes().get(len).copied().unwrap_or(0);
        if is_blank_or_end(after) || (self.in_flow() && after == b',') {
            self.push(Token::Tag(handle, suffix), len);
            Ok(())
        } else {
            Err(NeedsLibyaml)
        }
    }
}
