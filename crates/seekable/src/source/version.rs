//! The state of a source: size, time, version.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970, and nanoseconds.
pub type Time = (i64, u32);

/// The state of a source at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceStat {
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: Time,
    /// Version of the source.
    pub version: SourceVersion,
}

impl SourceStat {
    /// True if the last change was at least this long ago.
    pub fn is_unchanged_for(&self, time: Duration) -> bool {
        let (seconds, nanoseconds) = self.version.last_change().unwrap_or(self.mtime);
        let Ok(seconds) = u64::try_from(seconds) else { return true };
        let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        SystemTime::now().duration_since(changed).is_ok_and(|since| since >= time)
    }
}

impl From<Identity> for SourceStat {
    fn from(identity: Identity) -> Self {
        Self { size: identity.size, mtime: identity.mtime, version: identity.into() }
    }
}

/// An opaque version of a source. While it is unchanged, data parsed from the source are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceVersion(Token);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    /// The version of a local file.
    File(Identity),
    /// A digest of the ETag or similar text by which a server identifies the state of an object.
    Tag(u128),
}

impl SourceVersion {
    /// Creates the version for a tag: any text that changes with the bytes.
    pub fn of_tag(tag: &str) -> Self {
        Self(Token::Tag(twox_hash::XxHash3_128::oneshot(tag.as_bytes())))
    }

    /// True if both are versions of the same file, regardless of writes in between.
    ///
    /// An object on a server has no identity but its name, so two tags always count as the same file.
    pub fn same_file(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Token::File(one), Token::File(other)) => one.same_file(&other),
            (Token::Tag(_), Token::Tag(_)) => true,
            _ => false,
        }
    }

    /// True if both are versions of one local file, with the same size and modification time, but with
    /// different status change times (ctime). The file then has another name, owner or mode, or a program
    /// wrote to it and set the modification time back, as `cp -p` does.
    pub fn differs_only_in_ctime(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Token::File(one), Token::File(other)) => {
                one.ctime != other.ctime && Identity { ctime: other.ctime, ..one } == other
            }
            _ => false,
        }
    }

    /// Returns the time of the last change of a local file: the later one of mtime and ctime.
    pub fn last_change(&self) -> Option<Time> {
        match self.0 {
            Token::File(identity) => Some(identity.mtime.max(identity.ctime)),
            Token::Tag(_) => None,
        }
    }

    /// Returns a text that differs between versions, and is the same on each machine that reads the file over a network:
    /// without the number of the device.
    pub fn in_text(&self) -> String {
        match self.0 {
            Token::File(Identity { inode, size, mtime, ctime, .. }) => {
                format!("{inode} {size} {}.{:09} {}.{:09}", mtime.0, mtime.1, ctime.0, ctime.1)
            }
            Token::Tag(digest) => format!("{digest:032x}"),
        }
    }

    /// Returns bytes that differ between versions, to identify the source in data that outlive the program.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.0 {
            Token::File(Identity { device, inode, size, mtime, ctime }) => {
                let times = [mtime.0 as u64, mtime.1.into(), ctime.0 as u64, ctime.1.into()];
                [device, inode, size].into_iter().chain(times).flat_map(u64::to_le_bytes).collect()
            }
            Token::Tag(digest) => digest.to_le_bytes().to_vec(),
        }
    }
}

impl From<Identity> for SourceVersion {
    fn from(identity: Identity) -> Self {
        Self(Token::File(identity))
    }
}

/// The state of a file as the server states it. Other programs can compare it with the server's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Size in bytes.
    pub size: u64,
    /// The ETag with its quotes, and with `W/` if it is weak.
    pub etag: Option<String>,
    /// Modification time, if it is known.
    pub mtime: Option<Time>,
}

/// The possible writers of a source and the time of its last change, as bytes to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The owner, if only the owner may write. For any other file the bytes are unique to the file.
    pub writers: Vec<u8>,
    /// The time of the last change (ctime), which no program can set back.
    pub changed: Vec<u8>,
}

impl Provenance {
    /// Takes the provenance of a file from a stat result.
    pub fn of(meta: &std::fs::Metadata) -> Self {
        let mut writers = meta.uid().to_le_bytes().to_vec();
        // The group bits are also the mask of an ACL.
        if meta.mode() & 0o022 != 0 {
            writers.extend([meta.dev(), meta.ino()].into_iter().flat_map(u64::to_le_bytes));
        }
        let changed = [meta.ctime(), meta.ctime_nsec()].into_iter().flat_map(i64::to_le_bytes).collect();
        Self { writers, changed }
    }
}

/// The version of a local file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970, and nanoseconds.
    pub mtime: Time,
    /// Status change time (ctime), which no program can set back.
    pub ctime: Time,
}

impl Identity {
    /// Takes the identity from a stat result.
    pub fn of(meta: &std::fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec() as u32),
            ctime: (meta.ctime(), meta.ctime_nsec() as u32),
        }
    }

    /// True if both are the same file, regardless of writes in between.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_changes_with_the_file_and_with_the_tag() {
        let old = Identity { device: 1, inode: 2, size: 3, mtime: (-4, 5), ctime: (6, 7) };
        let grown = Identity { size: 4, ..old };
        let other = Identity { inode: 7, ..old };
        let put_back = Identity { ctime: (8, 7), ..old };
        let [old, grown, other, put_back] = [old, grown, other, put_back].map(SourceVersion::from);
        assert!(old != put_back && old.differs_only_in_ctime(&put_back));
        assert!(![old, grown, other].iter().any(|version| old.differs_only_in_ctime(version)));
        let [tag, new_tag] = ["\"a\"", "\"b\""].map(SourceVersion::of_tag);
        assert!(old.same_file(&grown) && !old.same_file(&other) && !old.same_file(&tag));
        assert!(tag.same_file(&new_tag) && tag != new_tag && tag == SourceVersion::of_tag("\"a\""));
        assert_ne!(old.in_text(), put_back.in_text());
        let bytes = [old, grown, other, tag, new_tag].map(|version| version.to_bytes());
        assert!((1..5).all(|n| !bytes[n..].contains(&bytes[n - 1])));
        assert_eq!(bytes[0].len(), 56);
    }
}
