//! Events of a YAML text, parsed one by one in constant memory.
//!
//! The parser is libyaml's (`libyaml-rs`, a port to Rust that uses raw pointers). Python asdf also uses
//! libyaml, so both accept the same texts. [`Events`] is the safe interface. The strings of an event are
//! borrowed from the parser until the next event, so nothing is copied that the caller does not keep. Aliases
//! are not expanded, so a small text stays small.
//!
//! Left to the caller to check: aliases without an anchor, duplicate keys, and the number of documents.

#![allow(unsafe_code)] // the parser's raw pointers, in `ParserBox` and `Events`

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use libyaml::{yaml_event_t, yaml_event_type_t, yaml_mark_t, yaml_parser_t};
use libyaml_rs as libyaml;

use super::event::{Event, Failure, Mark, Style, What, without_no_tag};
use super::input::{Input, Text};
use crate::limits::MAX_DEPTH;
use seekable::content::Content;
use seekable::error::{Error, Result};

/// Parser, current event and input. They point at each other, so they share one allocation that never moves.
struct ParserBox<'a> {
    parser: MaybeUninit<yaml_parser_t>,
    /// The current event. It owns its strings until `yaml_event_delete`.
    event: MaybeUninit<yaml_event_t>,
    input: Input<'a>,
}

/// Passes the next bytes to libyaml. Returns 1 for success (0 bytes mean the end), or 0 for an error, which
/// is stored in the input.
///
/// # Safety
///
/// `data` points to the `Input` that was passed to `yaml_parser_set_input`, `buffer` to `size` writable
/// bytes, and `size_read` to a number. Nothing else accesses them during the call.
unsafe fn read_handler(data: *mut c_void, buffer: *mut u8, size: u64, size_read: *mut u64) -> i32 {
    // SAFETY: libyaml passes the pointer that it was given. The `Input` behind it lives as long as the
    // parser, and nothing borrows it while the parser runs.
    let input = unsafe { &mut *data.cast::<Input<'_>>() };
    let Ok(len) = usize::try_from(size) else { return 0 };
    // SAFETY: libyaml passes `size` writable bytes of its raw buffer. They may be uninitialised, so they are
    // zeroed before a slice is made of them.
    let buf = unsafe {
        ptr::write_bytes(buffer, 0, len);
        std::slice::from_raw_parts_mut(buffer, len)
    };
    match input.read(buf) {
        Ok(read) => {
            // SAFETY: libyaml passes the address of a local number of its own.
            unsafe { size_read.write(read as u64) };
            1
        }
        Err(error) => {
            input.error = Some(error);
            0
        }
    }
}

/// The events of a text, in order.
pub struct Events<'a> {
    state: NonNull<ParserBox<'a>>,
    /// Length of the byte order mark, which libyaml does not count in its marks.
    skipped: u64,
    depth: usize,
    done: bool,
    failure: Option<Failure>,
    owns: PhantomData<ParserBox<'a>>,
}

// SAFETY: `state` points to one allocation that belongs to these events alone, and libyaml owns its other
// allocations. None of them is bound to a thread. The text is `Send`: bytes, or a `Content`, which is `Sync`.
unsafe impl Send for Events<'_> {}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Events")
            .field("depth", &self.depth)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<'a> Events<'a> {
    /// Begins to parse `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self::from_text(Text::Bytes(text))
    }

    /// Begins to parse the text of a whole content, and keeps the content alive.
    pub fn keeping(content: Arc<dyn Content>) -> Self {
        Self::from_text(Text::Shared(content))
    }

    fn from_text(text: Text<'a>) -> Self {
        let input = Input::new(text);
        let skipped = input.byte_order_mark();
        let state = NonNull::from(Box::leak(Box::new(ParserBox {
            parser: MaybeUninit::uninit(),
            // All zeros is libyaml's own "no event": valid, with null pointers and nothing to free.
            event: MaybeUninit::zeroed(),
            input,
        })));
        let at = state.as_ptr();
        // SAFETY: `at` is a live allocation that is accessed only through this pointer until `drop`. The
        // parser is initialised before any other use, and its input stays in place as long as the parser
        // lives.
        unsafe {
            let parser = (&raw mut (*at).parser).cast::<yaml_parser_t>();
            // Can't fail: like Rust, libyaml-rs aborts the process when out of memory.
            let _ = libyaml::yaml_parser_initialize(parser);
            libyaml::yaml_parser_set_input(parser, read_handler, (&raw mut (*at).input).cast());
        }
        Self { state, skipped, depth: 0, done: false, failure: None, owns: PhantomData }
    }

    /// Returns the next event; `None` after the end of the stream or after an error.
    ///
    /// Errors state the problem with its line and column.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        if self.done {
            return Ok(None);
        }
        let at = self.state.as_ptr();
        // SAFETY: parser and event are initialised. This call frees the strings of the previous event. No
        // borrow of them can be live, since they borrow `self`, which this call borrows mutably. The parser is not
        // running when `end_event` is called, so nothing else borrows the input.
        let event = unsafe {
            let event = (&raw mut (*at).event).cast::<yaml_event_t>();
            libyaml::yaml_event_delete(event);
            if !libyaml::yaml_parser_parse((&raw mut (*at).parser).cast(), event).ok {
                self.done = true;
                return Err(self.error());
            }
            (*at).input.end_event();
            &*event
        };
        let start = self.mark(event.start_mark);
        let end = self.mark(event.end_mark);
        // SAFETY: the parser has just filled in the event, which stays unchanged until the next call.
        let what = match unsafe { what(event) } {
            Ok(what) => what,
            Err(problem) => {
                self.done = true;
                return Err(self.invalid(start, problem.to_owned()));
            }
        };
        match what {
            What::SequenceStart { .. } | What::MappingStart { .. } => self.depth += 1,
            What::SequenceEnd | What::MappingEnd => self.depth = self.depth.saturating_sub(1),
            What::StreamEnd => self.done = true,
            _ => {}
        }
        if self.depth > MAX_DEPTH {
            self.done = true;
            let problem = format!("nested deeper than {MAX_DEPTH} levels");
            let error = Error::unsupported(format!("YAML {problem} at {start}"));
            self.failure = Some(Failure { place: start, problem, began: None });
            return Err(error);
        }
        Ok(Some(Event { what, start, end }))
    }

    fn mark(&self, mark: yaml_mark_t) -> Mark {
        Mark {
            offset: mark.index.saturating_add(self.skipped),
            line: mark.line.saturating_add(1),
            column: mark.column.saturating_add(1),
        }
    }

    /// Returns the parser's error.
    fn error(&mut self) -> Error {
        let at = self.state.as_ptr();
        // SAFETY: the parser is initialised and not running, so nothing else borrows it or its input.
        let (parser, input) = unsafe { ((*at).parser.assume_init_ref(), &mut (*at).input) };
        if let Some(error) = input.error.take() {
            return error;
        }
        // SAFETY: libyaml's problem and context are literals or null.
        let (problem, context) = unsafe { (literal(parser.problem), literal(parser.context)) };
        let problem = if problem.is_empty() { "it can't be parsed" } else { problem };
        let place = match parser.error {
            libyaml::yaml_error_type_t::YAML_READER_ERROR => input.mark(parser.problem_offset),
            _ => self.mark(parser.problem_mark),
        };
        if context.is_empty() {
            return self.invalid(place, problem.to_owned());
        }
        let began = self.mark(parser.context_mark);
        let error = self.invalid(place, format!("{problem} {context}"));
        if let Some(failure) = &mut self.failure {
            failure.began = Some(began);
        }
        error
    }

    fn invalid(&mut self, place: Mark, problem: String) -> Error {
        let error = Error::damaged(format!("not valid YAML at {place}: {problem}"));
        self.failure = Some(Failure { place, problem, began: None });
        error
    }

    /// Returns the syntax error after a failure; `None` if the text could not be read.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        let at = self.state.as_ptr();
        // SAFETY: parser and event were initialised in `from_text` and are deleted once, here. The box was
        // leaked there, and nothing borrowed from it outlives `self`.
        unsafe {
            libyaml::yaml_event_delete((&raw mut (*at).event).cast());
            libyaml::yaml_parser_delete((&raw mut (*at).parser).cast());
            drop(Box::from_raw(at));
        }
    }
}

/// Converts libyaml's event. The error is a message.
///
/// # Safety
///
/// The parser has filled in the event, which has not been deleted since.
unsafe fn what(event: &yaml_event_t) -> std::result::Result<What<'_>, &'static str> {
    use libyaml::yaml_encoding_t::YAML_UTF8_ENCODING;
    use libyaml::yaml_mapping_style_t::YAML_FLOW_MAPPING_STYLE;
    use libyaml::yaml_sequence_style_t::YAML_FLOW_SEQUENCE_STYLE;
    let data = &event.data;
    // SAFETY: `type_` says which member of the union is filled in. Its strings end with a NUL or are null,
    // and belong to the event.
    unsafe {
        Ok(match event.type_ {
            yaml_event_type_t::YAML_STREAM_START_EVENT => match data.stream_start.encoding {
                YAML_UTF8_ENCODING => What::StreamStart,
                _ => return Err("the text is not in UTF-8"),
            },
            yaml_event_type_t::YAML_STREAM_END_EVENT => What::StreamEnd,
            yaml_event_type_t::YAML_DOCUMENT_START_EVENT => {
                What::DocumentStart { explicit: !data.document_start.implicit }
            }
            yaml_event_type_t::YAML_DOCUMENT_END_EVENT => {
                What::DocumentEnd { explicit: !data.document_end.implicit }
            }
            yaml_event_type_t::YAML_ALIAS_EVENT => What::Alias(name(data.alias.anchor)?.unwrap_or_default()),
            yaml_event_type_t::YAML_SCALAR_EVENT => What::scalar(
                value(data.scalar.value, data.scalar.length)?,
                style(data.scalar.style),
                name(data.scalar.tag)?,
                name(data.scalar.anchor)?,
            ),
            yaml_event_type_t::YAML_SEQUENCE_START_EVENT => What::SequenceStart {
                tag: without_no_tag(name(data.sequence_start.tag)?),
                anchor: name(data.sequence_start.anchor)?,
                flow: data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE,
            },
            yaml_event_type_t::YAML_SEQUENCE_END_EVENT => What::SequenceEnd,
            yaml_event_type_t::YAML_MAPPING_START_EVENT => What::MappingStart {
                tag: without_no_tag(name(data.mapping_start.tag)?),
                anchor: name(data.mapping_start.anchor)?,
                flow: data.mapping_start.style == YAML_FLOW_MAPPING_STYLE,
            },
            yaml_event_type_t::YAML_MAPPING_END_EVENT => What::MappingEnd,
            _ => return Err("it can't be parsed"),
        })
    }
}

fn style(style: libyaml::yaml_scalar_style_t) -> Style {
    use libyaml::yaml_scalar_style_t as from;
    match style {
        from::YAML_SINGLE_QUOTED_SCALAR_STYLE => Style::SingleQuoted,
        from::YAML_DOUBLE_QUOTED_SCALAR_STYLE => Style::DoubleQuoted,
        from::YAML_LITERAL_SCALAR_STYLE => Style::Literal,
        from::YAML_FOLDED_SCALAR_STYLE => Style::Folded,
        _ => Style::Plain,
    }
}

/// Converts a tag or an anchor.
///
/// # Safety
///
/// `text` is null, or a NUL-terminated string that lives as long as `'e`.
unsafe fn name<'e>(text: *const u8) -> std::result::Result<Option<&'e str>, &'static str> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: required of the caller.
    let text = unsafe { CStr::from_ptr(text.cast::<c_char>()) };
    // %-escapes in a tag can make bytes that are not valid UTF-8.
    text.to_str().map(Some).map_err(|_| "a tag or an anchor is not in UTF-8")
}

/// Converts the text of a scalar.
///
/// # Safety
///
/// `text` is null, or points to `length` bytes that live as long as `'e`.
unsafe fn value<'e>(text: *const u8, length: u64) -> std::result::Result<&'e str, &'static str> {
    if text.is_null() {
        return Ok("");
    }
    // SAFETY: required of the caller. The length of an allocation fits in a `usize`.
    let text = unsafe { std::slice::from_raw_parts(text, length as usize) };
    std::str::from_utf8(text).map_err(|_| "a scalar is not in UTF-8")
}

/// Converts a constant text of libyaml; null gives an empty text.
///
/// # Safety
///
/// `text` is null or a literal of libyaml.
unsafe fn literal(text: *const i8) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: required of the caller.
    unsafe { CStr::from_ptr(text.cast::<c_char>()) }.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all events in short form, or the error.
    fn all(text: &[u8]) -> Result<Vec<String>> {
        let mut events = Events::new(text);
        let mut found = Vec::new();
        while let Some(event) = events.next_event()? {
            let at = event.start.offset;
            found.push(match event.what {
                What::Scalar { value, style, tag, anchor } => {
                    format!("{at} {value:?} {style:?} {} {}", tag.unwrap_or("-"), anchor.unwrap_or("-"))
                }
                What::SequenceStart { tag, flow, .. } => format!("{at} [ {} {flow}", tag.unwrap_or("-")),
                What::MappingStart { tag, flow, .. } => format!("{at} {{ {} {flow}", tag.unwrap_or("-")),
                other => format!("{at} {other:?}"),
            });
        }
        Ok(found)
    }

    #[test]
    fn gives_every_event_with_its_place_and_resolved_tags() {
        let text = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nä: &x 'ß'\n\
                    b: [*x, !<asdf://y> \"z\"]\n...\n";
        let found = all(text.as_bytes()).unwrap();
        assert_eq!(
            found,
            [
                "0 StreamStart",
                "0 DocumentStart { explicit: true }",
                "41 { tag:stsci.edu:asdf/core/asdf-1.1.0 false",
                "58 \"ä\" Plain - -",
                "62 \"ß\" SingleQuoted - x",
                "70 \"b\" Plain - -",
                "73 [ - true",
                "74 Alias(\"x\")",
                "78 \"z\" DoubleQuoted asdf://y -",
                "93 SequenceEnd",
                "95 MappingEnd",
                "95 DocumentEnd { explicit: true }",
                "99 StreamEnd",
            ]
        );
    }

    #[test]
    fn a_content_gives_the_same_events_as_its_bytes() {
        let text: String = (0..5000).map(|n| format!("key{n}: [{n}, ä{n}]\n")).collect();
        let content = seekable::content::Text::new(text.clone().into_bytes());
        let mut one = Events::new(text.as_bytes());
        let mut two = Events::keeping(Arc::new(content));
        let mut count = 0;
        loop {
            let a = one.next_event().unwrap();
            let b = two.next_event().unwrap();
            assert_eq!(a, b);
            count += 1;
            if a.is_none() {
                break;
            }
        }
        assert_eq!(count, 5 + 5000 * 5 + 2);
    }

    #[test]
    fn errors_name_line_and_column_and_end_the_events() {
        for (text, expected) in [
            (&b"a: 1\n b: 2\n"[..], "line 2, column 3: mapping values are not allowed in this context"),
            (
                b"a: [1\nb: 2\n",
                "line 2, column 2: did not find expected ',' or ']' while parsing a flow sequence",
            ),
            ("ä: 1\r\nß \u{7}: 2\r\n".as_bytes(), "line 2, column 3: control characters are not allowed"),
            (b"a: \xff\n", "line 1, column 4: invalid leading UTF-8 octet"),
            (b"a: !x!y 1\n", "undefined tag handle"),
            (b"a: !%ff%ff z\n", "UTF-8"),
            (b"\xff\xfea\0:\0 \x001\0\n\0", "not in UTF-8"),
        ] {
            let message = all(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        let mut events = Events::new(b"[");
        while events.next_event().is_ok_and(|event| event.is_some()) {}
        assert_eq!(events.next_event().unwrap(), None);
    }

    #[test]
    fn a_byte_order_mark_counts_in_the_offsets() {
        assert_eq!(all(b"\xef\xbb\xbfa").unwrap()[2], "3 \"a\" Plain - -");
    }

    #[test]
    fn depth_and_tag_lines_are_limited_before_they_cost_time() {
        for part in ["[", "- ", "{a: "] {
            let error = all(part.repeat(100_000).as_bytes()).unwrap_err();
            assert!(error.to_string().contains("deeper than 1000 levels"), "{error}");
        }
        let fits = ["[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)].concat();
        assert_eq!(all(fits.as_bytes()).unwrap().len(), 4 + 2 * MAX_DEPTH);
        let tags: String = (0..100_000).map(|n| format!("%TAG !t{n}! tag:{n}\n")).collect();
        assert!(all(tags.as_bytes()).unwrap_err().to_string().contains("%TAG lines"));
    }

    #[test]
    fn a_text_without_end_is_not_held() {
        /// An endless text of one letter after its beginning.
        #[derive(Debug)]
        struct Endless(&'static [u8], u8);
        impl Content for Endless {
            fn len(&self) -> u64 {
                u64::MAX
            }
            fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
                buf.fill(self.1);
                let start = self.0.get(offset as usize..).unwrap_or_default();
                let len = start.len().min(buf.len());
                buf[..len].copy_from_slice(&start[..len]);
                Ok(buf.len())
            }
        }
        for text in [Endless(b"a: b", b' '), Endless(b"a: 'b", b'x')] {
            let mut events = Events::keeping(Arc::new(text));
            let error = loop {
                match events.next_event() {
                    Ok(event) => assert!(event.is_some()),
                    Err(error) => break error,
                }
            };
            assert!(error.message().contains("longer than 32 MiB"), "{error}");
        }
    }

    #[test]
    fn a_read_error_of_the_content_is_the_error() {
        #[derive(Debug)]
        struct Failing;
        impl Content for Failing {
            fn len(&self) -> u64 {
                10
            }
            fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
                Err(Error::damaged("the disk is gone"))
            }
        }
        assert_eq!(
            Events::keeping(Arc::new(Failing)).next_event().unwrap_err().message(),
            "the disk is gone"
        );
    }

    #[test]
    fn no_mutation_panics_and_all_marks_are_within_the_text() {
        let seed = b"%YAML 1.1\n%TAG ! tag:x/\n---\na: &b !c [1, 'x', \"\\u00e4\\n\"]\nd: |\n  text\n  \xc3\xa4\n? *b\n: {e: >-\n   f}\n...\n--- !<y> z\n";
        let mut state = 7u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let tokens = b"[]{}&*!|>'\"%@`#,:?-\n\t \x00\x80\xff~0a\r";
        for _ in 0..20_000 {
            let mut text = seed.to_vec();
            for _ in 0..=random(4) {
                let at = random(text.len());
                match random(4) {
                    0 => text.truncate(at + 1),
                    1 => text[at] = tokens[random(tokens.len())],
                    2 => text.insert(at, tokens[random(tokens.len())]),
                    _ => text[at] ^= 1 << random(8),
                }
            }
            let mut events = Events::new(&text);
            while let Ok(Some(event)) = events.next_event() {
                assert!(event.start.offset <= event.end.offset);
                assert!(event.end.offset <= text.len() as u64, "{event:?} {}", text.escape_ascii());
            }
        }
    }
}
