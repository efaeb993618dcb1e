//! `--list`: prints the mounts.

use seekable::error::{Result, columns, in_json, one_line, padded};

use super::{exit, print};
use crate::daemon::{self, ListedMount};

/// Prints the mounts as a table, or with `json` as an object a line.
pub(super) fn mounts(json: bool) -> Result<u8> {
    let mounts = daemon::list()?;
    let text = if json { objects(&mounts) } else { table(&mounts) };
    print(text.as_bytes()).map(|()| exit::OK)
}

fn objects(mounts: &[ListedMount]) -> String {
    let lines = mounts.iter().map(|mount| {
        let object = serde_json::json!({
            "mountpoint": mount.mountpoint.to_string_lossy(),
            "source": mount.source.to_string_lossy(),
            "pid": mount.pid,
            "mode": mount.mode,
            "since": mount.since,
        });
        format!("{}\n", in_json(&object.to_string()))
    });
    lines.collect()
}

/// Returns a table with a title; empty without mounts.
fn table(mounts: &[ListedMount]) -> String {
    if mounts.is_empty() {
        return String::new();
    }
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "?".to_owned());
    let mut rows = vec![["MOUNTPOINT", "SOURCE", "PID", "MODE", "SINCE"].map(str::to_owned)];
    rows.extend(mounts.iter().map(|mount| {
        [
            one_line(&mount.mountpoint.to_string_lossy()),
            one_line(&mount.source.to_string_lossy()),
            known(&mount.pid.map(|pid| pid.to_string())),
            known(&mount.mode),
            known(&mount.since),
        ]
    }));
    let widths: Vec<usize> =
        (0..5).map(|n| rows.iter().map(|row| columns(&row[n])).max().unwrap_or(0)).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| padded(cell, width));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_breaks_takes_one_line() {
        let mount = ListedMount {
            mountpoint: "/m/a\nb".into(),
            source: "/d/a b.asdf".into(),
            pid: Some(7),
            mode: Some("rw".into()),
            since: None,
        };
        let text = table(std::slice::from_ref(&mount));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            ["MOUNTPOINT  SOURCE       PID  MODE  SINCE", r"/m/a\nb     /d/a b.asdf  7    rw    ?"]
        );
        let object: serde_json::Value = serde_json::from_str(objects(&[mount]).trim_end()).unwrap();
        assert_eq!((&object["pid"], &object["since"]), (&7.into(), &serde_json::Value::Null));
        assert_eq!(object["mountpoint"], "/m/a\nb");
        assert_eq!(table(&[]), "");
    }
}
