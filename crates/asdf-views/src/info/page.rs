//! `index.html`: a page about a file, for a browser.
//!
//! The page is one file: its picture is a `data:` URI, it has no scripts, and it loads nothing. All links are relative.
//! Its length follows from the tree and the headers of the blocks: whatever depends on data is written into a slot of
//! fixed length, and blanks fill the rest of it. So `ls -l` reads no data.
//!
//! | module | content |
//! |---|---|
//! | [`html`] | escaped text, links |
//! | [`outline`] | the tree as nested lists |
//! | [`arrays`] | the table of arrays, and the arrays themselves by path |
//! | [`references`] | arrays in other files |
//! | [`sample`] | numbers from a bounded sample of an array |
//! | [`flags`] | counts of the flags in an array of data quality |
//! | [`plot`] | curves as SVG |
//! | [`tables`] | the first rows of tables |
//! | [`frames`] | some frames of a trajectory |
//! | [`sky`] | the position and size of the field |
//! | [`image`] | the picture |
//! | [`gallery`] | the page of a directory |

mod arrays;
mod flags;
mod frames;
pub mod gallery;
mod html;
mod image;
mod outline;
mod plot;
mod references;
mod sample;
mod sky;
mod tables;

use std::ffi::OsStr;
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use asdf_file::array::literal;
use asdf_file::container::Container;
use asdf_file::folder::{File, Renewal};
use asdf_tree::product;
use asdf_tree::product::FileSummary;
use seekable::content::{Content, copy_from};
use seekable::error::{Error, Kind, Result};
use seekable::sync::locked;

use self::arrays::{ArrayRow, Views};
use self::html::{escape, link};
use self::outline::TreeHtml;
use self::sample::Budget;
use super::outline::Outline;
use super::{ContainerBlocks, InfoForm, all_blocks, blocks_line, data_size, facts_of_displayed, leaves};

const STYLE: &str = include_str!("page/style.css");
/// The start of each page, up to its title. If a text of the file were taken for markup, the policy would still keep
/// scripts from running, and anything from being loaded.
const HEAD: &str = include_str!("page/head.html");

/// The form of the tree in a page.
const TREE: InfoForm = InfoForm {
    width: 400,
    rows: usize::MAX,
    depth: Some(MAX_DEPTH),
    all: false,
    colour: false,
    children: 2000,
};
/// Maximum nesting of the tree. Browsers give up at 512 elements within each other.
const MAX_DEPTH: usize = 40;
/// Maximum number of calibration steps.
const MAX_STEPS: usize = 64;
/// Maximum length of the path of a calibration step's or a unit's mapping.
const MAX_PATH: usize = 400;
/// Maximum number of units of arrays.
const MAX_UNITS: usize = 4096;
/// Maximum number of one-dimensional arrays that are plotted.
const MAX_PLOTS: usize = 12;
/// Maximum number of arrays of flags that are counted.
const MAX_FLAGS: usize = 2;
/// Maximum number of defects that are shown.
const MAX_DEFECTS: usize = 5;

/// The length of the page of a generation, and its bytes while a reader holds them.
#[derive(Default)]
pub struct PageMemo {
    len: Mutex<Option<u64>>,
    /// The plan that gave the length, until the page is made.
    plan: Mutex<Option<Plan>>,
    bytes: Mutex<Weak<Vec<u8>>>,
}

impl std::fmt::Debug for PageMemo {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PageMemo").field("len", &self.len).finish_non_exhaustive()
    }
}

impl PageMemo {
    /// True if the length is known, so that a lookup takes no time.
    pub fn is_known(&self) -> bool {
        self.len().is_some()
    }

    fn len(&self) -> Option<u64> {
        *locked(&self.len)
    }

    fn set_len(&self, len: u64) {
        *locked(&self.len) = Some(len);
    }
}

/// A callback that returns true for the names of views that are shown.
pub(crate) type IsShown = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Returns the page about a file.
///
/// # Errors
/// The tree can't be read now.
pub fn file(container: &Arc<dyn Container>, is_shown: IsShown, memo: &Arc<PageMemo>) -> Result<File> {
    let page = Page { container: container.clone(), is_shown };
    let len = match memo.len() {
        Some(len) => len,
        None => {
            let plan = page.plan()?;
            let len = plan.len();
            *locked(&memo.plan) = Some(plan);
            memo.set_len(len);
            len
        }
    };
    let content = PageContent { page, len, memo: memo.clone(), bytes: OnceLock::new() };
    Ok(File { renewal: Renewal::Anew, ..File::changing(Arc::new(content)) })
}

/// The bytes of a page, which are made when they are first read.
struct PageContent {
    page: Page,
    len: u64,
    memo: Arc<PageMemo>,
    bytes: OnceLock<Arc<Vec<u8>>>,
}

impl std::fmt::Debug for PageContent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PageContent").field("len", &self.len).finish_non_exhaustive()
    }
}

impl PageContent {
    fn bytes(&self) -> Result<&Arc<Vec<u8>>> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let mut shared = locked(&self.memo.bytes);
        let bytes = match shared.upgrade() {
            Some(bytes) => bytes,
            None => {
                let known = locked(&self.memo.plan).take();
                let plan = known.map_or_else(|| self.page.plan(), Ok)?;
                let mut bytes = plan.filled(&self.page)?;
                // Other files, to which the tree refers, may have changed or gone.
                if (bytes.len() as u64) < self.len {
                    bytes.resize(usize::try_from(self.len).unwrap_or(bytes.len()), b' ');
                }
                let bytes = Arc::new(bytes);
                *shared = Arc::downgrade(&bytes);
                bytes
            }
        };
        if bytes.len() as u64 != self.len {
            self.memo.set_len(bytes.len() as u64);
            return Err(Error::new(Kind::Changed, "a file to which the tree refers has changed"));
        }
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

impl Content for PageContent {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.len {
            return Ok(0);
        }
        Ok(copy_from(self.bytes()?, offset, buf))
    }

    fn is_slow(&self) -> bool {
        true
    }
}

/// A part of a page whose length is known before the data are read.
enum PagePart {
    Text(String),
    Slot { len: usize, what: Slot },
}

/// The content of a slot.
enum Slot {
    Picture,
    State,
    Sky {
        path: Option<String>,
        ra: Option<String>,
        dec: Option<String>,
    },
    Statistics(ArrayRow),
    /// The cells of an array in another file.
    Reference(ArrayRow),
    Flags(ArrayRow),
    Curve(ArrayRow),
    Table(String),
    Frames,
}

/// The parts of a page.
#[derive(Default)]
struct Plan {
    parts: Vec<PagePart>,
    telescope: String,
}

impl Plan {
    fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(PagePart::Text(last)) => last.push_str(text),
            _ => self.parts.push(PagePart::Text(text.to_owned())),
        }
    }

    fn slot(&mut self, len: usize, what: Slot) {
        self.parts.push(PagePart::Slot { len, what });
    }

    fn len(&self) -> u64 {
        let len = |part: &PagePart| match part {
            PagePart::Text(text) => text.len() as u64,
            PagePart::Slot { len, .. } => *len as u64,
        };
        self.parts.iter().map(len).sum()
    }

    /// Returns the page with its slots filled.
    fn filled(&self, page: &Page) -> Result<Vec<u8>> {
        let views = page.views()?;
        let mut budget = Budget::new(page.container.source().is_slow());
        let mut out = Vec::with_capacity(usize::try_from(self.len()).unwrap_or_default());
        for part in &self.parts {
            match part {
                PagePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                PagePart::Slot { len, what } => {
                    let end = out.len() + len;
                    match page.fill(what, *len, &views, &self.telescope, &mut budget) {
                        Ok(text) if text.len() <= *len => out.extend_from_slice(text.as_bytes()),
                        Ok(_) => {}
                        Err(error) if error.kind() == Kind::Changed => return Err(error),
                        Err(error) => {
                            let text = what.unreadable(&error);
                            if text.len() <= *len {
                                out.extend_from_slice(text.as_bytes());
                            }
                        }
                    }
                    out.resize(end, b' ');
                }
            }
        }
        Ok(out)
    }
}

impl Slot {
    /// Returns the content of a slot whose data can't be read.
    fn unreadable(&self, error: &Error) -> String {
        let text = escape(&html::cut(&error.message(), 100));
        match self {
            Self::Statistics(_) => format!("<span class=\"bad\">{text}</span>"),
            Self::Reference(_) => format!("<td colspan=\"6\" class=\"bad\">{text}</td>"),
            _ => format!("<p class=\"bad\">Can't be read: {text}</p>"),
        }
    }
}

/// The source of a page.
struct Page {
    container: Arc<dyn Container>,
    is_shown: IsShown,
}

struct CalibrationStep {
    /// The path, with dots, of the mapping that it describes.
    described: String,
    step: String,
    state: String,
}

/// Keeps the steps of the innermost mapping around an image that has any. `image` is its path, with dots.
fn keep_nearest(steps: &mut Vec<CalibrationStep>, image: &str) {
    steps.retain(|step| {
        let inner = image.strip_prefix(&step.described);
        inner.is_some_and(|inner| step.described.is_empty() || inner.starts_with('.'))
    });
    let innermost = steps.iter().map(|step| step.described.len()).max();
    steps.retain(|step| Some(step.described.len()) == innermost);
}

/// Returns a path such as `steps[2].name` with dots only.
fn dotted(path: &str) -> String {
    path.replace('[', ".").replace(']', "")
}

/// The facts of a tree, found in one pass.
#[derive(Default)]
struct TreeFacts {
    summary: FileSummary,
    steps: Vec<CalibrationStep>,
    /// Paths of mappings, with dots, and their units.
    units: Vec<(String, String)>,
    tree: String,
    /// The reason if the tree can't be read to its end.
    broken: Option<String>,
}

impl Page {
    fn views(&self) -> Result<Views> {
        Views::of(&self.container, &*self.is_shown)
    }

    fn name(&self) -> String {
        let path = self.container.source().path();
        path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
    }

    fn facts(&self) -> Result<TreeFacts> {
        let document = self.container.document()?;
        let mut steps = Vec::new();
        let mut units = Vec::new();
        let mut take = |path: &str, text: &str| {
            if let Some((mapping, step)) = path.rsplit_once("cal_step.")
                && steps.len() < MAX_STEPS
                && mapping.len() < MAX_PATH
                && !step.contains('.')
            {
                let place = dotted(mapping);
                let described = place.trim_end_matches('.');
                let described = described.strip_suffix("meta").unwrap_or(described).trim_end_matches('.');
                let (step, state) = (html::cut(step, 60), html::cut(text, 60));
                steps.push(CalibrationStep { described: described.to_owned(), step, state });
            }
            if let Some(path) = path.strip_suffix(".unit").or((path == "unit").then_some(""))
                && units.len() < MAX_UNITS
                && path.len() < MAX_PATH
                && !product::is_unknown(text)
            {
                units.push((dotted(path), html::cut(text, 40)));
            }
            Ok(())
        };
        // `take` never fails.
        let _ = leaves::each_in(&document, &mut take);
        let blocks = ContainerBlocks::of(&*self.container);
        let mut lines = TreeHtml::default();
        Outline::shown(TREE, MAX_DEPTH, &blocks, &mut lines).take(&document);
        blocks.finish()?;
        // The facts stand beside the picture.
        let displayed = facts_of_displayed(&*self.container)?;
        let summary = displayed.unwrap_or_else(|| FileSummary::of(&document));
        if let Some(image) = self.container.displayed_image()? {
            keep_nearest(&mut steps, &image.join("."));
        }
        let broken = document.fault().map(Error::message);
        Ok(TreeFacts { summary, steps, units, tree: lines.finish(), broken })
    }

    /// Returns the parts of the page.
    fn plan(&self) -> Result<Plan> {
        let facts = self.facts()?;
        let views = self.views()?;
        let found = arrays::found(&self.container, &views, &facts.units)?;
        let name = self.name();
        let mut plan = Plan {
            telescope: facts.summary.get("telescope").unwrap_or_default().to_owned(),
            ..Plan::default()
        };
        plan.push(HEAD);
        plan.push(&format!("<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n", escape(&name)));
        plan.push("<a class=\"skip\" href=\"#arrays\">Skip to the arrays</a>\n");
        self.head(&facts, &name, &mut plan)?;
        plan.push("<main>\n");
        self.top(&facts, &found, &views, &mut plan)?;
        arrays::table(&found, &mut plan);
        self.quality(&facts, &found, &mut plan);
        self.calibration(&facts, &mut plan);
        self.tree(&facts, &mut plan);
        self.python(&found, &name, &mut plan);
        self.curves(&found, &views, &mut plan)?;
        plan.push(
            "</main>\n<footer><p>Made by asdf-mount from the file itself. Numbers from a sample say so.</p>\
                   </footer>\n</body>\n</html>\n",
        );
        Ok(plan)
    }

    fn head(&self, facts: &TreeFacts, name: &str, plan: &mut Plan) -> Result<()> {
        let size = self.container.source_stat().size;
        let mut line =
            format!("{} {}, {}", self.container.format(), self.container.version(), data_size(size));
        if let Some(writer) = facts.summary.software() {
            // Writing to a String can't fail.
            let _ = write!(line, ", written by {writer}");
        }
        plan.push(&format!("<header>\n<h1>{}</h1>\n<p class=\"sub\">{}</p>\n", escape(name), escape(&line)));
        plan.slot(1500, Slot::State);
        plan.push("</header>\n");
        Ok(())
    }

    /// Writes the picture and the observation beside it.
    fn top(
        &self,
        facts: &TreeFacts,
        found: &arrays::FoundArrays,
        views: &Views,
        plan: &mut Plan,
    ) -> Result<()> {
        plan.push("<section class=\"top\" aria-label=\"Overview\">\n");
        if let Some(len) = image::reserved(&self.container, &*self.is_shown)? {
            plan.slot(len, Slot::Picture);
        } else if views.trajectory() {
            plan.push("<figure>\n");
            plan.slot(frames::RESERVED, Slot::Frames);
            plan.push(
                "<figcaption>Some frames, seen along z: dots are particles, at most 400 a \
                       frame</figcaption>\n</figure>\n",
            );
        }
        plan.push("<div>\n<h2>Observation</h2>\n<dl>\n");
        let mut fact = |name: &str, value: &str| {
            plan.push(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)));
        };
        for (name, value) in facts.summary.facts() {
            if name != "position" {
                fact(&capitalised(name), &value);
            }
        }
        fact("Blocks", &blocks_line(&all_blocks(&*self.container)?));
        plan.push("</dl>\n");
        if let Some(region) = facts.summary.get("region").and_then(sky::of_region) {
            plan.push(&region.html());
        } else {
            let own = |name: &str| facts.summary.get(name).map(str::to_owned);
            let displayed = self.container.displayed_image()?.map(|path| path.join("/"));
            let mut images = found.rows.iter().filter(|row| row.has_fits && row.shape.len() >= 2);
            let of_picture = images.clone().find(|row| displayed.as_ref() == Some(&row.path));
            let path = of_picture.or_else(|| images.next()).map(|row| row.path.clone());
            let ra = own("ra");
            let dec = own("dec");
            if path.is_some() || (ra.is_some() && dec.is_some()) {
                plan.slot(700, Slot::Sky { path, ra, dec });
            }
        }
        plan.push("</div>\n</section>\n");
        Ok(())
    }

    /// Writes the counts of flags.
    fn quality(&self, _: &TreeFacts, found: &arrays::FoundArrays, plan: &mut Plan) {
        let flags: Vec<&ArrayRow> = found.rows.iter().filter(|row| row.has_flags()).take(MAX_FLAGS).collect();
        if flags.is_empty() {
            return;
        }
        plan.push("<section>\n<h2>Data quality</h2>\n");
        for row in flags {
            plan.slot(flags::RESERVED, Slot::Flags(row.clone()));
        }
        plan.push("</section>\n");
    }

    fn calibration(&self, facts: &TreeFacts, plan: &mut Plan) {
        let versions: Vec<(&str, &str)> = [
            ("Software", "pipeline"),
            ("Version", "pipeline_version"),
            ("Reference files", "reference_context"),
        ]
        .into_iter()
        .filter_map(|(title, name)| Some((title, facts.summary.get(name)?)))
        .collect();
        if facts.steps.is_empty() && versions.is_empty() {
            return;
        }
        plan.push("<section>\n<h2>Calibration</h2>\n<dl>\n");
        for (title, value) in versions {
            plan.push(&format!("<dt>{title}</dt><dd>{}</dd>\n", escape(value)));
        }
        plan.push("</dl>\n");
        if !facts.steps.is_empty() {
            plan.push("<ul class=\"steps\" aria-label=\"Steps\">\n");
            for CalibrationStep { step, state, .. } in &facts.steps {
                let class = match state.to_ascii_uppercase().as_str() {
                    "COMPLETE" => "done",
                    "SKIPPED" | "INCOMPLETE" => "open",
                    _ => "other",
                };
                plan.push(&format!(
                    "<li class=\"{class}\"><b>{}</b> {}</li>\n",
                    escape(step),
                    escape(&state.to_lowercase())
                ));
            }
            plan.push("</ul>\n");
        }
        plan.push("</section>\n");
    }

    /// Writes curves and tables.
    fn curves(&self, found: &arrays::FoundArrays, views: &Views, plan: &mut Plan) -> Result<()> {
        let tables = views.tables()?;
        if !tables.is_empty() {
            plan.push("<section>\n<h2>Tables</h2>\n");
            for path in &tables {
                let file = format!("tables/{path}.parquet");
                plan.push(&format!("<h3>{}</h3>\n<p>{}</p>\n", escape(path), link(&file, &file)));
                plan.slot(tables::RESERVED, Slot::Table(path.clone()));
            }
            plan.push("</section>\n");
        }
        let is_column = |row: &ArrayRow| {
            tables.iter().any(|table| {
                table == "%-"
                    || row.path.strip_prefix(table.as_str()).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let curves: Vec<&ArrayRow> =
            found.rows.iter().filter(|row| row.is_curve() && !is_column(row)).take(MAX_PLOTS).collect();
        if !curves.is_empty() {
            plan.push("<section>\n<h2>One-dimensional arrays</h2>\n<div class=\"plots\">\n");
            for row in curves {
                plan.slot(plot::RESERVED, Slot::Curve(row.clone()));
            }
            plan.push("</div>\n</section>\n");
        }
        Ok(())
    }

    fn tree(&self, facts: &TreeFacts, plan: &mut Plan) {
        plan.push("<section>\n<h2>Tree</h2>\n<details class=\"tree\">\n<summary>All keys and values</summary>\n<ul>\n");
        plan.push(&facts.tree);
        plan.push("</ul>\n");
        if let Some(why) = &facts.broken {
            plan.push(&format!("<p class=\"bad\">The tree can't be read further: {}</p>\n", escape(why)));
        }
        plan.push(&format!(
            "<p>The whole text: {}</p>\n</details>\n</section>\n",
            link("tree.yaml", "tree.yaml")
        ));
    }

    fn python(&self, found: &arrays::FoundArrays, name: &str, plan: &mut Plan) {
        let mut code = String::new();
        let own = found.rows.iter().find(|row| row.has_npy && !row.is_reference);
        let shown = own.or_else(|| found.rows.iter().find(|row| row.has_npy));
        if let Some(row) = shown {
            let file = format!("arrays/{}.npy", row.path);
            // Writing to a String can't fail.
            let _ = writeln!(code, "numpy.load({}, mmap_mode=\"r\")", literal::quoted(&file));
        }
        match self.container.format() {
            "gsd" => {
                let _ = writeln!(code, "gsd.hoomd.open({})", literal::quoted(name));
            }
            "bloscpack" => {}
            "blosc2" => {
                let _ = writeln!(code, "blosc2.open({})", literal::quoted(name));
            }
            _ => {
                let keys = own.map_or_else(String::new, |row| arrays::keys(&row.path));
                let _ = writeln!(code, "asdf.open({}){keys}", literal::quoted(name));
            }
        }
        if code.is_empty() {
            return;
        }
        plan.push(&format!(
            "<section>\n<h2>In Python</h2>\n<p>Started in the directory of this page, and in that of the \
             file:</p>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</section>\n",
            html::escape_lines(&code)
        ));
    }

    /// Returns the content of a slot, of at most `room` bytes.
    fn fill(
        &self,
        slot: &Slot,
        room: usize,
        views: &Views,
        telescope: &str,
        budget: &mut Budget,
    ) -> Result<String> {
        match slot {
            Slot::Picture => image::html(&self.container),
            Slot::State => self.state(),
            Slot::Sky { path, ra, dec } => {
                sky::html(&self.container, path.as_deref(), ra.as_deref(), dec.as_deref())
            }
            Slot::Statistics(row) => sample::statistics(views, row, budget),
            Slot::Reference(row) => references::cells(views, row, budget),
            Slot::Flags(row) => flags::html(views, row, telescope, budget),
            Slot::Curve(row) => plot::of_array(views, row, budget),
            Slot::Table(path) => tables::html(views, path, room, budget),
            Slot::Frames => frames::html(views),
        }
    }

    fn state(&self) -> Result<String> {
        let damage = super::damage(&*self.container)?;
        if damage.is_empty() {
            return Ok("<p class=\"good\">No damage found in the headers</p>".to_owned());
        }
        let mut text = String::from("<ul class=\"bad\" aria-label=\"Damage\">");
        for defect in damage.iter().take(MAX_DEFECTS) {
            text += &format!("<li>{}</li>", escape(&html::cut(&super::words_of(defect), 120)));
        }
        if damage.len() > MAX_DEFECTS {
            text += &format!("<li>… {} more in .asdf-mount/status.yaml</li>", damage.len() - MAX_DEFECTS);
        }
        Ok(text + "</ul>")
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
