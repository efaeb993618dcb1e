//! Addresses of objects: `https://host/path`, `s3://bucket/key`.
//!
//! Secrets in an address, which are the user's password and a signed query, are never displayed.

use std::fmt;
use std::net::IpAddr;

use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode,
};

use seekable::error::{Error, Kind, Result};
use seekable::source::SCHEMES;

/// Maximum length of an address in bytes.
const MAX_URL: usize = 8 << 10;

/// Query parameters that carry a signature, in lower case. They do not identify an object.
const SIGNATURES: [&str; 8] =
    ["signature", "sig", "token", "access_token", "expires", "key-pair-id", "policy", "awsaccesskeyid"];

/// A text that is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(secret)")
    }
}

/// An http or https URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub(super) https: bool,
    /// Host in lower case; an IPv6 address is in brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Percent-encoded path, which begins with a slash.
    pub(super) path: String,
    pub(super) query: Option<String>,
    /// The user's name and password, as `name:password`.
    pub(super) login: Option<Secret>,
}

impl Url {
    /// Parses an absolute http or https URL.
    ///
    /// # Errors
    /// [`Kind::Usage`] if the text is no such URL; the message does not repeat the text.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_URL {
            return Err(wrong(&format!("the URL is longer than {MAX_URL} bytes")));
        }
        if text.chars().any(char::is_control) {
            return Err(wrong("the URL has a control character"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("the URL has no scheme"))?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("only http, https and s3 URLs can be read")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?', '\\']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        // Browsers take it for a slash.
        if rest.starts_with('\\') {
            return Err(wrong("the URL has a backslash after its host"));
        }
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(Secret(decoded(login)?)), host),
            None => (None, authority),
        };
        let (host, port) = host_and_port(host, if https { 443 } else { 80 })?;
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(encoded(query))),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/".to_owned() } else { encoded(path) };
        Ok(Self { https, host, port, path, query, login })
    }

    /// Resolves a reference relative to this URL, such as the target of a redirect. The login is dropped.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn resolve(&self, reference: &str) -> Result<Self> {
        let reference = reference.trim();
        let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_absolute = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let origin = self.origin();
        let mut url = if is_absolute {
            Self::parse(reference)?
        } else if let Some(rest) = reference.strip_prefix("//") {
            Self::parse(&format!("{}://{rest}", self.scheme()))?
        } else if reference.starts_with('/') {
            Self::parse(&format!("{origin}{reference}"))?
        } else if reference.starts_with('?') {
            Self::parse(&format!("{origin}{}{reference}", self.path))?
        } else {
            let dir = self.path.rfind('/').map_or("/", |slash| &self.path[..=slash]);
            Self::parse(&format!("{origin}{dir}{reference}"))?
        };
        url.login = None;
        Ok(url)
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// Returns scheme, host, and the port unless it is the default.
    pub(super) fn origin(&self) -> String {
        let default = if self.https { 443 } else { 80 };
        let port = if self.port == default { String::new() } else { format!(":{}", self.port) };
        format!("{}://{}{port}", self.scheme(), self.host)
    }

    /// True if both have the same scheme, host and port.
    pub(super) fn same_origin(&self, other: &Self) -> bool {
        (self.https, &self.host, self.port) == (other.https, &other.host, other.port)
    }

    /// Returns the text for a request, without the login.
    pub(super) fn request_text(&self) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{}{query}", self.origin(), self.path)
    }

    /// Returns the text that identifies the object, for digests only. Signatures are left out.
    pub(super) fn identity(&self) -> String {
        let is_part = |part: &&str| {
            let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
            !name.starts_with("x-amz-")
                && !name.starts_with("x-goog-")
                && !SIGNATURES.contains(&name.as_str())
        };
        let query = self.query.as_deref().unwrap_or_default();
        let query: Vec<&str> = query.split('&').filter(is_part).collect();
        format!("{}{}?{}", self.origin(), self.path, query.join("&"))
    }

    /// Returns the host as an IP address, if it is written as one.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.origin(), self.path)?;
        if self.query.is_some() { out.write_str("?…") } else { Ok(()) }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

fn wrong(why: &str) -> Error {
    Error::new(Kind::Usage, why)
}

fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| wrong("the URL's host lacks a ]"))?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong("the URL's host is not an IPv6 address"))?;
            (format!("[{host}]"), port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), Some("")),
        },
    };
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.starts_with('[') && !host.bytes().all(is_valid) {
        return Err(wrong("the URL's host is not valid; write an international name in its form with xn--"));
    }
    let port = match port {
        Some("") => default,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("the URL's port is not valid"))?
        }
        _ => return Err(wrong("the URL's port is not valid")),
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// The characters that a URL may not have.
const NOT_IN_URLS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The characters that have a meaning in some URLs, and those that a URL may not have.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes the bytes that a URL may not have. Bytes that are already encoded stay as they are.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_URLS).to_string()
}

/// Encodes a name as one segment of a path. `.` and `..` are encoded, too, as a server would
/// take them for steps to other directories.
pub(super) fn segment(name: &[u8]) -> String {
    match name {
        b"." => "%2E".to_owned(),
        b".." => "%2E%2E".to_owned(),
        name => percent_encode(name, RESERVED).to_string(),
    }
}

/// Decodes `%XX`; `None` if a percent sign is followed by something else.
pub(super) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    // Each sign that was decoded has taken two digits with it.
    let is_valid = bytes.len() + 2 * text.matches('%').count() == text.len();
    is_valid.then_some(bytes)
}

fn decoded(login: &str) -> Result<String> {
    let bytes = percent_decoded(login).and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| wrong("the user name or password in the URL is not valid"))
}

/// The address of an object or a directory, as users write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An object or an index page of a web server.
    Web(Url),
    /// A key of a bucket; a directory if the key is empty or ends with a slash.
    S3 {
        /// Name of the bucket.
        bucket: String,
        /// The key, not encoded.
        key: String,
    },
}

impl Address {
    /// True if addresses have this scheme.
    pub fn has_scheme(scheme: &str) -> bool {
        SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme))
    }

    /// Parses an address.
    ///
    /// # Errors
    /// [`Kind::Usage`] if the address is not valid; the message does not repeat the text.
    pub fn parse(text: &str) -> Result<Self> {
        let is_s3 = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("s3://"));
        let Some(rest) = text.get(5..).filter(|_| is_s3) else { return Ok(Self::Web(Url::parse(text)?)) };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let starts_well = bucket.starts_with(|first: char| first.is_ascii_alphanumeric());
        if !(3..=63).contains(&bucket.len())
            || !bucket.bytes().all(is_valid)
            || !starts_well
            || bucket.contains("..")
        {
            return Err(wrong("the bucket's name is not valid; write s3://BUCKET/KEY"));
        }
        if key.len() > 1024 {
            return Err(wrong("the key is longer than 1024 bytes"));
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// True if the address ends with a slash, or is a whole bucket.
    pub fn is_directory(&self) -> bool {
        match self {
            Self::Web(url) => url.path.ends_with('/'),
            Self::S3 { key, .. } => key.is_empty() || key.ends_with('/'),
        }
    }

    /// Returns the number of directories above the object or directory.
    pub(super) fn depth(&self) -> usize {
        let path = match self {
            Self::Web(url) => &url.path,
            Self::S3 { key, .. } => key,
        };
        path.strip_suffix('/').unwrap_or(path).bytes().filter(|byte| *byte == b'/').count()
    }

    /// Returns this address with a slash at its end.
    #[must_use]
    pub fn as_directory(&self) -> Self {
        let mut address = self.clone();
        match &mut address {
            _ if self.is_directory() => {}
            Self::Web(url) => url.path.push('/'),
            Self::S3 { key, .. } => key.push('/'),
        }
        address
    }

    /// Returns the address of a name in this directory, which is any bytes without a slash.
    pub(super) fn child(&self, name: &[u8], is_directory: bool) -> Option<Self> {
        let mut address = self.as_directory();
        match &mut address {
            Self::Web(url) => {
                url.path.push_str(&segment(name));
                url.query = None;
            }
            Self::S3 { key, .. } => key.push_str(std::str::from_utf8(name).ok()?),
        }
        if name.is_empty() {
            // An empty component of a key: `dir//`.
            let Self::S3 { key, .. } = &mut address else { return None };
            key.push('/');
            return is_directory.then_some(address);
        }
        Some(if is_directory { address.as_directory() } else { address })
    }

    /// Returns the name of the server: a host with its port, or a bucket.
    pub fn server(&self) -> String {
        match self {
            Self::Web(url) => url.origin(),
            Self::S3 { bucket, .. } => format!("s3://{bucket}"),
        }
    }

    /// Returns the last component, as a name for a mount point; empty for a bucket or a server.
    pub fn file_name(&self) -> Vec<u8> {
        let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        match self {
            Self::Web(url) => percent_decoded(&last(&url.path)).unwrap_or_default(),
            Self::S3 { key, .. } => last(key).into_bytes(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(url) => fmt::Display::fmt(url, out),
            Self::S3 { bucket, key } => write!(out, "s3://{bucket}/{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_strictly() {
        let url = Url::parse("HTTPS://User:p%40ss@Example.org:8443/a b/ü?x=1#part").unwrap();
        assert_eq!((&*url.host, url.port, &*url.path), ("example.org", 8443, "/a%20b/%C3%BC"));
        assert_eq!(url.login, Some(Secret("User:p@ss".into())));
        assert_eq!(Url::parse("http://[::1]:80/x").unwrap().host, "[::1]");
        for text in [
            "",
            "x",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://a b/",
            "http://ä/",
            "http://a:0/",
            "http://a:99999/",
            "http://a:+1/",
            "http://[::1/",
            "http://[x]/",
            "http://a/\nb",
            "http://[::1]80/",
            "http://a\\b/",
            "http://a\\@b/",
        ] {
            assert_eq!(Url::parse(text).map_err(|error| error.kind()), Err(Kind::Usage), "{text:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = Url::parse("https://me:secret@a.org/x?X-Amz-Signature=secret&part=7").unwrap();
        let address = Address::Web(url.clone());
        for text in [format!("{url} {url:?} {address} {address:?} {:?}", url.login), url.identity()] {
            assert!(!text.contains("secret)") || !text.contains("me:"), "{text}");
            assert!(!text.replace("(secret)", "").contains("secret"), "{text}");
        }
        assert!(url.identity().ends_with("/x?part=7"));
    }

    #[test]
    fn references_are_resolved() {
        let base = Url::parse("https://u:p@a.org/x/y?q").unwrap();
        for (reference, wanted) in [
            ("http://b.org/z", "http://b.org/z"),
            ("//b.org/z", "https://b.org/z"),
            ("/z", "https://a.org/z"),
            ("z", "https://a.org/x/z"),
            ("?r", "https://a.org/x/y?…"),
        ] {
            let url = base.resolve(reference).unwrap();
            assert_eq!((url.to_string(), url.login), (wanted.to_owned(), None));
        }
        assert!(base.resolve("file:///etc/passwd").is_err() && base.resolve("gopher:x").is_err());
    }

    #[test]
    fn addresses_lead_to_their_children() {
        let bucket = Address::parse("s3://data.org/a/").unwrap();
        assert_eq!(bucket.child(b"b c", true).unwrap().to_string(), "s3://data.org/a/b c/");
        let web = Address::parse("http://a/x").unwrap();
        assert_eq!(web.child(b"..", false).unwrap().to_string(), "http://a/x/%2E%2E");
        assert_eq!(web.child(b"b/c", false).unwrap().to_string(), "http://a/x/b%2Fc");
        assert_eq!(Address::parse("http://a/b%20c/").unwrap().file_name(), b"b c");
        for text in ["s3://", "s3://a/x", "s3://-ab/x", "s3://a..b/x", "s3://a b/x", "file:///x"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        assert!(Address::has_scheme("S3") && !Address::has_scheme("/x") && !Address::has_scheme("c"));
    }
}
