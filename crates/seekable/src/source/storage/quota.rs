//! Quotas of btrfs, which statfs does not include.

use std::fs::File;
use std::path::Path;

use super::ioctl;

/// The directory in sysfs with the mounted btrfs file systems.
const FILE_SYSTEMS: &str = "/sys/fs/btrfs";
/// BTRFS_QGROUP_LIMIT_MAX_RFER and BTRFS_QGROUP_LIMIT_MAX_EXCL: flag, limit and count.
const LIMITS: [(u64, &str, &str); 2] =
    [(1, "max_referenced", "referenced"), (2, "max_exclusive", "exclusive")];
/// The files with the numbers of bytes that are reserved by writers and not counted yet.
const RESERVED: [&str; 3] = ["rsv_data", "rsv_meta_pertrans", "rsv_meta_prealloc"];

/// Returns the bytes that quotas leave for a file, `None` without quotas.
pub(super) fn room(file: &File) -> Option<u64> {
    let (fsid, subvolume) = ioctl::btrfs_subvolume(file).ok()?;
    room_in(&Path::new(FILE_SYSTEMS).join(hyphenated(&fsid)).join("qgroups"), subvolume)
}

/// Returns the bytes that the quota of a subvolume leaves, or fewer if the quota of a group of subvolumes
/// leaves fewer. The limits of all groups are applied, since only root can look up the group of a subvolume.
fn room_in(groups: &Path, subvolume: u64) -> Option<u64> {
    let groups = std::fs::read_dir(groups).ok()?.flatten();
    let may_count = |name: &str| match name.split_once('_') {
        Some(("0", number)) => number.parse() == Ok(subvolume),
        found => found.is_some(),
    };
    let groups = groups.filter(|group| group.file_name().to_str().is_some_and(may_count));
    groups.filter_map(|group| room_of(&group.path())).min()
}

/// Returns the bytes that one quota leaves, `None` if it has no limit.
fn room_of(group: &Path) -> Option<u64> {
    let number = |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let set = number("limit_flags")?;
    let reserved: u64 = RESERVED.iter().filter_map(|name| number(name)).fold(0, u64::saturating_add);
    let room = |(flag, most, taken): &(u64, &str, &str)| match set & flag {
        0 => None,
        _ => Some(number(most)?.saturating_sub(number(taken)?).saturating_sub(reserved)),
    };
    LIMITS.iter().filter_map(room).min()
}

/// Returns a UUID in the notation of sysfs.
fn hyphenated(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (n, byte) in uuid.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_quota_that_may_concern_the_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(room_in(folder.path(), 256), None);
        for (name, flags, most) in [("0_5", 1, 10), ("0_256", 1, 9000), ("0_257", 0, 10), ("1_7", 1, 5000)] {
            let group = folder.path().join(name);
            std::fs::create_dir_all(&group).unwrap();
            for (file, number) in [("limit_flags", flags), ("max_referenced", most), ("referenced", 100)] {
                std::fs::write(group.join(file), format!("{number}\n")).unwrap();
            }
            std::fs::write(group.join("rsv_data"), "50\n").unwrap();
        }
        std::fs::write(folder.path().join("enabled"), "1\n").unwrap();
        assert_eq!(room_in(folder.path(), 256), Some(4850));
        std::fs::remove_dir_all(folder.path().join("1_7")).unwrap();
        assert_eq!(room_in(folder.path(), 256), Some(8850));
        assert_eq!(room_in(folder.path(), 257), None);
    }

    #[test]
    fn a_uuid_is_named_as_in_sysfs() {
        let uuid = std::array::from_fn(|n| n as u8);
        assert_eq!(hyphenated(&uuid), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
