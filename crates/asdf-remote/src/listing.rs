//! Directories: prefixes of buckets, and the index pages of nginx and Apache.
//!
//! A listing is a stranger's text: its length, its number of entries, its names, and the memory of all listings
//! together are bounded, and names are escaped as in `content/names.rs`.
//!
//! | key or link | name |
//! |---|---|
//! | `a` | `a` |
//! | directory `a/` | `a`, or `a%-` if there is an object `a` |
//! | directory without a name, as in the key `dir//a.asdf` | `%-` |
//! | `..`, control characters, bytes that are not UTF-8 | escaped |
//! | longer than a file name may be | left out, with a warning; an error of a walk |

pub mod index_page;
pub mod s3_page;
mod xml;

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use asdf_file::folder::names::{ViewNames, original};
use seekable::error::{Error, Kind, Result};
use seekable::source::{MAX_DEPTH, Time};
use seekable::sync::locked;

use self::s3_page::Page;
use super::client::{Ask, Reply, Trust};
use super::object::of;
use super::retry::{self, eio};
use super::shared::RemoteState;
use super::url::{Address, RESERVED};
use super::version;

/// Maximum length of a page.
const PAGE: usize = 16 << 20;
/// Maximum number of entries of a directory, and of pages.
const ENTRIES: usize = 1_000_000;
const PAGES: usize = 20_000;
/// Maximum number of pages in a row without a new name.
const EMPTY_PAGES: usize = 100;
/// Maximum memory of all listings that are being read, in bytes. A directory may seem to contain itself, and then
/// a walk reads a page in each level.
const HELD: usize = 128 << 20;
/// Memory of a remembered name besides its text, in bytes: in [`NameDigests`], and in a list of names.
const OF_DIGEST: usize = 16;
const OF_NAME: usize = 48;

/// The rules for names: no ending is reserved.
const NAMES: ViewNames = ViewNames { endings: &[] };
/// Suffix for a directory that has the name of an object in the same directory.
const BESIDE: &str = "%-";

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// The file name, escaped.
    pub name: String,
    /// True for a directory.
    pub is_directory: bool,
    /// The address of the object or directory.
    pub address: Address,
    /// Size in bytes, if the listing has it exactly.
    pub size: Option<u64>,
    /// The ETag, if the listing has it.
    pub tag: Option<String>,
    /// Modification time, if the listing has it.
    pub mtime: Option<Time>,
}

/// A key or a link, as a page has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageItem {
    /// The last component of the key or link, decoded, without a slash.
    pub name: Vec<u8>,
    /// True for a directory.
    pub is_directory: bool,
    /// Size in bytes.
    pub size: Option<u64>,
    /// The ETag.
    pub tag: Option<String>,
    /// Modification time.
    pub mtime: Option<Time>,
}

impl PageItem {
    /// Returns the memory of the item in bytes.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.name.capacity() + self.tag.as_ref().map_or(0, String::capacity)
    }
}

/// The entries of a directory. Each page is requested when all entries of the page before have been returned.
/// After an error there are no more entries.
#[derive(Debug)]
pub struct Listing {
    shared: Arc<RemoteState>,
    directory: Address,
    trust: Trust,
    page: VecDeque<PageItem>,
    next: NextPage,
    pages: usize,
    /// Number of pages since the last new name.
    empty_pages: usize,
    entries: usize,
    seen: NameDigests,
    left_out: usize,
    held: HeldBytes,
}

/// The number of bytes that a listing holds, as part of those of all listings.
#[derive(Debug)]
struct HeldBytes {
    shared: Arc<RemoteState>,
    page: usize,
    others: usize,
}

impl HeldBytes {
    /// Sets the size of the page.
    fn set_page(&mut self, page: usize) -> Result<()> {
        self.shared.listed.fetch_sub(self.page, Ordering::Relaxed);
        self.page = 0;
        self.shared.hold(page)?;
        self.page = page;
        Ok(())
    }

    /// Adds bytes that are held until the end of the listing.
    fn add(&mut self, bytes: usize) -> Result<()> {
        self.shared.hold(bytes)?;
        self.others += bytes;
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.shared.listed.fetch_sub(self.page + self.others, Ordering::Relaxed);
    }
}

impl RemoteState {
    /// Counts bytes of a listing; fails if all listings are too long together.
    fn hold(&self, bytes: usize) -> Result<()> {
        let before = self.listed.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= HELD {
            return Ok(());
        }
        self.listed.fetch_sub(bytes, Ordering::Relaxed);
        let most = HELD >> 20;
        Err(Error::new(Kind::TooLarge, format!("the listing takes more than {most} MiB of memory")))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum NextPage {
    First,
    After(String),
    None,
}

/// The digests of names that were listed.
#[derive(Debug, Default)]
struct NameDigests {
    keys: RandomState,
    names: HashSet<u64>,
}

impl NameDigests {
    /// Adds a name; false if it was listed before.
    fn add(&mut self, name: &str) -> bool {
        self.names.insert(self.keys.hash_one(name))
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(&self.keys.hash_one(name))
    }
}

impl Listing {
    pub(super) fn new(shared: Arc<RemoteState>, directory: &Address, trust: Trust) -> Self {
        Self {
            held: HeldBytes { shared: shared.clone(), page: 0, others: 0 },
            shared,
            directory: directory.as_directory(),
            trust,
            page: VecDeque::new(),
            next: NextPage::First,
            pages: 0,
            empty_pages: 0,
            entries: 0,
            seen: NameDigests::default(),
            left_out: 0,
        }
    }

    /// Counts the memory of a name that the caller keeps as long as it reads the listing.
    pub(super) fn keep(&mut self, name: &str) -> Result<()> {
        self.held.add(name.len() + OF_NAME).map_err(of(&self.directory))
    }

    /// Requests the next page; false if there is none.
    fn turn_page(&mut self) -> Result<bool> {
        let after = match std::mem::replace(&mut self.next, NextPage::None) {
            NextPage::None => return Ok(false),
            NextPage::First => None,
            NextPage::After(token) => Some(token),
        };
        if self.directory.depth() > MAX_DEPTH {
            let error = Error::unsupported(format!("directories nest more than {MAX_DEPTH} deep"));
            return Err(error.of(self.directory.to_string()));
        }
        self.pages += 1;
        self.empty_pages += 1;
        if self.empty_pages > EMPTY_PAGES {
            return Err(eio("the server's listing does not end").of(self.directory.to_string()));
        }
        if self.pages > PAGES {
            return Err(too_long().of(self.directory.to_string()));
        }
        let directory = self.directory.clone();
        let trust = self.trust;
        let request = PageRequest { directory, trust, after: after.clone(), most: None };
        let page = request.send(&self.shared)?;
        if page.next.is_some() && page.next == after {
            return Err(eio("the server repeats a page of the listing").of(self.directory.to_string()));
        }
        if self.pages == 1 && !page.is_found && page.next.is_none() {
            let missing = Error::new(Kind::NotFound, "no object is in a directory of this name");
            return Err(missing.of(self.directory.to_string()));
        }
        let bytes = page.entries.iter().map(PageItem::memory).sum();
        self.held.set_page(bytes).map_err(of(&self.directory))?;
        self.held.add(page.entries.len() * OF_DIGEST).map_err(of(&self.directory))?;
        self.next = page.next.map_or(NextPage::None, NextPage::After);
        self.page = page.entries.into();
        Ok(true)
    }

    /// Returns the number of names so far that are left out because no file can have them.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the entry for a key or a link; `None` if it was listed before, or if no file can have its name.
    fn entry(&mut self, listed: PageItem) -> Option<ListedEntry> {
        let is_unnamed = listed.name.is_empty() && listed.is_directory;
        let name = if is_unnamed { Some(BESIDE.to_owned()) } else { file_name(&listed.name) };
        let Some(mut name) = name else {
            self.left_out += 1;
            if self.left_out == 1 {
                tracing::warn!("{}: names that no file can have are left out", self.directory);
            }
            return None;
        };
        if listed.is_directory && self.seen.has(&name) {
            name.push_str(BESIDE);
        }
        let address = self.directory.child(&listed.name, listed.is_directory)?;
        if !self.seen.add(&name) {
            return None;
        }
        let PageItem { is_directory, size, tag, mtime, .. } = listed;
        Some(ListedEntry { name, is_directory, address, size, tag, mtime })
    }
}

impl Iterator for Listing {
    type Item = Result<ListedEntry>;

    fn next(&mut self) -> Option<Result<ListedEntry>> {
        loop {
            let Some(listed) = self.page.pop_front() else {
                match self.turn_page() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => return Some(Err(error)),
                }
            };
            self.entries += 1;
            if self.entries > ENTRIES {
                (self.page, self.next) = (VecDeque::new(), NextPage::None);
                return Some(Err(too_long().of(self.directory.to_string())));
            }
            if let Some(entry) = self.entry(listed) {
                self.empty_pages = 0;
                return Some(Ok(entry));
            }
        }
    }
}

fn too_long() -> Error {
    Error::new(Kind::TooLarge, format!("the directory has more than {ENTRIES} entries"))
}

/// Returns the file name of a key's last component; `None` if it is too long or empty.
fn file_name(name: &[u8]) -> Option<String> {
    let mut components = NAMES.component(name);
    let is_one = components.len() == 1 && !name.is_empty();
    components.pop().filter(|_| is_one)
}

/// Returns the address of a name in a directory.
pub(super) fn child(directory: &Address, name: &OsStr) -> Option<Address> {
    let text = name.to_str()?;
    if text == BESIDE {
        return directory.child(b"", true);
    }
    let beside = text.strip_suffix(BESIDE);
    let plain = beside.unwrap_or(text);
    let bytes = original([OsStr::from_bytes(plain.as_bytes())])?;
    let is_its_name = file_name(&bytes).as_deref() == Some(plain);
    directory.child(&bytes, beside.is_some()).filter(|_| is_its_name)
}

/// True if a bucket has a key with this prefix.
pub(super) fn has_keys(shared: &Arc<RemoteState>, directory: &Address, trust: Trust) -> Result<bool> {
    let request = PageRequest { directory: directory.clone(), trust, after: None, most: Some(1) };
    Ok(request.send(shared)?.is_found)
}

/// A request for a page of a directory.
struct PageRequest {
    directory: Address,
    trust: Trust,
    /// The token of the page; `None` for the first one.
    after: Option<String>,
    /// Maximum number of entries.
    most: Option<usize>,
}

impl PageRequest {
    /// Requests the page.
    fn send(self, shared: &Arc<RemoteState>) -> Result<Page> {
        let deadline = Instant::now() + shared.options.read_timeout;
        let own = shared.clone();
        shared.schedule.answer(deadline, move || self.ask(&own, deadline))
    }

    fn ask(&self, shared: &RemoteState, deadline: Instant) -> Result<Page> {
        let directory = &self.directory;
        let request = |address: &Address, query: Option<&str>| {
            let ask = Ask { address, trust: self.trust, query, ranges: &[], condition: None, is_head: false };
            let asked = retry::until(deadline, &shared.client.counters, || {
                let mut reply = shared.client.get(&ask, deadline)?;
                version::check_encoding(&reply.headers)?;
                if reply.status != 200 {
                    return Err(eio(format!(
                        "the server answers HTTP {} to a request for a listing",
                        reply.status
                    ))
                    .into());
                }
                let bytes = reply.body.read_all(PAGE)?;
                Ok((reply, bytes))
            });
            asked.map_err(of(directory))
        };
        match directory {
            Address::S3 { bucket, key: prefix } => {
                let root = Address::S3 { bucket: bucket.clone(), key: String::new() };
                let (_, bytes) = request(&root, Some(&self.query(prefix)))?;
                let _parsing = locked(&shared.parsing);
                let page = s3_page::parse(&bytes, prefix.as_bytes()).map_err(of(directory))?;
                // A bucket may be empty.
                Ok(Page { is_found: page.is_found || prefix.is_empty(), ..page })
            }
            Address::Web(_) => {
                let (reply, bytes) = request(directory, None)?;
                let _parsing = locked(&shared.parsing);
                let entries = index_page_of(&reply, &bytes).map_err(of(directory))?;
                Ok(Page { entries, next: None, is_found: true })
            }
        }
    }

    /// Returns the query of a request to a bucket.
    fn query(&self, prefix: &str) -> String {
        let encoded = |text: &str| percent_encoding::utf8_percent_encode(text, RESERVED).to_string();
        let after = self
            .after
            .as_ref()
            .map_or_else(String::new, |token| format!("continuation-token={}&", encoded(token)));
        let most = self.most.map_or_else(String::new, |most| format!("max-keys={most}&"));
        // In alphabetical order, as the signature has them.
        format!("{after}delimiter=%2F&encoding-type=url&list-type=2&{most}prefix={}", encoded(prefix))
    }
}

fn index_page_of(reply: &Reply, bytes: &[u8]) -> Result<Vec<PageItem>> {
    let kind = version::text(&reply.headers, "content-type").unwrap_or_default();
    if !kind.trim_start().to_ascii_lowercase().starts_with("text/html") {
        return Err(index_page::not_one());
    }
    index_page::parse(&String::from_utf8_lossy(bytes), &reply.url.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_addresses_and_back() {
        let directory = Address::parse("s3://abc/p/").unwrap();
        for (key, name) in
            [("a b", "a b"), ("..", "%2E%2E"), ("a\nb", "a%0Ab"), ("50%", "50%25"), ("%-", "%25-")]
        {
            assert_eq!(file_name(key.as_bytes()).as_deref(), Some(name));
            let address = child(&directory, OsStr::new(name)).unwrap();
            assert_eq!(address, Address::S3 { bucket: "abc".into(), key: format!("p/{key}") });
        }
        assert!(child(&directory, OsStr::new("a%-")).unwrap().is_directory());
        let unnamed = child(&directory, OsStr::new("%-")).unwrap();
        assert_eq!(unnamed, Address::S3 { bucket: "abc".into(), key: "p//".into() });
        let of_page = Address::parse("https://host/p/").unwrap();
        assert_eq!(child(&of_page, OsStr::new("%-")), None);
        for name in ["", "a%", "%2e%2e", "..", ".", "a%zz", "a%+", "%61"] {
            assert_eq!(child(&directory, OsStr::new(name)), None, "{name}");
        }
        assert_eq!(file_name(&[b'a'; 1000]), None);
        assert_eq!(file_name(b""), None);
    }
}
