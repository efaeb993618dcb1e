//! A page of a listing of a bucket: the reply to ListObjectsV2.

use seekable::error::{Error, Result};

use super::PageItem;
use super::xml::{Event, Reader};
use crate::date;
use crate::url::percent_decoded;

/// Maximum length of a token, and maximum number of entries of a page. Servers send 1000.
const TOKEN: usize = 4096;
const ENTRIES: usize = 100_000;

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and common prefixes below the prefix.
    pub entries: Vec<PageItem>,
    /// The token of the next page.
    pub next: Option<String>,
    /// True if the page has any key that begins with the prefix. The key may be the marker of an empty
    /// directory.
    pub is_found: bool,
}

/// The texts of a page, before they are decoded.
#[derive(Default)]
struct Texts {
    is_encoded: bool,
    is_truncated: bool,
    token: String,
    keys: Vec<(String, PageItem)>,
}

/// Parses a page. Keys that are not directly below `prefix` are left out.
///
/// # Errors
/// The bytes are no page of a listing.
pub fn parse(bytes: &[u8], prefix: &[u8]) -> Result<Page> {
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))?;
    let texts = read(text)?;
    let mut page = Page::default();
    for (key, mut listed) in texts.keys {
        let key = if texts.is_encoded {
            percent_decoded(&key.replace('+', " ")).ok_or_else(|| wrong("a key is not encoded properly"))?
        } else {
            key.into_bytes()
        };
        let Some(below) = key.strip_prefix(prefix) else { continue };
        page.is_found = true;
        let name = if listed.is_directory { below.strip_suffix(b"/").unwrap_or(below) } else { below };
        // Some programs mark a directory by an object with the name of the directory itself. The directory "/" has keys
        // with an empty component, such as `dir//a.asdf`.
        let is_entry = !name.is_empty() || (listed.is_directory && below == b"/");
        if is_entry && !name.contains(&b'/') {
            listed.name = name.to_vec();
            page.entries.push(listed);
        }
    }
    if texts.is_truncated {
        if texts.token.is_empty() || texts.token.len() > TOKEN {
            return Err(wrong("it is truncated, but has no valid continuation token"));
        }
        page.next = Some(texts.token);
    }
    Ok(page)
}

fn read(page: &str) -> Result<Texts> {
    let mut reader = Reader::new(page);
    let mut texts = Texts::default();
    let mut path = Vec::new();
    let mut value = String::new();
    let mut key = String::new();
    let mut listed = PageItem::default();
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(name) => {
                if path.is_empty() && name != "ListBucketResult" {
                    return Err(wrong("it is another document"));
                }
                path.push(name);
                value.clear();
            }
            Event::Text(text) => value = text,
            Event::End => {
                let text = std::mem::take(&mut value);
                match path.get(1..).unwrap_or_default() {
                    ["EncodingType"] => texts.is_encoded = text == "url",
                    ["IsTruncated"] => texts.is_truncated = text == "true",
                    ["NextContinuationToken"] => texts.token = text,
                    ["Contents", "Key"] | ["CommonPrefixes", "Prefix"] => key = text,
                    ["Contents", "Size"] => {
                        listed.size = text.parse().ok().filter(|size| *size <= i64::MAX as u64)
                    }
                    ["Contents", "ETag"] => listed.tag = Some(text).filter(|tag| tag.len() <= 1024),
                    ["Contents", "LastModified"] => listed.mtime = date::iso(&text),
                    [kind @ ("Contents" | "CommonPrefixes")] => {
                        listed.is_directory = *kind == "CommonPrefixes";
                        texts.keys.push((std::mem::take(&mut key), std::mem::take(&mut listed)));
                        if texts.keys.len() > ENTRIES {
                            return Err(wrong("it has too many entries"));
                        }
                    }
                    _ => {}
                }
                path.pop();
            }
        }
    }
    Ok(texts)
}

fn wrong(why: &str) -> Error {
    Error::damaged(format!("the server's listing is not one of S3: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inner: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Name>b</Name><Prefix>p/</Prefix>{inner}</ListBucketResult>"
        )
    }

    #[test]
    fn keys_and_prefixes_are_listed() {
        let text = page(
            "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>a+b==</NextContinuationToken>\
             <Contents><Key>p/</Key><Size>0</Size></Contents>\
             <Contents><Key>p/x+y%2B%0A</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>\
             <ETag>&quot;tag&quot;</ETag><Size>434234</Size><Owner><ID>1</ID></Owner></Contents>\
             <Contents><Key>q/other</Key></Contents><Contents><Key>p/q/r</Key></Contents>\
             <CommonPrefixes><Prefix>p/..%2F</Prefix></CommonPrefixes>",
        );
        let page = parse(text.as_bytes(), b"p/").unwrap();
        assert_eq!(page.next.as_deref(), Some("a+b=="));
        let [object, directory] = &page.entries[..] else { panic!("{page:?}") };
        assert_eq!((&object.name[..], object.size), (&b"x y+\n"[..], Some(434_234)));
        assert_eq!(object.tag.as_deref(), Some("\"tag\""));
        assert_eq!(object.mtime, Some((1_255_369_830, 0)));
        assert_eq!((&directory.name[..], directory.is_directory), (&b".."[..], true));
    }

    #[test]
    fn the_marker_of_an_empty_directory_is_no_entry() {
        let marker = parse(page("<Contents><Key>p/</Key></Contents>").as_bytes(), b"p/").unwrap();
        assert!(marker.is_found && marker.entries.is_empty());
    }

    #[test]
    fn other_documents_are_refused() {
        for text in [
            "<Error><Code>NoSuchBucket</Code></Error>".to_owned(),
            page("<IsTruncated>true</IsTruncated>"),
            page("<EncodingType>url</EncodingType><Contents><Key>p/%G</Key></Contents>"),
            page("<IsTruncated>true</IsTruncated><NextContinuationToken>").replace("</", "<"),
            "<!DOCTYPE x><ListBucketResult/>".to_owned(),
        ] {
            assert!(parse(text.as_bytes(), b"p/").is_err(), "{text}");
        }
        assert!(parse(b"\xff", b"").is_err());
        assert_eq!(parse(page("").as_bytes(), b"").unwrap(), Page::default());
    }
}
