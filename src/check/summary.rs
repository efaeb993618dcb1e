//! The summary line of a run over files.

use std::fmt;

use super::Status;

/// Counts of files and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) files: u64,
    pub(super) blocks: usize,
    /// Number of blocks whose seek table was built; `None` without `--index`.
    pub(super) indexed: Option<usize>,
    pub(super) damaged: u64,
    pub(super) unreadable: u64,
    pub(super) passed_over: u64,
}

impl Summary {
    /// Counts a file.
    pub(super) fn add(&mut self, status: Status, blocks: usize) {
        self.files += 1;
        self.blocks += blocks;
        match status {
            Status::Sound => {}
            Status::Damaged => self.damaged += 1,
            Status::Unreadable => self.unreadable += 1,
        }
    }

    /// Returns the verdict on all files.
    pub(super) fn status(&self) -> Status {
        match (self.damaged, self.unreadable) {
            (0, 0) => Status::Sound,
            (_, 0) => Status::Damaged,
            _ => Status::Unreadable,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        match self.files {
            0 => out.write_str("no files of a known format")?,
            files => {
                let blocks = self.blocks as u64;
                write!(out, "{files} file{}, {blocks} block{}", plural(files), plural(blocks))?;
            }
        }
        match self.indexed {
            Some(indexed) if self.files > 0 => write!(out, ", {indexed} indexed")?,
            None if self.files > 0 && self.status() == Status::Sound => out.write_str(", sound")?,
            _ => {}
        }
        for (count, what) in [(self.damaged, "damaged"), (self.unreadable, "unreadable")] {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        match self.passed_over {
            0 => Ok(()),
            n => write!(out, "; {n} other file{} skipped", plural(n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_line_with_what_there_is_to_say() {
        let mut summary = Summary::default();
        assert_eq!(
            Summary { passed_over: 1, ..summary }.to_string(),
            "no files of a known format; 1 other file skipped"
        );
        summary.add(Status::Sound, 1);
        assert_eq!(summary.to_string(), "1 file, 1 block, sound");
        summary.add(Status::Sound, 40);
        assert_eq!(summary.to_string(), "2 files, 41 blocks, sound");
        assert_eq!(Summary { indexed: Some(2), ..summary }.to_string(), "2 files, 41 blocks, 2 indexed");
        summary.add(Status::Damaged, 0);
        summary.add(Status::Unreadable, 0);
        summary.passed_over = 7;
        let told = "4 files, 41 blocks, 1 damaged, 1 unreadable; 7 other files skipped";
        assert_eq!(summary.to_string(), told);
        assert_eq!(summary.status(), Status::Unreadable);
    }
}
