//! The check of a whole file.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use asdf_file::container;
use asdf_file::container::{Container, Defect, Severity, Verified};
use seekable::content::read_through;
use seekable::error::{Error, Result};
use seekable::workers::caller;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// A display of the progress of a check.
pub trait CheckProgress {
    /// True if it is shown. If not, the number of bytes to read is not determined.
    fn is_visible(&self) -> bool {
        false
    }

    /// A file begins, of which `total` bytes will be read.
    fn file(&self, file: &Path, total: u64);

    /// So many bytes more were read.
    fn add(&self, bytes: u64);
}

/// Shows nothing.
impl CheckProgress for () {
    fn file(&self, _: &Path, _: u64) {}

    fn add(&self, _: u64) {}
}

/// The results of a check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of blocks, as far as they can be found.
    pub blocks: usize,
    /// The defects, in file order once the check is complete.
    pub defects: Vec<Defect>,
}

/// Checks a file: its tree, and each block from start to end.
pub(super) fn check(
    container: &dyn Container,
    findings: &mut Findings,
    progress: &dyn CheckProgress,
) -> Result<()> {
    container.find_all_blocks()?;
    findings.blocks = container.block_count()?;
    findings.defects = container.defects();
    check_tree(container, findings)?;
    let size = |n| container.block(n).map_or(0, |block| size_of(&block));
    let rest = container.len_outside_blocks();
    let total = if progress.is_visible() { (0..findings.blocks).map(size).sum::<u64>() + rest } else { 0 };
    let known = findings.defects.iter().filter(|defect| defect.severity != Severity::Note);
    let known: HashSet<usize> = known.filter_map(|defect| defect.block).collect();
    progress.file(container.source().path(), total);
    for n in 0..findings.blocks {
        findings.defects.extend(check_block(container, n, known.contains(&n), progress)?);
    }
    findings.defects.extend(container.check_outside_blocks(&|bytes| progress.add(bytes))?);
    findings.defects.sort_by_key(|defect| defect.offset);
    Ok(())
}

fn size_of(block: &container::Block) -> u64 {
    block.content.as_ref().map_or(0, |content| content.len())
}

fn check_tree(container: &dyn Container, findings: &mut Findings) -> Result<()> {
    // If damage outside of the blocks is known, such as a truncated tree, the tree is not checked.
    if findings.defects.iter().any(|defect| defect.block.is_none() && defect.severity == Severity::Damage) {
        return Ok(());
    }
    findings.defects.extend(container.check_tree()?);
    Ok(())
}

/// Decodes a block from start to end, and verifies its checksum in parallel. Returns the defects; `known`
/// means that damage of the block has been reported already.
fn check_block(
    container: &dyn Container,
    n: usize,
    known: bool,
    progress: &dyn CheckProgress,
) -> Result<Vec<Defect>> {
    let block = container.block(n)?;
    let large = size_of(&block) > PIECE as u64;
    let has_given_up = Arc::new(AtomicBool::new(false));
    let (read, verified) = std::thread::scope(|scope| {
        let verified = large.then(|| {
            let (sender, verified) = channel();
            let given_up = has_given_up.clone();
            let thread = scope.spawn(move || {
                let given_up = move || given_up.load(Ordering::Relaxed);
                let _ = sender.send(caller::unless_given_up(given_up, || container.verify(n)));
            });
            (thread, verified)
        });
        let read = block
            .content
            .and_then(|content| read_through(&*content, &|bytes| progress.add(bytes), &mut |_, _| {}));
        let verified = match verified {
            Some((thread, verified)) => awaited(&verified, &has_given_up).filter(|_| thread.join().is_ok()),
            None => Some(container.verify(n)),
        };
        (read, verified)
    });
    let mut defects = Vec::new();
    let mut add = |severity: Severity, offset: Option<u64>, what: String| {
        let offset = offset.unwrap_or(block.facts.offset);
        defects.push(Defect { severity, offset, block: Some(n), what });
    };
    // If the read failed with a checksum mismatch, the mismatch is not reported twice.
    let is_reported = known || read.as_ref().is_err_and(Error::is_wrong_checksum);
    match read {
        Err(error) if error.is_of_reading() => return Err(error),
        Err(error) if !known => add(Severity::of(&error), error.offset(), error.message_in_block()),
        Ok(Some(found)) => add(Severity::of(&found), found.offset(), found.message_in_block()),
        _ => {}
    }
    match verified {
        Some(Ok(Verified::Mismatch)) if !is_reported => {
            add(Severity::Damage, None, container.mismatch().to_owned());
        }
        Some(Err(error)) if error.is_of_reading() => return Err(error),
        Some(_) => {}
        None => add(Severity::Damage, None, "the checksum could not be computed".to_owned()),
    }
    Ok(defects)
}

/// Waits for the result of another thread, which ends early once the caller of this one has given up. `None` after a panic.
fn awaited(verified: &Receiver<Result<Verified>>, has_given_up: &AtomicBool) -> Option<Result<Verified>> {
    loop {
        if caller::is_gone() {
            has_given_up.store(true, Ordering::Relaxed);
        }
        match verified.recv_timeout(caller::LOOK) {
            Ok(verified) => return Some(verified),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests;
