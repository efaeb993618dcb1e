//! The states of libyaml's parser, which turns tokens into events.

use std::borrow::Cow;

use super::scanner::{Token, TokenPlace};
use super::{DEFAULT_TAGS, EventKind, FastEvent, FastParser, NeedsLibyaml, ParserState, Properties, Result};
use crate::yaml::event::Style;

impl<'t> FastParser<'t> {
    /// Returns the next event.
    pub(super) fn step(&mut self) -> Result<FastEvent<'t>> {
        match self.state {
            ParserState::StreamStart => {
                self.state = ParserState::DocumentStart;
                Ok((EventKind::StreamStart, TokenPlace::START, TokenPlace::START))
            }
            ParserState::DocumentStart => self.document_start(),
            ParserState::DocumentContent => self.document_content(),
            ParserState::DocumentEnd => self.document_end(),
            ParserState::AfterDocument => self.after_document(),
            ParserState::BlockSequenceFirstEntry => {
                self.scanner.skip();
                self.block_sequence_entry()
            }
            ParserState::BlockSequenceEntry => self.block_sequence_entry(),
            ParserState::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            ParserState::BlockMappingFirstKey => {
                self.scanner.skip();
                self.block_mapping_key()
            }
            ParserState::BlockMappingKey => self.block_mapping_key(),
            ParserState::BlockMappingValue => self.block_mapping_value(),
            ParserState::FlowSequenceFirstEntry => {
                self.scanner.skip();
                self.flow_sequence_entry(true)
            }
            ParserState::FlowSequenceEntry => self.flow_sequence_entry(false),
            ParserState::FlowSequenceEntryMappingKey => self.flow_sequence_entry_mapping_key(),
            ParserState::FlowSequenceEntryMappingValue => self.flow_sequence_entry_mapping_value(),
            ParserState::FlowSequenceEntryMappingEnd => {
                let place = self.scanner.peek()?.start;
                self.state = ParserState::FlowSequenceEntry;
                Ok((EventKind::MappingEnd, place, place))
            }
            ParserState::FlowMappingFirstKey => {
                self.scanner.skip();
                self.flow_mapping_key(true)
            }
            ParserState::FlowMappingKey => self.flow_mapping_key(false),
            ParserState::FlowMappingValue => self.flow_mapping_value(),
            ParserState::FlowMappingEmptyValue => {
                let place = self.scanner.peek()?.start;
                Ok(self.empty(ParserState::FlowMappingKey, place))
            }
            ParserState::End => Err(NeedsLibyaml),
        }
    }

    /// Returns the next token without consuming it.
    fn peek(&mut self) -> Result<&Token<'t>> {
        Ok(&self.scanner.peek()?.token)
    }

    /// Returns an empty scalar for a missing node, and goes to the state `next`.
    fn empty(&mut self, next: ParserState, place: TokenPlace) -> FastEvent<'t> {
        self.state = next;
        self.value = Cow::Borrowed("");
        (EventKind::Scalar(Style::Plain, Properties::default()), place, place)
    }

    /// Ends a collection at its end token.
    fn end(&mut self, kind: EventKind<'t>) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let start = token.start;
        let end = token.end;
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
                self.states.push(ParserState::DocumentEnd);
                self.state = ParserState::DocumentContent;
                return Ok((EventKind::DocumentStart(false), start, start));
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
        self.states.push(ParserState::DocumentEnd);
        self.state = ParserState::DocumentContent;
        Ok((EventKind::DocumentStart(true), start, end))
    }

    fn document_content(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let place = token.start;
        match token.token {
            Token::Version
            | Token::TagLine(..)
            | Token::DocumentStart
            | Token::DocumentEnd
            | Token::StreamEnd => {
                let next = self.states.pop().ok_or(NeedsLibyaml)?;
                Ok(self.empty(next, place))
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let start = token.start;
        let end = token.end;
        let explicit = matches!(token.token, Token::DocumentEnd);
        if explicit {
            self.scanner.skip();
        }
        self.state = ParserState::AfterDocument;
        Ok((EventKind::DocumentEnd(explicit), start, if explicit { end } else { start }))
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
        let start = token.start;
        let end = token.end;
        self.state = ParserState::End;
        Ok((EventKind::StreamEnd, start, end))
    }

    /// Parses a node. After the node, the parser goes to the state on top of `states`.
    fn node(&mut self, block: bool, indentless: bool) -> Result<FastEvent<'t>> {
        let first = self.scanner.peek()?;
        let start = first.start;
        let mut end = first.start;
        let past = first.end;
        match &mut first.token {
            Token::Alias(name) => {
                let name = *name;
                self.pop()?;
                self.scanner.skip();
                return Ok((EventKind::Alias(name), start, past));
            }
            // Most nodes are scalars without properties.
            Token::Scalar(value, style) => {
                self.value = std::mem::take(value);
                let style = *style;
                self.pop()?;
                self.scanner.skip();
                return Ok((EventKind::Scalar(style, Properties::default()), start, past));
            }
            _ => {}
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
                (ParserState::IndentlessSequenceEntry, EventKind::SequenceStart(false, properties))
            }
            Token::Scalar(value, style) => {
                let value = std::mem::take(value);
                let style = *style;
                self.value = value;
                self.pop()?;
                self.scanner.skip();
                return Ok((EventKind::Scalar(style, properties), start, past));
            }
            Token::FlowSequenceStart => {
                (ParserState::FlowSequenceFirstEntry, EventKind::SequenceStart(true, properties))
            }
            Token::FlowMappingStart => {
                (ParserState::FlowMappingFirstKey, EventKind::MappingStart(true, properties))
            }
            Token::BlockSequenceStart if block => {
                (ParserState::BlockSequenceFirstEntry, EventKind::SequenceStart(false, properties))
            }
            Token::BlockMappingStart if block => {
                (ParserState::BlockMappingFirstKey, EventKind::MappingStart(false, properties))
            }
            _ if properties.tag.is_some() || properties.anchor.is_some() => {
                self.value = Cow::Borrowed("");
                self.pop()?;
                return Ok((EventKind::Scalar(Style::Plain, properties), start, end));
            }
            _ => return Err(NeedsLibyaml),
        };
        self.state = state;
        Ok((kind, start, past))
    }

    fn block_sequence_entry(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let place = token.end;
        match token.token {
            Token::BlockEntry => {
                self.scanner.skip();
                match self.peek()? {
                    Token::BlockEntry | Token::BlockEnd => {
                        Ok(self.empty(ParserState::BlockSequenceEntry, place))
                    }
                    _ => {
                        self.states.push(ParserState::BlockSequenceEntry);
                        self.node(true, false)
                    }
                }
            }
            Token::BlockEnd => self.end(EventKind::SequenceEnd),
            _ => Err(NeedsLibyaml),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let start = token.start;
        let place = token.end;
        if !matches!(token.token, Token::BlockEntry) {
            self.pop()?;
            return Ok((EventKind::SequenceEnd, start, start));
        }
        self.scanner.skip();
        match self.peek()? {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                Ok(self.empty(ParserState::IndentlessSequenceEntry, place))
            }
            _ => {
                self.states.push(ParserState::IndentlessSequenceEntry);
                self.node(true, false)
            }
        }
    }

    fn block_mapping_key(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let place = token.end;
        match token.token {
            Token::Key => {
                self.scanner.skip();
                match self.peek()? {
                    Token::Key | Token::Value | Token::BlockEnd => {
                        Ok(self.empty(ParserState::BlockMappingValue, place))
                    }
                    _ => {
                        self.states.push(ParserState::BlockMappingValue);
                        self.node(true, true)
                    }
                }
            }
            Token::BlockEnd => self.end(EventKind::MappingEnd),
            _ => Err(NeedsLibyaml),
        }
    }

    fn block_mapping_value(&mut self) -> Result<FastEvent<'t>> {
        let token = self.scanner.peek()?;
        let start = token.start;
        let place = token.end;
        if !matches!(token.token, Token::Value) {
            return Ok(self.empty(ParserState::BlockMappingKey, start));
        }
        self.scanner.skip();
        match self.peek()? {
            Token::Key | Token::Value | Token::BlockEnd => {
                Ok(self.empty(ParserState::BlockMappingKey, place))
            }
            _ => {
                self.states.push(ParserState::BlockMappingKey);
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
            return self.end(EventKind::SequenceEnd);
        }
        let token = self.scanner.peek()?;
        let start = token.start;
        let end = token.end;
        if !matches!(token.token, Token::Key) {
            self.states.push(ParserState::FlowSequenceEntry);
            return self.node(false, false);
        }
        // A mapping with a single key, without braces.
        self.scanner.skip();
        self.state = ParserState::FlowSequenceEntryMappingKey;
        Ok((EventKind::MappingStart(true, Properties::default()), start, end))
    }

    fn flow_sequence_entry_mapping_key(&mut self) -> Result<FastEvent<'t>> {
        match self.peek()? {
            // If the key is missing, libyaml drops this token. Such a text is left to libyaml.
            Token::Value | Token::FlowEntry | Token::FlowSequenceEnd => Err(NeedsLibyaml),
            _ => {
                self.states.push(ParserState::FlowSequenceEntryMappingValue);
                self.node(false, false)
            }
        }
    }

    fn flow_sequence_entry_mapping_value(&mut self) -> Result<FastEvent<'t>> {
        if matches!(self.peek()?, Token::Value) {
            self.scanner.skip();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowSequenceEnd) {
                self.states.push(ParserState::FlowSequenceEntryMappingEnd);
                return self.node(false, false);
            }
        }
        let place = self.scanner.peek()?.start;
        Ok(self.empty(ParserState::FlowSequenceEntryMappingEnd, place))
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<FastEvent<'t>> {
        if !self.has_another(first, |token| matches!(token, Token::FlowMappingEnd))? {
            return self.end(EventKind::MappingEnd);
        }
        if !matches!(self.peek()?, Token::Key) {
            self.states.push(ParserState::FlowMappingEmptyValue);
            return self.node(false, false);
        }
        self.scanner.skip();
        let token = self.scanner.peek()?;
        let place = token.start;
        match token.token {
            Token::Value | Token::FlowEntry | Token::FlowMappingEnd => {
                Ok(self.empty(ParserState::FlowMappingValue, place))
            }
            _ => {
                self.states.push(ParserState::FlowMappingValue);
                self.node(false, false)
            }
        }
    }

    fn flow_mapping_value(&mut self) -> Result<FastEvent<'t>> {
        if matches!(self.peek()?, Token::Value) {
            self.scanner.skip();
            if !matches!(self.peek()?, Token::FlowEntry | Token::FlowMappingEnd) {
                self.states.push(ParserState::FlowMappingKey);
                return self.node(false, false);
            }
        }
        let place = self.scanner.peek()?.start;
        Ok(self.empty(ParserState::FlowMappingKey, place))
    }
}
