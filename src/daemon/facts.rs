//! Facts about FUSE on this machine, for `--version --verbose`.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use asdf_access::options::Options;
use fuser::InitFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seekable::error::{Error, Kind, Result};

use super::mountpoint::Mountpoint;
use super::{fusermount, mount};

const CONFIGURATION: &str = "/etc/fuse.conf";

/// Time for which the kernel's first request is awaited.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns names of facts, and the facts. Makes a trial mount on a temporary directory.
pub(crate) fn facts() -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("/dev/fuse", device()),
        ("fusermount3", helper()),
        ("user_allow_other", allows_others().to_owned()),
    ];
    match trial() {
        Ok(offer) => {
            rows.push(("trial mount", "works".to_owned()));
            rows.push(("FUSE protocol", format!("{}.{} in the kernel", offer.major, offer.minor)));
            rows.push(("FUSE capabilities", capabilities(offer.flags)));
        }
        Err(error) => rows.push(("trial mount", format!("fails: {error}"))),
    }
    rows
}

/// Describes the access of this user to the FUSE device.
fn device() -> String {
    match OpenOptions::new().read(true).write(true).open(mount::DEVICE) {
        Ok(_) => "usable".to_owned(),
        Err(error) => format!("not usable: {}", Error::from(error)),
    }
}

/// Describes the fusermount3 that a mount would run.
fn helper() -> String {
    let path = match fusermount::find() {
        Ok(path) => path,
        Err(error) => return error.to_string(),
    };
    let version = fusermount::version(&path).unwrap_or_else(|error| format!("does not run: {error}"));
    let is_setuid = fs::metadata(&path).is_ok_and(|meta| meta.permissions().mode() & 0o4000 != 0);
    let setuid = if is_setuid { "" } else { ", not setuid: ordinary users can't mount" };
    format!("{}, {version}{setuid}", path.display())
}

/// Says if ordinary users may mount with `allow_other`.
fn allows_others() -> &'static str {
    match fs::read_to_string(CONFIGURATION) {
        Ok(text) if text.lines().any(|line| line.trim() == "user_allow_other") => "on in /etc/fuse.conf",
        Ok(_) => "off in /etc/fuse.conf",
        Err(_) => "off: /etc/fuse.conf can't be read",
    }
}

/// The kernel's INIT request.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    major: u32,
    minor: u32,
    flags: u64,
}

impl Offer {
    /// Parses a request: a header of 40 bytes (length, opcode …), then version, read-ahead, flags.
    #[expect(clippy::host_endian_bytes, reason = "the kernel writes numbers in the order of the machine")]
    fn parse(request: &[u8]) -> Option<Self> {
        const OPCODE: usize = 4;
        const INIT: u32 = 26;
        const BODY: usize = 40;
        let word = |at: usize| Some(u32::from_ne_bytes(*request.get(at..)?.first_chunk()?));
        if word(OPCODE)? != INIT {
            return None;
        }
        let low = word(BODY + 12)?;
        let is_long = InitFlags::from_bits_truncate(low.into()).contains(InitFlags::FUSE_INIT_EXT);
        let high = if is_long { word(BODY + 16)? } else { 0 };
        let flags = u64::from(high) << 32 | u64::from(low);
        Some(Self { major: word(BODY)?, minor: word(BODY + 4)?, flags })
    }
}

/// Returns the names of capabilities, and the number of the others.
fn capabilities(flags: u64) -> String {
    let flags = InitFlags::from_bits_retain(flags & !InitFlags::FUSE_INIT_EXT.bits());
    let mut names: Vec<String> =
        flags.iter_names().map(|(name, _)| name.trim_start_matches("FUSE_").to_lowercase()).collect();
    let unnamed = flags.bits() & !InitFlags::all().bits();
    if unnamed != 0 {
        names.push(format!("{unnamed:#x}"));
    }
    names.join(" ")
}

/// Mounts on a temporary directory as any mount does, reads the first request, and unmounts.
fn trial() -> Result<Offer> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("asdf-mount-trial-{}-{}", std::process::id(), now.as_nanos());
    let place = Mountpoint::prepare(&std::env::temp_dir().join(name), true)?;
    let (mounted, device) = mount::mount(&place, "asdf-mount".as_ref(), &Options::default(), true)?;
    let request = first_request(device);
    // The device is closed by now, so no other program waits for an answer.
    mounted.detach();
    let unknown = || Error::new(Kind::System(libc::EPROTO), "the kernel sends no INIT request");
    Offer::parse(&request?).ok_or_else(unknown)
}

fn first_request(device: OwnedFd) -> Result<Vec<u8>> {
    // The kernel refuses reads into a buffer of less than 8 KiB.
    let mut request = vec![0; 64 << 10];
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let mut watched = [PollFd::new(&device, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| poll(&mut watched, Some(&patience)))? == 0 {
        return Err(Error::new(Kind::System(libc::ETIMEDOUT), "the kernel sends no request"));
    }
    let length = File::from(device).read(&mut request)?;
    request.truncate(length);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[u32]) -> Vec<u8> {
        // The order of bytes of this machine, as the kernel writes them.
        words
            .iter()
            .flat_map(
                |word| if cfg!(target_endian = "big") { word.to_be_bytes() } else { word.to_le_bytes() },
            )
            .collect()
    }

    #[test]
    fn an_init_request_is_parsed_at_any_length() {
        let mut words = [0; 20];
        (words[1], words[10], words[11]) = (26, 7, 45);
        (words[13], words[14]) = (1 | 1 << 30, 1 << 5 | 1 << 31);
        let whole = request(&words);
        let offer = Offer::parse(&whole).unwrap();
        assert_eq!((offer.major, offer.minor), (7, 45));
        assert_eq!(capabilities(offer.flags), "async_read passthrough 0x8000000000000000");
        for length in 0..60 {
            assert_eq!(Offer::parse(&whole[..length]), None, "{length}");
        }
        words[13] = 1;
        assert_eq!(Offer::parse(&request(&words)[..56]).unwrap().flags, 1, "an old kernel");
        words[1] = 3;
        assert_eq!(Offer::parse(&request(&words)), None, "another request");
    }
}
