//! A small strict reader of XML: elements, text, character references. Everything else is refused, above all
//! DOCTYPE, in which entities are declared.

use seekable::error::{Error, Result};

/// Maximum depth of elements.
const DEPTH: usize = 16;

/// An event of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A start tag: the name without the prefix of its namespace.
    Start(&'a str),
    Text(String),
    /// An end tag.
    End,
}

/// A reader of a document, from start to end.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a str,
    open: Vec<&'a str>,
    /// True after the tag of an empty element: the next event is the element's end.
    ends: bool,
    is_done: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.trim_start_matches('\u{feff}'), open: Vec::new(), ends: false, is_done: false }
    }

    /// Returns the next event; `None` at the end of the document.
    pub(super) fn next(&mut self) -> Result<Option<Event<'a>>> {
        if std::mem::take(&mut self.ends) {
            return self.end().map(Some);
        }
        loop {
            let Some(tag) = self.rest.strip_prefix('<') else {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at(end);
                self.rest = rest;
                match (text.trim().is_empty(), self.open.is_empty()) {
                    (true, true) if rest.is_empty() && self.is_done => return Ok(None),
                    (true, true) if !rest.is_empty() => continue,
                    (_, false) if !rest.is_empty() => return Ok(Some(Event::Text(unescaped(text)?))),
                    _ => return Err(wrong("it ends within an element")),
                }
            };
            if let Some(rest) = tag.strip_prefix('?') {
                self.rest = rest.split_once("?>").ok_or_else(|| wrong("an instruction has no end"))?.1;
            } else if let Some(rest) = tag.strip_prefix("!--") {
                self.rest = rest.split_once("-->").ok_or_else(|| wrong("a comment has no end"))?.1;
            } else if tag.starts_with('!') {
                return Err(wrong("it has a declaration"));
            } else {
                return self.tag(tag).map(Some);
            }
        }
    }

    /// Reads a tag, after its `<`.
    fn tag(&mut self, text: &'a str) -> Result<Event<'a>> {
        let close = tag_end(text).ok_or_else(|| wrong("a tag has no end"))?;
        let tag = &text[..close];
        let rest = &text[close + 1..];
        self.rest = rest;
        if let Some(name) = tag.strip_prefix('/') {
            if self.open.last() != Some(&name.trim_end()) {
                return Err(wrong("an end tag does not match"));
            }
            return self.end();
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split([' ', '\t', '\r', '\n']).next().unwrap_or_default();
        let is_valid = |letter: char| letter.is_alphanumeric() || "_:-.".contains(letter);
        if name.is_empty() || !name.chars().all(is_valid) || self.is_done && self.open.is_empty() {
            return Err(wrong("a tag is not valid"));
        }
        if self.open.len() >= DEPTH {
            return Err(wrong("its elements are nested too deeply"));
        }
        self.open.push(name);
        self.ends = is_empty;
        Ok(Event::Start(name.rsplit(':').next().unwrap_or(name)))
    }

    fn end(&mut self) -> Result<Event<'a>> {
        self.open.pop().ok_or_else(|| wrong("an end tag does not match"))?;
        self.is_done = self.open.is_empty();
        Ok(Event::End)
    }
}

/// Returns the place of the `>` that ends a tag, outside the values of attributes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Replaces the five entities of XML and character references.
pub(super) fn unescaped(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let end =
            after.bytes().take(12).position(|byte| byte == b';').ok_or_else(|| wrong("an & stands alone"))?;
        out.push(character(&after[..end]).ok_or_else(|| wrong("it has an unknown entity"))?);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the character of an entity, given without `&` and `;`.
fn character(entity: &str) -> Option<char> {
    let number = |digits: &str, radix| {
        let is_valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        char::from_u32(u32::from_str_radix(digits, radix).ok().filter(|_| is_valid)?)
    };
    match entity {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match entity.strip_prefix('#')? {
            hex if hex.starts_with('x') => number(&hex[1..], 16),
            digits => number(digits, 10),
        },
    }
}

fn wrong(why: &str) -> Error {
    Error::damaged(format!("the server's listing is not valid XML: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Result<Vec<String>> {
        let mut reader = Reader::new(text);
        let mut events = Vec::new();
        while let Some(event) = reader.next()? {
            events.push(match event {
                Event::Start(name) => format!("<{name}"),
                Event::Text(text) => text,
                Event::End => ">".to_owned(),
            });
        }
        Ok(events)
    }

    #[test]
    fn documents_are_read() {
        let text =
            "<?xml version='1.0'?>\n<a:b x='>' y=\"'\"><!-- <c> --><c>1 &lt;&#65;&#x42;</c><d /></a:b>\n";
        assert_eq!(events(text).unwrap(), ["<b", "<c", "1 <AB", ">", "<d", ">", ">"]);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            " ",
            "a",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a/>x",
            "<a>&b;</a>",
            "<a>&</a>",
            "<a>&#xD800;</a>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<a><![CDATA[x]]></a>",
            "<a",
            "<a x='>",
            "<a><",
            "<>x</>",
            "<a>&#99999999999;</a>",
            "<?x",
            "<!--x",
            "<a>&ä",
            "<a>&#;</a>",
            "<a>&#+1;</a>",
        ] {
            assert!(events(text).is_err(), "{text}");
        }
        assert!(events(&"<a>".repeat(1000)).is_err());
    }
}
