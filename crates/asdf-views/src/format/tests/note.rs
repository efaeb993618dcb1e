//! A small file format for tests: the line `NOTE`, then a text.

use std::sync::Arc;

use asdf_file::container::{Container, Context, Format, Views};
use asdf_file::folder::{File, Node};
use seekable::content::{Content, Slice, Text};
use seekable::error::Result;
use seekable::source::{Source, SourceStat};

const HEADER: u64 = 5;

/// The format of notes.
#[derive(Debug)]
pub(super) struct Note;

impl Format for Note {
    fn name(&self) -> &'static str {
        "note"
    }

    fn title(&self) -> &'static str {
        "a note"
    }

    fn recognise(&self, head: &[u8]) -> bool {
        head.starts_with(b"NOTE\n")
    }

    fn open(&self, source: Arc<dyn Source>, _: &Context) -> Result<Arc<dyn Container>> {
        let stat = source.stat()?;
        Ok(Arc::new(NoteFile { source, stat }))
    }
}

#[derive(Debug)]
struct NoteFile {
    source: Arc<dyn Source>,
    stat: SourceStat,
}

impl NoteFile {
    fn len(&self) -> u64 {
        self.stat.size.saturating_sub(HEADER)
    }
}

impl Container for NoteFile {
    fn format(&self) -> &'static str {
        "note"
    }

    fn version(&self) -> String {
        "1".to_owned()
    }

    fn tree(&self) -> Arc<dyn Content> {
        Arc::new(Text::new(format!("bytes: {}\n", self.len()).into_bytes()))
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn source_stat(&self) -> SourceStat {
        self.stat
    }
}

impl Views for NoteFile {
    fn views(self: Arc<Self>) -> Result<Vec<(&'static str, Node)>> {
        let text = Slice::new(self.source.clone(), HEADER, self.len());
        Ok(vec![("note.txt", Node::File(File::new(Arc::new(text))))])
    }
}
