//! The states of libyaml's parser, which turns tokens into events.

use std::borrow::Cow;

use super::scanner::Token;
use super::{DEFAULT_TAGS, FastEvent, FastParser, Kind, NeedsLibyaml, Properties, Result, State};
use crate::yaml::event::{Mark, Style};

impl<'t> FastParser<'t> {
    /// Returns the next event.
    pub(super) fn step(&mut self) -> Result<FastEvent<'t>> {
        match self.state {
            State::StreamStart => {
                self.state = State::DocumentStart;
                Ok((
                    Kind::StreamStart,
                    Mark { offset: 0, line: 1, column: 1 },
                    Mark { offset: 0, line: 1, column: 1 },
                ))
            }
            State::DocumentStart => self.document_start(),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::AfterDocument => self.after_document(),
            State::BlockSequenceFirstEntry => {
                self.scanner.skip();
                self.block_sequence_entry()
            }
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirstKey => {
                self.scanner.skip();
                self.block_mapping_key()
            }
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirstEntry => {
                self.scanner.skip();
                self.flow_sequence_entry(true)
            }
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowSequenceEntryMappingKey => self.flow_sequence_entry_mapping_key(),
            State::FlowSequenceEntryMappingValue => self.flow_sequence_entry_mapping_value(),
            State::FlowSequenceEntryMappingEnd => {
                let mark = self.scanner.peek()?.start;
                self.state = State::FlowSequenceEntry;
                Ok((Kind::MappingEnd, mark, mark))
            }
            State::FlowMappingFirstKey => {
                self.scanner.skip();
                self.flow_mapping_key(true)
            }
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let mark = self.scanner.peek()?.start;
                Ok(self.empty(State::FlowMappingKey, mark))
            }
            State::End => Err(NeedsLibyaml),
        }
    }

    /// Returns the next token without consuming it.
    fn peek(&mut self) -> Result<&Token<'t>> {
        Ok(&self.scanner.peek()?.token)
    }

    /// Returns an empty scalar for a missing node, and goes to the state `next`.
    fn empty(&mut self, next: State, mark: Mark) -> FastEvent<'t> {
        self.state = next;
        self.value = Cow::Borrowed("");
        (Kind::Scalar(Style::Plain, Properties::default()), mark, mark)
    }

    /// Ends a collection at its end token.
    fn end(&mut self, kind: Kind<'t>) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let (start, end) = (token.start, token.end);
        self.pop()?;
        self.scanner.skip();
        Ok((kind, start, end))
    }

    fn pop(&mut self) -> Result<()> {
        self.state = self.states.pop().ok_or(NeedsLibyaml)?;
        Ok(())
    }

    fn document_start(&mut self) -> Result<FastEvent<'t>> {
        let first = self.scanner.peek()?;
        let start = first.start;
        match first.token {
            Token::StreamEnd => return self.stream_end(),
            Token::Version | Token::TagLine(..) | Token::DocumentStart => {}
            Token::DocumentEnd => return Err(NeedsLibyaml),
            _ => {
                self.handles.extend(DEFAULT_TAGS);
                self.states.push(State::DocumentEnd);
                self.state = State::DocumentContent;
                return Ok((Kind::DocumentStart(false), start, start));
            }
        }
        let mut has_version = false;
        loop {
            let token = self.scanner.peek()?;
            match token.token {
                Token::Version if !has_version => has_version = true,
                Token::TagLine(handle, prefix) => {
                    if self.handles.iter().any(|(known, _)| *known == handle) {
                        return Err(NeedsLibyaml);
                    }
                    self.handles.push((handle, prefix));
                }
                Token::DocumentStart => break,
                _ => return Err(NeedsLibyaml),
            }
            self.scanner.skip();
        }
        for (handle, prefix) in DEFAULT_TAGS {
            if !self.handles.iter().any(|(known, _)| *known == handle) {
                self.handles.push((handle, prefix));
            }
        }
        let end = self.scanner.peek()?.end;
        self.scanner.skip();
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        Ok((Kind::DocumentStart(true), start, end))
    }

    fn document_content(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let mark = token.start;
        match token.token {
            Token::Version
            | Token::TagLine(..)
            | Token::DocumentStart
            | Token::DocumentEnd
            | Token::StreamEnd => {
                let next = self.states.pop().ok_or(NeedsLibyaml)?;
                Ok(self.empty(next, mark))
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let (start, end) = (token.start, token.end);
        let explicit = matches!(token.token, Token::DocumentEnd);
        if explicit {
            self.scanner.skip();
        }
        self.state = State::AfterDocument;
        Ok((Kind::DocumentEnd(explicit), start, if explicit { end } else { start }))
    }

    fn after_document(&mut self) -> Result<FastEvent<'t>> {
        while matches!(self.peek()?, Token::DocumentEnd) {
            self.scanner.skip();
        }
        match self.peek()? {
            Token::StreamEnd => self.stream_end(),
            _ => Err(NeedsLibyaml),
        }
    }

    fn stream_end(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let (start, end) = (token.start, token.end);
        self.state = State::End;
        Ok((Kind::StreamEnd, start, end))
    }

    /// Parses a node. The state after it is on top of `states`.
    fn node(&mut self, block: bool, indentless: bool) -> Result<FastEvent<'t>> {
        let first = self.scanner.peek()?;
        let (start, mut end) = (first.start, first.start);
        if let Token::Alias(name) = first.token {
            let end = first.end;
            self.pop()?;
            self.scanner.skip();
            return Ok((Kind::Alias(name), start, end));
        }
        let mut properties = Properties::default();
        // Tag and anchor may come in any order, each at most once.
        for _ in 0..2 {
            let token = self.scanner.peek()?;
            match token.token {
                Token::Anchor(name) if properties.anchor.is_none() => properties.anchor = Some(name),
                Token::Tag(handle, suffix) if properties.tag.is_none() => {
                    (end, properties.tag) = (token.end, Some(self.tag(handle, suffix)?));
                    self.scanner.skip();
                    continue;
                }
                _ => break,
            }
            end = token.end;
            self.scanner.skip();
        }
        let token = self.scanner.peek()?;
        let past = token.end;
        let (state, kind) = match &mut token.token {
            Token::BlockEntry if indentless => {
                (State::IndentlessSequenceEntry, Kind::SequenceStart(false, properties))
            }
            Token::Scalar(value, style) => {
                let (value, style) = (std::mem::take(value), *style);
                self.value = value;
                self.pop()?;
                self.scanner.skip();
                return Ok((Kind::Scalar(style, properties), start, past));
            }
            Token::FlowSequenceStart => {
                (State::FlowSequenceFirstEntry, Kind::SequenceStart(true, properties))
            }
            Token::FlowMappingStart => (State::FlowMappingFirstKey, Kind::MappingStart(true, properties)),
            Token::BlockSequenceStart if block => {
                (State::BlockSequenceFirstEntry, Kind::SequenceStart(false, properties))
            }
            Token::BlockMappingStart if block => {
                (State::BlockMappingFirstKey, Kind::MappingStart(false, properties))
            }
            _ if properties.tag.is_some() || properties.anchor.is_some() => {
                self.value = Cow::Borrowed("");
                self.pop()?;
                return Ok((Kind::Scalar(Style::Plain, properties), start, end));
            }
            _ => return Err(NeedsLibyaml),
        };
        self.state = state;
        Ok((kind, start, past))
    }

    fn block_sequence_entry(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let mark = token.end;
        match token.token {
            Token::BlockEntry => {
                self.scanner.skip();
                match self.peek()? {
                    Token::BlockEntry | Token::BlockEnd => Ok(self.empty(State::BlockSequenceEntry, mark)),
                    _ => {
                        self.states.push(State::BlockSequenceEntry);
                        self.node(true, false)
                    }
                }
            }
            Token::BlockEnd => self.end(Kind::SequenceEnd),
            _ => Err(NeedsLibyaml),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let (start, mark) = (token.start, token.end);
        if !matches!(token.token, Token::BlockEntry) {
            self.pop()?;
            return Ok((Kind::SequenceEnd, start, start));
        }
        self.scanner.skip();
        match self.peek()? {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                Ok(self.empty(State::IndentlessSequenceEntry, mark))
            }
            _ => {
                self.states.push(State::IndentlessSequenceEntry);
                self.node(true, false)
            }
        }
    }

    fn block_mapping_key(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let mark = token.end;
        match token.token {
            Token::Key => {
                self.scanner.skip();
                match self.peek()? {
                    Token::Key | Token::Value | Token::BlockEnd => {
                        Ok(self.empty(State::BlockMappingValue, mark))
                    }
                    _ => {
                        self.states.push(State::BlockMappingValue);
                        self.node(true, true)
                    }
                }
            }
            Token::BlockEnd => self.end(Kind::MappingEnd),
            _ => Err(NeedsLibyaml),
        }
    }

    fn block_mapping_value(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let (start, mark) = (token.start, token.end);
        if !matches!(token.token, Token::Value) {
            return Ok(self.empty(State::BlockMappingKey, start));
        }
        self.scanner.skip();
        match self.peek()? {
            Token::Key | Token::Value | Token::BlockEnd => Ok(self.empty(State::BlockMappingKey, mark)),
            _ => {
                self.states.push(State::BlockMappingKey);
                self.node(true, true)
            }
        }
    }

    /// True if a flow collection has another entry. `is_end` recognises its end token.
    fn has_another(&mut self, first: bool, is_end: fn(&Token<'_>) -> bool) -> Result<bool> {
        let token = self.peek()?;
        if is_end(token) {
            return Ok(false);
        }
        if !first {
            if !matches!(token, Token::FlowEntry) {
                return Err(NeedsLibyaml);
            }
            self.scanner.skip();
        }
        Ok(!is_end(self.peek()?))
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Result<FastEvent<'t>> {
        if !self.has_another(first, |token| matches!(token, Token::FlowSequenceEnd))? {
            return self.end(Kind::SequenceEnd);
        }
        let token = self.scanner.peek()?;
        let (start, end) = (token.start, token.end);
        if !matches!(token.token, Token::Key) {
            self.states.push(State::FlowSequenceEntry);
            return self.node(false, false);
        }
        // A mapping with a single key, without braces.
        self.scanner.skip();
        self.state = State::FlowSequenceEntryMappingKey;
        Ok((Kind::MappingStart(true, Properties::default()), start, end))
    }

    fn flow_sequence_entry_mapping_key(&mut self) -> Result<FastEvent<'t>> {
        match self.peek()? {
            // libyaml loses a token here.
            Token::Value | Token::FlowEntry | Token::FlowSequenceEnd => Err(NeedsLibyaml),
            _ => {
                self.states.push(State::FlowSequenceEntryMappingValue);
                self.node(false, false)
            }
        }
    }

    fn flow_sequence_entry_mapping_value(&mut self) -> Result<FastEvent<'t>> {
        if matches!(self.peek()?, Token::Value) {
            self.scanner.skip();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowSequenceEnd) {
                self.states.push(State::FlowSequenceEntryMappingEnd);
                return self.node(false, false);
            }
        }
        let mark = self.scanner.peek()?.start;
        Ok(self.empty(State::FlowSequenceEntryMappingEnd, mark))
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<FastEvent<'t>> {
        if !self.has_another(first, |token| matches!(token, Token::FlowMappingEnd))? {
            return self.end(Kind::MappingEnd);
        }
        if !matches!(self.peek()?, Token::Key) {
            self.states.push(State::FlowMappingEmptyValue);
            return self.node(false, false);
        }
        self.scanner.skip();
        let token = self.scanner.peek()?;
        let mark = token.start;
        match token.token {
            Token::Value | Token::FlowEntry | Token::FlowMappingEnd => {
                Ok(self.empty(State::FlowMappingValue, mark))
            }
            _ => {
                self.states.push(State::FlowMappingValue);
                self.node(false, false)
            }
        }
    }

    fn flow_mapping_value(&mut self) -> Result<FastEvent<'t>> {
        if matches!(self.peek()?, Token::Value) {
            self.scanner.skip();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowMappingEnd) {
                self.states.push(State::FlowMappingKey);
                return self.node(false, false);
            }
        }
        let mark = self.scanner.peek()?.start;
        Ok(self.empty(State::FlowMappingKey, mark))
    }
}
