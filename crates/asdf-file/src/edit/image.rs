//! The image: a new file that takes the source's place, or from which the source is rewritten.
//!
//! Each image has a name of its own beside the source, which names its saver. So no save can take the image of another
//! one for its own, and what a crash leaves behind is known as such.
//!
//! Before it swaps its name with the source, a complete image gets the name of a swapped file: the file that has this name
//! after a crash may be the image, the source, or a third file that had taken the source's name.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::SystemTime;

use seekable::source::Identity;
use seekable::source::storage::Storage;

use super::journal::is_absent;
use super::saver::Saver;
use super::sidecar::{Sidecars, is_journal, with};

/// The middle of the name of an unfinished image, before the saver.
const NEW: &str = ".asdf-mount-new-";
/// The middle of the name of a complete file that swaps its name with the source, before the saver.
const SWAPPED: &str = ".asdf-mount-swap-";
/// The number of names that are tried for a new image.
const ATTEMPTS: usize = 8;

/// The temporary name of a new file.
#[derive(Debug)]
pub(super) struct Image<S: Storage> {
    /// The directory, and the start of the names in it.
    pub(super) place: Sidecars<S>,
    /// The name.
    pub(super) name: OsString,
    /// The number in the name.
    pub(super) number: u32,
    /// The file that was created under the name, and which the save has open. `None` on a server, where the inode number
    /// of a file may change.
    created: Option<Identity>,
}

impl<S: Storage> Image<S> {
    /// Creates an empty image.
    pub(super) fn create(storage: &S, place: Sidecars<S>) -> io::Result<(Self, S::File)> {
        let mut tried = 0;
        loop {
            let (name, number) = new_name(&place.stem);
            match storage.create(&place.dir, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < ATTEMPTS => tried += 1,
                Err(error) => return Err(error),
                Ok(file) if storage.is_remote(&file) => {
                    return Ok((Self { place, name, number, created: None }, file));
                }
                Ok(file) => {
                    let meta = storage.meta(&file).inspect_err(|_| {
                        let _ = storage.unlink(&place.dir, &name);
                    })?;
                    return Ok((Self { place, name, number, created: Some(meta.identity) }, file));
                }
            }
        }
    }

    /// True if the name leads to the image, and not to what another program has put there.
    pub(super) fn is_named(&self, storage: &S) -> io::Result<bool> {
        let named = storage.meta_at(&self.place.dir, &self.name)?.identity;
        Ok(self.created.is_none_or(|created| created.same_file(&named)))
    }

    /// Gives the complete image the name of a swapped file.
    pub(super) fn complete(&mut self, storage: &S) -> io::Result<()> {
        let name = with(&self.place.stem, &word(SWAPPED, Saver::this(), self.number));
        storage.rename(&self.place.dir, &self.name, &name)?;
        self.name = name;
        Ok(())
    }
}

/// Returns an unused name for an image of a source with this stem, and the random number in it.
fn new_name(stem: &OsStr) -> (OsString, u32) {
    let number = random();
    (name(stem, Saver::this(), number), number)
}

/// Returns an unused name for the source while another file takes its name.
pub(super) fn name_of_replaced(stem: &OsStr) -> OsString {
    with(stem, &word(SWAPPED, Saver::this(), random()))
}

fn random() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // A forked process has the same random state.
    RandomState::new().hash_one((std::process::id(), now)) as u32
}

/// Returns the name of an image.
pub(super) fn name(stem: &OsStr, saver: Saver, number: u32) -> OsString {
    with(stem, &word(NEW, saver, number))
}

fn word(kind: &str, saver: Saver, number: u32) -> String {
    format!("{kind}{}-{number:08x}", saver.to_word())
}

/// A file that a save has left behind.
#[derive(Debug)]
pub(super) struct Leftover {
    /// Its name.
    pub(super) name: OsString,
    /// Its saver.
    pub(super) saver: Saver,
    /// True if it may be another file than the image.
    pub(super) is_swapped: bool,
}

/// Returns the images of saves that are in progress or were interrupted. None if this user may not list the directory.
pub(super) fn leftovers<S: Storage>(storage: &S, place: &Sidecars<S>) -> io::Result<Vec<Leftover>> {
    let start = with(&place.stem, ".asdf-mount-");
    match storage.names(&place.dir, &start) {
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        names => Ok(names?.into_iter().filter_map(leftover).collect()),
    }
}

fn leftover(name: OsString) -> Option<Leftover> {
    let text = name.to_str()?;
    let new = text.rsplit_once(NEW).map(|(_, rest)| (rest, false));
    let (rest, is_swapped) = new.or_else(|| text.rsplit_once(SWAPPED).map(|(_, rest)| (rest, true)))?;
    let (saver, number) = rest.rsplit_once('-')?;
    u32::from_str_radix(number, 16).ok()?;
    let saver = Saver::from_word(saver)?;
    Some(Leftover { name, saver, is_swapped })
}

/// True if `name` is the name of an image or of a journal, in use or set aside.
pub fn is_sidecar(name: &OsStr) -> bool {
    is_journal(name) || name.as_encoded_bytes().starts_with(b".") && leftover(name.to_owned()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_has_a_name_of_its_own_which_names_its_saver() {
        let stem = OsStr::new(".a.asdf");
        let (one, _) = new_name(stem);
        let (other, _) = new_name(stem);
        assert_ne!(one, other);
        for (name, is_swapped) in [(one, false), (name_of_replaced(stem), true)] {
            assert!(name.to_str().unwrap().starts_with(".a.asdf.asdf-mount-"), "{name:?}");
            let known = leftover(name).unwrap();
            assert_eq!((known.saver, known.is_swapped), (Saver::this(), is_swapped));
        }
        for wrong in
            [".a.asdf.asdf-mount-new", ".a.asdf.asdf-mount-new-", "a.asdf", ".a.asdf.asdf-mount-new-x-y"]
        {
            assert!(!is_sidecar(OsStr::new(wrong)), "{wrong}");
        }
    }
}
