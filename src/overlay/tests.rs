//! Tests of an overlay without a mount, on a real ASDF file.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use asdf_access::local::location::Location;
use asdf_access::local::path::link::LinkPolicy;
use asdf_access::local::path::{LocalPath, OpenedDirectory};
use asdf_file::container::Context;
use asdf_file::edit::recovery::RecoveryPolicy;
use asdf_file::edit::refusal::Refusal;
use seekable::cache::Cache;
use seekable::error::Kind;

use super::*;
use crate::overlay::lazy::LazyOverlay;
use crate::overlay::naming::{Maker, Renaming};
use crate::overlay::write_handle::{Caller, OpenFor, WriteHandle};

const OLD: &str = "Sample Galaxy";
const MAKER: Maker = Maker { uid: 0, gid: 0, mode: 0o644 };
const WRITING: OpenFor = OpenFor { writing: true, appending: false, truncating: true, only_new: false };

/// Functions that run before and after each save, for another program to act.
pub(super) struct Interruption {
    pub(super) before: Box<dyn FnMut() + Send>,
    pub(super) after: Box<dyn FnMut() + Send>,
}

impl std::fmt::Debug for Interruption {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Interruption").finish_non_exhaustive()
    }
}

impl Overlay {
    /// Runs one of the functions of the interruption, if a test has set one.
    pub(super) fn interrupt(&self, function: fn(&mut Interruption) -> &mut Box<dyn FnMut() + Send>) {
        if let Some(interruption) = &mut *self.interruption.lock().unwrap() {
            function(interruption)();
        }
    }
}

/// The overlay of a copy of `examples/sample.asdf`.
struct Test {
    overlay: Arc<Overlay>,
    source: PathBuf,
    text: String,
    _folder: tempfile::TempDir,
}

impl Test {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.asdf");
        std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sample.asdf"), &source).unwrap();
        let origin = OpenedDirectory::of_source(folder.path(), false).unwrap();
        let links = LinkPolicy::new(&origin, folder.path(), None, true).unwrap();
        let position =
            EntryPosition { location: Location::Local(LocalPath::new(&links, "a.asdf")), stalling: None };
        let edits = Arc::new(EditContext::default());
        let context = Context::new(Arc::new(Cache::new(0)));
        let open_files = OpenFiles::new(
            Arc::new(move |source| asdf_views::format::open(source, &context)),
            NonZeroUsize::MIN,
            RecoveryPolicy::Recover,
        );
        let shared = Arc::new(SharedByOverlays {
            state_dir: None,
            quota: Arc::new(Quota::new(100)),
            edits,
            serials: Arc::new(Serials::new()),
            open_files: Arc::new(open_files),
        });
        let overlay = LazyOverlay::default().overlay(&position, &shared).unwrap().unwrap();
        let saved = overlay.saved_text().unwrap();
        let mut text = vec![0; saved.len() as usize];
        seekable::content::read_exact_at(&*saved, 0, &mut text).unwrap();
        Self { overlay, source, text: String::from_utf8(text).unwrap(), _folder: folder }
    }

    fn named(&self, name: &str) -> String {
        self.text.replace(OLD, name)
    }

    fn opened(&self, name: &str, open: OpenFor) -> WriteHandle {
        self.overlay.create(top(name), MAKER, open, Caller::default()).unwrap()
    }

    /// Writes a file as programs do.
    fn write(&self, name: &str, text: &str) {
        let handle = self.opened(name, WRITING);
        handle.write(0, text.as_bytes(), false).unwrap();
        handle.flush(Caller::default()).unwrap();
        handle.release();
    }

    fn read(&self, name: &str) -> String {
        let handle = self.opened(name, OpenFor::default());
        let mut text = vec![0; 1 << 16];
        let read = handle.read(0, &mut text, false).unwrap();
        handle.release();
        text.truncate(read);
        String::from_utf8(text).unwrap()
    }

    /// True if the source has this text.
    fn is_saved(&self, text: &str) -> bool {
        std::fs::read(&self.source).unwrap().starts_with(text.as_bytes())
    }

    /// Runs `before` before each save of the file, and `after` after it.
    fn interrupt(&self, before: Box<dyn FnMut() + Send>, after: Box<dyn FnMut() + Send>) {
        *self.overlay.interruption.lock().unwrap() = Some(Interruption { before, after });
    }

    fn rename(&self, name: &str, new_name: &str) -> Result<()> {
        self.overlay.rename(top(name), &self.overlay, top(new_name), Renaming::Over)
    }
}

/// Returns a name in the directory of the mounted file.
fn top(name: &str) -> NewName<'_> {
    NewName { dir: None, name: OsStr::new(name) }
}

#[test]
fn a_text_written_during_a_save_is_not_taken_for_saved() {
    let test = Test::new();
    let handle = test.opened(TREE, WRITING);
    handle.write(0, test.named("second").as_bytes(), false).unwrap();
    let (begins, begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let pause = move || {
        begins.send(()).unwrap();
        goes_on.recv().unwrap();
    };
    test.interrupt(Box::new(pause), Box::new(|| {}));
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| handle.flush(Caller::default()));
        begun.recv().unwrap();
        handle.write(0, test.named("latest").as_bytes(), false).unwrap();
        go_on.send(()).unwrap();
        saving.join().unwrap().unwrap();
    });
    assert!(test.is_saved(&test.named("second")));
    assert_eq!(test.read(TREE), test.named("latest"));
    assert!(test.overlay.writing().draft);
    go_on.send(()).unwrap();
    handle.flush(Caller::default()).unwrap();
    handle.release();
    assert!(test.is_saved(&test.named("latest")));
    assert!(!test.overlay.writing().draft);
}

/// Returns the number that other programs' changes raise, after a save during which `change` ran.
fn raised_by(change: impl FnOnce(&std::path::Path), text: impl FnOnce(&Test) -> String) -> u64 {
    let test = Test::new();
    let before = test.overlay.newest().unwrap().1.outside_changes;
    let handle = test.opened(TREE, WRITING);
    handle.write(0, text(&test).as_bytes(), false).unwrap();
    let (begins, begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let pause = move || {
        begins.send(()).unwrap();
        goes_on.recv().unwrap();
    };
    test.interrupt(Box::new(pause), Box::new(|| {}));
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| handle.flush(Caller::default()));
        begun.recv().unwrap();
        change(&test.source);
        go_on.send(()).unwrap();
        let _ = saving.join().unwrap();
    });
    handle.release();
    test.overlay.newest().unwrap().1.outside_changes - before
}

#[test]
fn a_change_by_another_program_is_not_taken_for_the_saves_own() {
    use std::os::unix::fs::FileExt;
    // Changes the bytes of a block, in place.
    let change_data = |source: &std::path::Path| {
        let bytes = std::fs::read(source).unwrap();
        let block = memchr::memmem::find(&bytes, b"\xd3BLK").unwrap();
        let file = std::fs::File::options().write(true).open(source).unwrap();
        file.write_all_at(&[!bytes[block + 60]], block as u64 + 60).unwrap();
    };
    let replace = |source: &std::path::Path| {
        let new = source.with_extension("new");
        std::fs::copy(source, &new).unwrap();
        std::fs::rename(new, source).unwrap();
    };
    let nothing = |_: &std::path::Path| {};
    let short = |test: &Test| test.named("short");
    let long = |test: &Test| test.named(&"long".repeat(5000));
    let refused = |test: &Test| test.text.replace("...", "a: [\n...");
    assert_eq!([raised_by(nothing, short), raised_by(nothing, long), raised_by(nothing, refused)], [0; 3]);
    let changed =
        [raised_by(change_data, short), raised_by(change_data, long), raised_by(change_data, refused)];
    assert!(changed.iter().all(|raised| *raised > 0), "{changed:?}");
    assert!(raised_by(replace, short) > 0 || raised_by(replace, long) > 0);
}

#[test]
fn a_text_made_from_the_file_before_is_not_saved_into_the_one_that_replaced_it() {
    let test = Test::new();
    let handle = test.opened(TREE, WRITING);
    handle.write(0, test.named("second").as_bytes(), false).unwrap();
    let source = test.source.clone();
    let replace = move || {
        let bytes = String::from_utf8_lossy(&std::fs::read(&source).unwrap()).replace("second", "others");
        let new = source.with_extension("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, &source).unwrap();
    };
    test.interrupt(Box::new(|| {}), Box::new(replace));
    let _ = handle.flush(Caller::default());
    let replaced = std::fs::read(&test.source).unwrap();
    assert!(memchr::memmem::find(&replaced, b"others").is_some());
    handle.write(0, test.named("thirds").as_bytes(), false).unwrap();
    assert_eq!(handle.flush(Caller::default()).unwrap_err().errno(), libc::EBUSY);
    handle.release();
    assert_eq!(std::fs::read(&test.source).unwrap(), replaced);
}

#[test]
fn a_save_into_a_copy_that_has_just_replaced_the_file_spares_its_readers() {
    let test = Test::new();
    let (replaced, _old_reader) = test.overlay.newest().unwrap();
    let handle = test.opened(TREE, WRITING);
    handle.write(0, test.named("second").as_bytes(), false).unwrap();
    let overlay = test.overlay.clone();
    let (sends, readers) = mpsc::channel();
    let look = move || {
        let overlay = overlay.clone();
        let seen = std::thread::spawn(move || overlay.newest().unwrap()).join().unwrap();
        sends.send(seen).unwrap();
    };
    test.interrupt(Box::new(look), Box::new(|| {}));
    let copy = test.source.with_extension("copy");
    std::fs::copy(&test.source, &copy).unwrap();
    // The mount has just looked, so it notices the replacement only when the save begins.
    replaced.revalidate_now();
    std::fs::rename(copy, &test.source).unwrap();
    handle.flush(Caller::default()).unwrap();
    handle.release();
    let (mounted, reader) = readers.recv().unwrap();
    assert_ne!(mounted.serial, replaced.serial);
    assert!(!reader.is_stale() && test.is_saved(&test.named("second")));
    assert_eq!(test.overlay.mounted().unwrap().serial, mounted.serial);
}

#[test]
fn a_save_beside_a_replacement_is_refused_as_busy_and_never_as_stale() {
    let stale = |kind| Refusal::Failed(Error::new(kind, "it failed")).errno();
    assert_eq!([stale(Kind::Changed), stale(Kind::System(libc::ESTALE))], [libc::EBUSY; 2]);
    for is_there in [true, false] {
        let test = Test::new();
        let handle = test.opened(TREE, WRITING);
        handle.write(0, test.named("second").as_bytes(), false).unwrap();
        std::fs::remove_file(&test.source).unwrap();
        if is_there {
            std::fs::create_dir(&test.source).unwrap();
        }
        assert_eq!(handle.flush(Caller::default()).unwrap_err().errno(), libc::EBUSY, "{is_there}");
        handle.release();
    }
}

#[test]
fn a_tree_that_was_renamed_away_keeps_its_text_over_saves() {
    let test = Test::new();
    test.rename(TREE, "backup").unwrap();
    // The saved text again, which needs no save.
    test.write(TREE, &test.text);
    test.write(TREE, &test.named("second"));
    assert!(test.is_saved(&test.named("second")));
    assert_eq!(test.read("backup"), test.text);
}

#[test]
fn a_rename_of_one_name_of_a_file_onto_another_does_nothing() {
    let test = Test::new();
    test.write("one", "text");
    let file = test.overlay.lookup(top("one")).unwrap();
    test.overlay.link(&test.overlay, file, top("two"), 0).unwrap();
    test.rename("one", "two").unwrap();
    test.rename("two", "two").unwrap();
    assert_eq!((test.read("one"), test.read("two")), ("text".into(), "text".into()));
    test.rename(TREE, TREE).unwrap();
    assert_eq!(test.read(TREE), test.text);
}

#[test]
fn an_overlay_in_use_is_not_put_away_and_not_waited_for() {
    let test = Test::new();
    let put_away = || {
        let overlay = test.overlay.clone();
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || done.send(overlay.put_away(true)));
        is_done.recv_timeout(Duration::from_secs(20))
    };
    let editor = locked(&test.overlay.editor);
    assert_eq!(put_away(), Ok(false));
    drop(editor);
    let state = locked(&test.overlay.state);
    assert_eq!(put_away(), Ok(false));
    drop(state);
    assert_eq!(put_away(), Ok(true));
}

#[test]
fn a_user_can_save_beside_another_one_that_takes_all_he_can() {
    let test = Test::new();
    let maker = Maker { uid: 1, ..MAKER };
    let caller = |uid| Caller { uid, ..Caller::default() };
    let fill = |name: &str| test.overlay.create(top(name), maker, WRITING, caller(1));
    let made: Vec<_> = (0..100).map_while(|n| fill(&format!("f{n}")).ok()).collect();
    assert!((40..60).contains(&made.len()), "{}", made.len());
    assert_eq!(fill("more").unwrap_err().errno(), libc::ENOSPC);
    // Another user, and the first one himself.
    for (uid, name) in [(2, "two"), (1, "one")] {
        let text = test.named(name);
        let handle = test.overlay.create(top(TREE), MAKER, WRITING, caller(uid)).unwrap();
        handle.write(0, text.as_bytes(), false).unwrap();
        handle.flush(caller(uid)).unwrap();
        handle.release();
        assert!(test.is_saved(&text));
    }
    let handle = test.overlay.create(top("of two"), Maker { uid: 2, ..MAKER }, WRITING, caller(2));
    handle.unwrap().release();
}
