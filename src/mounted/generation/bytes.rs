//! The bytes of an open file, in each of its generations.
//!
//! [`FileBytes`] is one open file. It knows the current positions of the bytes of each of its generations. A
//! reader holds its lock for one read. A save holds the lock while it records new positions, and while it
//! moves bytes. A thread that holds it takes no other lock but that of the counted writes.
//!
//! A change by another program shows in the file's version, which is compared *after* each read. A generation
//! whose version is no longer that of the file can't read the file, unless the file has only grown
//! ([`Container::still_has`]), or has only lost its name: size and time are the same, and no program has written to the
//! file, as far as writes are counted ([`Source::writes`]).
//!
//! Each generation has a version of its own: a save moves only the generations that were current when it began, and
//! notes the version of the file after each of its own writes. Another program's change during a save is therefore
//! detected. While the save is writing, only the save can detect it; it then declares the bytes of these generations
//! lost.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};

use asdf_access::local::location::Location;
use asdf_file::container::Container;
use seekable::error::{Error, Kind, Result};
use seekable::source::{
    FileSource, Identity, Lent, MemorySource, Moved, Readers, Source, SourceStat, SourceVersion, read_range,
    read_up_to,
};
use seekable::sync::{Guard, Rank};
use seekable::user_dirs;

use super::Usage;
use super::places::{BytePlace, BytePlaces};

/// Maximum size of a copy that is held in memory, in bytes. A larger copy goes to an unnamed file.
const IN_MEMORY: u64 = 1 << 20;
/// Time for which a file must not have changed before its bytes are lent to the kernel: its version is
/// compared before the kernel copies lent bytes, not after.
const AT_REST: Duration = Duration::from_secs(2);

/// Maximum number of attempts to compare a file that other programs keep changing.
const ATTEMPTS: usize = 8;
/// Pause before a file's name is looked up again.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum time that a rename takes to show after the file's ctime has changed, in general and during a save. On a
/// loaded machine the renaming process may have to wait in between.
const RENAMING: Duration = Duration::from_millis(500);
const SAVING: Duration = Duration::from_secs(2);

/// The state of [`FileBytes`], locked for writing.
type Changing<'a> = Guard<RwLockWriteGuard<'a, BytesState>>;

/// An open file, and the positions of the bytes of its generations.
#[derive(Debug)]
pub(crate) struct FileBytes {
    source: Arc<dyn Source>,
    /// Location that the file was opened by.
    location: Location,
    /// True from the begin of a save of this mount until its end, whether or not it changes this file.
    is_saving: AtomicBool,
    state: RwLock<BytesState>,
}

#[derive(Debug, Default)]
struct BytesState {
    /// True from the first announcement of a save until the save ends.
    saving: bool,
    /// True while the save writes to the file: its version changes then.
    writing: bool,
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
    /// The file's count of writes at that version.
    writes: Option<u64>,
    size: u64,
    places: BytePlaces,
    usage: Arc<Usage>,
    /// Container of the generation, which can tell whether the file has only grown.
    parsed: Option<Weak<dyn Container>>,
    /// True if the generation's bytes were in the file when the current save began, and no other program has
    /// changed the file since.
    in_save: bool,
}

/// The source of a generation: the file's size and bytes as of the snapshot.
#[derive(Debug)]
pub(crate) struct GenerationSource {
    bytes: Arc<FileBytes>,
    id: u64,
    stat: SourceStat,
}

/// The bytes of a generation at their current places, without a check for changes by other programs. The size
/// is that of the file now.
#[derive(Debug)]
struct UncheckedBytes {
    bytes: Arc<FileBytes>,
    id: u64,
}

/// The result of reading bytes from their current places.
#[derive(Clone, Copy, Debug, Default)]
struct ReadPlaces {
    /// Number of bytes read.
    len: usize,
    /// True if some of them are in the file.
    of_the_file: bool,
    /// True if the file ends before the buffer is full.
    is_cut: bool,
}

/// Returns the error for bytes that another program has changed.
pub(crate) fn rewritten() -> Error {
    Error::new(Kind::Changed, "another program rewrote the file: open it again")
}

impl FileBytes {
    /// Creates the state for a file opened at `location`, without generations.
    pub(crate) fn new(source: Arc<dyn Source>, location: Location) -> Arc<Self> {
        Arc::new(Self { source, location, is_saving: AtomicBool::new(false), state: RwLock::default() })
    }

    /// True if this is the same file as the one with that version, regardless of changes.
    pub(crate) fn is(&self, version: &SourceVersion) -> bool {
        self.source.stat().is_ok_and(|stat| stat.version.same_file(version))
    }

    /// Creates a generation of the file as it is now.
    pub(crate) fn generation(self: &Arc<Self>, usage: Arc<Usage>) -> Result<Arc<GenerationSource>> {
        let mut state = self.change();
        // In this order: a write in between is one that is seen later.
        let writes = self.source.writes();
        let stat = self.source.stat()?;
        let id = state.next;
        state.next += 1;
        let version = stat.version;
        let size = stat.size;
        let places = BytePlaces::default();
        let entry = GenerationPlaces { version, writes, size, places, usage, parsed: None, in_save: false };
        state.generations.insert(id, entry);
        drop(state);
        Ok(Arc::new(GenerationSource { bytes: self.clone(), id, stat }))
    }

    fn read(&self) -> Guard<RwLockReadGuard<'_, BytesState>> {
        Guard::ranked(Rank::FileBytes, || self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self) -> Changing<'_> {
        Guard::ranked(Rank::FileBytes, || self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn version(&self) -> Result<SourceVersion> {
        Ok(self.source.stat()?.version)
    }

    /// Locks the state for an announcement of a save; the first announcement begins the save. Generations that
    /// another program has changed since leave the save. Returns `None` if the save changes another file.
    fn begin<'a>(self: &'a Arc<Self>, file: &Identity) -> Option<Changing<'a>> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            attempts.next();
            let before = self.version().ok()?;
            let grown = self.grown(&before);
            let is_renamed = self.was_renamed(&before);
            let mut state = self.change();
            let writes = self.source.writes();
            let now = self.version().ok()?;
            if !now.same_file(&(*file).into()) {
                return None;
            }
            if now != before && !attempts.is_empty() {
                continue;
            }
            let is_first = !std::mem::replace(&mut state.saving, true);
            for (id, entry) in &mut state.generations {
                if grown.contains(id) || is_renamed && entry.is_unwritten(now, writes) {
                    entry.note_version(now, writes);
                }
                entry.in_save = (is_first || entry.in_save) && entry.version == now;
            }
            return Some(state);
        }
    }

    /// True if another program has replaced the file since a generation of the save was last compared: the file has
    /// lost its name, and all its bytes are still there.
    fn was_renamed(&self, now: &SourceVersion) -> bool {
        let has_other_ctime = {
            let state = self.read();
            let mut entries = state.generations.values().filter(|entry| entry.in_save || !state.saving);
            entries.any(|entry| now.differs_only_in_ctime(&entry.version))
        };
        has_other_ctime && self.has_lost_its_name()
    }

    /// Returns the generations with another version than `now` whose bytes are all still in the file, because
    /// the file has only grown.
    fn grown(self: &Arc<Self>, now: &SourceVersion) -> Vec<u64> {
        let older: Vec<_> = {
            let state = self.read();
            let older = state.generations.iter().filter(|(_, entry)| entry.version != *now);
            older.filter_map(|(id, entry)| Some((*id, entry.parsed.as_ref()?.upgrade()?))).collect()
        };
        // The containers are dropped after the lock was released, because dropping one may close a file.
        older.iter().filter(|(id, parsed)| self.still_has(*id, parsed)).map(|(id, _)| *id).collect()
    }

    /// True if the file has all bytes of a generation, because it has only grown.
    fn still_has(self: &Arc<Self>, id: u64, parsed: &Arc<dyn Container>) -> bool {
        let unchecked: Arc<dyn Source> = Arc::new(UncheckedBytes { bytes: self.clone(), id });
        parsed.still_has(&unchecked)
    }

    /// True if the file no longer has the name that it was opened by.
    fn has_lost_its_name(&self) -> bool {
        let begun = Instant::now();
        loop {
            let own = match (self.location.stat(), self.source.stat()) {
                (Ok(named), Ok(own)) if named.source.version.same_file(&own.version) => own,
                (Ok(_), _) => return true,
                (Err(error), _) => return self.location.is_gone(&error),
            };
            // The system changes the file's ctime shortly before a rename shows. A save of this mount may be about to
            // give the name to another file.
            let patience = if self.is_saving.load(Ordering::Relaxed) { SAVING } else { RENAMING };
            if begun.elapsed() >= patience || own.is_unchanged_for(patience) {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
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

    /// Reads bytes of a generation from their current places.
    fn read_places(
        &self,
        entry: &GenerationPlaces,
        extent: Range<u64>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<ReadPlaces> {
        let mut found = ReadPlaces::default();
        while found.len < buf.len() {
            let here = offset.saturating_add(found.len as u64);
            let (place, len) = entry.places.at(here);
            let len = (buf.len() - found.len).min(usize::try_from(len).unwrap_or(usize::MAX));
            let part = &mut buf[found.len..][..len];
            let read = match place {
                BytePlace::File(at) => {
                    found.of_the_file = true;
                    let end = at.saturating_add(extent.end.saturating_sub(here));
                    self.source.read_within(at..end, at, part)
                }
                BytePlace::Copy(source, at) => source.read_at(at, part),
                BytePlace::Lost => Err(rewritten()),
            };
            match read {
                Ok(0) => {
                    found.is_cut = true;
                    break;
                }
                Ok(read) => found.len += read,
                // The bytes read so far are right; the next read returns the error.
                Err(_) if found.len > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(found)
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

    /// Notes the version of the file after a write by the save.
    fn note_version(&mut self, source: &Arc<dyn Source>) {
        let writes = source.writes();
        let Ok(now) = source.stat() else { return };
        for entry in self.saved() {
            entry.note_version(now.version, writes);
        }
    }

    /// True if the file must have the version of this generation.
    fn is_compared(&self, entry: &GenerationPlaces) -> bool {
        !(self.writing && entry.in_save)
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
            for range in ranges {
                entry.places.replace(range, |_| BytePlace::Lost);
            }
        }
    }
}

impl GenerationPlaces {
    /// True if a save has to copy the bytes of this generation.
    fn is_kept(&self, is_small: bool) -> bool {
        self.in_save && (is_small || self.usage.is_held())
    }

    /// True if only names, owner or mode have changed since the version of this generation: the file has the version
    /// `now`, and this count of writes.
    fn is_unwritten(&self, now: SourceVersion, writes: Option<u64>) -> bool {
        now.differs_only_in_ctime(&self.version) && writes == self.writes
    }

    fn note_version(&mut self, version: SourceVersion, writes: Option<u64>) {
        self.version = version;
        self.writes = writes;
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
        let mut copied = Vec::new();
        let mut copy = None;
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
        state.note_version(&self.0.source);
        let new = |at: u64| match moved {
            Moved::Yes => BytePlace::File(at.saturating_add_signed(shift)),
            Moved::No => BytePlace::File(at),
            Moved::Unknown => BytePlace::Lost,
        };
        for entry in state.saved() {
            entry.places.replace(&(from..u64::MAX), new);
        }
    }

    fn write(&mut self, file: Identity, write: &mut dyn FnMut() -> bool) {
        let Some(mut state) = self.0.begin(&file) else {
            write();
            return;
        };
        // The bytes of an image are read meanwhile, for the write may be long.
        let is_own = if state.image.is_some() {
            state.writing = true;
            drop(state);
            let is_own = write();
            state = self.0.change();
            state.writing = false;
            is_own
        } else {
            write()
        };
        // Otherwise the version is no longer that of any generation, so reads fail.
        if is_own {
            state.note_version(&self.0.source);
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
        for entry in state.generations.values_mut() {
            entry.places.replace_copy(&image, new);
        }
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

    /// Begins a save of the file with this generation.
    pub(crate) fn begin_save(&self) {
        self.bytes.is_saving.store(true, Ordering::Relaxed);
    }

    /// Ends a save that began with this generation. `from` is the version of the file that the save was made
    /// for, and `saved` the version in which the save left the file. Returns the version that the save's own
    /// changes gave the file; `None` if there are none, or if another program has changed the file since the
    /// snapshot.
    pub(crate) fn end_save(
        &self,
        from: Option<SourceVersion>,
        saved: Option<SourceVersion>,
    ) -> Option<SourceVersion> {
        let is_remote = self.is_slow();
        self.bytes.is_saving.store(false, Ordering::Relaxed);
        let mut state = self.bytes.change();
        let is_announced = std::mem::take(&mut state.saving);
        (state.writing, state.image) = (false, None);
        let own = state.generations.get(&self.id)?;
        // If the save has given the name to another file, a reader may already have noted that the old file has
        // lost it.
        let is_replaced = saved.is_some_and(|saved| !saved.same_file(&own.version));
        let is_from = |from: SourceVersion| {
            from == own.version || is_replaced && own.version.differs_only_in_ctime(&from)
        };
        let is_own = if is_announced { own.in_save } else { from.is_some_and(is_from) };
        for entry in state.saved() {
            entry.in_save = false;
            // On a server, the times of a file may still change after the last write.
            if let Some(saved) = saved.filter(|saved| is_remote && saved.same_file(&entry.version)) {
                entry.version = saved;
            }
        }
        is_own.then(|| state.generations.get(&self.id).map(|own| own.version)).flatten()
    }

    /// True if no other program has changed the file since the snapshot, or if the file has only grown.
    pub(crate) fn is_whole(&self) -> bool {
        self.compare().is_none_or(|expected| self.goes_on(expected))
    }

    /// Compares the file's version with that of this generation. Returns the latter if they differ.
    fn compare(&self) -> Option<SourceVersion> {
        let state = self.bytes.read();
        let entry = state.generations.get(&self.id)?;
        if !state.is_compared(entry) || self.bytes.version().is_ok_and(|now| now == entry.version) {
            return None;
        }
        Some(entry.version)
    }

    /// True if the file changed a moment ago, and may change again soon.
    pub(crate) fn is_live(&self) -> bool {
        !self.bytes.source.stat().is_ok_and(|now| now.is_unchanged_for(AT_REST))
    }

    /// True unless a save has overwritten bytes of this generation without a copy.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.bytes.read();
        state.generations.get(&self.id).is_some_and(|entry| !entry.places.has_lost(entry.size))
    }

    /// Fails if the file was changed before a read that has just ended. `state` was locked during the read.
    fn check_after_read(
        &self,
        state: Guard<RwLockReadGuard<'_, BytesState>>,
        is_of_the_file: bool,
    ) -> Result<()> {
        let Some(entry) = state.generations.get(&self.id) else { return Err(rewritten()) };
        let expected = entry.version;
        let is_checked = is_of_the_file && entry.parsed.is_some() && state.is_compared(entry);
        let is_changed = is_checked && self.bytes.version()? != expected;
        drop(state);
        if is_changed && !self.goes_on(expected) { Err(rewritten()) } else { Ok(()) }
    }

    /// True if the file, whose version is no longer `expected`, has only grown, or has only lost its name. All
    /// bytes that were read from this source are then still right. If a program has rewritten the file, some
    /// bytes of the container are gone, and the result is false.
    fn goes_on(&self, expected: SourceVersion) -> bool {
        let bytes = &self.bytes;
        let writes = bytes.source.writes();
        let Ok(now) = bytes.version() else { return false };
        let is_unwritten = {
            let state = bytes.read();
            state.generations.get(&self.id).is_some_and(|entry| entry.is_unwritten(now, writes))
        };
        let knowing = if is_unwritten && bytes.has_lost_its_name() {
            Some(u64::MAX)
        } else {
            // The container of a younger generation of the same version can be asked, too: after a save by this
            // mount, only that one has the text that is now in the file. An older generation can't be asked: it
            // does not know the bytes that were appended before this generation.
            let at_it: Vec<_> = {
                let state = bytes.read();
                let entries = state.generations.iter();
                let younger = entries.filter(|(id, entry)| **id >= self.id && entry.version == expected);
                younger.filter_map(|(id, entry)| Some((*id, entry.parsed.as_ref()?.upgrade()?))).collect()
            };
            at_it.iter().filter(|(id, parsed)| bytes.still_has(*id, parsed)).map(|(id, _)| *id).max()
        };
        let Some(knowing) = knowing else {
            // A save, or another thread, may have noted the version meanwhile.
            return self.compare().is_none();
        };
        let mut state = bytes.change();
        let entries = state.generations.iter_mut();
        let older = entries.filter(|(id, entry)| **id <= knowing && entry.version == expected);
        for (_, entry) in older {
            entry.note_version(now, writes);
        }
        true
    }
}

impl Source for UncheckedBytes {
    fn path(&self) -> &Path {
        self.bytes.source.path()
    }

    fn stat(&self) -> Result<SourceStat> {
        self.bytes.source.stat()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let state = self.bytes.read();
        let entry = state.generations.get(&self.id).ok_or_else(rewritten)?;
        Ok(self.bytes.read_places(entry, 0..u64::MAX, offset, buf)?.len)
    }

    fn is_slow(&self) -> bool {
        self.bytes.source.is_slow()
    }
}

impl Drop for GenerationSource {
    fn drop(&mut self) {
        let dropped = self.bytes.change().generations.remove(&self.id);
        drop(dropped); // closes copies, without the lock
    }
}

impl Source for GenerationSource {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.bytes.source)
    }

    /// Returns the stat as of the snapshot.
    fn stat(&self) -> Result<SourceStat> {
        Ok(self.stat)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_within(0..u64::MAX, offset, buf)
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.stat.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let state = self.bytes.read();
        let Some(entry) = state.generations.get(&self.id) else { return Err(rewritten()) };
        let found = self.bytes.read_places(entry, extent, offset, &mut buf[..wanted])?;
        if found.is_cut {
            return Err(rewritten());
        }
        self.check_after_read(state, found.of_the_file)?;
        Ok(found.len)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        let state = self.bytes.read();
        let Some(entry) = state.generations.get(&self.id) else { return Err(rewritten()) };
        let is_in_place = |range: &Range<u64>| {
            let (place, there) = entry.places.at(range.start);
            matches!(place, BytePlace::File(at) if at == range.start)
                && there >= range.end.saturating_sub(range.start)
        };
        if !self.is_slow() || !ranges.iter().all(is_in_place) {
            drop(state);
            return ranges.iter().map(|range| read_range(self, range)).collect();
        }
        let bytes = self.bytes.source.read_ranges(ranges)?;
        self.check_after_read(state, true)?;
        Ok(bytes)
    }

    fn next_data(&self, offset: u64) -> Option<Range<u64>> {
        let state = self.bytes.read();
        let entry = state.generations.get(&self.id)?;
        let (BytePlace::File(at), there) = entry.places.at(offset) else { return None };
        let data = self.bytes.source.next_data(at)?;
        let here =
            |place: u64| offset.saturating_add(place.saturating_sub(at).min(there)).min(self.stat.size);
        Some(here(data.start)..here(data.end))
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
        if now.version != entry.version || !now.is_unchanged_for(AT_REST) {
            return None;
        }
        Some(self.bytes.source.lend(at, len)?.holding(state))
    }

    fn will_need(&self, offset: u64, len: u64) {
        let place = self.bytes.read().generations.get(&self.id).map(|entry| entry.places.at(offset));
        if let Some((BytePlace::File(at), there)) = place {
            self.bytes.source.will_need(at, len.min(there));
        }
    }
}

#[cfg(test)]
mod tests;
