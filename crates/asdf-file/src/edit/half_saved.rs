//! Makes a half-saved source the old file or the new one with the help of its journal.
//!
//! Saves with a journal write the source through this module, and undo a failed save through it. Recovery
//! after a crash does both. Before recovery writes, [`HalfSaved::source_state`] proves that each byte of the
//! journal's ranges is the old one, the new one, or a zero of space that the save adds or removes.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use seekable::error::Result;
use seekable::source::storage::Storage;

use super::journal::{Journal, Method};
use super::mark::{self, MARK};
use super::recovery::SaveSide;
use super::unsupported::cannot;

mod inserted;

use inserted::{Inserted, by_extents};

/// Bytes compared at once.
const PIECE: usize = 64 << 10;
/// Bytes that another program hardly writes by chance as the save did.
const DISTINCT: usize = 16;
/// The granularity of writes. Pages that are already right are not written. Of a page that a kill may leave written or
/// not, but never written in part, everything that differs is written by one call.
const PAGE: usize = 4096;
/// The smallest block of file systems is not shorter. A write begins and ends with a sector that differs, so that an undo
/// writes to no block that the save has not written to: the disk may be full.
const SECTOR: usize = 512;

/// The state of a source, compared with its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceState {
    /// The old file.
    Old,
    /// The new file.
    New,
    /// A mixture of the old file and the new one.
    Mixed,
    /// Another file, or the state can't be determined. The text says why.
    Neither(String),
}

/// How much of what a save wrote is in a source to which another program has written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewBytes {
    /// All of it, and the head has no byte of another program.
    All,
    /// At least a part of it, or the blocks where the save has moved them.
    Some,
    /// Nothing: the file is what the other program wrote.
    None,
}

/// A source and the journal of its save.
#[derive(Debug)]
pub(crate) struct HalfSaved<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    journal: &'a Journal<S>,
    image: Option<&'a S::File>,
    syncs: Cell<u32>,
}

impl<'a, S: Storage> HalfSaved<'a, S> {
    /// Pairs a source with its journal. `image` is the image that the journal names, if any.
    pub(crate) fn new(
        storage: &'a S,
        file: &'a S::File,
        journal: &'a Journal<S>,
        image: Option<&'a S::File>,
    ) -> Self {
        Self { storage, file, journal, image, syncs: Cell::new(0) }
    }

    /// Returns the number of syncs of the source.
    pub(crate) fn syncs(&self) -> u32 {
        self.syncs.get()
    }

    /// Makes the source the new file if any new byte is in it, and otherwise the old one. Returns the
    /// resulting state.
    ///
    /// The result is durable. A source that is neither version nor a mixture is not changed.
    pub(crate) fn recover(&self) -> Result<SourceState> {
        if self.journal.header.way == Method::Insert {
            match self.insertion()? {
                // The insertion may not be durable yet.
                Inserted::Complete => self.sync()?,
                Inserted::Not | Inserted::Partly(_) => {
                    // The save writes nothing before the insertion is durable, so the old file is complete.
                    self.take_out()?;
                    let state = match self.state_if_not_inserted()? {
                        SourceState::Neither(why) => SourceState::Neither(why),
                        _ => SourceState::Old,
                    };
                    self.sync()?;
                    return Ok(state);
                }
                Inserted::Neither(why) => return Ok(SourceState::Neither(why)),
            }
        }
        match self.source_state()? {
            SourceState::Old if self.inserted() > 0 => {}
            SourceState::Mixed => {}
            known => {
                // The state may not be durable yet.
                self.sync()?;
                return Ok(known);
            }
        }
        match self.write(SaveSide::New) {
            Ok(()) => Ok(SourceState::New),
            Err(error) => match self.back() {
                Ok(()) => Ok(SourceState::Old),
                Err(_) => Err(error.into()),
            },
        }
    }

    /// Returns the state of the source. Changes nothing.
    pub(crate) fn state(&self) -> Result<SourceState> {
        if self.journal.header.way == Method::Insert {
            match self.insertion()? {
                Inserted::Complete => {}
                Inserted::Not => return self.state_if_not_inserted(),
                Inserted::Partly(_) => return Ok(SourceState::Mixed),
                Inserted::Neither(why) => return Ok(SourceState::Neither(why)),
            }
        }
        Ok(match self.source_state()? {
            SourceState::Old if self.inserted() > 0 => SourceState::Mixed,
            state => state,
        })
    }

    /// Makes the source the old file.
    pub(crate) fn back(&self) -> Result<()> {
        if self.journal.header.way != Method::Insert {
            return self.restore();
        }
        match self.insertion()? {
            Inserted::Not => {}
            Inserted::Partly(_) => self.take_out()?,
            Inserted::Complete => {
                self.sync()?;
                self.restore()?;
                let header = &self.journal.header;
                self.storage.collapse(self.file, header.insert_at, header.shift)?;
            }
            Inserted::Neither(why) => return Err(seekable::Error::new(seekable::Kind::Changed, why)),
        }
        Ok(self.sync()?)
    }

    /// Makes the bytes old, outside the inserted range, durably.
    fn restore(&self) -> Result<()> {
        // Where nothing was written, there may be no room for the mark either.
        if self.source_state()? != SourceState::Old {
            self.overwrite(SaveSide::Old)?;
        }
        Ok(self.sync()?)
    }

    /// True if the range is in its place, and the bytes after it are those that were moved: their extents tell.
    pub(crate) fn is_inserted(&self) -> Result<bool> {
        Ok(by_extents(self.storage, self.file, self.journal)? == Some(Inserted::Complete))
    }

    /// True if the source has the size that the save expects before it writes.
    pub(crate) fn has_old_size(&self) -> io::Result<bool> {
        let size = self.storage.meta(self.file)?.identity.size;
        let old = self.size(SaveSide::Old);
        Ok(size == old || (self.journal.header.grows && size > old))
    }

    /// Determines from the source's extents how far the range is inserted. A copy of the source has other
    /// extents, so its bytes are compared instead.
    fn insertion(&self) -> Result<Inserted> {
        if let Some(state) = by_extents(self.storage, self.file, self.journal)? {
            return Ok(state);
        }
        let header = &self.journal.header;
        let size = self.storage.meta(self.file)?.identity.size;
        let longer = header.old_size.saturating_add(header.shift);
        if size == header.old_size {
            return Ok(Inserted::Not);
        }
        // The first block is moved last, so once it has moved, the insertion is complete. Its old place is
        // then a hole or holds new text.
        Ok(match self.source_state()? {
            SourceState::Neither(_) if size == longer => Inserted::Neither(
                "the blocks were moved only partly, and a copy of the file does not show how far; recover \
                 the original file, if it is still where the save was made"
                    .to_owned(),
            ),
            SourceState::Neither(why) => Inserted::Neither(why),
            _ => Inserted::Complete,
        })
    }

    /// Undoes an insertion that was made only partly: moves the moved bytes back.
    fn take_out(&self) -> Result<()> {
        let header = &self.journal.header;
        match self.insertion()? {
            Inserted::Partly(at) => {
                let size = self.storage.meta(self.file)?.identity.size;
                match at.checked_add(header.shift) {
                    Some(end) if end < size => self.storage.collapse(self.file, at, header.shift)?,
                    _ => self.storage.set_len(self.file, header.old_size)?,
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of bytes that the save inserts before it writes anything; 0 for other ways.
    fn inserted(&self) -> u64 {
        if self.journal.header.way == Method::Insert { self.journal.header.shift } else { 0 }
    }

    /// Returns the range that the save inserts before it writes anything; empty for other ways.
    fn inserted_range(&self) -> Range<u64> {
        let at = self.journal.header.insert_at;
        at..at.saturating_add(self.inserted())
    }

    /// Returns the size of the file on `side`. The size of the old file includes the inserted range.
    fn size(&self, side: SaveSide) -> u64 {
        match side {
            SaveSide::Old => self.journal.header.old_size + self.inserted(),
            SaveSide::New => self.journal.header.new_size,
        }
    }

    /// Compares the source with the old and the new bytes of the journal, for a source in which the range is
    /// already inserted.
    pub(crate) fn source_state(&self) -> Result<SourceState> {
        let old_size = self.size(SaveSide::Old);
        let new_size = self.size(SaveSide::New);
        let size = self.storage.meta(self.file)?.identity.size;
        let sized = old_size != new_size;
        let fits = (old_size.min(new_size)..=old_size.max(new_size)).contains(&size)
            || (self.journal.header.grows && size > old_size);
        if !fits {
            return Ok(SourceState::Neither(format!("it has {size} bytes, not {old_size} or {new_size}")));
        }
        let mut is_old = !sized || size == old_size;
        let mut is_new = !sized || size == new_size;
        let marked = mark::is_marked(self.storage, self.file)?;
        let mut wrong = None;
        self.each_piece(|offset, old, new| {
            if wrong.is_some() {
                return Ok(());
            }
            let mut now = vec![0; old.len().max(new.len())];
            let read = self.storage.read_at(self.file, offset, &mut now)?;
            now.truncate(read);
            if marked
                && offset == 0
                && let Some(first) = old.first_chunk()
            {
                mark::put(first, &mut now);
            }
            is_old &= now == old;
            is_new &= now == new;
            if now != old && now != new {
                wrong = strange(&now, old, new).map(|at| offset + at as u64);
            }
            Ok(())
        })?;
        Ok(match wrong {
            Some(at) => SourceState::Neither(format!("its byte {at} is neither old nor new")),
            None if marked => SourceState::Mixed,
            None if is_new => SourceState::New,
            None if is_old => SourceState::Old,
            None => SourceState::Mixed,
        })
    }

    /// Determines how much of what the save wrote is in the source, for a save that has written everything.
    pub(crate) fn new_bytes(&self) -> Result<NewBytes> {
        let size = self.storage.meta(self.file)?.identity.size;
        let mut has_all = size >= self.size(SaveSide::New) && !mark::is_marked(self.storage, self.file)?;
        let mut has_own_part = false;
        let mut is_cut = size > 0;
        self.each_piece(|offset, old, new| {
            let mut now = vec![0; new.len()];
            let read = self.storage.read_at(self.file, offset, &mut now)?;
            now.truncate(read);
            has_all &= now == new;
            is_cut &= new.starts_with(&now);
            has_own_part |= has_own(&now, old, new);
            Ok(())
        })?;
        if has_all && self.has_rest()? {
            return Ok(NewBytes::All);
        }
        // The old bytes of an insertion have other offsets. But a program that writes a whole file truncates it first, so
        // that no block stays where it was on the disk.
        let has_some = if self.inserted() > 0 { is_cut || self.is_inserted()? } else { has_own_part };
        Ok(if has_some { NewBytes::Some } else { NewBytes::None })
    }

    /// True if the source has the bytes that the save left unchanged. Otherwise it is another file, or
    /// another program has changed it since.
    pub(crate) fn has_rest(&self) -> Result<bool> {
        let Some(rest) = self.journal.rest else { return Ok(true) };
        Ok(self.journal.header.digest_rest(self.storage, self.file, &self.journal.ranges)? == rest)
    }

    /// True if the source is another file than that of the save: bytes that the save leaves unchanged or moves are not in
    /// it. False if that is not known.
    pub(crate) fn is_another(&self) -> Result<bool> {
        if !self.has_rest()? {
            return Ok(true);
        }
        // An image is written from the start, so that the kept bytes may be at neither place for a while.
        let header = &self.journal.header;
        let Some(kept) = self.journal.kept.filter(|_| header.way == Method::Insert) else { return Ok(false) };
        let is_at = |at| -> Result<bool> { Ok(header.digest_kept(self.storage, self.file, at)? == kept) };
        Ok(!(is_at(header.kept_from)? || is_at(header.kept_from.saturating_add(header.shift))?))
    }

    /// True if a save with an incomplete journal has changed nothing yet: the source has its old size and, as
    /// far as the journal can be read, its old bytes.
    pub(crate) fn is_not_begun(&self) -> Result<bool> {
        let header = &self.journal.header;
        let now = self.storage.meta(self.file)?.identity;
        let inserts = header.way == Method::Insert;
        let sized = inserts || self.size(SaveSide::Old) != self.size(SaveSide::New);
        if (sized && now.size != header.old_size) || mark::is_marked(self.storage, self.file)? {
            return Ok(false);
        }
        if self.changed_before(if inserts { header.insert_at } else { u64::MAX })?.is_some() {
            return Ok(false);
        }
        // An insertion changes the size before anything else, and any other save writes the first range
        // first. If neither can be compared, the size and the modification time decide.
        let known = inserts || !self.journal.ranges.is_empty();
        Ok(known || (now.size, now.mtime) == (header.old_size, header.mtime))
    }

    /// Returns the offset of the first range before `place` in which the source does not have the old bytes.
    fn changed_before(&self, place: u64) -> io::Result<Option<u64>> {
        for range in self.journal.ranges.iter().take_while(|range| range.offset < place) {
            let (mut old, _) = self.journal.bytes(self.storage, range)?;
            old.truncate(usize::try_from(place - range.offset).unwrap_or(usize::MAX));
            let mut now = vec![0; old.len()];
            let read = self.storage.read_at(self.file, range.offset, &mut now)?;
            if now[..read] != old[..] {
                return Ok(Some(range.offset));
            }
        }
        Ok(None)
    }

    /// Judges a source without the inserted range: it is old if it has the old size and, before the place of
    /// the insertion, the old bytes.
    fn state_if_not_inserted(&self) -> Result<SourceState> {
        let now = self.storage.meta(self.file)?.identity.size;
        let header = &self.journal.header;
        Ok(match self.changed_before(header.insert_at)? {
            Some(at) => SourceState::Neither(format!("its bytes from {at} on are not the old ones")),
            None if now == header.old_size => SourceState::Old,
            None => SourceState::Neither(format!("it has {now} bytes, not {}", header.old_size)),
        })
    }

    /// Writes the bytes in which the source differs from `side`, and syncs.
    pub(crate) fn write(&self, side: SaveSide) -> io::Result<()> {
        self.overwrite(side)?;
        self.sync()
    }

    /// Writes the bytes in which the source differs from `side`.
    ///
    /// Making it the old file never needs space: what is written has space from before the save or of the save itself.
    /// Therefore an inserted range stays as it is, because it is removed next, and space is given back last.
    pub(crate) fn overwrite(&self, side: SaveSide) -> io::Result<()> {
        if side == SaveSide::New && self.share_image()? {
            self.storage.touch(self.file);
            return Ok(());
        }
        let header = &self.journal.header;
        let left_out = if side == SaveSide::Old { self.inserted_range() } else { 0..0 };
        // At the start of the file, the range may still be a hole, for which the disk has no space. Such a file is not taken
        // for ASDF without the mark, either.
        let begins_with_hole = left_out.contains(&0) && is_zero(&mark::start(self.storage, self.file)?);
        let marks = self.writes_apart() && !begins_with_hole;
        if marks {
            self.storage.write_at(self.file, 0, &MARK)?;
        }
        let size = self.size(side);
        let sized = self.size(SaveSide::Old) != self.size(SaveSide::New);
        if sized && self.storage.meta(self.file)?.identity.size < size {
            self.storage.set_len(self.file, size)?;
        }
        let mut start = header.start;
        self.each_piece(|offset, old, new| {
            let wanted = if side == SaveSide::Old { old } else { new };
            if let (0, Some(first)) = (offset, wanted.first_chunk()) {
                start = *first;
            }
            let mut marked = Vec::new();
            let wanted = if marks && offset == 0 {
                marked.extend_from_slice(wanted);
                mark::put(&MARK, &mut marked);
                &marked[..]
            } else {
                wanted
            };
            for part in parts_outside(&left_out, offset, wanted.len()) {
                self.write_piece(offset + part.start as u64, &wanted[part])?;
            }
            Ok(())
        })?;
        if header.way == Method::Image {
            self.each_piece(|offset, old, new| {
                self.free_zeros(offset, if side == SaveSide::Old { old } else { new });
                Ok(())
            })?;
        }
        if sized && self.storage.meta(self.file)?.identity.size > size {
            self.storage.set_len(self.file, size)?;
        }
        let has_own_start = !left_out.contains(&0);
        if has_own_start && (marks || mark::is_marked(self.storage, self.file)?) {
            self.storage.write_at(self.file, 0, &start)?;
        }
        self.storage.touch(self.file);
        Ok(())
    }

    /// True if a killed save can leave a mixture, because more than one page changes.
    fn writes_apart(&self) -> bool {
        let changes_size = self.size(SaveSide::Old) != self.size(SaveSide::New);
        if self.journal.header.way != Method::InPlace || changes_size {
            return true;
        }
        match &self.journal.ranges[..] {
            [] => false,
            [range] => {
                let len = range.old_len.max(range.new_len) as u64;
                range.offset % PAGE as u64 + len > PAGE as u64
            }
            _ => true,
        }
    }

    /// Writes the pages of `wanted` in which the source differs at `offset`.
    fn write_piece(&self, offset: u64, wanted: &[u8]) -> io::Result<()> {
        let mut now = vec![0; wanted.len()];
        let read = self.storage.read_at(self.file, offset, &mut now)?;
        let same = |page: &Range<usize>| now[..read].get(page.clone()) == Some(&wanted[page.clone()]);
        let mut from = 0;
        while from < wanted.len() {
            let page = page_at(offset, from, wanted.len());
            from = page.end;
            if same(&page) {
                continue;
            }
            let mut pages = page;
            while from < wanted.len() {
                let next = page_at(offset, from, wanted.len());
                if same(&next) {
                    break;
                }
                (from, pages.end) = (next.end, next.end);
            }
            let differing = differing_sectors(&now[..read], wanted, offset, pages);
            self.storage.write_at(self.file, offset + differing.start as u64, &wanted[differing])?;
        }
        Ok(())
    }

    /// Gives the space of the pages of `bytes`, which are at `offset`, back to the file system if they are zeros. They have
    /// the right bytes already, so this may fail.
    fn free_zeros(&self, offset: u64, bytes: &[u8]) {
        let mut from = 0;
        while from < bytes.len() {
            let start = from;
            while from < bytes.len() {
                let page = page_at(offset, from, bytes.len());
                if page.len() < PAGE || !is_zero(&bytes[page.clone()]) {
                    break;
                }
                from = page.end;
            }
            let zeros = offset + start as u64..offset + from as u64;
            if !zeros.is_empty() && matches!(self.storage.next_data(self.file, zeros.clone()), Ok(Some(_))) {
                let _ = self.storage.punch(self.file, zeros);
            }
            from = page_at(offset, from, bytes.len()).end;
        }
    }

    /// Makes the source share all of the image's extents; false if the file system can't. On a copy-on-write
    /// file system this takes no room beyond the image's. On any other one, the bytes of a source that shares its extents
    /// could not be written over without room.
    fn share_image(&self) -> io::Result<bool> {
        let (Some(image), len) = (self.image, self.journal.header.new_size) else { return Ok(false) };
        if self.storage.room_to_write_over(self.file).is_none() {
            return Ok(false);
        }
        // A clone does not truncate. A stream that has grown meanwhile is not truncated, either.
        let sized = self.size(SaveSide::Old) != len;
        if sized && self.storage.meta(self.file)?.identity.size > len {
            self.storage.set_len(self.file, len)?;
        }
        match self.storage.clone_range(image, 0..len, self.file, 0) {
            Ok(()) => Ok(true),
            Err(error) if cannot(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the source durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        self.storage.sync(self.file)
    }

    /// Calls `piece` with the offset, the old bytes and the new bytes of each range that the save changes.
    fn each_piece(&self, mut piece: impl FnMut(u64, &[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
        for range in &self.journal.ranges {
            let (old, mut new) = self.journal.bytes(self.storage, range)?;
            if self.image.is_some() {
                new = self.of_image(range.offset, old.len())?;
            }
            piece(range.offset, &old, &new)?;
        }
        if self.image.is_none() {
            return Ok(());
        }
        let header = &self.journal.header;
        let mut at = header.kept_from;
        while at < header.kept_to {
            let len = PIECE.min(usize::try_from(header.kept_to - at).unwrap_or(PIECE));
            piece(at, &self.of_image(at + header.shift, len)?, &self.of_image(at, len)?)?;
            at += len as u64;
        }
        let mut at = header.old_size;
        while at < header.new_size {
            let len = PIECE.min(usize::try_from(header.new_size - at).unwrap_or(PIECE));
            piece(at, &[], &self.of_image(at, len)?)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Reads up to `len` bytes of the image from `offset` on.
    fn of_image(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = match self.image {
            Some(image) => self.storage.read_at(image, offset, &mut bytes)?,
            None => 0,
        };
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// True if a part of `now` can only be what the save wrote. Old bytes, and the spaces of the padding, may also be
/// another program's.
fn has_own(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    (0..new.len()).step_by(DISTINCT).any(|from| {
        let range = from..new.len().min(from + DISTINCT);
        let part = &new[range.clone()];
        let is_padding = is_zero(part) || part.iter().all(|byte| *byte == b' ');
        !is_padding && old.get(range.clone()) != Some(part) && now.get(range) == Some(part)
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns the parts of a piece of `len` bytes at `offset` that are not in `range`.
fn parts_outside(range: &Range<u64>, offset: u64, len: usize) -> [Range<usize>; 2] {
    let within = |place: u64| usize::try_from(place.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
    if range.is_empty() { [0..len, len..len] } else { [0..within(range.start), within(range.end)..len] }
}

/// Returns the part of `range` from the first sector in which `now` differs from `wanted` to the last one. Both are at
/// `offset` in the file, and differ in the range.
fn differing_sectors(now: &[u8], wanted: &[u8], offset: u64, range: Range<usize>) -> Range<usize> {
    let differs = |at: &usize| now.get(*at) != wanted.get(*at);
    let into_sector = |at: usize| ((offset % SECTOR as u64) as usize + at) % SECTOR;
    let first = range.clone().find(differs).unwrap_or(range.start);
    let last = range.clone().rev().find(differs).unwrap_or(range.end - 1);
    let start = first - into_sector(first).min(first - range.start);
    start..range.end.min(last + SECTOR - into_sector(last))
}

/// Returns the range of a piece from its byte `from` to the end of that byte's page in the file. The piece
/// lies at `offset` in the file and has `len` bytes.
fn page_at(offset: u64, from: usize, len: usize) -> Range<usize> {
    let rest = PAGE - ((offset % PAGE as u64) as usize + from) % PAGE;
    from..len.min(from + rest)
}

/// Returns the first byte that is neither old nor new. A zero is accepted where only one of the two files has
/// a byte.
fn strange(now: &[u8], old: &[u8], new: &[u8]) -> Option<usize> {
    let is_strange = |at: &usize| {
        let old = old.get(*at);
        let new = new.get(*at);
        match now.get(*at) {
            Some(0) if old.is_none() || new.is_none() => false,
            now => now != old && now != new,
        }
    };
    let len = now.len().max(old.len()).max(new.len());
    // Most sectors are old or new as a whole, which is seen in less time than byte by byte.
    (0..len).step_by(SECTOR).find_map(|start| {
        let now = sector_from(now, start);
        if now == sector_from(old, start) || now == sector_from(new, start) {
            return None;
        }
        (start..len.min(start + SECTOR)).find(is_strange)
    })
}

/// Returns at most a sector of bytes from an offset. There are none after the end.
fn sector_from(bytes: &[u8], start: usize) -> &[u8] {
    bytes.get(start..bytes.len().min(start + SECTOR)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{has_own, strange};

    #[test]
    fn what_another_program_may_also_have_written_is_not_the_saves_own() {
        let old = b"the first line..the second line.";
        let new = b"the first line..the other line..                \0\0";
        assert!(has_own(new, old, new));
        assert!(has_own(b"?he first line..the other line..", old, new));
        assert!(!has_own(old, old, new));
        assert!(!has_own(b"the first line..the other lines.                \0\0", old, new));
        assert!(!has_own(b"", old, new));
    }

    #[test]
    fn only_old_new_and_fresh_zeros_are_no_strangers() {
        assert_eq!(strange(b"axc", b"abc", b"xxx"), None);
        assert_eq!(strange(b"aqc", b"abc", b"xxx"), Some(1));
        assert_eq!(strange(b"ab\0", b"ab", b"abc"), None);
        assert_eq!(strange(b"ab\0", b"abc", b"ab"), None);
        assert_eq!(strange(b"ab", b"ab", b"abc"), None);
        assert_eq!(strange(b"a", b"ab", b"abc"), Some(1));
        assert_eq!(strange(b"abd", b"ab", b"abc"), Some(2));
    }
}
