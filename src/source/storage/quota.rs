//! Quotas of btrfs, which statfs does not know.

use std::path::Path;

/// Where the kernel tells of the btrfs file systems that are mounted.
const FILE_SYSTEMS: &str = "/sys/fs/btrfs";
/// BTRFS_QGROUP_LIMIT_MAX_RFER and BTRFS_QGROUP_LIMIT_MAX_EXCL: the limits that are set.
const LIMITS: [(u64, &str, &str); 2] =
    [(1, "max_referenced", "referenced"), (2, "max_exclusive", "exclusive")];
/// What is taken of a limit beside what is counted already.
const RESERVED: [&str; 3] = ["rsv_data", "rsv_meta_pertrans", "rsv_meta_prealloc"];

/// The bytes that the fullest quota leaves, `None` without quotas.
///
/// It may be the quota of another directory than the file's: only root can ask which one a file belongs to.
pub(super) fn least_room() -> Option<u64> {
    least_room_in(Path::new(FILE_SYSTEMS))
}

fn least_room_in(file_systems: &Path) -> Option<u64> {
    let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let groups = below(file_systems).flat_map(|found| below(&found.path().join("qgroups")));
    groups.filter_map(|group| room_of(&group.path())).min()
}

/// The bytes that one quota leaves, `None` if it has no limit.
fn room_of(group: &Path) -> Option<u64> {
    let number = |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let set = number("limit_flags")?;
    let reserved: u64 = RESERVED.iter().filter_map(|name| number(name)).fold(0, u64::saturating_add);
    let room = |(flag, most, taken): &(u64, &str, &str)| {
        let is_set = set & flag != 0;
        is_set.then(|| Some(number(most)?.saturating_sub(number(taken)?).saturating_sub(reserved)))?
    };
    LIMITS.iter().filter_map(room).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_quota_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(least_room_in(folder.path()), None);
        for (name, flags, most) in [("0_5", 0, 10), ("0_256", 1, 9000), ("1_7", 3, 5000)] {
            let group = folder.path().join("uuid/qgroups").join(name);
            std::fs::create_dir_all(&group).unwrap();
            for (file, number) in [("limit_flags", flags), ("max_referenced", most), ("referenced", 100)] {
                std::fs::write(group.join(file), format!("{number}\n")).unwrap();
            }
            std::fs::write(group.join("rsv_data"), "50\n").unwrap();
        }
        assert_eq!(least_room_in(folder.path()), Some(4850));
    }
}
