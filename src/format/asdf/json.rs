//! `tree.json` and `tree.tagged.json`: the tree for programs that read JSON.
//!
//! One pass over the events of the tree measures both texts. `docs/views.md` has the rules.
//!
//! | module | what it does |
//! |---|---|
//! | [`writer`] | converts events to JSON, in memory that does not grow with the tree |
//! | [`scalar`] | converts a scalar to JSON |
//! | [`numbers`] | number keys that are equal in Python |
//! | [`pointers`] | JSON pointers that are still valid |
//! | [`merges`] | members added by merge keys |

use std::collections::HashSet;
use std::sync::Arc;

use super::view::{AsdfFile, View};
use crate::content::dir::{File, Node};
use crate::content::{Content, Text};
use crate::decode::generated::{Generated, Generator, Measured, Measuring};
use crate::error::{Error, Result};
use crate::format::{Defect, Severity};
use crate::workers::turns::in_turn;
use crate::yaml::event::Event;
use crate::yaml::parser::Events;
use crate::yaml::read::{Listener, Unread, each_event};
use crate::yaml::survey::Commented;
use merges::Merges;
use writer::Writer;

mod merges;
mod numbers;
mod pointers;
mod scalar;
mod writer;

/// Maximum number of bytes remembered for anchors and merge keys. The bytes that references and merge keys
/// add to the text have the same limit.
const MAX_HELD: usize = 16 << 20;

/// The treatment of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    /// Tags are dropped: `tree.json`.
    Dropped,
    /// Tags are kept as `{"$tag": …, "$value": …}`: `tree.tagged.json`.
    Kept,
}

/// The file `tree.json`, or `tree.tagged.json`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json(Tags);

/// The results of measuring both texts: without and with tags.
#[derive(Debug)]
struct BothMeasured {
    texts: [Measured; 2],
    merges: Arc<Merges>,
    hidden: Hidden,
    /// A note on aliases that are null.
    note: Option<String>,
}

/// For each of both texts, the nodes whose aliases are null.
type Hidden = [Arc<HashSet<u64>>; 2];

impl Json {
    pub(super) const WITHOUT_TAGS: Self = Self(Tags::Dropped);
    pub(super) const WITH_TAGS: Self = Self(Tags::Kept);
}

impl View for Json {
    fn name(&self) -> &'static str {
        match self.0 {
            Tags::Dropped => "tree.json",
            Tags::Kept => "tree.tagged.json",
        }
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Node::File(json_file(file, self.0)))
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        file.computed.get::<Result<BothMeasured>>().is_none()
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        match file.computed.get::<Result<BothMeasured>>() {
            // Both files have the same defect, which is reported once.
            Some(Err(error)) if self.0 == Tags::Dropped => {
                let files = format!("{} and {}", self.name(), Self::WITH_TAGS.name());
                let what = format!("{files} can't be read: {}", error.message());
                vec![Defect { severity: Severity::Note, offset: 0, block: None, what }]
            }
            Some(Ok(BothMeasured { note: Some(note), .. })) if self.0 == Tags::Dropped => {
                let what = format!("{} and {} are {note}", self.name(), Self::WITH_TAGS.name());
                vec![Defect { severity: Severity::Note, offset: 0, block: None, what }]
            }
            _ => Vec::new(),
        }
    }
}

fn json_file(file: &AsdfFile, tags: Tags) -> File {
    let tree = file.tree();
    let measured = file.computed.get_or_try_compute(|| match in_turn(tree.len(), || measure(tree.clone())) {
        Err(error) if error.is_of_reading() => Err(error),
        measured => Ok(measured),
    });
    let both = match measured {
        Ok(Ok(both)) => both,
        Ok(Err(error)) => return File::unreadable(error.clone()),
        Err(error) => return File::unreadable(error),
    };
    let hidden = both.hidden[tags as usize].clone();
    let text = JsonText { tree, tags, merges: both.merges.clone(), hidden };
    both.texts[tags as usize].file(text, &file.context.cache)
}

fn measure(tree: Arc<dyn Content>) -> Result<BothMeasured> {
    let merges = Arc::new(Merges::of(&*tree)?);
    match measure_with(&*tree, &merges, Hidden::default())? {
        Ok(measured) => Ok(measured),
        // In a second pass, the aliases of these nodes are null.
        Err(hidden) => measure_with(&*tree, &merges, hidden)?.map_err(|_| repeated()),
    }
}

fn repeated() -> Error {
    Error::unsupported("keys are repeated, and their values have anchors with aliases")
}

/// Measures both texts; the inner error are the nodes that have to be hidden.
fn measure_with(
    tree: &dyn Content,
    merges: &Arc<Merges>,
    hidden: Hidden,
) -> Result<std::result::Result<BothMeasured, Hidden>> {
    let writer_of = |tags: Tags| Writer::new(tags, merges.clone(), hidden[tags as usize].clone());
    let mut texts = [Tags::Dropped, Tags::Kept].map(|tags| (writer_of(tags), Measuring::default()));
    each_event(&Commented(tree), |event| {
        for (writer, measuring) in &mut texts {
            writer.take(event)?;
            measuring.take(&writer.out);
            writer.out.clear();
        }
        Ok::<_, Error>(true)
    })?;
    if texts.iter().any(|(writer, _)| !writer.has_to_hide().is_empty()) {
        return Ok(Err(texts.map(|(writer, _)| Arc::new(writer.has_to_hide().clone()))));
    }
    let note = texts[Tags::Dropped as usize].0.nulls.note();
    let end = |(mut writer, mut measuring): (Writer, Measuring)| {
        writer.finish();
        measuring.take(&writer.out);
        measuring.end()
    };
    Ok(Ok(BothMeasured { texts: texts.map(end), merges: merges.clone(), hidden, note }))
}

/// The JSON of a tree.
#[derive(Debug)]
struct JsonText {
    tree: Arc<dyn Content>,
    tags: Tags,
    merges: Arc<Merges>,
    hidden: Arc<HashSet<u64>>,
}

impl Generated for JsonText {
    fn generator(&self) -> Result<Box<dyn Generator>> {
        let tree = Arc::new(Head(self.tree.clone()));
        let writer = Writer::new(self.tags, self.merges.clone(), self.hidden.clone());
        Ok(Box::new(JsonGenerator { events: Events::keeping(tree), writer }))
    }
}

/// The head of a file, owned, for a parser that keeps its input.
#[derive(Debug)]
struct Head(Arc<dyn Content>);

impl Content for Head {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Commented(&*self.0).read_at(offset, buf)
    }
}

struct JsonGenerator {
    events: Events<'static>,
    writer: Writer,
}

impl Generator for JsonGenerator {
    /// Converts the next event.
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let event = self.events.next_event()?;
        let goes_on = event.is_some();
        match event {
            Some(event) => self.writer.take(&event)?,
            None => self.writer.finish(),
        }
        out.append(&mut self.writer.out);
        Ok(goes_on)
    }

    fn weight(&self) -> u64 {
        (512 << 10) + self.writer.weight()
    }
}

/// The finished JSON of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeJson {
    /// The JSON.
    pub text: Vec<u8>,
    /// Says which aliases are null, if there are any.
    pub note: Option<String>,
}

/// The JSON of a tree without its tags, in one line. It is made from the parser events
/// that a reader of the tree passes on.
#[derive(Debug)]
pub(in crate::format) struct JsonLine {
    /// The JSON so far, or the reason why there is none.
    writer: Result<Writer>,
    /// Maximum length of the JSON in bytes.
    longest: u64,
    /// True once an event was passed on.
    has_begun: bool,
    /// True if an earlier pass found the nodes whose aliases are null.
    is_second: bool,
}

impl JsonLine {
    /// Begins the JSON of a tree.
    pub(in crate::format) fn new(tree: &dyn Content, longest: u64) -> Self {
        Self::hiding(tree, longest, Arc::default())
    }

    fn hiding(tree: &dyn Content, longest: u64, hidden: Arc<HashSet<u64>>) -> Self {
        let mut writer = Merges::of(tree).map(|merges| Writer::new(Tags::Dropped, Arc::new(merges), hidden));
        if let Ok(writer) = &mut writer {
            writer.is_one_line = true;
        }
        Self { writer, longest, has_begun: false, is_second: false }
    }

    /// Ends the JSON. Reads the tree if no event was passed on.
    ///
    /// # Errors
    ///
    /// The text is not a valid tree, or its JSON is longer than allowed.
    pub(in crate::format) fn end(mut self, tree: &dyn Content) -> Result<TreeJson> {
        if !self.has_begun
            && let Err(unread) = each_event(&Commented(tree), |event| Ok::<_, Unread>(self.take(event)))
        {
            self.fail(&unread.error);
        }
        let mut writer = self.writer?;
        if !writer.has_to_hide().is_empty() {
            if self.is_second {
                return Err(repeated());
            }
            let hidden = Arc::new(writer.has_to_hide().clone());
            let again = Self { is_second: true, ..Self::hiding(tree, self.longest, hidden) };
            return again.end(tree);
        }
        writer.finish();
        Ok(TreeJson { note: writer.nulls.note(), text: writer.out })
    }
}

impl Listener for JsonLine {
    fn take(&mut self, event: &Event<'_>) -> bool {
        self.has_begun = true;
        let Ok(writer) = &mut self.writer else { return false };
        let taken = writer.take(event).and_then(|()| {
            if writer.out.len() as u64 > self.longest {
                Err(Error::unsupported(format!("the tree is longer than {} bytes", self.longest)))
            } else {
                Ok(())
            }
        });
        taken.map_err(|error| self.fail(&error)).is_ok()
    }

    fn fail(&mut self, error: &Error) {
        if self.writer.is_ok() {
            self.writer = Err(error.clone());
        }
    }
}

/// Returns the JSON of a text, for tests and fuzzing.
///
/// # Errors
///
/// The text is not a valid tree.
#[doc(hidden)]
pub fn of_text(text: &[u8], tagged: bool) -> Result<Vec<u8>> {
    let tags = if tagged { Tags::Kept } else { Tags::Dropped };
    let tree: Arc<dyn Content> = Arc::new(Text::new(text));
    let mut bytes = Vec::new();
    let BothMeasured { texts, merges, hidden, .. } = measure(tree.clone())?;
    let hidden = hidden[tags as usize].clone();
    let mut generator = JsonText { tree: tree.clone(), tags, merges, hidden }.generator()?;
    while generator.more(&mut bytes)? {}
    debug_assert_eq!(texts[tags as usize].len, bytes.len() as u64);
    debug_assert!(tagged || is_in_one_line(&*tree, &bytes));
    Ok(bytes)
}

/// True if [`JsonLine`] makes `text`, without its line breaks and indentation.
fn is_in_one_line(tree: &dyn Content, text: &[u8]) -> bool {
    let lines = text.split(|byte| *byte == b'\n');
    let line: Vec<u8> = lines.flat_map(<[u8]>::trim_ascii_start).copied().collect();
    JsonLine::new(tree, u64::MAX).end(tree).is_ok_and(|json| json.text == line)
}

#[cfg(test)]
mod tests;
