//! The text of `tree.json` and `tree.tagged.json`: the tree for programs that read JSON.
//!
//! One walk over the document of the tree measures both texts. `docs/views.md` has the rules.
//!
//! | module | what it does |
//! |---|---|
//! | [`walk`] | goes from node to node |
//! | [`output`] | writes JSON |
//! | [`members`] | equal keys, and members added by merge keys |
//! | [`pointers`] | JSON pointers to the nodes that aliases stand for |
//! | [`nulls`] | aliases for which there is no reference |
//! | [`scalar`] | converts a scalar to JSON |
//! | [`numbers`] | number keys that are equal in Python |

use std::sync::Arc;

use asdf_file::asdf::computed::Computed;
use asdf_file::asdf::kept_document::{KeptDocument, Remade};
use asdf_file::folder::File;
use asdf_file::generated::{Generated, Generator, Measured, Measuring};
use asdf_tree::yaml::document::Document;
use members::Members;
use output::JsonOutput;
use seekable::cache::Cache;
use seekable::content::{Content, Text};
use seekable::error::{Error, Result};
use seekable::workers::turns::in_turn;
use walk::Walk;

mod members;
mod nulls;
mod numbers;
mod output;
mod pointers;
mod scalar;
mod walk;

/// The treatment of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// Tags are dropped: `tree.json`.
    Dropped,
    /// Tags are kept as `{"$tag": …, "$value": …}`: `tree.tagged.json`.
    Kept,
}

/// The results of measuring both texts: without and with tags.
#[derive(Debug)]
pub(super) struct BothMeasured {
    texts: [Measured; 2],
    /// A note on aliases that are null.
    pub(super) note: Option<String>,
}

/// A tree of which JSON can be written.
#[derive(Debug)]
struct Tree {
    document: Arc<Document>,
    members: Arc<Members>,
}

/// The source of the JSON of a tree.
#[derive(Debug)]
struct JsonSource {
    document: Arc<KeptDocument>,
    members: Remade<Members>,
}

impl JsonSource {
    fn new(document: &Arc<KeptDocument>, cache: &Arc<Cache>) -> Self {
        Self { document: document.clone(), members: Remade::new(cache) }
    }

    /// # Errors
    ///
    /// The tree can't be read, or there is no JSON of it.
    fn get(&self) -> Result<Tree> {
        let document = self.document.get()?;
        let members = self.members.get(|| members_of(&document))?;
        Ok(Tree { document, members })
    }

    /// Keeps a tree for the next reader.
    fn keep(&self, tree: &Tree) {
        self.document.keep(&tree.document);
        self.members.keep(&tree.members, tree.members.weight());
    }
}

fn members_of(document: &Document) -> Result<Members> {
    document.fault().map_or_else(|| Members::of(document), |fault| Err(fault.clone()))
}

/// Returns the file with the JSON of a document. Both texts are measured at the first call, and `computed` keeps the
/// result: a [`BothMeasured`].
pub(super) fn file(document: &Arc<KeptDocument>, computed: &Computed, tags: Tags) -> File {
    let cache = &document.cache;
    let source = computed.get_or_compute(|| Arc::new(JsonSource::new(document, cache)));
    let is_measured = || computed.get::<Result<BothMeasured>>().is_some();
    // The wait for memory comes before the others wait for this thread.
    let _room = if is_measured() { None } else { document.demand() };
    let measured = computed.get_or_try_compute(|| match in_turn(document.tree.len(), || measure(source)) {
        Err(error) if error.is_of_reading() => Err(error),
        measured => Ok(measured),
    });
    match measured {
        Ok(Ok(both)) => {
            let text = JsonText { source: source.clone(), tags };
            both.texts[tags as usize].file(text, cache)
        }
        Ok(Err(error)) => File::unreadable(error.clone()),
        Err(error) => File::unreadable(error),
    }
}

impl Tree {
    /// Returns a note on the aliases that are null in the JSON.
    fn note(&self, output: &JsonOutput) -> Option<String> {
        let mut nulls = self.members.nulls.clone();
        nulls.add_all(&output.nulls);
        nulls.note(&self.document)
    }
}

fn measure(source: &JsonSource) -> Result<BothMeasured> {
    let tree = source.get()?;
    let mut walk = Walk::default();
    let mut outputs = [Tags::Dropped, Tags::Kept].map(JsonOutput::new);
    let mut texts = [Measuring::default(), Measuring::default()];
    loop {
        let goes_on = walk.more(&tree, &mut outputs)?;
        for (output, text) in outputs.iter_mut().zip(&mut texts) {
            text.add(&output.bytes);
            output.bytes.clear();
        }
        if !goes_on {
            break;
        }
    }
    let texts = texts.map(Measuring::end);
    if !texts.iter().all(Measured::is_small) {
        source.keep(&tree);
    }
    Ok(BothMeasured { texts, note: tree.note(&outputs[Tags::Dropped as usize]) })
}

/// The JSON of a tree.
#[derive(Debug)]
struct JsonText {
    source: Arc<JsonSource>,
    tags: Tags,
}

impl Generated for JsonText {
    fn generator(&self) -> Result<Box<dyn Generator>> {
        let tree = self.source.get()?;
        self.source.keep(&tree);
        Ok(Box::new(JsonGenerator { tree, walk: Walk::default(), output: JsonOutput::new(self.tags) }))
    }

    fn weight(&self) -> u64 {
        let document = &self.source.document;
        if document.is_used() { 1 << 20 } else { document.memory() }
    }
}

struct JsonGenerator {
    tree: Tree,
    walk: Walk,
    output: JsonOutput,
}

impl Generator for JsonGenerator {
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let goes_on = self.walk.more(&self.tree, std::slice::from_mut(&mut self.output))?;
        out.append(&mut self.output.bytes);
        Ok(goes_on)
    }

    /// A document that the cache keeps, or that others use, too, counts there.
    fn weight(&self) -> u64 {
        let is_shared = Arc::strong_count(&self.tree.document) > 1;
        (512 << 10) + if is_shared { 0 } else { self.tree.document.weight() + self.tree.members.weight() }
    }
}

/// The finished JSON of a tree.
#[derive(Debug, PartialEq, Eq)]
pub struct TreeJson {
    /// The JSON.
    pub text: Vec<u8>,
    /// Says which aliases are null, if there are any.
    pub note: Option<String>,
}

/// Returns the JSON of a tree without its tags, in one line.
///
/// # Errors
///
/// The text is not a valid tree, or its JSON is longer than allowed.
pub(crate) fn in_one_line(document: &Arc<Document>, longest: u64) -> Result<TreeJson> {
    let tree = Tree { document: document.clone(), members: Arc::new(members_of(document)?) };
    let mut walk = Walk::default();
    let mut output = JsonOutput::in_one_line();
    while walk.more(&tree, std::slice::from_mut(&mut output))? {
        if output.bytes.len() as u64 > longest {
            break;
        }
    }
    if output.bytes.len() as u64 > longest {
        return Err(Error::unsupported(format!("the tree is longer than {longest} bytes")));
    }
    Ok(TreeJson { note: tree.note(&output), text: output.bytes })
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
    let cache = Arc::new(Cache::with_threads(1 << 20, 1));
    let source = Arc::new(JsonSource::new(&Arc::new(KeptDocument::new(tree, &cache)), &cache));
    let BothMeasured { texts, .. } = measure(&source)?;
    let mut bytes = Vec::new();
    let mut generator = JsonText { source: source.clone(), tags }.generator()?;
    while generator.more(&mut bytes)? {}
    debug_assert_eq!(texts[tags as usize].len, bytes.len() as u64);
    debug_assert!(tagged || is_in_one_line(&source, &bytes));
    Ok(bytes)
}

/// True if [`in_one_line`] makes `text`, without its line breaks and indentation.
fn is_in_one_line(source: &JsonSource, text: &[u8]) -> bool {
    let lines = text.split(|byte| *byte == b'\n');
    let line: Vec<u8> = lines.flat_map(<[u8]>::trim_ascii_start).copied().collect();
    let json = source.document.get().and_then(|document| in_one_line(&document, u64::MAX));
    json.is_ok_and(|json| json.text == line)
}

#[cfg(test)]
mod tests;
