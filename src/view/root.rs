//! The directory of a file: `tree.yaml`, `blocks/`, the views of its format, and `.asdf-mount/`.

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use asdf_access::options::ShownViews;
use asdf_file::container::Container;
use asdf_file::folder::{Dir, EntryKind, File, Node, Renewal};
use asdf_file::history::History;
use asdf_views::info::page::{self, PageMemo};
use asdf_views::info::{self, InfoForm};
use seekable::content::Text;
use seekable::error::Result;

use crate::view::block_files::BlockFiles;
use crate::view::blocks::{BlockTable, KnownChecks};
use crate::view::history::{FindTarget, HistoryDir};
use crate::view::{ABOUT, BLOCKS, HISTORY, INFO, PAGE, STATISTICS, STATUS, TABLE, TREE};

/// A callback that creates the text of `status.yaml` or `stats.yaml`.
type MakeText = Arc<dyn Fn() -> Text + Send + Sync>;

/// The directory of a file. If the file can't be parsed, it contains only `.asdf-mount/`.
pub struct RootDir {
    container: Option<Arc<dyn Container>>,
    about: About,
    shown: Arc<ShownViews>,
    page: Arc<PageMemo>,
}

impl RootDir {
    /// Creates the directory of a file, parsed if `container` is present, with all views. `status` creates
    /// the text of `status.yaml`, and `known` returns the verification result of a block's checksum.
    pub fn new(container: Option<Arc<dyn Container>>, status: MakeText, known: KnownChecks) -> Self {
        let shown = Arc::<ShownViews>::default();
        let about = About {
            container: container.clone(),
            shown: shown.clone(),
            status,
            statistics: None,
            known,
            history: None,
        };
        Self { container, about, shown, page: Arc::default() }
    }

    /// Shows only these views.
    pub fn showing(mut self, shown: Arc<ShownViews>) -> Self {
        self.about.shown = shown.clone();
        Self { shown, ..self }
    }

    /// Uses what is known of the page about this generation.
    pub fn with_page(self, page: Arc<PageMemo>) -> Self {
        Self { page, ..self }
    }

    /// Adds `stats.yaml`, about the requests to the file's server; `statistics` creates its text.
    pub fn with_statistics(mut self, statistics: MakeText) -> Self {
        self.about.statistics = Some(statistics);
        self
    }

    /// Adds `history/`, with the texts that saves of the file replaced, if the file can be saved.
    pub fn with_history(mut self, history: Arc<History>, target: FindTarget) -> Self {
        let editable = self.container.as_ref().filter(|container| container.is_editable());
        self.about.history =
            editable.map(|container| Arc::new(HistoryDir::new(history, target, container.tree())));
        self
    }

    /// Returns the views of the format that are shown.
    fn views(&self, container: &Arc<dyn Container>) -> Result<impl Iterator<Item = (&'static str, Node)>> {
        Ok(container.clone().views()?.into_iter().filter(|(name, _)| self.shown.has(name)))
    }

    /// Returns the names of the derived files that are shown.
    fn derived(&self, container: &Arc<dyn Container>) -> Result<impl Iterator<Item = &'static str>> {
        Ok(container.derived_files()?.into_iter().filter(|name| self.shown.has(name)))
    }

    fn names(&self) -> Result<Vec<(&'static str, EntryKind)>> {
        let mut names = vec![(ABOUT, EntryKind::Dir)];
        if let Some(container) = &self.container {
            let views = self.views(container)?.map(|(name, view)| (name, view.kind()));
            let derived = self.derived(container)?.map(|name| (name, EntryKind::File));
            let page = self.shown.has(PAGE).then_some((PAGE, EntryKind::File));
            names.splice(
                0..0,
                [(TREE, EntryKind::File), (BLOCKS, EntryKind::Dir)]
                    .into_iter()
                    .chain(views)
                    .chain(derived)
                    .chain(page),
            );
        }
        Ok(names)
    }
}

impl fmt::Debug for RootDir {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RootDir").field("container", &self.container).finish_non_exhaustive()
    }
}

impl Dir for RootDir {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        Ok(match (name.to_str(), &self.container) {
            (Some(ABOUT), _) => Some(Node::Dir(Arc::new(self.about.clone()))),
            (Some(TREE), Some(container)) => Some(Node::File(File::new(container.tree_to_show()?))),
            (Some(BLOCKS), Some(container)) => Some(Node::Dir(Arc::new(BlockFiles::new(container.clone())))),
            (Some(PAGE), Some(container)) if self.shown.has(PAGE) => {
                let shown = self.shown.clone();
                let is_shown = Arc::new(move |view: &str| shown.has(view));
                Some(Node::File(page::file(container, is_shown, &self.page)?))
            }
            (Some(name), Some(container)) if self.shown.has(name) => match container.clone().view(name)? {
                Some(view) => Some(view),
                None => container.clone().derived_file(name)?.map(Node::File),
            },
            _ => None,
        })
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        list(&self.names()?, from, take)
    }

    fn is_slow(&self) -> bool {
        self.container.as_ref().is_some_and(|container| container.is_derived_slowly(None))
    }

    fn is_slow_at(&self, name: &OsStr) -> bool {
        let Some((container, name)) = self.container.as_ref().zip(name.to_str()) else { return false };
        if name == PAGE {
            return self.shown.has(name) && !self.page.is_known();
        }
        self.shown.has(name) && container.is_derived_slowly(Some(name))
    }
}

/// The directory `.asdf-mount/`, with the status of the file and the table of its blocks.
#[derive(Clone)]
struct About {
    container: Option<Arc<dyn Container>>,
    /// The views that are shown beside this directory.
    shown: Arc<ShownViews>,
    status: MakeText,
    /// The callback for `stats.yaml`; `None` for a local file.
    statistics: Option<MakeText>,
    known: KnownChecks,
    /// The directory `history/`; `None` for a file that can't be saved.
    history: Option<Arc<HistoryDir>>,
}

impl fmt::Debug for About {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("About").finish_non_exhaustive()
    }
}

impl Dir for About {
    fn is_slow_at(&self, name: &OsStr) -> bool {
        if name == HISTORY {
            return self.history.as_ref().is_some_and(|history| history.is_slow());
        }
        // A walk through many files asks for no size, which needs the whole text.
        if name == INFO {
            return self.container.is_some();
        }
        // The status looks for omissions in the tree, and at the other files that this file names.
        let is_slow = |container: &Arc<dyn Container>| container.is_slow() || container.are_omissions_slow();
        name == STATUS && self.container.as_ref().is_some_and(is_slow)
    }

    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        Ok(match (name.to_str(), &self.container) {
            (Some(STATUS), container) => {
                if let Some(container) = container {
                    container.find_omissions(&|view| self.shown.has(view));
                }
                Some(generated(&self.status))
            }
            (Some(INFO), Some(container)) => Some(info_of(&**container)?),
            (Some(STATISTICS), _) => self.statistics.as_ref().map(generated),
            (Some(TABLE), Some(container)) => {
                let table = BlockTable::new(container.clone(), self.known.clone())?;
                Some(Node::File(File::changing(Arc::new(table))))
            }
            (Some(HISTORY), _) => self.history.clone().map(|dir| Node::Dir(dir)),
            _ => None,
        })
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let names = [
            Some((STATUS, EntryKind::File)),
            self.container.as_ref().map(|_| (INFO, EntryKind::File)),
            self.container.as_ref().map(|_| (TABLE, EntryKind::File)),
            self.history.as_ref().map(|_| (HISTORY, EntryKind::Dir)),
            self.statistics.as_ref().map(|_| (STATISTICS, EntryKind::File)),
        ];
        list(&names.into_iter().flatten().collect::<Vec<_>>(), from, take)
    }

    /// True if finding the blocks is slow: `blocks.yaml` depends on their number.
    fn is_slow(&self) -> bool {
        self.container.as_ref().is_some_and(|container| container.is_slow())
    }
}

/// Returns `info.txt`.
fn info_of(container: &dyn Container) -> Result<Node> {
    let name =
        container.source().path().file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    let mut text = Vec::new();
    info::write(container, &name, InfoForm::PLAIN, &mut text)?;
    Ok(Node::File(File::changing(Arc::new(Text::new(text)))))
}

/// Returns a file whose text is created now.
fn generated(make: &MakeText) -> Node {
    let file = File::changing(Arc::new(make()));
    Node::File(File { renewal: Renewal::Generated, ..file })
}

fn list(
    names: &[(&str, EntryKind)],
    from: u64,
    take: &mut dyn FnMut(&OsStr, EntryKind) -> bool,
) -> Result<()> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    for (name, kind) in names.iter().skip(from) {
        if !take(OsStr::new(name), *kind) {
            break;
        }
    }
    Ok(())
}
