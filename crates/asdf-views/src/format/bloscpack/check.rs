//! Damage and notes of a file, in words.

use asdf_file::container::{Defect, Severity};
use seekable::error::{Error, Result};

use super::array::Metadata;
use super::body::Body;
use super::header::{Header, Layout};
use super::map::ChunkMap;

/// Maximum number of wrong offsets that are reported one by one.
const MAX_REPORTED: u64 = 100;

/// A file, with the parts parsed so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    pub(super) header: &'a Header,
    pub(super) body: &'a Body,
    /// Size of the file in bytes.
    pub(super) size: u64,
    pub(super) metadata: Option<&'a Metadata>,
}

fn note(offset: u64, what: String) -> Defect {
    Defect { severity: Severity::Note, offset, block: None, what }
}

fn damage(error: &Error) -> Defect {
    let offset = error.offset().unwrap_or(0);
    Defect { severity: Severity::Damage, offset, block: None, what: error.message() }
}

/// Returns the defects of header and metadata. Reads no chunk.
pub(super) fn header(file: &File<'_>) -> Vec<Defect> {
    let mut defects = Vec::new();
    let header = file.header;
    let are_told = header.chunk_size >= 0 && header.last_chunk >= 0 && header.chunks.is_some();
    if are_told && file.body.told_size().is_none() && header.kind != Layout::Variable {
        let what = format!(
            "chunk_size {} and last_chunk {} differ from the decoded sizes of the chunks, which are used \
             instead",
            header.chunk_size, header.last_chunk
        );
        defects.push(note(8, what));
    }
    if let (Some(metadata), Some(section)) = (file.metadata, &header.metadata) {
        match (&metadata.bytes, &metadata.array) {
            (Err(error), _) => defects.push(damage(error)),
            (_, Some(Err(why))) => defects.push(note(section.at, format!("the array of the metadata {why}"))),
            (_, Some(Ok(array))) => {
                if let Ok(len) = file.body.size()
                    && len != array.size
                {
                    let what = format!(
                        "the array of the metadata has {} bytes, but the chunks have {len}, so it is not \
                         shown",
                        array.size
                    );
                    defects.push(note(section.at, what));
                }
            }
            (_, None) => {}
        }
    }
    if file.body.map().is_distrusted() {
        let at = header.offsets.unwrap_or(0);
        let what = "the offsets are not where the chunks are, so the chunks are located one after the other";
        defects.push(note(at, what.to_owned()));
    }
    defects
}

/// Returns the defects of offsets and chunks. Walks all chunks.
pub(super) fn chunks(file: &File<'_>) -> Result<Vec<Defect>> {
    let header = file.header;
    let map = file.body.map();
    if header.kind == Layout::Variable {
        return Ok(Vec::new());
    }
    let scan = map.scan()?;
    let mut defects = wrong_offsets(map, header.offsets)?;
    let size = file.size;
    if let Some(behind) = scan.end.and_then(|end| size.checked_sub(end)).filter(|behind| *behind > 0) {
        defects.push(note(size - behind, format!("{behind} bytes follow the last chunk")));
    }
    if let (Some(stopped), None) = (&scan.stopped, header.chunks) {
        defects.push(damage(stopped));
    }
    Ok(defects)
}

/// Returns a defect for each offset that differs from the location of its chunk.
fn wrong_offsets(map: &ChunkMap, offsets: Option<u64>) -> Result<Vec<Defect>> {
    let mut defects = Vec::new();
    let Some(offsets) = offsets else { return Ok(defects) };
    let mut wrong = 0;
    map.each(|n, found| {
        if let (Some(stated), Ok(found)) = (map.places().offset(n)?, found)
            && u64::try_from(stated) != Ok(found.at)
        {
            wrong += 1;
            if wrong <= MAX_REPORTED {
                let what = format!("offset {n} is {stated}, but the chunk begins at byte {}", found.at);
                defects.push(note(offsets + n * 8, what));
            }
        }
        Ok(())
    })?;
    if wrong > MAX_REPORTED {
        defects.push(note(offsets, format!("{} more offsets are wrong", wrong - MAX_REPORTED)));
    }
    Ok(defects)
}
