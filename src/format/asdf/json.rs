//! `tree.json` and `tree.tagged.json`: the tree for programs that read JSON.
//!
//! One pass over the events of the tree measures both texts. Texts of up to [`SMALL`] bytes are kept from
//! that pass. A longer text is generated again from the start of the tree while it is read, and is cached in
//! units like a compressed block. `docs/views.md` has the rules.
//!
//! | module | what it does |
//! |---|---|
//! | [`writer`] | converts events to JSON, in memory that does not grow with the tree |
//! | [`scalar`] | converts a scalar to JSON |
//! | [`numbers`] | number keys that are equal in Python |
//! | [`pointers`] | JSON pointers that are still valid |
//! | [`merges`] | members added by merge keys |

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::view::{AsdfFile, View};
use crate::content::folder::{File, Keeping, Node, Renewal, Signature};
use crate::content::{Content, Text};
use crate::decode::{Decoded, Decoder, Sequential};
use crate::error::{Error, Result};
use crate::format::{Defect, Severity};
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

/// Maximal length of a text that is kept as long as the file is open, in bytes.
const SMALL: usize = 256 << 10;
/// Maximal number of bytes remembered for anchors and merge keys, and of bytes that these add to the text.
const MOST_HELD: usize = 16 << 20;

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

/// The results of measuring a text.
#[derive(Clone, Debug)]
struct Measured {
    len: u64,
    hash: u64,
    /// The whole text, if it is small.
    text: Option<Text>,
}

/// The results of measuring both texts: without and with tags.
#[derive(Debug)]
struct BothMeasured {
    texts: [Measured; 2],
    merges: Arc<Merges>,
}

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
            // Both files have the same defect.
            Some(Err(error)) if self.0 == Tags::Dropped => {
                let files = format!("{} and {}", self.name(), Self::WITH_TAGS.name());
                let what = format!("{files} can't be read: {}", error.message());
                vec![Defect { severity: Severity::Note, offset: 0, block: None, what }]
            }
            _ => Vec::new(),
        }
    }
}

fn json_file(file: &AsdfFile, tags: Tags) -> File {
    let both = match file.computed.get_or_compute(|| measure(file.tree())) {
        Ok(both) => both,
        Err(error) => return unreadable(error.clone()),
    };
    let measured = &both.texts[tags as usize];
    let renewal = Renewal::WhileSame(Signature::new(format!("{} {:x}", measured.len, measured.hash)));
    if let Some(text) = &measured.text {
        return File { renewal, ..File::new(Arc::new(text.clone()), Keeping::All) };
    }
    let stream = JsonStream { tree: file.tree(), tags, merges: both.merges.clone() };
    let content = Decoded::stream(stream, measured.len, &file.context.cache);
    File { renewal, ..File::new(Arc::new(content), Keeping::All) }
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

/// The JSON of a tree, as a stream that begins at the start of the tree.
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

struct JsonDecoder {
    events: Events<'static>,
    writer: Writer,
    /// Number of bytes of the writer's output that have been read.
    given: usize,
    ended: bool,
}

impl JsonDecoder {
    /// Converts the next event.
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

/// Returns the JSON of a tree without its tags, of at most `longest` bytes. Unlike the file, it is made in one
/// pass.
///
/// # Errors
///
/// The text is not a valid tree, or its JSON is longer.
pub(in crate::format) fn of_tree(tree: &dyn Content, longest: u64) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Tags::Dropped, Arc::new(Merges::of(tree)?));
    let check = |writer: &Writer| match writer.out.len() as u64 > longest {
        true => Err(Error::unsupported(format!("the tree is longer than {longest} bytes"))),
        false => Ok(true),
    };
    each_event(&Commented(tree), |event| writer.take(event).and_then(|()| check(&writer)))?;
    writer.finish();
    check(&writer).map(|_| writer.out)
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
    let measured = measure(tree.clone())?;
    let mut decoder = JsonStream { tree: tree.clone(), tags, merges: measured.merges.clone() }.decoder();
    let mut piece = [0; 1000];
    loop {
        match decoder.read(&mut piece)? {
            0 => break,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    debug_assert_eq!(measured.texts[tags as usize].len, bytes.len() as u64);
    debug_assert!(tagged || of_tree(&*tree, u64::MAX).is_ok_and(|once| once == bytes));
    Ok(bytes)
}

#[cfg(test)]
mod tests;
