//! The process that saves a file, and the proof that it has ended.
//!
//! Two programs may share a directory without sharing locks: through two mounts of one server, from two machines, in two
//! containers. A journal or an image may then be that of a save in progress although its file is not locked here. Both
//! name their saver, and are cleaned up only after the saver is proven to have ended.

use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use md5::{Digest, Md5};

use crate::history::machine;

/// PF_EXITING in the flags of a process.
const EXITING: u32 = 4;

/// The process that makes a journal or an image.
///
/// Machine, boot and namespace are the first 32 bits of a hash: enough to tell apart what shares a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Saver {
    /// The machine: its id, which all of its boots share.
    pub(super) machine: u32,
    /// The boot of the machine, which all of its containers share.
    pub(super) boot: u32,
    /// The PID namespace, in which the process id is valid.
    pub(super) namespace: u32,
    /// The process id.
    pub(super) pid: u32,
}

/// The state of the saver of a journal or an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is this process.
    Own,
    /// It has ended.
    Ended,
    /// It runs, or that can't be ruled out from here.
    Unknown,
}

impl Saver {
    /// Returns this process.
    pub(super) fn this() -> Self {
        // A fork changes only the process id.
        static MACHINE: OnceLock<[u32; 3]> = OnceLock::new();
        let [machine, boot, namespace] = *MACHINE.get_or_init(|| {
            let namespace = std::fs::metadata("/proc/self/ns/pid").map(|meta| meta.ino().to_be_bytes());
            let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            [hash(machine().as_bytes()), hash(&boot), hash(&namespace.unwrap_or_default())]
        });
        Self { machine, boot, namespace, pid: std::process::id() }
    }

    /// Returns whether the process still runs. A process that has its id now counts as this one.
    pub(super) fn life(&self) -> Life {
        let this = Self::this();
        if *self == this {
            return Life::Own;
        }
        let is_before_boot = self.machine == this.machine && self.boot != this.boot;
        let is_seen = (self.boot, self.namespace) == (this.boot, this.namespace);
        if is_before_boot || is_seen && has_ended(self.pid) { Life::Ended } else { Life::Unknown }
    }

    /// True if locks reach the process, provided that it used the same mount of the file's file system.
    pub(super) fn is_of_this_kernel(&self) -> bool {
        self.boot == Self::this().boot
    }

    /// Returns the saver as a part of a file name.
    pub(super) fn to_word(self) -> String {
        format!("{:08x}{:08x}{:08x}-{}", self.machine, self.boot, self.namespace, self.pid)
    }

    /// Parses a saver from the [word](Self::to_word).
    pub(super) fn from_word(word: &str) -> Option<Self> {
        let (place, pid) = word.split_once('-')?;
        let number = |at: usize| u32::from_str_radix(place.get(at..at + 8)?, 16).ok();
        let saver =
            Self { machine: number(0)?, boot: number(8)?, namespace: number(16)?, pid: pid.parse().ok()? };
        (saver.to_word() == word).then_some(saver)
    }
}

/// Describes the saver for a message.
impl std::fmt::Display for Saver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let this = Self::this();
        if (self.boot, self.namespace) == (this.boot, this.namespace) {
            write!(out, "process {}", self.pid)
        } else if self.boot == this.boot {
            write!(out, "process {} of another container", self.pid)
        } else {
            write!(out, "process {} of another machine", self.pid)
        }
    }
}

fn hash(bytes: &[u8]) -> u32 {
    let digest = Md5::digest(bytes);
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// True if no process of this namespace has the id. A zombie, or a process that is exiting, saves no more.
fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            // The state and the flags follow the name, which may contain anything.
            let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
            let flags = rest.split(' ').nth(6).and_then(|flags| flags.parse::<u32>().ok());
            rest.starts_with(['Z', 'X']) || flags.is_some_and(|flags| flags & EXITING != 0)
        }
        // A process that ends just then gives ESRCH.
        Err(error) => {
            error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_can_be_seen_is_proven_to_have_ended() {
        let this = Saver::this();
        assert_eq!(this.life(), Life::Own);
        assert_eq!(Saver { pid: 4_000_000_000, ..this }.life(), Life::Ended);
        assert_eq!(Saver { pid: 1, ..this }.life(), Life::Unknown);
        assert_eq!(Saver { boot: !this.boot, ..this }.life(), Life::Ended, "before the last boot");
        for elsewhere in [
            Saver { machine: !this.machine, boot: !this.boot, ..this },
            Saver { namespace: !this.namespace, pid: 4_000_000_000, ..this },
        ] {
            assert_eq!(elsewhere.life(), Life::Unknown, "{elsewhere}");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        for _ in 0..1000 {
            if has_ended(pid) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(has_ended(pid), "a zombie");
        child.wait().unwrap();
    }

    #[test]
    fn the_word_of_a_saver_is_read_again() {
        let saver = Saver { machine: 1, boot: 0xffff_ffff, namespace: 0xab, pid: 708 };
        assert_eq!(saver.to_word(), "00000001ffffffff000000ab-708");
        assert_eq!(Saver::from_word(&saver.to_word()), Some(saver));
        for wrong in
            ["", "x", "00000001ffffffff000000ab", "00000001ffffffff000000ab-", "00000001ffffffff000000ab-x"]
        {
            assert_eq!(Saver::from_word(wrong), None, "{wrong}");
        }
    }
}
