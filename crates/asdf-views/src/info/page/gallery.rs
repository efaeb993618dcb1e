//! The page of a directory: a gallery of its files.
//!
//! Its length follows from the names of the files: each file has room for its facts, and blanks fill the rest of it.

use std::fmt::Write;

use asdf_tree::product::FileSummary;
use seekable::error::Result;

use super::html::{cut, escape};
use super::{HEAD, STYLE};
use crate::format::PAGE;

/// Maximum number of files on a page.
pub(crate) const FILES: usize = 1000;
/// The room for the facts of a file in bytes.
const FACTS: usize = 1024;
/// Maximum length of a fact, and of a shown name, in characters.
const MAX_FACT: usize = 40;
const MAX_NAME: usize = 120;

/// The order of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By name.
    Name,
    /// By the facts: product, filter, date.
    Fact(&'static str),
}

/// The orders with the names of their pages, and their titles.
const ORDERS: [(Order, &str, &str); 5] = [
    (Order::Name, "index", "name"),
    (Order::Fact("product"), "product", "product"),
    (Order::Fact("filter"), "filter", "filter"),
    (Order::Fact("target"), "target", "target"),
    (Order::Fact("date"), "date", "date"),
];

/// The names in a directory, sorted.
#[derive(Clone, Debug, Default)]
pub struct GalleryNames {
    /// The name of the directory.
    pub directory: String,
    /// The names of its files that are mounted.
    pub files: Vec<Vec<u8>>,
    /// The names of its directories.
    pub directories: Vec<Vec<u8>>,
    /// True if there is a mirrored directory above.
    pub has_parent: bool,
    /// True for the page that is in the directory itself, and not in `.asdf-mount/`.
    pub is_in_directory: bool,
    /// True if files and directories have pages of their own.
    pub has_pages: bool,
}

impl GalleryNames {
    /// Returns a reference from the page to a path in the directory.
    fn reference(&self, path: &str) -> String {
        format!("{}/{path}", if self.is_in_directory { "." } else { ".." })
    }

    /// Returns a reference to the page of a file or directory.
    fn page_of(&self, name: &[u8]) -> String {
        let page = if self.has_pages { PAGE } else { "" };
        self.reference(&format!("{}/{page}", percent_encoded(name)))
    }

    /// Returns a reference to another page of the gallery.
    fn gallery(&self, page: GalleryPage) -> String {
        let above = if self.is_in_directory { "./.asdf-mount" } else { "." };
        format!("{above}/{}", page.name())
    }
}

/// The facts of a file.
#[derive(Debug, Default)]
pub struct GalleryFacts {
    /// Instrument, filter, date and target.
    pub summary: FileSummary,
    /// A line about damage, or about why the file can't be read.
    pub damage: Option<String>,
    /// True if its directory has `preview.png`.
    pub has_picture: bool,
    /// False if it can't be opened: then it has no page.
    pub is_readable: bool,
}

/// A page of the gallery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GalleryPage {
    order: Order,
    /// The number of the page, from 0.
    pub number: usize,
}

impl GalleryPage {
    /// Returns the page with a file name: `index.html`, `date-2.html`.
    pub fn of_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".html")?;
        let (stem, number) = match stem.split_once('-') {
            None => (stem, 0),
            Some((stem, digits)) => {
                let number: usize = digits.parse().ok().filter(|number| *number > 1)?;
                if number.to_string() != digits {
                    return None;
                }
                (stem, number - 1)
            }
        };
        let (order, _, _) = ORDERS.iter().find(|(_, known, _)| *known == stem)?;
        Some(Self { order: *order, number })
    }

    /// Returns the file name of the page.
    pub(crate) fn name(self) -> String {
        let stem =
            ORDERS.iter().find(|(order, ..)| *order == self.order).map_or("index", |(_, stem, _)| stem);
        if self.number == 0 { format!("{stem}.html") } else { format!("{stem}-{}.html", self.number + 1) }
    }

    /// Returns the file names of all pages of a directory with this number of files.
    pub fn names(files: usize) -> Vec<String> {
        let count = files.div_ceil(FILES).max(1);
        let of_order = |(order, ..): &(Order, &str, &str)| {
            let order = *order;
            (0..count).map(move |number| Self { order, number }.name())
        };
        ORDERS.iter().flat_map(of_order).collect()
    }

    /// True if a directory with this number of files has this page.
    pub fn is_of(self, files: usize) -> bool {
        self.number < files.div_ceil(FILES).max(1)
    }

    /// Returns the page. `facts` are asked for the files on this page.
    ///
    /// # Errors
    /// `facts` fails.
    pub fn html(
        self,
        names: &GalleryNames,
        facts: &mut dyn FnMut(usize) -> Result<Option<GalleryFacts>>,
    ) -> Result<Vec<u8>> {
        let files = &names.files;
        let first = self.number.saturating_mul(FILES);
        let mut rows = Vec::new();
        for (number, name) in files.iter().enumerate().skip(first).take(FILES) {
            let facts = facts(number)?;
            let summary = facts.as_ref().map(|facts| &facts.summary);
            let fact = |fact| summary.and_then(|summary| summary.get(fact)).unwrap_or_default().to_owned();
            let key = match self.order {
                Order::Name => String::new(),
                Order::Fact("product") => summary.and_then(FileSummary::product).unwrap_or_default(),
                Order::Fact(name) => fact(name),
            };
            let date = if self.order == Order::Name { String::new() } else { fact("date") };
            // Files without the fact are last.
            rows.push(((key.is_empty(), key, date), row(names, name, facts.as_ref())));
        }
        // The sort is stable: within a fact and a date, files are in the order of their names.
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut page = self.start(names);
        for (_, row) in rows {
            page += &row;
        }
        page.push_str("</ul>\n");
        page += &self.pages(names);
        page.push_str("</main>\n<footer><p>Made by asdf-mount</p></footer>\n</body>\n</html>\n");
        Ok(page.into_bytes())
    }

    fn start(self, names: &GalleryNames) -> String {
        let files = names.files.len();
        let title = escape(&cut(&names.directory, MAX_NAME));
        let mut page = format!("{HEAD}<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n");
        let first = self.number.saturating_mul(FILES);
        let shown = files.saturating_sub(first).min(FILES);
        let range = match (files, shown) {
            (0, _) => "no files".to_owned(),
            (1, _) => "1 file".to_owned(),
            _ if shown == files => format!("{files} files"),
            _ => format!("files {} to {} of {files} by name", first + 1, first + shown),
        };
        // Writing to a String can't fail.
        let _ = writeln!(page, "<header>\n<h1>{title}</h1>\n<p class=\"sub\">{range}</p>");
        page.push_str("<nav aria-label=\"Order\">\n<p>Sorted by");
        for (order, _, label) in ORDERS {
            let other = Self { order, ..self };
            if order == self.order {
                let _ = write!(page, " <b aria-current=\"page\">{label}</b>");
            } else {
                let _ = write!(page, " <a href=\"{}\">{label}</a>", names.gallery(other));
            }
        }
        page.push_str("</p>\n</nav>\n");
        page += &directories(names);
        page.push_str("</header>\n<main>\n<ul class=\"gallery\">\n");
        page
    }

    /// Returns links to the other pages.
    fn pages(self, names: &GalleryNames) -> String {
        let count = names.files.len().div_ceil(FILES);
        if count < 2 {
            return String::new();
        }
        let mut text = String::from("<nav aria-label=\"Pages\">\n<p>Page");
        for number in 0..count {
            let page = Self { number, ..self };
            if number == self.number {
                let _ = write!(text, " <b aria-current=\"page\">{}</b>", number + 1);
            } else {
                let _ = write!(text, " <a href=\"{}\">{}</a>", names.gallery(page), number + 1);
            }
        }
        text + "</p>\n</nav>\n"
    }
}

/// Returns links to the directories within the directory, and to that above it.
fn directories(names: &GalleryNames) -> String {
    if names.directories.is_empty() && !names.has_parent {
        return String::new();
    }
    let mut text = String::from("<nav aria-label=\"Directories\">\n<p>Directories");
    if names.has_parent {
        let page = if names.has_pages { PAGE } else { "" };
        let _ = write!(text, " <a href=\"{}\">..</a>", names.reference(&format!("../{page}")));
    }
    for name in names.directories.iter().take(FILES) {
        let shown = escape(&cut(&String::from_utf8_lossy(name), MAX_NAME));
        let _ = write!(text, " <a href=\"{}\">{shown}/</a>", names.page_of(name));
    }
    if names.directories.len() > FILES {
        let _ = write!(text, " … {} more", names.directories.len() - FILES);
    }
    text + "</p>\n</nav>\n"
}

/// Returns the item of a file. Its length depends on the names alone.
fn row(names: &GalleryNames, name: &[u8], facts: Option<&GalleryFacts>) -> String {
    let page = names.page_of(name);
    let itself = names.reference(&percent_encoded(name));
    let link = if facts.is_none_or(|facts| facts.is_readable) { &page } else { &itself };
    let shown = escape(&cut(&String::from_utf8_lossy(name), MAX_NAME));
    let picture = names.reference(&format!("{}/preview.png", percent_encoded(name)));
    let image = format!("<img src=\"{picture}\" loading=\"lazy\" alt=\"\">");
    let is_there = facts.is_some_and(|facts| facts.has_picture);
    let mut text = facts.map_or_else(String::new, |facts| facts_of(facts, MAX_FACT));
    if text.len() > FACTS {
        text = facts.map_or_else(String::new, |facts| facts_of(facts, MAX_FACT / 4));
    }
    let picture_blanks = if is_there { 0 } else { image.len() };
    let blanks = " ".repeat(FACTS.saturating_sub(text.len()) + picture_blanks + page.len() - link.len());
    let image = if is_there { image.as_str() } else { "" };
    format!(
        "<li><a href=\"{link}\"><span class=\"thumb\">{image}</span><b>{shown}</b></a>{text}{blanks}</li>\n"
    )
}

fn facts_of(facts: &GalleryFacts, most: usize) -> String {
    let damage = facts.damage.as_ref().map_or_else(String::new, |damage| {
        format!("<span class=\"bad\">{}</span>", escape(&cut(damage, 2 * most)))
    });
    let facts = &facts.summary;
    let mut lines = Vec::new();
    if let Some(product) = facts.product() {
        lines.push(product);
    }
    let observed: Vec<&str> =
        ["instrument", "detector", "filter"].into_iter().filter_map(|name| facts.get(name)).collect();
    lines.push(observed.join(" "));
    for name in ["date", "target"] {
        lines.push(facts.get(name).unwrap_or_default().to_owned());
    }
    let shown = lines.iter().filter(|line| !line.is_empty());
    let shown: String = shown.map(|line| format!("<span>{}</span>", escape(&cut(line, most)))).collect();
    damage + &shown
}

/// Returns a file name in which all bytes but letters, digits and a few others are escaped.
fn percent_encoded(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'.' => out.push((*byte).into()),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_pages() {
        for name in ["index.html", "date.html", "filter-2.html", "product-17.html"] {
            assert_eq!(GalleryPage::of_name(name).unwrap().name(), name);
        }
        for name in
            ["index", "index-0.html", "index-1.html", "index-02.html", "size.html", "index-x.html", ".html"]
        {
            assert_eq!(GalleryPage::of_name(name), None, "{name}");
        }
        assert_eq!(GalleryPage::names(0).len(), 5);
        assert_eq!(GalleryPage::names(1001).len(), 10);
        assert!(GalleryPage::of_name("date-2.html").unwrap().is_of(1001));
        assert!(!GalleryPage::of_name("date-2.html").unwrap().is_of(1000));
    }

    #[test]
    fn files_are_on_pages_and_escaped() {
        let mut files: Vec<Vec<u8>> = (0..2500).map(|n| format!("f{n:04}.asdf").into_bytes()).collect();
        files[1] = b"a\"><script>\xff/..&.asdf".to_vec();
        let names = |files: &[Vec<u8>]| GalleryNames {
            directory: "<d>".to_owned(),
            files: files.to_vec(),
            directories: vec![b"<below>".to_vec()],
            has_parent: true,
            has_pages: true,
            is_in_directory: false,
        };
        let page = |name: &str| {
            let page = GalleryPage::of_name(name).unwrap();
            String::from_utf8(page.html(&names(&files), &mut |_| Ok(None)).unwrap()).unwrap()
        };
        let first = page("index.html");
        assert!(first.contains("files 1 to 1000 of 2500 by name") && first.contains("<h1>&lt;d&gt;</h1>"));
        assert!(first.contains("<a href=\"../a%22%3E%3Cscript%3E%FF%2F..%26.asdf/index.html\">"));
        assert!(!first.contains("<script") && !first.contains("<img"));
        assert!(first.contains("<a href=\"../../index.html\">..</a>"));
        assert!(first.contains("<a href=\"../%3Cbelow%3E/index.html\">&lt;below&gt;/</a>"));
        assert!(
            first.contains(" <a href=\"./index-3.html\">3</a>")
                && first.contains("<a href=\"./date.html\">date</a>")
        );
        assert!(!first.contains("f1000.asdf") && first.contains("f0999.asdf"));
        let last = page("date-3.html");
        assert!(last.contains("f2499.asdf") && last.contains("<b aria-current=\"page\">3</b>"));
        let alone = GalleryPage::of_name("index.html").unwrap();
        let facts = |filter: &str| {
            let text = format!("a: {{filter: '{filter}', date: '{}'}}\n", "<".repeat(100));
            let text = seekable::content::Text::new(text.into_bytes());
            let summary = FileSummary::of(&asdf_tree::yaml::document::Document::read(&text).unwrap());
            let damage = (filter == "A").then(|| "damaged: <cut off>".to_owned());
            GalleryFacts { summary, damage, has_picture: true, is_readable: true }
        };
        let by_filter = GalleryPage::of_name("filter.html").unwrap();
        let mut summaries = |n: usize| Ok((n != 0).then(|| facts(if n == 2 { "A" } else { "B" })));
        let few = &files[2..5];
        let sorted = String::from_utf8(by_filter.html(&names(few), &mut summaries).unwrap()).unwrap();
        let place = |name: &str| sorted.find(&format!("<b>{name}</b>")).unwrap();
        assert!(place("f0004.asdf") < place("f0003.asdf") && place("f0003.asdf") < place("f0002.asdf"));
        assert_eq!(sorted.matches("<img src=\"../f0003.asdf/preview.png\"").count(), 1);
        assert_eq!(sorted.matches("<img").count(), 2);
        assert_eq!(sorted.matches("<span class=\"bad\">damaged: &lt;cut off&gt;</span>").count(), 1);
        // The length does not depend on the facts.
        let blank = by_filter.html(&names(few), &mut |_| Ok(None)).unwrap();
        assert_eq!(blank.len(), sorted.len());
        assert!(alone.html(&names(&[]), &mut |_| Ok(None)).is_ok());
        // In the directory itself, all references begin there.
        let here = GalleryNames { is_in_directory: true, ..names(few) };
        let here = String::from_utf8(alone.html(&here, &mut |_| Ok(None)).unwrap()).unwrap();
        assert!(
            here.contains("<a href=\"./f0002.asdf/index.html\">")
                && here.contains("<a href=\"./../index.html\">")
        );
        assert!(here.contains("<a href=\"./.asdf-mount/date.html\">date</a>"));
    }
}
