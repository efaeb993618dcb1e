//! Modes restricted by ACLs.
//!
//! The mount shows modes but no ACLs, and the kernel grants access by the mode alone. On a file with an ACL
//! the mode's group bits are the ACL's mask, and an entry for one user or group may grant less than the mode
//! grants to all. If other users have access (`allow_other`), the mode is therefore reduced to the
//! permissions that every user of each class has:
//!
//! ```text
//! owner    permissions of the owner entry
//! group    permissions that the owning group and each named user have (a named user may be in the group)
//! others   permissions that others and each named user and group have
//! ```
//!
//! No user gets more than the ACL grants. A user to whom the ACL grants more than to others of the same class
//! gets less than the ACL grants. If there is an ACL that can't be parsed, only the owner keeps permissions.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use seekable::error::Result;

use crate::local::at::{open_as, stat_of};
use crate::local::stat::{FileKind, Stat};

/// Attribute with a POSIX ACL: a version (2), then entries of tag, permissions and id. All are little-endian;
/// their lengths are 4, 2, 2 and 4 bytes.
const POSIX: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
/// Attributes with an NFSv4 ACL. Only file systems without POSIX ACLs have them.
const NFS4: [&str; 2] = ["system.nfs4_acl", "system.nfs4_acl_xdr"];
/// Maximum length of an attribute's value in bytes.
const MAX_ATTRIBUTE: usize = 64 << 10;
/// Mask that keeps only the owner's permissions.
const OWNER_ONLY: u32 = 0o7700;

/// Returns the stat of `name` in `dir`, with the mode restricted by the ACL. Does not follow a link.
pub(crate) fn stat_in(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Stat> {
    // The file is held open, so that mode and ACL belong to one file.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = open_as(dir, name, flags)?;
    let stat = stat_of(&held)?;
    if stat.kind == FileKind::Link {
        return Ok(stat);
    }
    Ok(Stat { mode: cut_down(held.as_fd(), stat.mode), ..stat })
}

/// Returns the stat of a held file, with the mode restricted by the ACL.
pub(crate) fn stat_of_held(held: BorrowedFd<'_>) -> Result<Stat> {
    let stat = stat_of(held)?;
    Ok(Stat { mode: cut_down(held, stat.mode), ..stat })
}

/// Returns the mode of a held file, restricted by its ACL.
fn cut_down(held: BorrowedFd<'_>, mode: u32) -> u32 {
    // getxattr does not accept an `O_PATH` descriptor.
    let path = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string());
    match value(&path, POSIX) {
        Ok(acl) => with_posix(mode, &acl),
        Err(Errno::NODATA) => Some(mode),
        Err(Errno::OPNOTSUPP) => with_nfs4(mode, &path),
        Err(_) => None,
    }
    .unwrap_or(mode & OWNER_ONLY)
}

fn value(path: &Path, name: &str) -> std::result::Result<Vec<u8>, Errno> {
    let mut short = [0; 512];
    match rustix::fs::getxattr(path, name, &mut short) {
        Ok(len) => Ok(short.get(..len).unwrap_or_default().to_vec()),
        Err(Errno::RANGE) => {
            let mut long = vec![0; MAX_ATTRIBUTE];
            let len = rustix::fs::getxattr(path, name, &mut long)?;
            long.truncate(len);
            Ok(long)
        }
        Err(errno) => Err(errno),
    }
}

/// Returns the mode restricted by a POSIX ACL; `None` if `acl` is not valid.
fn with_posix(mode: u32, acl: &[u8]) -> Option<u32> {
    let (version, entries) = acl.split_first_chunk::<4>()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return None;
    }
    let mut owner = None;
    let mut group = None;
    let mut others = None;
    let mut mask = None;
    let mut users = 0o7;
    let mut groups = 0o7;
    let mut any = false;
    for &[tag0, tag1, permissions0, permissions1, ..] in entries {
        let permissions = u32::from(u16::from_le_bytes([permissions0, permissions1]));
        if permissions > 0o7 {
            return None;
        }
        let only = match u16::from_le_bytes([tag0, tag1]) {
            0x01 => &mut owner,
            0x04 => &mut group,
            0x10 => &mut mask,
            0x20 => &mut others,
            tag @ (0x02 | 0x08) => {
                let all = if tag == 0x02 { &mut users } else { &mut groups };
                *all &= permissions;
                any = true;
                continue;
            }
            _ => return None,
        };
        if only.replace(permissions).is_some() {
            return None;
        }
    }
    if any && mask.is_none() {
        return None;
    }
    let mask = mask.unwrap_or(0o7);
    if any {
        (users, groups) = (users & mask, groups & mask);
    }
    let owner = owner?;
    let group = group? & mask & users;
    let others = others? & users & groups;
    Some(mode & (0o7000 | owner << 6 | group << 3 | others))
}

/// Returns the mode if there is no NFSv4 ACL, or one equivalent to the mode; otherwise `None`.
fn with_nfs4(mode: u32, path: &Path) -> Option<u32> {
    for name in NFS4 {
        match value(path, name) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            // With entries for owner, group and everyone only, the ACL grants what the mode grants.
            Ok(acl) if name == NFS4[0] && names_nobody(&acl) => {}
            Ok(_) | Err(_) => return None,
        }
    }
    Some(mode)
}

/// True if an NFSv4 ACL (RFC 8881, in XDR) has entries for owner, group and everyone only. It consists of a
/// count, then type, flags, mask, length of the name and name for each entry.
fn names_nobody(acl: &[u8]) -> bool {
    let number = |rest: &mut &[u8]| {
        let (number, after) = rest.split_first_chunk::<4>()?;
        *rest = after;
        usize::try_from(u32::from_be_bytes(*number)).ok()
    };
    let entry = |rest: &mut &[u8]| {
        for _ in 0..3 {
            number(rest)?;
        }
        let len = number(rest)?;
        let name = rest.get(..len)?;
        *rest = rest.get(len.checked_next_multiple_of(4)?..)?;
        matches!(name, b"OWNER@" | b"GROUP@" | b"EVERYONE@").then_some(())
    };
    let mut rest = acl;
    let Some(count) = number(&mut rest) else { return false };
    // Each entry takes bytes, so a count that is too high fails at the end of the data.
    (0..count).all(|_| entry(&mut rest).is_some()) && rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWNER: u16 = 0x01;
    const USER: u16 = 0x02;
    const GROUP: u16 = 0x04;
    const NAMED: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHERS: u16 = 0x20;

    fn posix(entries: &[(u16, u16)]) -> Vec<u8> {
        let entry = |(tag, permissions): &(u16, u16)| {
            [tag.to_le_bytes(), permissions.to_le_bytes(), [7, 0], [0, 0]].concat()
        };
        [2_u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    #[test]
    fn nobody_gets_more_than_the_acl_gives() {
        let base = |more: &[(u16, u16)]| posix(&[&[(OWNER, 6), (GROUP, 4), (OTHERS, 4)], more].concat());
        for (mode, acl, safe) in [
            (0o644, base(&[]), 0o644),
            // The group bits are the mask.
            (0o660, posix(&[(OWNER, 6), (USER, 6), (GROUP, 0), (MASK, 6), (OTHERS, 0)]), 0o600),
            // An entry that denies: the user may belong to the group, or to the others.
            (0o664, base(&[(USER, 0), (MASK, 6)]), 0o600),
            (0o664, base(&[(USER, 4), (USER, 6), (MASK, 6)]), 0o644),
            // Members of the owning group keep its permissions, whatever other groups they are in.
            (0o664, base(&[(NAMED, 0), (MASK, 6)]), 0o640),
            (0o644, base(&[(NAMED, 6), (MASK, 4)]), 0o644),
            // The mask takes permissions from an entry.
            (0o624, base(&[(USER, 6), (MASK, 2)]), 0o600),
            (0o604, base(&[(USER, 6), (MASK, 0)]), 0o600),
            (0o4755, posix(&[(OWNER, 7), (GROUP, 5), (MASK, 5), (OTHERS, 5)]), 0o4755),
            // An ACL never adds to the mode.
            (0o400, base(&[]), 0o400),
        ] {
            assert_eq!(with_posix(mode, &acl), Some(safe), "{mode:o} {acl:?}");
        }
    }

    #[test]
    fn what_is_no_acl_is_not_believed() {
        let sound = posix(&[(OWNER, 6), (USER, 4), (GROUP, 4), (MASK, 4), (OTHERS, 4)]);
        assert!(with_posix(0o644, &sound).is_some());
        for len in 0..sound.len() {
            assert_eq!(with_posix(0o644, &sound[..len]), None, "{len} bytes");
        }
        let others: [&[(u16, u16)]; 5] = [
            &[(OWNER, 6), (GROUP, 4)],
            &[(OWNER, 6), (GROUP, 4), (OTHERS, 4), (OTHERS, 0)],
            &[(OWNER, 6), (GROUP, 4), (OTHERS, 8)],
            &[(OWNER, 6), (GROUP, 4), (OTHERS, 4), (3, 4)],
            &[(OWNER, 6), (USER, 4), (GROUP, 4), (OTHERS, 4)],
        ];
        for entries in others {
            assert_eq!(with_posix(0o644, &posix(entries)), None, "{entries:?}");
        }
        let newer = [&3_u32.to_le_bytes()[..], &sound[4..]].concat();
        assert_eq!(with_posix(0o644, &newer), None);
    }

    fn nfs4(names: &[&str]) -> Vec<u8> {
        let mut acl = (names.len() as u32).to_be_bytes().to_vec();
        for name in names {
            acl.extend([[0; 4], [0; 4], [0, 0, 0, 1], (name.len() as u32).to_be_bytes()].concat());
            acl.extend(name.as_bytes());
            acl.resize(acl.len().next_multiple_of(4), 0);
        }
        acl
    }

    #[test]
    fn an_nfs4_acl_that_names_somebody_says_more_than_the_mode() {
        let trivial = nfs4(&["OWNER@", "GROUP@", "EVERYONE@"]);
        assert!(names_nobody(&trivial));
        for len in 0..trivial.len() {
            assert!(!names_nobody(&trivial[..len]), "{len} bytes");
        }
        assert!(!names_nobody(&nfs4(&["OWNER@", "eve@example.org", "EVERYONE@"])));
        assert!(!names_nobody(&[&trivial[..], &[0]].concat()));
        assert!(!names_nobody(&[&u32::MAX.to_be_bytes()[..], &trivial[4..]].concat()));
        assert!(!names_nobody(&[[0, 0, 0, 1], [0; 4], [0; 4], [0; 4], [0xff; 4]].concat()));
    }

    /// True if the kernel grants a user `wanted`, according to posix_acl_permission().
    fn allowed(acl: &[(u16, u16)], is_owner: bool, in_group: bool, named: u64, wanted: u16) -> bool {
        let find = |tag| acl.iter().find(|entry| entry.0 == tag).map(|entry| entry.1);
        let mask = find(MASK).unwrap_or(7);
        let grants = |permissions: u16| permissions & wanted == wanted;
        if is_owner {
            return find(OWNER).is_some_and(grants);
        }
        // Bit n of `named` is set if the nth entry is about this user.
        let mine =
            |tag| acl.iter().enumerate().filter(move |(n, entry)| entry.0 == tag && named >> n & 1 == 1);
        if let Some((_, entry)) = mine(USER).next() {
            return grants(entry.1 & mask);
        }
        let own = acl.iter().filter(|entry| entry.0 == GROUP && in_group).map(|entry| entry.1);
        let mut groups = own.chain(mine(NAMED).map(|(_, entry)| entry.1)).peekable();
        if groups.peek().is_some() {
            return groups.any(|permissions| grants(permissions & mask));
        }
        find(OTHERS).is_some_and(grants)
    }

    proptest! {
        #[test]
        fn no_user_of_any_class_gets_more(
            named in proptest::collection::vec((prop_oneof![Just(USER), Just(NAMED)], 0_u16..8), 0..6),
            (owner, group, mask, others) in (0_u16..8, 0_u16..8, 0_u16..8, 0_u16..8),
            (is_owner, in_group, about) in (any::<bool>(), any::<bool>(), any::<u64>()),
            wanted in 1_u16..8,
        ) {
            let acl = [&[(OWNER, owner), (GROUP, group), (MASK, mask), (OTHERS, others)][..], &named].concat();
            let mode = u32::from(owner << 6 | mask << 3 | others);
            let safe = with_posix(mode, &posix(&acl)).unwrap();
            let class = if is_owner { 6 } else if in_group { 3 } else { 0 };
            let given = safe >> class & 7 & u32::from(wanted) == u32::from(wanted);
            prop_assert!(!given || allowed(&acl, is_owner, in_group, about, wanted));
        }

        #[test]
        fn nothing_makes_it_panic(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = with_posix(0o777, &value);
            names_nobody(&value);
        }
    }
}
