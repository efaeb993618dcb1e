//! The states that a file had, and whether a read may have seen one.
//!
//! Each write has an interval: it begins before the first byte can change, and ends after the call returned. A read
//! is legal if the state it saw may have been current at some time of the read's interval. A save shows at once; a
//! change by another program shows after [`NOTICED`]. No error is excused because a change was recent.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time within which a mount notices that another program changed the source: the kernel keeps names for 500 ms, and the
/// mount looks every 200 ms.
pub(crate) const NOTICED: Duration = Duration::from_millis(800);

/// Time after which a refused text is gone: close(2) returns before the kernel tells the mount that no program has the
/// file open any more.
const RELEASED: Duration = Duration::from_secs(1);

/// The content of a file: `version` is in the tree and in each element of each array, `note` only in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) version: u32,
    pub(crate) note: u32,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Running,
    Succeeded,
    /// The text was visible as a draft at most, or the names are as they were.
    Refused,
    /// The writer was killed, or reports no more than that something was written.
    Unknown,
}

/// How a write changes the file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Style {
    /// A save through the mount.
    Save,
    /// A save by a command on a file. Unless the mount has the file locked, it changes the file in place, as another
    /// program does. A mount locks a file in a directory at its first draft, and a file that has replaced another one at
    /// the next save.
    Command,
    /// Another program renames a new file over it.
    Replaced,
    /// Another program overwrites its bytes; in between, the file is broken.
    InPlace,
    /// A save through a daemon that shares no locks with the others.
    Elsewhere,
    /// Another program makes or removes a second name of the file.
    Linked,
    /// Another program takes its name away, and gives it back.
    Moved,
}

impl Style {
    fn is_save(self) -> bool {
        matches!(self, Self::Save | Self::Command | Self::Elsewhere)
    }

    fn is_change_of_content(self) -> bool {
        !matches!(self, Self::Linked | Self::Moved)
    }
}

#[derive(Clone, Debug)]
struct Write {
    /// `None` if the writer may bring back any state that the file had, or leaves the content as it is.
    state: Option<State>,
    style: Style,
    time: Range<Instant>,
    outcome: Outcome,
}

/// All writes of one file.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    writes: Mutex<Vec<Write>>,
}

impl Judge {
    pub(crate) fn new(first: State) -> Self {
        let now = Instant::now();
        let first =
            Write { state: Some(first), style: Style::Replaced, time: now..now, outcome: Outcome::Succeeded };
        Self { writes: Mutex::new(vec![first]) }
    }

    /// Notes that a write begins; returns its number.
    pub(crate) fn begin(&self, state: State, style: Style) -> usize {
        self.begin_write(Some(state), style)
    }

    /// Notes that a save of some earlier state begins; returns its number.
    pub(crate) fn begin_undo(&self) -> usize {
        self.begin_write(None, Style::Command)
    }

    /// Notes that a change of this style begins, which leaves the content as it is; returns its number.
    pub(crate) fn begin_of_names(&self, style: Style) -> usize {
        self.begin_write(None, style)
    }

    fn begin_write(&self, state: Option<State>, style: Style) -> usize {
        let now = Instant::now();
        let mut writes = self.writes.lock().unwrap();
        writes.push(Write { state, style, time: now..now, outcome: Outcome::Running });
        writes.len() - 1
    }

    pub(crate) fn end(&self, write: usize, outcome: Outcome) {
        let mut writes = self.writes.lock().unwrap();
        writes[write].time.end = Instant::now();
        writes[write].outcome = outcome;
    }

    /// Adds the numbers of changes by style and outcome.
    pub(crate) fn count(&self, counts: &mut BTreeMap<(Style, Outcome), u32>) {
        for write in &*self.writes.lock().unwrap() {
            *counts.entry((write.style, write.outcome)).or_default() += 1;
        }
    }

    /// True if another save went on at the same time as this one.
    pub(crate) fn is_beside_a_save(&self, write: usize) -> bool {
        self.is_beside(write, Style::is_save)
    }

    /// True if another program or save changed the file or took its name away at the same time as this save.
    pub(crate) fn is_beside_a_change(&self, write: usize) -> bool {
        self.is_beside(write, |style| style != Style::Linked)
    }

    fn is_beside(&self, write: usize, is_style: impl Fn(Style) -> bool) -> bool {
        let writes = self.writes.lock().unwrap();
        let own = &writes[write];
        writes
            .iter()
            .enumerate()
            .any(|(n, other)| n != write && is_style(other.style) && other.overlaps(&own.time))
    }

    /// True if a read in this interval may see a state for which `is_seen` holds. `other_mount` is true if the mount is
    /// not the one through which the saves go.
    pub(crate) fn allows(
        &self,
        read: &Range<Instant>,
        other_mount: bool,
        is_seen: impl Fn(State) -> bool,
    ) -> bool {
        let writes = self.writes.lock().unwrap();
        let is_known = writes.iter().filter_map(|write| write.state).any(&is_seen);
        let contents = writes.iter().filter(|write| write.style.is_change_of_content());
        let mut seen = contents.filter(|write| write.state.map_or(is_known, &is_seen));
        seen.any(|write| may_be_current(&writes, write, read, other_mount))
    }

    /// True if the file was overwritten in place in this interval, so that reads may fail: by another program or daemon, or
    /// for a reader of another mount by a save.
    pub(crate) fn overwritten(&self, time: &Range<Instant>, by_saves: bool) -> bool {
        self.was_changed(time, |style| {
            matches!(style, Style::InPlace | Style::Elsewhere) || by_saves && style.is_save()
        })
    }

    /// True if another program overwrote the file in place in this interval: the file was a mixture itself.
    pub(crate) fn mixed(&self, time: &Range<Instant>) -> bool {
        self.was_changed(time, |style| style == Style::InPlace)
    }

    /// True if a command changed the tree in place in this interval, or another program the names of the file. Reading an
    /// open file then fails with ESTALE unless a checksum proves that its bytes are the same, for which the file must still
    /// have its name.
    pub(crate) fn renewed(&self, time: &Range<Instant>) -> bool {
        self.was_changed(time, |style| matches!(style, Style::Command | Style::Linked | Style::Moved))
    }

    /// True if the file had no name at some time of this interval.
    pub(crate) fn moved(&self, time: &Range<Instant>) -> bool {
        self.was_changed(time, |style| style == Style::Moved)
    }

    /// True if the content of the file was changed in this interval.
    pub(crate) fn written(&self, time: &Range<Instant>) -> bool {
        self.was_changed(time, Style::is_change_of_content)
    }

    fn was_changed(&self, time: &Range<Instant>, is_style: impl Fn(Style) -> bool) -> bool {
        self.writes.lock().unwrap().iter().any(|write| is_style(write.style) && write.overlaps(time))
    }
}

impl Write {
    fn overlaps(&self, time: &Range<Instant>) -> bool {
        let has_ended = self.outcome != Outcome::Running && self.time.end < time.start;
        self.time.start <= time.end && !has_ended
    }
}

/// True if the state of `write` may have been that of the file at some time of the read.
fn may_be_current(writes: &[Write], write: &Write, read: &Range<Instant>, other_mount: bool) -> bool {
    if write.time.start > read.end {
        return false;
    }
    match write.outcome {
        Outcome::Running => true,
        // A refused text is shown until the last program that writes tree.yaml at the same time has closed it.
        Outcome::Refused => read.start <= end_of_writers(writes, write.time.end) + RELEASED,
        Outcome::Succeeded | Outcome::Unknown => !writes.iter().any(|later| {
            // A save after another program's change shows no later than that change.
            let version = |write: &Write| write.state.map(|state| state.version);
            let is_own = later.style == Style::Save && version(later) == version(write);
            let delay = if is_own && !other_mount { Duration::ZERO } else { NOTICED };
            let is_done = later.outcome == Outcome::Succeeded && later.time.end + delay < read.start;
            later.style.is_change_of_content() && is_done && later.time.start > write.time.end
        }),
    }
}

/// Returns the time at which no save is under way any more, for the first time after `time`.
fn end_of_writers(writes: &[Write], time: Instant) -> Instant {
    let saves = || writes.iter().filter(|write| write.style.is_save());
    let mut end = time;
    while let Some(longer) = saves()
        .find(|save| save.time.start <= end && (save.outcome == Outcome::Running || save.time.end > end))
    {
        if longer.outcome == Outcome::Running {
            return Instant::now();
        }
        end = longer.time.end;
    }
    end
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = self.writes.lock().unwrap();
        let now = Instant::now();
        for write in writes.iter().rev().take(12).rev() {
            let began = now.duration_since(write.time.start).as_secs_f64();
            let ended = now.duration_since(write.time.end).as_secs_f64();
            writeln!(
                f,
                "  {} {:?}: -{began:.3} to -{ended:.3} s, {:?}",
                write.state.map_or("earlier".to_owned(), |state| format!("{}/{}", state.version, state.note)),
                write.style,
                write.outcome
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_legal_until_a_later_write_has_ended() {
        let old = State { version: 1, note: 0 };
        let new = State { version: 1, note: 1 };
        let judge = Judge::new(old);
        let sees = |state| {
            let now = Instant::now();
            judge.allows(&(now..now), false, |other| other == state)
        };
        assert!(sees(old) && !sees(new));
        let write = judge.begin(new, Style::Save);
        assert!(sees(old) && sees(new));
        judge.end(write, Outcome::Succeeded);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(!sees(old) && sees(new));
        let write = judge.begin(old, Style::Save);
        assert!(sees(old));
        judge.end(write, Outcome::Refused);
        let later = Instant::now() + 2 * RELEASED;
        assert!(sees(new) && !judge.allows(&(later..later), false, |other| other == old));
    }
}
