//! One screen about a file: `--info`, and `.asdf-mount/info.txt` in a mount.
//!
//! The document of the tree is walked twice: to find how deep it fits on the screen, and to write it.
//!
//! | module | content |
//! |---|---|
//! | [`value`] | a node as a value: an array, a time, a table, a collection on one line |
//! | [`describe`] | a value in words |
//! | [`leaves`] | the scalars of a tree with their paths |
//! | [`outline`] | the tree, one line a key |
//! | [`page`] | `index.html` |
//! | [`line`](mod@line) | a line of styled text, cut to the width of the terminal |

mod describe;
mod leaves;
mod line;
mod outline;
pub mod page;
mod value;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};

use asdf_file::container::{ArrayFacts, ArraySource, Block, Container, Defect, Facts, IN_BLOCKS, Severity};
use asdf_tree::product::FileSummary;
use describe::Blocks;
use line::{Style, TextLine};
use outline::{Outline, OutlineSink};
use seekable::error::{Error, Kind, Result, one_line};

pub use describe::data_size;
pub use leaves::each_leaf;

/// Maximum number of lines of one collection in an outline.
pub const MAX_CHILDREN: u64 = 40;
/// Maximum number of defects that are listed.
const MAX_DEFECTS: usize = 5;
/// Maximum number of blocks whose headers are read for the line of blocks.
const MAX_BLOCKS: usize = 1 << 12;
/// Maximum number of arrays that are listed for a format without arrays in its tree.
const MAX_ARRAYS: usize = 64;

/// The form of the text.
#[derive(Clone, Copy, Debug)]
pub struct InfoForm {
    /// Maximum number of characters of a line.
    pub width: usize,
    /// Number of lines that the tree should not exceed; it is then shown less deep.
    pub rows: usize,
    /// The depth of the tree; `None` for as deep as fits.
    pub depth: Option<usize>,
    /// True to show the whole tree, and values in full.
    pub all: bool,
    /// True for a terminal with colours.
    pub colour: bool,
    /// Maximum number of lines of one collection, unless `all` is set.
    pub children: u64,
}

impl InfoForm {
    /// The form of a text in a file.
    pub const PLAIN: Self =
        Self { width: 100, rows: 50, depth: None, all: false, colour: false, children: MAX_CHILDREN };

    fn max_children(&self) -> u64 {
        if self.all { u64::MAX } else { self.children }
    }
}

/// Writes one screen about a file. `name` is shown as its name.
///
/// # Errors
/// The file can't be read, or `out` can't be written.
pub fn write(container: &dyn Container, name: &str, form: InfoForm, out: &mut dyn Write) -> Result<()> {
    let document = container.document()?;
    let mut counted = Outline::counted(form);
    counted.take(&document);
    let depth = form.depth.unwrap_or_else(|| if form.all { usize::MAX } else { counted.fitting_depth() });
    let summary = if_several(container, FileSummary::of(&document))?;
    let mut writer = LineWriter { form, out, failed: None };
    head(container, name, &summary, &mut writer)?;
    writer.line(&TextLine::default());
    let blocks = ContainerBlocks::of(container);
    Outline::shown(form, depth, &blocks, &mut writer).take(&document);
    if let Some(fault) = document.fault() {
        writer.line(&TextLine::of(
            Style::Damage,
            format!("the tree can't be read further: {}", fault.message()),
        ));
    }
    blocks.finish()?;
    if !container.is_editable() {
        arrays(container, &mut writer)?;
    }
    match writer.failed {
        Some(error) => Err(error.into()),
        None => Ok(writer.out.flush()?),
    }
}

/// Returns the facts of the displayed image in place of those of the file, if the images of the file differ.
fn if_several(container: &dyn Container, summary: FileSummary) -> Result<FileSummary> {
    if !summary.has_several() {
        return Ok(summary);
    }
    Ok(facts_of_displayed(container)?.unwrap_or(summary))
}

/// Returns the facts of the image that `preview.png` shows.
fn facts_of_displayed(container: &dyn Container) -> Result<Option<FileSummary>> {
    match container.displayed_image()? {
        Some(path) => container.facts_of_image(&path),
        None => Ok(None),
    }
}

/// Returns the facts of the picture of a file: those of the image at a path of `arrays/`, or of the one that is displayed.
/// If the file has no picture, returns its own facts.
///
/// # Errors
/// The tree can't be read now.
pub fn summary_of_picture(container: &dyn Container, path: Option<&[String]>) -> Result<FileSummary> {
    let facts = match path {
        Some(path) => container.facts_of_image(path)?,
        None => facts_of_displayed(container)?,
    };
    facts.map_or_else(|| summary(container), Ok)
}

/// Returns the facts that say which file it is. If its images differ, these are the facts of the displayed one.
///
/// # Errors
/// The tree can't be read now.
pub fn summary(container: &dyn Container) -> Result<FileSummary> {
    let document = container.document()?;
    if_several(container, FileSummary::of(&document))
}

/// Returns the damage that the headers and the tree of a file tell; its data are not read.
///
/// # Errors
/// The tree or a header can't be read now.
pub fn damage(container: &dyn Container) -> Result<Vec<Defect>> {
    // The count needs a search for all blocks.
    let count = container.block_count()?;
    // Other formats have no text of a tree, and a check of their index may read much. A file that is cut off has no last
    // block.
    let of_tree = if container.is_editable() {
        container.check_tree()?
    } else {
        let last = count.checked_sub(1).map(|last| broken_block(container, last)).transpose()?.flatten();
        broken_tree(container)?.into_iter().chain(last).collect()
    };
    let all = container.defects().into_iter().chain(of_tree);
    Ok(all.filter(|defect| defect.severity == Severity::Damage).collect())
}

/// Returns the place at which a tree is not valid YAML.
fn broken_tree(container: &dyn Container) -> Result<Option<Defect>> {
    let document = container.document()?;
    Ok(document.fault().map(|fault| Defect {
        severity: Severity::Damage,
        offset: fault.offset().unwrap_or(0),
        block: None,
        what: format!("the tree can't be read further: {}", fault.message()),
    }))
}

/// Returns the damage of a block's header.
fn broken_block(container: &dyn Container, n: usize) -> Result<Option<Defect>> {
    let error = container.block(n)?.content.err().filter(|error| error.kind() == Kind::Damaged);
    Ok(error.map(|error| in_block(n, Severity::Damage, &error)))
}

fn in_block(n: usize, severity: Severity, error: &Error) -> Defect {
    Defect { severity, offset: error.offset().unwrap_or(0), block: Some(n), what: error.message_in_block() }
}

/// Returns a defect with its block.
pub fn words_of(defect: &Defect) -> String {
    let place = defect.block.map_or_else(String::new, |block| format!("block {block}: "));
    one_line(&format!("{place}{}", defect.what))
}

/// True if the output should have colours, `$NO_COLOR` and `$TERM` considered.
pub fn wants_colour(is_terminal: bool) -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !is_unwanted && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Returns a line, cut to the width of the form.
pub fn cut_line(line: &str, form: InfoForm) -> String {
    TextLine::of(Style::Plain, line.to_owned()).text(if form.all { usize::MAX } else { form.width }, false)
}

/// Writes lines until one can't be written.
struct LineWriter<'o> {
    form: InfoForm,
    out: &'o mut dyn Write,
    failed: Option<io::Error>,
}

impl OutlineSink for LineWriter<'_> {
    fn line(&mut self, line: &TextLine, _: usize) -> bool {
        LineWriter::line(self, line)
    }
}

impl LineWriter<'_> {
    fn line(&mut self, line: &TextLine) -> bool {
        if self.failed.is_none() {
            let width = if self.form.all { usize::MAX } else { self.form.width };
            let text = line.text(width, self.form.colour);
            self.failed = writeln!(self.out, "{text}").err();
        }
        self.failed.is_none()
    }

    fn fact(&mut self, name: &str, value: &str) {
        let mut line = TextLine::default();
        line.push(Style::Key, format!("{name:<11}"));
        line.push(Style::Plain, one_line(value));
        self.line(&line);
    }
}

/// Writes the first lines: name, format, product, size, blocks, soundness.
fn head(
    container: &dyn Container,
    name: &str,
    summary: &FileSummary,
    out: &mut LineWriter<'_>,
) -> Result<()> {
    let size = container.source().size_now()?;
    let mut title = TextLine::default();
    title.push(Style::Title, one_line(name));
    let mut format = format!("  {} {}, {}", container.format(), container.version(), data_size(size));
    if let Some(writer) = summary.software() {
        format += &format!(", written by {writer}");
    }
    title.push(Style::Plain, one_line(&format));
    out.line(&title);
    for (key, value) in summary.facts() {
        out.fact(key, &value);
    }
    let blocks = all_blocks(container)?;
    out.fact("blocks", &blocks_line(&blocks));
    let mut defects = damage(container)?;
    defects.extend(blocks.unread);
    if defects.is_empty() {
        out.fact("state", "no damage found in the headers; --check reads the data, too");
    }
    let others = container.defects().into_iter().filter(|defect| defect.severity != Severity::Damage);
    defects.extend(others);
    for defect in defects.iter().take(MAX_DEFECTS) {
        let (style, word) = match defect.severity {
            Severity::Damage => (Style::Damage, "damage"),
            Severity::Unread => (Style::Damage, "not read"),
            Severity::Note => (Style::Key, "note"),
        };
        let mut line = TextLine::of(style, format!("{word:<11}"));
        line.push(Style::Plain, words_of(defect));
        out.line(&line);
    }
    if defects.len() > MAX_DEFECTS {
        out.fact("", &format!("… {} more; --check lists them", defects.len() - MAX_DEFECTS));
    }
    Ok(())
}

/// The first blocks of a file.
struct AllBlocks {
    count: usize,
    /// Codecs, and the number of their blocks.
    codecs: BTreeMap<String, usize>,
    stored: u64,
    decoded: u64,
    /// The first one that can't be read here, as its compression is unknown.
    unread: Option<Defect>,
}

fn all_blocks(container: &dyn Container) -> Result<AllBlocks> {
    let count = container.block_count()?;
    let mut codecs: BTreeMap<String, usize> = BTreeMap::new();
    let mut stored: u64 = 0;
    let mut decoded: u64 = 0;
    let mut unread = None;
    for n in 0..count.min(MAX_BLOCKS) {
        let Block { facts, content, .. } = container.block(n)?;
        let error = content.err().filter(|error| error.kind() == Kind::Unsupported);
        unread = unread.or_else(|| error.map(|error| in_block(n, Severity::Unread, &error)));
        stored = stored.saturating_add(stored_size(&facts));
        decoded = decoded.saturating_add(facts.data_size);
        if let Some(codec) = describe::codec_of(&facts) {
            *codecs.entry(codec).or_default() += 1;
        }
    }
    Ok(AllBlocks { count, codecs, stored, decoded, unread })
}

/// Returns the number of blocks, their compression and sizes.
fn blocks_line(blocks: &AllBlocks) -> String {
    let AllBlocks { count, codecs, stored, decoded, .. } = blocks;
    if *count == 0 {
        return "none".to_owned();
    }
    let mut text = format!("{count}");
    let named: Vec<String> = codecs.iter().map(|(codec, uses)| format!("{uses} {codec}")).collect();
    if !named.is_empty() {
        text += &format!(" ({})", named.join(", "));
    }
    text += &format!(", {}", data_size(*stored));
    if decoded != stored {
        text += &format!(", {} uncompressed", data_size(*decoded));
    }
    if *count > MAX_BLOCKS {
        text += &format!(" in the first {MAX_BLOCKS}");
    }
    text
}

/// Returns the size of a block in the file.
fn stored_size(facts: &Facts) -> u64 {
    let number = |key: &str| facts.get(key).and_then(|size| size.parse().ok());
    number("used_size").or_else(|| number("cbytes")).unwrap_or(facts.data_size)
}

/// Lists the arrays of a format whose tree does not show them.
fn arrays(container: &dyn Container, out: &mut LineWriter<'_>) -> Result<()> {
    let mut found = Vec::new();
    let mut count: usize = 0;
    let most = if out.form.all { usize::MAX } else { MAX_ARRAYS };
    container.each_array(&mut |array| {
        count += 1;
        if found.len() < most {
            found.push(array);
        }
    })?;
    if count == 0 {
        return Ok(());
    }
    out.line(&TextLine::of(Style::Key, "arrays:".to_owned()));
    let blocks = ContainerBlocks::of(container);
    for ArrayFacts { path, datatype, shape, source } in found {
        let mut line = TextLine::of(Style::Key, format!("  {}: ", one_line(&path)));
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        let mut text = format!("{datatype} ({})", shape.join(", "));
        if let Some(stored) = blocks.stored(&source) {
            text += &format!(" {stored}");
        }
        line.push(Style::Type, one_line(&text));
        out.line(&line);
    }
    if count > most {
        out.line(&TextLine::of(Style::Plain, format!("  … {} more", count - most)));
    }
    blocks.finish()
}

/// The blocks of a container.
struct ContainerBlocks<'c> {
    container: &'c dyn Container,
    /// The first error that says nothing of the file, such as that of a disk.
    unread: RefCell<Option<Error>>,
}

impl<'c> ContainerBlocks<'c> {
    fn of(container: &'c dyn Container) -> Self {
        Self { container, unread: RefCell::new(None) }
    }

    fn try_block(&self, number: Option<usize>) -> Result<Option<describe::BlockSize>> {
        let number = match number {
            Some(number) => number,
            None => match self.container.block_count()?.checked_sub(1) {
                Some(last) => last,
                None => return Ok(None),
            },
        };
        let facts = self.container.block(number)?.facts;
        Ok(Some(describe::BlockSize { codec: describe::codec_of(&facts), stored: stored_size(&facts) }))
    }

    /// Returns codec and size of an array as they are stored.
    fn stored(&self, source: &ArraySource) -> Option<String> {
        let (codec, stored) = match source {
            ArraySource::Block(number) => {
                self.block(Some(*number)).map(|block| (block.codec, block.stored))?
            }
            ArraySource::Text(place) if place == IN_BLOCKS => {
                let all = all_blocks(self.container).inspect_err(|error| self.keep(error)).ok()?;
                (all.count <= MAX_BLOCKS).then_some((all.codecs.into_keys().next(), all.stored))?
            }
            ArraySource::Text(_) => return None,
        };
        let codec = codec.map_or_else(String::new, |codec| format!("{codec} "));
        Some(format!("{codec}{}", data_size(stored)))
    }

    fn keep(&self, error: &Error) {
        if error.is_of_reading() {
            self.unread.borrow_mut().get_or_insert_with(|| error.clone());
        }
    }

    /// Returns the error of a block that can't be read now.
    fn finish(self) -> Result<()> {
        self.unread.into_inner().map_or(Ok(()), Err)
    }
}

impl Blocks for ContainerBlocks<'_> {
    fn block(&self, number: Option<usize>) -> Option<describe::BlockSize> {
        self.try_block(number).inspect_err(|error| self.keep(error)).unwrap_or(None)
    }

    fn is_missing(&self, number: Option<usize>) -> bool {
        self.container.block_count().is_ok_and(|count| number.is_none_or(|number| number >= count))
    }
}

#[cfg(test)]
mod tests;
