//! The index page of a directory, as nginx, Apache, Caddy and Python's `http.server` make it.
//!
//! A link is an entry if its target is directly in the directory. Links to other places, such as the parent
//! directory and Apache's other sort orders, are left out.

use seekable::error::{Error, Result};

use super::PageItem;
use super::xml::unescaped;
use crate::date;
use crate::retry::eio;
use crate::url::percent_decoded;

/// Maximum number of entries.
const ENTRIES: usize = 200_000;

/// Parses a page; `path` is the path of its URL, percent-encoded.
///
/// # Errors
/// The text is no index page.
pub fn parse(html: &str, path: &str) -> Result<Vec<PageItem>> {
    let title = html.split_once("<title>").map_or("", |(_, rest)| rest).trim_start().to_ascii_lowercase();
    let is_titled = ["index of ", "directory listing for "].iter().any(|begin| title.starts_with(begin));
    // Caddy's title is the path.
    if !is_titled && !html.contains("href=\"https://caddyserver.com\"") {
        return Err(not_one());
    }
    let mut entries = Vec::new();
    let mut rest = html;
    while let Some((_, link)) = rest.split_once("<a ") {
        // Text after a link may have its date and its size.
        let (attributes, after) = link.split_once('>').unwrap_or((link, ""));
        let end = after.find("<a ").unwrap_or(after.len());
        rest = &after[end..];
        if let Some(mut listed) = href(attributes).and_then(|href| target(&href, path)) {
            describe(&mut listed, &after[..end]);
            entries.push(listed);
            if entries.len() > ENTRIES {
                return Err(eio("the index page has too many entries"));
            }
        }
    }
    Ok(entries)
}

/// Returns the error for a page that is no index.
pub(super) fn not_one() -> Error {
    eio("the server's page is not an index of a directory by nginx, Apache, Caddy or Python")
}

/// Returns the target of a link.
fn href(attributes: &str) -> Option<String> {
    let (before, value) = attributes.split_once("href=")?;
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let value = value[1..].split(quote).next()?;
    let is_attribute = before.is_empty() || before.ends_with([' ', '\t', '\n']);
    unescaped(value).ok().filter(|_| is_attribute)
}

/// Returns the name that a link leads to, if it is directly in the directory.
fn target(href: &str, path: &str) -> Option<PageItem> {
    let behind = href.strip_prefix(path).or_else(|| href.strip_prefix("./"));
    let name = behind.unwrap_or(href);
    let (name, is_directory) = name.strip_suffix('/').map_or((name, false), |name| (name, true));
    // At the beginning of a link, a colon is the end of a scheme. Apache writes `./a:b`.
    let is_address = behind.is_none() && name.contains(':');
    if name.is_empty() || is_address || name.contains(['/', '?', '#', '\\']) {
        return None;
    }
    let name = percent_decoded(name)?;
    let is_step = matches!(&name[..], b"." | b"..");
    let is_one = !is_step && !name.contains(&b'/') && !name.contains(&0);
    is_one.then(|| PageItem { name, is_directory, ..PageItem::default() })
}

/// Reads date and size from the text after a link: `23-Nov-2026 20:06  123`.
fn describe(listed: &mut PageItem, text: &str) {
    let mut words = Vec::new();
    let mut is_tag = false;
    let mut word = String::new();
    let text = text.split_once("</a>").map_or("", |(_, after)| after);
    for letter in text.chars().take(1024).chain([' ']) {
        is_tag = is_tag && letter != '>' || letter == '<';
        if is_tag || letter == '>' || letter.is_whitespace() {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        } else {
            word.push(letter);
        }
    }
    let dated = words.windows(2).position(|pair| date::index_page(&pair[0], &pair[1]).is_some());
    let Some(at) = dated else { return };
    listed.mtime = date::index_page(&words[at], &words[at + 1]);
    // A rounded size, such as `1.2K`, is no size.
    let size = words.get(at + 2).filter(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
    listed.size = size.and_then(|size| size.parse().ok()).filter(|size| *size <= i64::MAX as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NGINX: &str = "<html>\r\n<head><title>Index of /data/</title></head>\r\n<body>\r\n<h1>Index of /data/</h1>\
        <hr><pre><a href=\"../\">../</a>\r\n<a href=\"sub%20dir/\">sub dir/</a>      06-Nov-1994 08:49        -\r\n\
        <a href=\"a%26b.asdf\">a&amp;b.asdf</a>       06-Nov-1994 08:49         1234\r\n</pre><hr></body>\r\n</html>";
    const APACHE: &str = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n<html>\n <head>\n  \
        <title>Index of /data</title>\n </head>\n <body>\n<h1>Index of /data</h1>\n  <table>\n   <tr>\
        <th><a href=\"?C=N;O=D\">Name</a></th><th><a href=\"?C=M;O=A\">Last modified</a></th></tr>\n\
        <tr><td><img src=\"/icons/back.gif\" alt=\"[PARENTDIR]\"></td><td><a href=\"/\">Parent Directory</a></td></tr>\n\
        <tr><td></td><td><a href=\"x&amp;y.gsd\">x&amp;y.gsd</a></td><td align=\"right\">1994-11-06 08:49  </td>\
        <td align=\"right\">1.2K</td></tr>\n<tr><td><a href=\"s/\">s/</a></td><td>1994-11-06 08:49</td><td> - </td></tr>";

    #[test]
    fn pages_of_nginx_and_apache_are_read() {
        let mtime = Some((784_111_740, 0));
        let entry = |name: &str, is_directory, size| PageItem {
            name: name.into(),
            is_directory,
            size,
            mtime,
            tag: None,
        };
        let nginx = parse(NGINX, "/data/").unwrap();
        assert_eq!(nginx, [entry("sub dir", true, None), entry("a&b.asdf", false, Some(1234))]);
        assert_eq!(parse(APACHE, "/data/").unwrap(), [entry("x&y.gsd", false, None), entry("s", true, None)]);
    }

    #[test]
    fn pages_of_caddy_and_python_are_read() {
        let caddy = "<!DOCTYPE html>\n<html>\n<head>\n<title>/d/</title>\n</head>\n<body>\n<a href=\"/\">/</a><a \
            href=\"\">d</a>\n<a href=\"?sort=name&order=asc\">Name</a>\n<a href=\"./sub/\">\n<span>sub</span></a>\n<a \
            href=\"./f%200.asdf\">f 0.asdf</a><td data-order=\"9\">9 B</td>\nServed with <a rel=\"noopener\" \
            href=\"https://caddyserver.com\">Caddy</a>";
        let python = "<!DOCTYPE HTML>\n<title>Directory listing for /d/</title>\n<ul>\n<li><a \
            href=\"sub/\">sub/</a></li>\n<li><a href=\"f%200.asdf\">f 0.asdf</a></li>\n</ul>";
        for page in [caddy, python] {
            let found = parse(page, "/d/").unwrap();
            let names: Vec<_> = found.iter().map(|item| (&*item.name, item.is_directory)).collect();
            assert_eq!(names, [(&b"sub"[..], true), (&b"f 0.asdf"[..], false)], "{page}");
        }
    }

    #[test]
    fn only_links_into_the_directory_count() {
        let page = |links: &str| format!("<title>Index of /d/</title>{links}");
        for href in [
            "..",
            "../",
            ".",
            "./",
            "/",
            "/e/x",
            "/d/../x",
            "x/y",
            "x//",
            "http://b/x",
            "//b/x",
            "javascript:x",
            "?x",
            "#x",
            "x%2Fy",
            "%2e%2e",
            "%2E%2E/",
            "x%00",
            "x%",
            "x%G0",
            "",
            "a\\b",
            "mailto:x",
            "&bad;",
        ] {
            let text = page(&format!("<a href=\"{href}\">x</a>"));
            assert_eq!(parse(&text, "/d/").unwrap(), [], "{href}");
        }
        for link in [
            "<a href=x>",
            "<a href=\"/d/x\">x",
            "<a class='a' href='x'>",
            "<a href=\"./x\"",
            "<a href=\"./a:b\">",
            "<a data-href=\"y\">",
        ] {
            let found = parse(&page(link), "/d/").unwrap();
            let wanted = !link.contains("href=x") && !link.contains("data");
            assert_eq!(found.len(), usize::from(wanted), "{link}");
        }
        for text in ["", "<title>Home</title><a href=\"x\">", "<h1>Index of</h1>"] {
            assert!(parse(text, "/d/").is_err(), "{text}");
        }
    }
}
