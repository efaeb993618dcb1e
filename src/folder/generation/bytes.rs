//! The bytes of an open file, in each of its generations.
//!
//! [`FileBytes`] is one open file. It knows the current positions of the bytes of each of its generations. A
//! reader holds its lock for one read. A save holds the lock while it records new positions, and while it
//! moves bytes. The lock is the innermost of all: a thread that holds it takes no other lock.
//!
//! A change by another program shows in the file's version, which is compared *after* each read. Older
//! generations can then no longer read the file, unless the file has only grown ([`Container::still_has`]).

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Usage;
use super::places::{BytePlace, BytePlaces};
use crate::error::{Error, Kind, Result};
use crate::format::Container;
use crate::source::{
    FileSource, Identity, Lent, MemorySource, Moved, Provenance, Readers, Source, SourceStat, SourceVersion,
    Surroundings, read_up_to,
};
use crate::sync::{Rank, Ranked};
use crate::user_dirs;

/// Maximum size of a copy that is held in memory, in bytes. A larger copy goes to an unnamed file.
const IN_MEMORY: u64 = 1 << 20;
/// Time for which a file must not have changed before its bytes are lent to the kernel: its version is
/// compared before the kernel copies lent bytes, not after.
const AT_REST: Duration = Duration::from_secs(2);

/// The state of [`FileBytes`], locked for writing.
type Changing<'a> = Ranked<RwLockWriteGuard<'a, BytesState>>;

/// An open file, and the positions of the bytes of its generations.
#[derive(Debug)]
pub(crate) struct FileBytes {
    source: Arc<dyn Source>,
    state: RwLock<BytesState>,
}

#[derive(Debug, Default)]
struct BytesState {
    /// True while a save changes the file.
    saving: bool,
    /// Image from which the save writes the file.
    image: Option<Arc<dyn Source>>,
    next: u64,
    generations: HashMap<u64, GenerationPlaces>,
}

/// One generation of the file.
#[derive(Debug)]
struct GenerationPlaces {
    /// Version of the file for which `places` is valid.
    version: SourceVersion,
    size: u64,
    places: BytePlaces,
    usage: Arc<Usage>,
    /// Container of the generation, which can tell whether the file has only grown.
    parsed: Option<Weak<dyn Container>>,
    /// True if the generation's bytes were in the file when the current save began.
    in_save: bool,
}

/// The source of a generation: the file's size and bytes as of the snapshot.
#[derive(Debug)]
pub(crate) struct GenerationSource {
    bytes: Arc<FileBytes>,
    id: u64,
    stat: SourceStat,
}

/// Returns the error for bytes that another program has changed.
pub(crate) fn rewritten() -> Error {
    Error::new(Kind::Changed, "another program rewrote the file: open it again")
}

impl FileBytes {
    /// Creates the state for an open file without generations.
    pub(crate) fn new(source: Arc<dyn Source>) -> Arc<Self> {
        Arc::new(Self { source, state: RwLock::default() })
    }

    /// True if this is the same file as the one with that version, regardless of changes.
    pub(crate) fn is(&self, version: &SourceVersion) -> bool {
        self.source.stat().is_ok_and(|stat| stat.version.same_file(version))
    }

    /// Creates a generation of the file as it is now.
    pub(crate) fn generation(self: &Arc<Self>, usage: Arc<Usage>) -> Result<Arc<GenerationSource>> {
        let mut state = self.change();
        let stat = self.source.stat()?;
        let id = state.next;
        state.next += 1;
        let (version, size, places) = (stat.version, stat.size, BytePlaces::default());
        let entry = GenerationPlaces { version, size, places, usage, parsed: None, in_save: false };
        state.generations.insert(id, entry);
        drop(state);
        Ok(Arc::new(GenerationSource { bytes: self.clone(), id, stat }))
    }

    /// Ends a save, after which the file's version is valid for the saved generations.
    pub(crate) fn end_save(&self) {
        let mut state = self.change();
        state.saving = false;
        state.image = None;
        let now = self.source.stat().map(|stat| stat.version);
        for entry in state.saved() {
            entry.in_save = false;
            entry.version = *now.as_ref().unwrap_or(&entry.version);
        }
    }

    fn read(&self) -> Ranked<RwLockReadGuard<'_, BytesState>> {
        Ranked::after(Rank::FileBytes, || self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self) -> Changing<'_> {
        Ranked::after(Rank::FileBytes, || self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the state for an announcement of a save; the first announcement begins the save. Returns `None`
    /// if the save changes another file.
    fn begin<'a>(&'a self, file: &Identity) -> Option<Changing<'a>> {
        let grown = self.grown();
        let mut state = self.change();
        let now = self.source.stat().ok()?.version;
        if !now.same_file(&(*file).into()) {
            return None;
        }
        if !state.saving {
            state.saving = true;
            for (id, entry) in &mut state.generations {
                entry.in_save = entry.version == now || grown.contains(id);
            }
        }
        Some(state)
    }

    /// Returns the older generations whose bytes are all still in the file, because the file has only grown.
    fn grown(&self) -> Vec<u64> {
        let Ok(now) = self.source.stat() else { return Vec::new() };
        let older: Vec<_> = {
            let state = self.read();
            let older =
                state.generations.iter().filter(|(_, entry)| !state.saving && entry.version != now.version);
            older.filter_map(|(id, entry)| Some((*id, entry.parsed.as_ref()?.upgrade()?))).collect()
        };
        // The containers are dropped after the lock was released, because dropping one may close a file.
        older.iter().filter(|(_, parsed)| parsed.still_has(&self.source)).map(|(id, _)| *id).collect()
    }

    /// Copies ranges of the file into one source, in order; `None` if memory or disk space
    /// is short, or a read fails.
    fn copy(&self, ranges: &[Range<u64>]) -> Option<Arc<dyn Source>> {
        let len = ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        if len <= IN_MEMORY {
            let mut bytes = vec![0; usize::try_from(len).ok()?];
            let mut rest = &mut bytes[..];
            for range in ranges {
                let (part, next) = rest.split_at_mut(usize::try_from(range.end - range.start).ok()?);
                read_all(&*self.source, range.start, part)?;
                rest = next;
            }
            return Some(Arc::new(MemorySource(bytes)));
        }
        let file = user_dirs::unnamed(&user_dirs::temporary()).ok()?;
        let mut piece = vec![0; IN_MEMORY as usize];
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let part = &mut piece[..IN_MEMORY.min(range.end - at) as usize];
                read_all(&*self.source, at, part)?;
                std::io::Write::write_all(&mut &file, part).ok()?;
                at += part.len() as u64;
            }
        }
        Some(Arc::new(FileSource::from_file(file, self.source.path()).ok()?))
    }
}

/// Fills `buf`; `None` if a read fails, or the source ends before `buf` is full.
fn read_all(source: &dyn Source, offset: u64, buf: &mut [u8]) -> Option<()> {
    (read_up_to(source, offset, buf).ok()? == buf.len()).then_some(())
}

impl BytesState {
    /// Returns the generations with bytes that the save changes.
    fn saved(&mut self) -> impl Iterator<Item = &mut GenerationPlaces> {
        self.generations.values_mut().filter(|entry| entry.in_save)
    }

    /// Returns the parts of `ranges` that must be copied, because a generation reads them. Small ranges are
    /// copied for every generation, held or not, so that programs can look into the file during the save.
    fn read_of(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let is_small = ranges.iter().map(|range| range.end - range.start).sum::<u64>() <= IN_MEMORY;
        let kept = || self.generations.values().filter(|entry| entry.is_kept(is_small));
        let is_read = |range: &&Range<u64>| kept().any(|entry| entry.places.has_any_in(range, entry.size));
        ranges.iter().filter(is_read).cloned().collect()
    }

    /// Replaces the places of the bytes in `ranges` of the file. Bytes in `copied` are now in `copy`, which
    /// has the copied ranges in order; all others are lost.
    fn replace(&mut self, ranges: &[Range<u64>], copied: &[Range<u64>], copy: Option<&Arc<dyn Source>>) {
        for entry in self.saved() {
            let mut from = 0;
            for range in copied {
                if let Some(copy) = copy {
                    entry
                        .places
                        .replace(range, |at| BytePlace::Copy(copy.clone(), from + (at - range.start)));
                }
                from += range.end - range.start;
            }
            ranges.iter().for_each(|range| entry.places.replace(range, |_| BytePlace::Lost));
        }
    }
}

impl GenerationPlaces {
    /// True if a save has to copy the bytes of this generation.
    fn is_kept(&self, is_small: bool) -> bool {
        self.in_save && (is_small || self.usage.is_held())
    }
}

/// The receiver of a save's announcements, for the readers of a file.
#[derive(Debug)]
pub(crate) struct SaveReaders(pub(crate) Arc<FileBytes>);

impl Readers for SaveReaders {
    fn keep(&mut self, file: Identity, ranges: &[Range<u64>]) {
        let bytes = &self.0;
        let end = bytes.source.stat().map_or(0, |stat| stat.size);
        let there: Vec<_> = ranges.iter().map(|range| range.start.min(end)..range.end.min(end)).collect();
        let (mut copied, mut copy) = (Vec::new(), None);
        loop {
            let Some(mut state) = bytes.begin(&file) else { return };
            let read = state.read_of(&there);
            if read.iter().all(|range| copied.contains(range)) {
                return state.replace(ranges, &copied, copy.as_ref());
            }
            drop(state);
            // The copy is made without the lock, so that threads can read. A thread may begin to read another
            // generation meanwhile, so the ranges are determined again.
            copy = bytes.copy(&read);
            copied = read;
        }
    }

    fn relocate(&mut self, file: Identity, from: u64, shift: i64, relocate: &mut dyn FnMut() -> Moved) {
        let Some(mut state) = self.0.begin(&file) else {
            relocate();
            return;
        };
        let moved = relocate();
        let new = |at: u64| match moved {
            Moved::Yes => BytePlace::File(at.saturating_add_signed(shift)),
            Moved::No => BytePlace::File(at),
            Moved::Unknown => BytePlace::Lost,
        };
        for entry in state.saved() {
            entry.places.replace(&(from..u64::MAX), new);
        }
    }

    fn read_from_image(&mut self, file: Identity, range: Range<u64>, shift: u64, image: File) {
        let Some(mut state) = self.0.begin(&file) else { return };
        let image: Option<Arc<dyn Source>> = match FileSource::from_file(image, self.0.source.path()) {
            Ok(image) => Some(Arc::new(image)),
            Err(_) => None,
        };
        for entry in state.saved() {
            entry.places.replace(&range, |at| match &image {
                Some(image) => BytePlace::Copy(image.clone(), at.saturating_add(shift)),
                None => BytePlace::Lost,
            });
        }
        state.image = image;
    }

    fn image_written(&mut self, file: Identity, shift: u64, written: Moved) {
        let Some(mut state) = self.0.begin(&file) else { return };
        let Some(image) = state.image.take() else { return };
        let new = |at: u64| match written {
            Moved::Yes => BytePlace::File(at),
            Moved::No => BytePlace::File(at.saturating_sub(shift)),
            Moved::Unknown => BytePlace::Copy(image.clone(), at),
        };
        state.generations.values_mut().for_each(|entry| entry.places.replace_copy(&image, new));
    }
}

impl GenerationSource {
    /// Returns the open file.
    pub(crate) fn bytes(&self) -> &Arc<FileBytes> {
        &self.bytes
    }

    /// Records the container that was parsed from this source.
    pub(crate) fn note_parsed(&self, container: &Arc<dyn Container>) {
        if let Some(entry) = self.bytes.change().generations.get_mut(&self.id) {
            entry.parsed = Some(Arc::downgrade(container));
        }
    }

    /// True if no other program has changed the file since the snapshot, or if the file has only grown.
    pub(crate) fn is_whole(&self) -> bool {
        let (is_saved, expected) = {
            let state = self.bytes.read();
            let Some(entry) = state.generations.get(&self.id) else { return false };
            (state.saving, entry.version)
        };
        let now = || self.bytes.source.stat().map(|stat| stat.version);
        is_saved || now().is_ok_and(|now| now == expected) || self.goes_on(expected)
    }

    /// True if the file changed a moment ago, and may change again soon.
    pub(crate) fn is_live(&self) -> bool {
        !self.bytes.source.stat().is_ok_and(|now| is_at_rest(&now))
    }

    /// True unless a save has overwritten bytes of this generation without a copy.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.bytes.read();
        state.generations.get(&self.id).is_some_and(|entry| !entry.places.has_lost(entry.size))
    }

    /// True if the file, whose version is no longer `expected`, has only grown. All bytes that were read from
    /// this source are then still right. If a program has rewritten the file, some bytes of the container are
    /// gone, and the result is false.
    fn goes_on(&self, expected: SourceVersion) -> bool {
        let file = &self.bytes.source;
        let Ok(now) = file.stat() else { return false };
        // The container of a younger generation of the same version can be asked, too: after a save by this
        // mount, only that one has the text that is now in the file. An older generation can't be asked: it
        // does not know the bytes that were appended before this generation.
        let at_it: Vec<_> = {
            let state = self.bytes.read();
            let entries = state.generations.iter();
            let younger = entries.filter(|(id, entry)| **id >= self.id && entry.version == expected);
            younger.filter_map(|(id, entry)| Some((*id, entry.parsed.as_ref()?.upgrade()?))).collect()
        };
        let knowing = at_it.iter().filter(|(_, parsed)| parsed.still_has(file)).map(|(id, _)| *id).max();
        let Some(knowing) = knowing else { return false };
        let mut state = self.bytes.change();
        let entries = state.generations.iter_mut();
        let older = entries.filter(|(id, entry)| **id <= knowing && entry.version == expected);
        older.for_each(|(_, entry)| entry.version = now.version);
        true
    }
}

impl Drop for GenerationSource {
    fn drop(&mut self) {
        let dropped = self.bytes.change().generations.remove(&self.id);
        drop(dropped); // closes copies, without the lock
    }
}

impl Source for GenerationSource {
    fn path(&self) -> &Path {
        self.bytes.source.path()
    }

    /// Returns the stat as of the snapshot.
    fn stat(&self) -> Result<SourceStat> {
        Ok(self.stat)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.stat.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let state = self.bytes.read();
        let Some(entry) = state.generations.get(&self.id) else { return Err(rewritten()) };
        let (mut done, mut of_the_file) = (0, false);
        while done < wanted {
            let (place, len) = entry.places.at(offset + done as u64);
            let len = (wanted - done).min(usize::try_from(len).unwrap_or(usize::MAX));
            let part = &mut buf[done..done + len];
            let read = match place {
                BytePlace::File(at) => {
                    of_the_file = true;
                    self.bytes.source.read_at(at, part)
                }
                BytePlace::Copy(source, at) => source.read_at(at, part),
                BytePlace::Lost => Err(rewritten()),
            };
            match read {
                Ok(0) => return Err(rewritten()),
                Ok(read) => done += read,
                // The bytes read so far are right; the next read returns the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        let expected = entry.version;
        let is_checked = of_the_file && !state.saving && entry.parsed.is_some();
        let is_changed = is_checked && self.bytes.source.stat()?.version != expected;
        drop(state);
        if is_changed && !self.goes_on(expected) { Err(rewritten()) } else { Ok(done) }
    }

    fn lend(&self, offset: u64, len: usize) -> Option<Lent<'_>> {
        let state = self.bytes.read();
        let entry = state.generations.get(&self.id)?;
        let (BytePlace::File(at), there) = entry.places.at(offset) else { return None };
        let end = offset.checked_add(len as u64)?;
        if state.saving || there < len as u64 || end > self.stat.size {
            return None;
        }
        let now = self.bytes.source.stat().ok()?;
        if now.version != entry.version || !is_at_rest(&now) {
            return None;
        }
        Some(self.bytes.source.lend(at, len)?.holding(state))
    }

    fn is_slow(&self) -> bool {
        self.bytes.source.is_slow()
    }

    fn provenance(&self) -> Provenance {
        self.bytes.source.provenance()
    }

    fn surroundings(&self) -> Option<&Arc<dyn Surroundings>> {
        self.bytes.source.surroundings()
    }

    fn will_need(&self, offset: u64, len: u64) {
        let place = self.bytes.read().generations.get(&self.id).map(|entry| entry.places.at(offset));
        if let Some((BytePlace::File(at), there)) = place {
            self.bytes.source.will_need(at, len.min(there));
        }
    }
}

/// True if the last change was at least [`AT_REST`] ago.
fn is_at_rest(stat: &SourceStat) -> bool {
    let (seconds, nanoseconds) = stat.mtime;
    let Ok(seconds) = u64::try_from(seconds) else { return true };
    let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    SystemTime::now().duration_since(changed).is_ok_and(|since| since >= AT_REST)
}
