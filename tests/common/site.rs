//! Files on an HTTP server: with index pages as nginx makes them, or in buckets of S3.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::server::{Reply, Request, Server};

/// The files by path, without a slash at the beginning, each with the number of its version.
type Files = Arc<Mutex<BTreeMap<String, (usize, Arc<Vec<u8>>)>>>;

/// Entries of a page of a bucket's listing; few, so that directories have several pages.
const PAGE: usize = 3;
/// Entries of a page of a directory called `many/`.
const LARGE_PAGE: usize = 250;

/// A server with files.
pub struct Site {
    pub server: Server,
    files: Files,
}

impl Site {
    /// Starts a web server; `change` may spoil each reply.
    pub fn web(change: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |files, request| change(request, of_web(files, request)))
    }

    /// Starts a server of S3. Paths begin with the bucket.
    pub fn s3() -> Self {
        Self::start(of_s3)
    }

    fn start(answer: impl Fn(&Files, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let files = Files::default();
        let shared = files.clone();
        Self { server: Server::start(move |request, _| answer(&shared, request)), files }
    }

    /// Writes a new version of a file.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut files = self.files.lock().unwrap();
        let version = files.get(path).map_or(0, |(version, _)| version + 1);
        files.insert(path.to_owned(), (version, Arc::new(bytes.into())));
    }

    /// Deletes a file.
    pub fn remove(&self, path: &str) {
        self.files.lock().unwrap().remove(path);
    }

    /// Adds the files of a local directory.
    pub fn put_dir(&self, path: &str, dir: &Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{path}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                self.put_dir(&path, &entry.path())
            } else {
                self.put(&path, std::fs::read(entry.path()).unwrap())
            }
        }
    }

    /// Returns the targets and ranges of all requests so far.
    pub fn asked(&self) -> Vec<(String, String)> {
        let requests = self.server.requests();
        requests.iter().map(|request| (request.target.clone(), request.header("range").to_owned())).collect()
    }
}

/// Returns the names in `directory`, which ends with a slash or is empty. Names of directories end with a
/// slash.
fn names(files: &Files, directory: &str) -> BTreeSet<String> {
    let files = files.lock().unwrap();
    let below = files.keys().filter_map(|path| path.strip_prefix(directory));
    below.map(|rest| rest.find('/').map_or(rest, |slash| &rest[..=slash]).to_owned()).collect()
}

fn object(files: &Files, path: &str, request: &Request) -> Option<Reply> {
    let (version, bytes) = files.lock().unwrap().get(path).cloned()?;
    Some(Reply::part(&bytes, &format!("\"{version}-{}\"", bytes.len()), request))
}

fn of_web(files: &Files, request: &Request) -> Reply {
    let path = request.target.split('?').next().unwrap();
    let (path, decoded) = (path, decoded(path.trim_start_matches('/')));
    if let Some(reply) = object(files, &decoded, request) {
        return reply;
    }
    if decoded.is_empty() || decoded.ends_with('/') {
        return index_page(path, names(files, &decoded).into_iter());
    }
    if names(files, &format!("{decoded}/")).is_empty() {
        Reply::status(404)
    } else {
        Reply::status(301).with("Location", &format!("{path}/"))
    }
}

/// Serves the files in a directory as they are at each request.
pub fn of_folder(folder: &Path) -> Server {
    let folder = folder.to_owned();
    Server::start(move |request, _| {
        let path = decoded(request.target.trim_start_matches('/'));
        let file = folder.join(&path);
        match file.metadata() {
            Ok(meta) if meta.is_file() => {
                let etag = format!("\"{}-{}-{}\"", meta.ino(), meta.ctime(), meta.ctime_nsec());
                Reply::part_of(meta.len().try_into().unwrap(), &etag, request, |range| {
                    let mut bytes = vec![0; range.len()];
                    File::open(&file).unwrap().read_exact_at(&mut bytes, range.start as u64).unwrap();
                    bytes
                })
            }
            Ok(_) if path.ends_with('/') => {
                let names = std::fs::read_dir(file).unwrap().map(|entry| {
                    let entry = entry.unwrap();
                    let end = if entry.path().is_dir() { "/" } else { "" };
                    format!("{}{end}", entry.file_name().into_string().unwrap())
                });
                index_page(&request.target, names)
            }
            Ok(_) => Reply::status(301).with("Location", &format!("{}/", request.target)),
            Err(_) => Reply::status(404),
        }
    })
}

fn index_page(path: &str, names: impl Iterator<Item = String>) -> Reply {
    let links: String = names
        .map(|name| format!("<a href=\"{}\">{name}</a>  06-Nov-1994 08:49  17\n", encoded(&name)))
        .collect();
    let title = format!("Index of {path}");
    let page = format!(
        "<html><head><title>{title}</title></head><body><h1>{title}</h1><pre><a href=\"../\">../</a>\n\
         {links}</pre></body></html>"
    );
    Reply::status(200).body("text/html", &page)
}

fn of_s3(files: &Files, request: &Request) -> Reply {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let path = decoded(path.trim_start_matches('/'));
    if !query.contains("list-type=2") {
        let missing = "<Error><Code>NoSuchKey</Code></Error>";
        let missing = || Reply::status(404).body("application/xml", missing);
        return object(files, &path, request).unwrap_or_else(missing);
    }
    let value = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name));
    let prefix = decoded(value("prefix=").unwrap());
    let first: usize = value("continuation-token=").map_or(0, |token| token.parse().unwrap());
    let names: Vec<_> = names(files, &format!("{path}{prefix}")).into_iter().collect();
    let mut text = String::from("<ListBucketResult><EncodingType>url</EncodingType>");
    let page = if prefix.ends_with("many/") { LARGE_PAGE } else { PAGE };
    for name in names.iter().skip(first).take(page) {
        let key = encoded(&format!("{prefix}{name}"));
        text += &if name.ends_with('/') {
            format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>")
        } else {
            let (version, bytes) = files.lock().unwrap()[&format!("{path}{prefix}{name}")].clone();
            let (etag, size) = (format!("&quot;{version}-{}&quot;", bytes.len()), bytes.len());
            format!(
                "<Contents><Key>{key}</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified>\
                 <ETag>{etag}</ETag><Size>{size}</Size></Contents>"
            )
        };
    }
    let next = first + page;
    if next < names.len() {
        text +=
            &format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>");
    }
    Reply::status(200).body("application/xml", &(text + "</ListBucketResult>"))
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.filter(|_| byte == b'%').and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &after[2..]),
            None => (bytes.push(byte), rest = after),
        };
    }
    String::from_utf8(bytes).unwrap()
}
