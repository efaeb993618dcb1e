//! The memory available to this process.

use std::fs;
use std::path::Path;

/// Maximum of the default budget, in bytes.
const USUAL: u64 = 256 << 20;

/// Divisor of the memory: the default budget is at most the quotient.
const SHARE: u64 = 8;

/// Returns the default budget of a cache: 256 MiB, or an eighth of the memory if that is less.
///
/// The memory is the least of: the machine's memory, the limit of the process's control group, and the limit
/// of the address space (`ulimit -v`).
pub fn default_budget() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limit(&groups, Path::new("/sys/fs/cgroup"));
    let space = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let all = memory.into_iter().chain(limit).chain(space).min();
    all.map_or(USUAL, |all| (all / SHARE).min(USUAL))
}

/// True if so many bytes of memory can be had now. A failed allocation ends the process, so that a program with a limit
/// (`ulimit -v`) asks before it begins what takes much. The memory is not touched.
pub fn has_room(bytes: u64) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let is_there = usize::try_from(bytes).is_ok_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    // Otherwise the compiler may leave out the allocation.
    std::hint::black_box(&room);
    is_there
}

/// Returns `MemTotal` of /proc/meminfo in bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the lowest memory limit of the control groups in `groups`, a /proc/self/cgroup; `root` is their
/// mountpoint.
fn limit(groups: &str, root: &Path) -> Option<u64> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // Inside a Linux container the path may not exist; `root` is then the group of that container.
        let inside = Path::new(path.trim_start_matches('/'));
        let dirs = inside.ancestors().map(|dir| root.join(dir));
        let number = |dir: std::path::PathBuf| fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok();
        dirs.filter_map(number).min()
    };
    groups.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "1000000\n");
        write("memory.max", "2000000\n");
        write("memory/c/memory.limit_in_bytes", "500\n");
        assert_eq!(limit("0::/a/b\n", folder.path()), Some(1_000_000));
        assert_eq!(limit("0::/gone/away\n", folder.path()), Some(2_000_000));
        assert_eq!(limit("9:cpu:/\n4:foo,memory:/c\n0::/a\n", folder.path()), Some(500));
        assert_eq!(limit("nonsense\n\n9:cpu:/a\n", folder.path()), None);
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(total("MemTotal: many kB"), None);
    }

    #[test]
    fn this_machine_has_some() {
        assert!((1 << 20..=USUAL).contains(&default_budget()));
    }
}
