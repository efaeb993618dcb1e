//! The tree as nested lists that fold.

use super::html::{cut, escape};
use crate::info::line::{Style, TextLine};
use crate::info::outline::OutlineSink;

/// Maximum length of the lists in bytes, about.
const MAX_TREE: usize = 1 << 20;
/// Maximum length of a part of a line in characters.
const MAX_PART: usize = 400;

/// The lists, as HTML.
#[derive(Default)]
pub(super) struct TreeHtml(String);

impl TreeHtml {
    pub(super) fn finish(mut self) -> String {
        if self.0.len() >= MAX_TREE {
            self.0.push_str("<li>… the rest is in tree.yaml</li>\n");
        }
        self.0
    }

    fn push(&mut self, line: &TextLine, depth: usize) {
        let mut indent = 2 * depth;
        for (style, text) in line.parts() {
            // The indentation is that of the list.
            let blanks = text.bytes().take(indent).take_while(|byte| *byte == b' ').count();
            indent = 0;
            let text = escape(&cut(text.get(blanks..).unwrap_or_default(), MAX_PART));
            match style {
                Style::Key => self.0.push_str(&format!("<b>{text}</b>")),
                Style::Type => self.0.push_str(&format!("<i>{text}</i>")),
                _ => self.0.push_str(&text),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.0.len() < MAX_TREE
    }
}

impl OutlineSink for TreeHtml {
    fn line(&mut self, line: &TextLine, depth: usize) -> bool {
        self.0.push_str("<li>");
        self.push(line, depth);
        self.0.push_str("</li>\n");
        self.has_room()
    }

    fn begin(&mut self, line: &TextLine, depth: usize) -> bool {
        self.0.push_str(if depth == 0 { "<li><details open><summary>" } else { "<li><details><summary>" });
        self.push(line, depth);
        self.0.push_str("</summary>\n<ul>\n");
        self.has_room()
    }

    fn end(&mut self) {
        self.0.push_str("</ul></details></li>\n");
    }
}
