//! The check of a whole file.

use std::collections::HashSet;

use crate::content::{Content, next_data};
use crate::error::{Error, Result};
use crate::format::{self, Container, Defect, Severity, Verified};
use crate::progress::Progress;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// The results of a check.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Number of blocks, as far as they can be found.
    pub(crate) blocks: usize,
    /// The defects, in file order once the check is complete.
    pub(crate) defects: Vec<Defect>,
}

/// Checks a file: its tree, and each block from start to end.
pub(super) fn check(container: &dyn Container, findings: &mut Findings, progress: &Progress) -> Result<()> {
    container.find_all_blocks()?;
    findings.blocks = container.block_count()?;
    findings.defects = container.defects();
    check_tree(container, findings)?;
    let size = |n| container.block(n).map_or(0, |block| size_of(&block));
    let rest = container.len_outside_blocks();
    let total = if progress.is_visible() { (0..findings.blocks).map(size).sum::<u64>() + rest } else { 0 };
    let damaged = findings.defects.iter().filter(|defect| defect.severity == Severity::Damage);
    let damaged: HashSet<usize> = damaged.filter_map(|defect| defect.block).collect();
    progress.file(container.source().path(), total);
    for n in 0..findings.blocks {
        findings.defects.extend(check_block(container, n, damaged.contains(&n), progress)?);
    }
    findings.defects.extend(container.check_outside_blocks(&|bytes| progress.add(bytes))?);
    findings.defects.sort_by_key(|defect| defect.offset);
    Ok(())
}

fn size_of(block: &format::Block) -> u64 {
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
fn check_block(container: &dyn Container, n: usize, known: bool, progress: &Progress) -> Result<Vec<Defect>> {
    let block = container.block(n)?;
    let large = size_of(&block) > PIECE as u64;
    let (read, verified) = std::thread::scope(|scope| {
        let verified = large.then(|| scope.spawn(|| container.verify(n)));
        let read = block.content.and_then(|content| read_through(&*content, progress));
        (read, verified.map_or_else(|| Ok(container.verify(n)), |verified| verified.join()))
    });
    let mut defects = Vec::new();
    let mut damage = |offset: Option<u64>, what: String| {
        let offset = offset.unwrap_or(block.facts.offset);
        defects.push(Defect { severity: Severity::Damage, offset, block: Some(n), what });
    };
    // If the read failed with a checksum mismatch, the mismatch is not reported twice.
    let is_reported = known || read.as_ref().is_err_and(Error::is_wrong_checksum);
    match read {
        Err(error) if error.is_of_reading() => return Err(error),
        Err(error) if !known => damage(error.offset(), error.message_in_block()),
        Ok(Some(found)) => damage(found.offset(), found.message_in_block()),
        _ => {}
    }
    match verified {
        Ok(Ok(Verified::Mismatch)) if !is_reported => {
            damage(None, container.mismatch().to_owned());
        }
        Ok(Err(error)) if error.is_of_reading() => return Err(error),
        Ok(_) => {}
        Err(_) => damage(None, "the checksum could not be computed".to_owned()),
    }
    Ok(defects)
}

/// Reads a content to its end; returns damage that left all its bytes readable.
pub(crate) fn read_through(content: &dyn Content, progress: &Progress) -> Result<Option<Error>> {
    read_pieces(content, &|bytes| progress.add(bytes), &mut |_, _| {})
}

/// Reads a content like [`read_through`], and passes the bytes to `take`, each piece with its offset. Zeros of a hole
/// are left out. `count` gets the numbers of bytes read.
pub(crate) fn read_pieces(
    content: &dyn Content,
    count: &dyn Fn(u64),
    take: &mut dyn FnMut(u64, &[u8]),
) -> Result<Option<Error>> {
    if content.is_empty() {
        // The header may be wrong, which only a read finds out.
        content.read_at(0, &mut [0])?;
    }
    let mut piece = vec![0; usize::try_from(content.len()).map_or(PIECE, |len| len.min(PIECE))];
    let mut at = 0;
    while at < content.len() {
        // One byte shows that a hole can be read, so the others are passed over.
        let hole = next_data(content, at).map_or(0, |data| data.start - at);
        let passed = hole.saturating_sub(1);
        at += passed;
        count(passed);
        let read = content.read_at(at, &mut piece)?;
        if read == 0 {
            return Err(Error::damaged(format!("the data end after {at} of {} bytes", content.len())));
        }
        take(at, &piece[..read]);
        at += read as u64;
        count(read as u64);
    }
    Ok(content.damage())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::content::Slice;
    use crate::source::{Source, SourceStat, SourceVersion};

    const HOLE: Range<u64> = 1 << 20..200 << 30;

    /// A source with a hole, of which only the last byte may be read.
    #[derive(Debug)]
    struct Sparse;

    impl Source for Sparse {
        fn path(&self) -> &Path {
            Path::new("sparse")
        }

        fn stat(&self) -> Result<SourceStat> {
            Ok(SourceStat { size: HOLE.end + 1, mtime: (0, 0), version: SourceVersion::of_tag("sparse") })
        }

        fn next_data(&self, offset: u64) -> Option<Range<u64>> {
            Some(if offset < HOLE.start { offset..HOLE.start } else { offset.max(HOLE.end)..HOLE.end + 1 })
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            let end = HOLE.end + 1;
            assert!(offset < HOLE.start || offset + 1 >= HOLE.end, "{offset}");
            let read = (end - offset).min(buf.len() as u64);
            Ok(if offset < HOLE.start { read.min(HOLE.start - offset) } else { read } as usize)
        }
    }

    #[test]
    fn holes_are_not_read() {
        let content = Slice::new(Arc::new(Sparse), 1000, HOLE.end - 999);
        assert!(read_through(&content, &Progress::new(true)).unwrap().is_none());
    }
}
