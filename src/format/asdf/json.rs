//! `tree.json` and `tree.tagged.json`: the tree for programs that read JSON.
//!
//! One pass over the events of the tree measures both files. Texts of up to [`SMALL`] bytes are kept from
//! that pass. A longer text is generated again from the start of the tree when it is read, and its units are
//! cached like those of a compressed block. `docs/views.md` has the rules.
//!
//! | module | responsibility |
//! |---|---|
//! | [`writer`] | events to JSON, in memory that does not grow with the tree |
//! | [`scalar`] | one scalar as JSON |
//! | [`numbers`] | keys that are equal in Python |
//! | [`pointers`] | references that still refer to their node |
//! | [`merges`] | members added by merge keys |

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::AsdfFile;
use crate::content::folder::{File, Keeping, Renewal, Signature};
use crate::content::{Content, Text};
use crate::decode::{Decoded, Decoder, Sequential};
use crate::error::{Error, Result};
use crate::format::{Container, Defect, Severity};
use crate::yaml::event::Event;
use crate::yaml::parser::Events;
use crate::yaml::read::each_event;
use crate::yaml::survey::Commented;
use merges::Merges;
use writer::Writer;

mod merges;
mod numbers;
mod pointers;
mod scalar;
mod writer;

/// Names of the files.
pub(super) const FILES: [&str; 2] = ["tree.json", "tree.tagged.json"];

/// Maximum length in bytes of a text that is kept in memory for as long as the file is open.
const SMALL: usize = 256 << 10;
/// Limit in bytes for the memory that anchors and merge keys take, and for the text that they add.
const MOST_HELD: usize = 16 << 20;

/// The treatment of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// Tags are omitted: `tree.json`.
    Dropped,
    /// `{"$tag": …, "$value": …}`: `tree.tagged.json`.
    Kept,
}

impl Tags {
    fn of(name: &str) -> Option<Self> {
        match FILES.iter().position(|file| *file == name)? {
            0 => Some(Self::Dropped),
            _ => Some(Self::Kept),
        }
    }
}

/// Length and hash of a text, from a pass over the tree.
#[derive(Clone, Debug)]
struct Measured {
    len: u64,
    hash: u64,
    /// The whole text, if it is small.
    text: Option<Text>,
}

/// Length and hash of both texts: without tags, and with tags.
#[derive(Debug)]
pub(super) struct BothMeasured {
    texts: [Measured; 2],
    merges: Arc<Merges>,
}

impl AsdfFile {
    /// Returns the file with this name, if it is one of [`FILES`].
    pub(super) fn json_file(&self, name: &str) -> Option<File> {
        let tags = Tags::of(name)?;
        let (measured, merges) = match self.measured_json() {
            Ok(both) => (&both.texts[tags as usize], both.merges.clone()),
            Err(error) => return Some(unreadable(error.clone())),
        };
        let renewal = Renewal::WhileSame(Signature::new(format!("{} {:x}", measured.len, measured.hash)));
        if let Some(text) = &measured.text {
            return Some(File { renewal, ..File::new(Arc::new(text.clone()), Keeping::All) });
        }
        let stream = JsonStream { tree: self.tree(), tags, merges };
        let content = Decoded::stream(stream, measured.len, &self.context.cache);
        Some(File { renewal, ..File::new(Arc::new(content), Keeping::All) })
    }

    /// True if the tree was not measured yet.
    pub(super) fn measures_json_slowly(&self) -> bool {
        self.views.json.get().is_none()
    }

    fn measured_json(&self) -> &Result<BothMeasured> {
        self.views.json.get_or_init(|| measure(self.tree()))
    }

    /// Returns the note that there is no JSON, once that is known.
    pub(super) fn json_defect(&self) -> Option<Defect> {
        let error = self.views.json.get()?.as_ref().err()?;
        let what = format!("{} and {} can't be read: {}", FILES[0], FILES[1], error.message());
        Some(Defect { severity: Severity::Note, offset: 0, block: None, what })
    }
}

fn unreadable(error: Error) -> File {
    File { content: Err(error), ..File::new(Arc::new(Text::default()), Keeping::Nothing) }
}

fn measure(tree: Arc<dyn Content>) -> Result<BothMeasured> {
    let merges = Arc::new(Merges::of(&*tree)?);
    let commented = Commented(&*tree);
    let mut texts = [Tags::Dropped, Tags::Kept].map(|tags| Measuring::new(Writer::new(tags, merges.clone())));
    each_event(&commented, |event| {
        texts.iter_mut().try_for_each(|text| text.take(Some(event)))?;
        Ok::<_, Error>(true)
    })?;
    texts.iter_mut().try_for_each(|text| text.take(None))?;
    Ok(BothMeasured { texts: texts.map(Measuring::end), merges })
}

/// A text that is being measured.
struct Measuring {
    writer: Writer,
    hasher: XxHash64,
    len: u64,
    text: Option<Vec<u8>>,
}

impl Measuring {
    fn new(writer: Writer) -> Self {
        Self { writer, hasher: XxHash64::with_seed(0), len: 0, text: Some(Vec::new()) }
    }

    fn take(&mut self, event: Option<Event<'_>>) -> Result<()> {
        match event {
            Some(event) => self.writer.take(event)?,
            None => self.writer.finish(),
        }
        let more = &self.writer.out;
        self.len += more.len() as u64;
        self.hasher.write(more);
        self.text = self.text.take().filter(|text| text.len() + more.len() <= SMALL);
        if let Some(text) = &mut self.text {
            text.extend_from_slice(more);
        }
        self.writer.out.clear();
        Ok(())
    }

    fn end(self) -> Measured {
        Measured { len: self.len, hash: self.hasher.finish(), text: self.text.map(Text::new) }
    }
}

/// The JSON text of a tree, as a stream that is generated from the start.
#[derive(Debug)]
struct JsonStream {
    tree: Arc<dyn Content>,
    tags: Tags,
    merges: Arc<Merges>,
}

impl JsonStream {
    fn decoder(&self) -> JsonDecoder {
        let tree = Arc::new(Head(self.tree.clone()));
        let writer = Writer::new(self.tags, self.merges.clone());
        JsonDecoder { events: Events::keeping(tree), writer, given: 0, ended: false }
    }
}

impl Sequential for JsonStream {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(self.decoder()))
    }
}

/// The head of a file, for a parser that owns it.
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

struct JsonDecoder {
    events: Events<'static>,
    writer: Writer,
    /// Number of bytes of the writer's output that were returned.
    given: usize,
    ended: bool,
}

impl JsonDecoder {
    /// Adds the output for the next event.
    fn more(&mut self) -> Result<()> {
        match self.events.next_event()? {
            Some(event) => self.writer.take(event),
            None => {
                self.ended = true;
                self.writer.finish();
                Ok(())
            }
        }
    }
}

impl Decoder for JsonDecoder {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let ready = &self.writer.out[self.given..];
            if ready.is_empty() {
                self.writer.out.clear();
                self.given = 0;
                if self.ended {
                    break;
                }
                self.more()?;
                continue;
            }
            let take = ready.len().min(out.len() - done);
            out[done..done + take].copy_from_slice(&ready[..take]);
            (done, self.given) = (done + take, self.given + take);
        }
        Ok(done)
    }

    fn weight(&self) -> u64 {
        (512 << 10) + self.writer.weight()
    }
}

/// Returns the JSON of a text, for tests and fuzzing.
///
/// # Errors
///
/// Fails if the text is not a valid tree.
#[doc(hidden)]
pub fn of_text(text: &[u8], tagged: bool) -> Result<Vec<u8>> {
    let tags = if tagged { Tags::Kept } else { Tags::Dropped };
    let tree: Arc<dyn Content> = Arc::new(Text::new(text));
    let mut bytes = Vec::new();
    let measured = measure(tree.clone())?;
    let mut decoder = JsonStream { tree, tags, merges: measured.merges.clone() }.decoder();
    let mut piece = [0; 1000];
    loop {
        match decoder.read(&mut piece)? {
            0 => break,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    debug_assert_eq!(measured.texts[tags as usize].len, bytes.len() as u64);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
