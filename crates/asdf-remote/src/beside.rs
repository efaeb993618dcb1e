//! The files that a tree on a server names, and files on servers that any tree names.
//!
//! A tree is data from strangers. Its references are followed only with `-o external=http`, never to files of
//! this machine, and without the user's credentials, unless the file is in the tree's own directory or below.

use std::path::Path;
use std::sync::Arc;

use seekable::error::{Error, Kind, Result, errno};
use seekable::source::{Reach, Source, Surroundings};

use super::url::{Address, percent_decoded};
use super::{Remote, RemoteSource, Trust, Url};

/// Maximum length of a key.
const MAX_KEY: usize = 1024;

/// The surroundings of an object.
#[derive(Debug)]
struct Beside {
    remote: Arc<Remote>,
    address: Address,
    trust: Trust,
}

impl Remote {
    /// Opens the current version of an object. The source leads to the files that its tree names.
    pub fn open_with_others(self: &Arc<Self>, address: &Address, trust: Trust) -> Result<Arc<dyn Source>> {
        let object = self.object(address, trust)?;
        let object = object.ok_or_else(|| errno(libc::EISDIR).of(address.to_string()))?;
        let beside = Beside { remote: self.clone(), address: address.clone(), trust };
        Ok(Arc::new(RemoteSource { object, surroundings: Some(Arc::new(beside)) }))
    }

    /// Opens the object at a URL that a tree names.
    pub fn open_named(self: &Arc<Self>, url: &str) -> Result<Arc<dyn Source>> {
        self.open_stranger(&Address::Web(Url::parse(url)?))
    }

    fn open_stranger(self: &Arc<Self>, address: &Address) -> Result<Arc<dyn Source>> {
        self.may_be_named(address)?;
        self.open_with_others(address, Trust::Named)
    }
}

impl Surroundings for Beside {
    fn open(&self, _path: &Path, _reach: &Reach) -> Result<Arc<dyn Source>> {
        Err(not_here())
    }

    fn is_on_server(&self) -> bool {
        true
    }

    fn open_reference(&self, uri: &str) -> Option<Result<Arc<dyn Source>>> {
        Some(self.follow(uri))
    }
}

impl Beside {
    fn follow(&self, uri: &str) -> Result<Arc<dyn Source>> {
        let (address, is_below) = target(&self.address, uri)?;
        if !self.remote.shared.options.follow {
            return Err(refused("it lies on a server, which is not followed without -o external=http"));
        }
        if is_below && self.trust == Trust::Mounted {
            self.remote.open_with_others(&address, Trust::Mounted)
        } else {
            self.remote.open_stranger(&address)
        }
    }
}

fn refused(why: &str) -> Error {
    Error::new(Kind::Unrecognised, why)
}

fn not_here() -> Error {
    refused("a tree on a server can't name files of this machine")
}

/// Returns the address of the file that a tree names, and true if the reference is relative and the file is in
/// the tree's directory or below.
fn target(tree: &Address, uri: &str) -> Result<(Address, bool)> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    match (is_scheme, &*scheme) {
        (true, "http" | "https") => return Ok((without_login(Url::parse(uri)?), false)),
        (true, "file") => return Err(not_here()),
        (true, _) => return Err(refused("its URI has an unknown scheme")),
        _ if uri.is_empty() || uri.starts_with('?') => return Err(refused("its URI names no file")),
        _ => {}
    }
    match tree {
        Address::Web(base) => {
            let reference = if uri.starts_with('/') { uri.to_owned() } else { format!("./{uri}") };
            let mut url = base.resolve(&reference)?;
            url.path = without_dots(&url.path);
            let dir = base.path.rfind('/').map_or("/", |slash| &base.path[..=slash]);
            let is_below = url.same_origin(base) && !uri.starts_with("//") && url.path.starts_with(dir);
            if is_below {
                url.login.clone_from(&base.login);
            }
            Ok((Address::Web(url), is_below))
        }
        Address::S3 { bucket, key } => {
            let path = uri.split('?').next().unwrap_or_default();
            let dir = key.rfind('/').map_or("", |slash| &key[..=slash]);
            let path = percent_decoded(path).and_then(|path| String::from_utf8(path).ok());
            let path = path.filter(|path| !path.starts_with("//") && !path.contains('\0'));
            let path = path.ok_or_else(|| refused("its URI is not valid"))?;
            let path = if path.starts_with('/') { path } else { format!("/{dir}{path}") };
            let path = without_dots(&path).trim_start_matches('/').to_owned();
            if path.is_empty() || path.len() > MAX_KEY {
                return Err(refused("its URI names no file"));
            }
            let is_below = path.starts_with(dir);
            Ok((Address::S3 { bucket: bucket.clone(), key: path }, is_below))
        }
    }
}

fn without_login(mut url: Url) -> Address {
    url.login = None;
    Address::Web(url)
}

/// Resolves the steps `.` and `..` of a path that begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let is_step = |name: &str| matches!(percent_decoded(name).as_deref(), Some(b"." | b".."));
    for name in path.split('/').skip(1) {
        match percent_decoded(name).as_deref() {
            Some(b"..") => drop(kept.pop()),
            Some(b".") => {}
            _ => kept.push(name),
        }
    }
    let ends_with_step = path.rsplit('/').next().is_some_and(is_step);
    let end = if ends_with_step && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_a_tree_start_at_its_address() {
        let web = Address::parse("https://me:secret@a.org/d/e/x.asdf?sig=1").unwrap();
        let s3 = Address::parse("s3://abc/d/e/x.asdf").unwrap();
        for (tree, uri, wanted, is_below) in [
            (&web, "y.asdf", "https://a.org/d/e/y.asdf", true),
            (&web, "sub/./y%20z.asdf", "https://a.org/d/e/sub/y%20z.asdf", true),
            (&web, "../y.asdf", "https://a.org/d/y.asdf", false),
            (&web, "sub/../../../../y", "https://a.org/y", false),
            (&web, "%2e%2E/y", "https://a.org/d/y", false),
            (&web, "/d/e/y", "https://a.org/d/e/y", true),
            (&web, "//b.org/d/e/y", "https://b.org/d/e/y", false),
            (&web, "http://me:p@b.org/y", "http://b.org/y", false),
            (&web, "https://a.org/d/e/y", "https://a.org/d/e/y", false),
            (&web, "1:2", "https://a.org/d/e/1:2", true),
            (&s3, "y%20z", "s3://abc/d/e/y z", true),
            (&s3, "../y", "s3://abc/d/y", false),
            (&s3, "../../../y", "s3://abc/y", false),
            (&s3, "https://b.org/y", "https://b.org/y", false),
        ] {
            let (address, below) = target(tree, uri).unwrap();
            assert_eq!((address.to_string(), below), (wanted.to_owned(), is_below), "{uri}");
            let has_login = matches!(&address, Address::Web(url) if url.login.is_some());
            assert_eq!(has_login, is_below && matches!(tree, Address::Web(_)), "{uri}");
        }
        for uri in
            ["file:///etc/passwd", "FILE:x", "file:x", "s3://abc/y", "gopher://x/", "", "?x", "http://"]
        {
            assert!(target(&web, uri).is_err() && target(&s3, uri).is_err(), "{uri}");
        }
        assert!(target(&s3, "%00").is_err() && target(&s3, "../..").is_err());
    }
}
