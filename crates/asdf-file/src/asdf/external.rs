//! URIs of other files that the tree names: `other.asdf`, `sub/other.asdf#/path`,
//! `file:///data/other.asdf`; and the contents of these files.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use seekable::error::{Error, Kind, Result};
use seekable::source::{Source, SourceVersion};

use seekable::content::{Content, Soundness, Strided};

use super::stored::StoredFile;

/// Splits a URI into the part before `#` and the fragment.
pub fn split(uri: &str) -> (&str, Option<&str>) {
    uri.split_once('#').map_or((uri, None), |(name, fragment)| (name, Some(fragment)))
}

/// True if a URI names a file on a web server.
pub(crate) fn is_on_server(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// True if a URI names a host: an absolute one, or one that begins with `//`.
pub(crate) fn has_host(uri: &str) -> bool {
    is_on_server(uri) || uri.starts_with("//")
}

/// Returns the host of a URI with its port, in lower case.
pub(crate) fn host(uri: &str) -> String {
    let rest = uri.split_once("//").map_or(uri, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '\\']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase()
}

/// Returns the path of a URI without fragment, relative to the directory of the file.
pub(crate) fn path_of(uri: &str) -> Result<PathBuf> {
    let refused = |what: &str| Error::unsupported(what.to_owned());
    let scheme = uri.split_once(':').map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let path = match scheme.filter(|(scheme, _)| is_scheme(scheme)) {
        None => uri,
        Some((scheme, rest)) if scheme == "file" => match rest.strip_prefix("//") {
            None => rest,
            Some(rest) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(refused("it lies on another machine"));
                }
                path
            }
        },
        Some(_) => return Err(refused("its URI has an unknown scheme")),
    };
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let path = unescaped(path);
    if path.is_empty() || path.contains(&0) {
        return Err(refused("its URI names no file"));
    }
    Ok(OsString::from_vec(path).into())
}

/// Decodes the `%` escapes in a part of a URI.
pub fn unescaped(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

/// Wraps a content of another file, so that reads fail with ESTALE once that file has changed.
pub fn unchanged(content: Arc<dyn Content>, file: &StoredFile) -> Arc<dyn Content> {
    Arc::new(Unchanged { content, source: file.source.clone(), version: file.source_stat.version })
}

#[derive(Debug)]
struct Unchanged {
    content: Arc<dyn Content>,
    source: Arc<dyn Source>,
    version: SourceVersion,
}

impl Unchanged {
    /// Fails if the file has another version. Called after each read, so that bytes of another version are never returned.
    fn check(&self) -> Result<()> {
        let now = self.source.stat()?.version;
        // The removal of the file's last name changes only its ctime. A write after which the times were set back does so,
        // too.
        let is_written = || self.source.writes().is_some_and(|writes| writes > 0);
        let is_removed =
            || now.differs_only_in_ctime(&self.version) && self.source.is_unlinked() && !is_written();
        if now == self.version || is_removed() {
            Ok(())
        } else {
            Err(Error::new(Kind::Changed, "another program rewrote the file: open it again"))
        }
    }
}

impl Content for Unchanged {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.content.read_at(offset, buf)?;
        self.check()?;
        Ok(read)
    }

    fn read_few(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.content.read_few(offset, buf)?;
        self.check()?;
        Ok(read)
    }

    fn strided(&self) -> Option<Strided> {
        let strided = self.content.strided()?;
        let unchanged = Self { content: strided.whole, source: self.source.clone(), version: self.version };
        Some(Strided { whole: Arc::new(unchanged), ..strided })
    }

    fn decoded_at_once(&self) -> u64 {
        self.content.decoded_at_once()
    }

    fn chunk_shape(&self) -> Option<Vec<u64>> {
        self.content.chunk_shape()
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        self.content.soundness()
    }

    fn damage(&self) -> Option<Error> {
        self.content.damage()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_paths() {
        for (uri, expected) in [
            ("other.asdf", "other.asdf"),
            ("./sub/a%20b%C3%A9.asdf", "./sub/a bé.asdf"),
            ("../x.asdf?query", "../x.asdf"),
            ("file:x.asdf", "x.asdf"),
            ("file:/a/b", "/a/b"),
            ("FILE:///a%2Fb", "/a/b"),
            ("file://localhost/a", "/a"),
            ("1:2", "1:2"),
            ("a b:c", "a b:c"),
            ("%4g%", "%4g%"),
        ] {
            assert_eq!(path_of(uri).unwrap(), PathBuf::from(expected), "{uri}");
        }
        for (uri, why) in [
            ("ftp://x", "unknown scheme"),
            ("file://host/x", "another machine"),
            ("", "no file"),
            ("?x", "no file"),
            ("a%00b", "no file"),
        ] {
            assert!(path_of(uri).unwrap_err().message().contains(why), "{uri}");
        }
        assert!(is_on_server("http://x/y") && is_on_server("HTTPS://x") && !is_on_server("httpx:y"));
        assert_eq!(split("a#b#c"), ("a", Some("b#c")));
    }
}
