//! Root works in a directory of an ordinary user, who exchanges it, or the file in it, at each call of a save:
//! nothing outside of the directory is read or changed, and nothing waits for ever.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::faults::{Fault, Faults, calls};
use crate::killed::{WAYS, Way};
use crate::place::{OLD, Place, ours_in, write};
use common::mount::wait_until;

/// An ordinary user.
const USER: u32 = 65_533;

/// A file in a directory of an ordinary user, and a link beside it to a directory of root's.
struct Trap {
    place: Place,
    /// The paths of the user's file, and of a text to save in it.
    source: String,
    text: String,
    /// The bytes of both files in the beginning.
    before: Vec<u8>,
}

impl Trap {
    fn new(way: Way) -> Self {
        let mut place = way.place();
        if !way.grows {
            // Makes room for texts that fit.
            write(&place.mount(), &place.named(&"room ".repeat(200))).unwrap();
            write(&place.mount(), &place.text()).unwrap();
        }
        let before = fs::read(&place.source).unwrap();
        let disk = place.disk.path();
        for (name, owner, mode) in [("d", USER, 0o755), ("roots", 0, 0o700)] {
            fs::create_dir(disk.join(name)).unwrap();
            fs::write(disk.join(name).join("a.asdf"), &before).unwrap();
            if way.linked {
                fs::hard_link(disk.join(name).join("a.asdf"), disk.join(name).join("other name")).unwrap();
            }
            fs::set_permissions(disk.join(name), PermissionsExt::from_mode(mode)).unwrap();
            for path in [disk.join(name), disk.join(name).join("a.asdf")] {
                chown(path, Some(owner), Some(owner)).unwrap();
            }
        }
        symlink("roots", disk.join("link")).unwrap();
        place.source = disk.join("d/a.asdf");
        let source = place.source.to_str().unwrap().to_owned();
        let text = place.folder().join("text").to_str().unwrap().to_owned();
        fs::write(&text, way.next(&place, &place.text(), 1)).unwrap();
        Self { place, source, text, before }
    }

    /// Returns the arguments of a command that saves the text.
    fn set_tree(&self) -> [&str; 3] {
        ["--set-tree", &self.text, &self.source]
    }

    /// Puts the user's file back as it was, and saves the text in it.
    fn save(&self) {
        self.reset();
        assert!(self.place.run(self.set_tree()).status.success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.disk.path().join(name)
    }

    /// Swaps the user's directory and the link to root's.
    fn exchange(&self) {
        renameat_with(CWD, self.path("d"), CWD, self.path("link"), RenameFlags::EXCHANGE).unwrap();
    }

    /// Puts the user's file back as it was.
    fn reset(&self) {
        for name in ours_in(&self.path("d")) {
            fs::remove_file(self.path("d").join(name)).unwrap();
        }
        let source = self.path("d/a.asdf");
        fs::write(&source, &self.before).unwrap();
        chown(&source, Some(USER), Some(USER)).unwrap();
    }

    /// Asserts that root's directory is as it was.
    #[track_caller]
    fn is_unharmed(&self, step: &str) {
        let names = fs::read_dir(self.path("roots")).unwrap().map(|entry| entry.unwrap().file_name());
        let others = names.filter(|name| name != "a.asdf" && name != "other name").collect::<Vec<_>>();
        assert!(others.is_empty(), "{step}: {others:?}");
        let meta = fs::metadata(self.path("roots/a.asdf")).unwrap();
        assert_eq!(meta.uid(), 0, "{step}");
        assert!(fs::read(self.path("roots/a.asdf")).unwrap() == self.before, "{step}");
    }

    fn faults(&self) -> Faults {
        Faults::new(&self.place.folder(), &self.place.disk.path())
    }

    /// Starts a command of root's, and stops it before its call number `at` that changes the disk. False if
    /// it ends before; it must succeed then.
    fn stopped<S: AsRef<OsStr>>(&self, arguments: &[S], at: i32) -> Stopped {
        let faults = self.faults();
        let mut command = self.place.command(arguments);
        command.env("EDITOR", "sed -i s/first.light/edited/");
        Stopped::at_call(at, &faults, command)
    }
}

/// A command that was started, and stopped or has ended.
pub(crate) struct Stopped {
    pub(crate) child: Child,
    pub(crate) is_stopped: bool,
}

/// Returns the state letter of a process or thread.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until a process is stopped (true) or has ended.
fn waits(pid: u32) -> bool {
    let mut state = None;
    wait_until(|| {
        state = state_of(pid);
        matches!(state, None | Some('T' | 'Z'))
    });
    state == Some('T')
}

fn go_on(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::CONT).unwrap();
}

impl Stopped {
    /// Starts a command that stops at this call.
    pub(crate) fn at_call(at: i32, faults: &Faults, mut command: Command) -> Self {
        faults.after(at, Fault::Stopped);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        faults.under(&mut command);
        let child = command.spawn().unwrap();
        let is_stopped = waits(child.id());
        Self { child, is_stopped }
    }

    /// Lets the command go on; returns true if it succeeds, and what it says.
    #[track_caller]
    pub(crate) fn ends(mut self) -> (bool, String) {
        if self.is_stopped {
            go_on(self.child.id());
        }
        if !wait_until(|| self.child.try_wait().unwrap().is_some()) {
            let _ = self.child.kill();
            panic!("it waits for ever");
        }
        let output = self.child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A file that another program opens for writing and then begins to write.
enum Opening {
    Open(Option<File>),
    /// A save has a lease on the file, so the other program waits until it is done.
    Waits(JoinHandle<Option<File>>),
}

impl Opening {
    /// Opens the file and passes it to `begin`, which returns it if it stays open. Returns when that is done, or when
    /// the open waits.
    fn of(
        path: &Path,
        options: OpenOptions,
        begin: impl FnOnce(File) -> Option<File> + Send + 'static,
    ) -> Self {
        match options.clone().custom_flags(libc::O_NONBLOCK).open(path) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            opened => return Self::Open(begin(opened.unwrap())),
        }
        let path = path.to_owned();
        let (begun, is_begun) = mpsc::channel();
        let opening = std::thread::spawn(move || {
            begun.send(rustix::thread::gettid()).unwrap();
            begin(options.open(path).unwrap())
        });
        let thread = is_begun.recv().unwrap().as_raw_nonzero().get().cast_unsigned();
        assert!(wait_until(|| opening.is_finished() || state_of(thread) == Some('S')));
        Self::Waits(opening)
    }

    /// Waits until the other program has begun to write; returns the file if it is still open.
    fn ends(self) -> Option<File> {
        match self {
            Self::Open(file) => file,
            Self::Waits(opening) => opening.join().unwrap(),
        }
    }
}

#[test]
fn a_command_of_root_writes_to_no_directory_that_takes_the_place_of_the_users() {
    for way in
        WAYS.into_iter().filter(|way| !matches!(way.name, "clone-btrfs" | "rewrite-ext2" | "insert-1k"))
    {
        let trap = Trap::new(way);
        let source = trap.source.as_str();
        // Each command, and the state of the file before it.
        let untouched = || trap.reset();
        let saved = || trap.save();
        let half_saved = || {
            trap.reset();
            let faults = trap.faults();
            for at in calls() {
                faults.after(at, Fault::KilledBefore);
                let mut command = trap.place.command(trap.set_tree());
                faults.under(&mut command);
                if command.output().unwrap().status.success() {
                    // A plan without a journal.
                    break;
                }
                let names = ours_in(&trap.path("d"));
                let is_half = names.iter().any(|name| name.ends_with("journal"))
                    && fs::read(source).unwrap() != trap.before;
                if is_half {
                    break;
                }
                trap.reset();
            }
        };
        let commands: [(&[&str], &dyn Fn()); 4] = [
            (&trap.set_tree(), &untouched),
            (&["--edit", source], &untouched),
            (&["--undo", source], &saved),
            (&["--recover", source], &half_saved),
        ];
        for (command, prepare) in commands {
            let mut exchanges = 0;
            for at in calls() {
                prepare();
                let stopped = trap.stopped(command, at);
                if !stopped.is_stopped {
                    assert!(stopped.ends().0, "{way:?}, {command:?}: it fails undisturbed");
                    break;
                }
                trap.exchange();
                let said = stopped.ends();
                trap.is_unharmed(&format!("{way:?}, {command:?}, {at}: {said:?}"));
                trap.exchange();
                // The directory was held, so the command has worked in it.
                assert!(said.0, "{way:?}, {command:?}, {at}: {said:?}");
                assert_eq!(ours_in(&trap.path("d")), [""; 0], "{way:?}, {command:?}, {at}");
                assert_eq!(fs::metadata(source).unwrap().uid(), USER, "{way:?}, {command:?}, {at}");
                exchanges += 1;
            }
            assert!(exchanges > 2 || command[0] == "--recover", "{way:?}, {command:?}: {exchanges}");
        }
    }
}

#[test]
fn a_users_save_through_roots_mount_writes_to_no_directory_that_takes_the_place_of_her_own() {
    for way in WAYS.into_iter().filter(|way| matches!(way.name, "in-place" | "clone" | "insert" | "copy")) {
        let trap = Trap::new(way);
        let faults = trap.faults();
        let text = fs::read(&trap.text).unwrap();
        let mut exchanges = 0;
        for at in calls() {
            trap.reset();
            let mount = trap
                .place
                .try_mount_as(&trap.place.disk.path(), &["-o", "allow_other"], |command| {
                    faults.under(command)
                })
                .unwrap();
            let daemon = mount.daemon().unwrap();
            // The user may not be allowed to go through the directories above the mount.
            let mut writer = Command::new("setpriv")
                .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "dd"])
                .arg("of=d/a.asdf/tree.yaml")
                .current_dir(mount.root())
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            faults.after(at, Fault::Stopped);
            writer.stdin.take().unwrap().write_all(&text).unwrap();
            let mut ended = false;
            assert!(wait_until(|| {
                ended = writer.try_wait().unwrap().is_some();
                ended || state_of(daemon) == Some('T')
            }));
            if !ended {
                trap.exchange();
                go_on(daemon);
                assert!(
                    wait_until(|| writer.try_wait().unwrap().is_some()),
                    "{way:?}, {at}: it waits for ever"
                );
                trap.is_unharmed(&format!("{way:?}, {at}"));
                trap.exchange();
                exchanges += 1;
            }
            faults.none();
            mount.unmount();
            trap.is_unharmed(&format!("{way:?}, {at}, unmounted"));
            if ended {
                break;
            }
        }
        assert!(exchanges > 2, "{way:?}: {exchanges}");
    }
}

#[test]
fn a_pipe_in_the_place_of_the_file_holds_up_no_save() {
    for way in WAYS.into_iter().filter(|way| matches!(way.name, "in-place" | "insert" | "copy")) {
        let trap = Trap::new(way);
        let source = trap.source.as_str();
        for at in calls() {
            let _ = fs::remove_file(source);
            trap.reset();
            let stopped = trap.stopped(&trap.set_tree(), at);
            if !stopped.is_stopped {
                break;
            }
            fs::rename(source, trap.path("d/moved")).unwrap();
            common::disk::run("mkfifo", &[source]);
            let (succeeds, said) = stopped.ends();
            assert!(succeeds || !said.contains("invalid argument"), "{way:?}, {at}: {said}");
            fs::remove_file(source).unwrap();
        }
    }
}

/// The user exchanges the file for a pipe, for a link to root's file, or for another file.
#[test]
fn a_file_that_is_exchanged_for_another_harms_no_other() {
    let way = WAYS.into_iter().find(|way| way.name == "in-place").unwrap();
    let trap = Trap::new(way);
    let source = trap.source.as_str();
    let untouched = || trap.reset();
    let saved = || trap.save();
    let commands: [(&[&str], &dyn Fn()); 2] = [(&trap.set_tree(), &untouched), (&["--undo", source], &saved)];
    let exchanges: [(&str, &dyn Fn()); 3] = [
        ("pipe", &|| common::disk::run("mkfifo", &[source])),
        ("link", &|| symlink("../roots/a.asdf", source).unwrap()),
        ("file", &|| fs::write(source, &trap.before).unwrap()),
    ];
    for (command, prepare) in commands {
        for (name, exchange) in exchanges {
            let mut steps = 0;
            for at in calls() {
                let _ = fs::remove_file(source);
                prepare();
                let stopped = trap.stopped(command, at);
                if !stopped.is_stopped {
                    break;
                }
                fs::rename(source, trap.path("d/moved")).unwrap();
                exchange();
                let said = stopped.ends();
                trap.is_unharmed(&format!("{command:?}, {name}, {at}: {said:?}"));
                fs::remove_file(source).unwrap();
                steps += 1;
            }
            assert!(steps > 2, "{command:?}, {name}: {steps}");
        }
    }
}

/// How another program writes the file.
#[derive(Clone, Copy, Debug)]
enum Writes {
    /// It truncates the file and writes it, as `cp` does, and closes it before the save goes on.
    AtOnce,
    /// It truncates the file and writes the first half; the rest is written after the save.
    InHalves,
    /// The same without truncating the file.
    Over,
}

/// Another program writes the file while a save does: with both done, the file is what one of them wrote, or
/// the save failed.
#[test]
fn a_save_that_succeeds_is_in_the_file_or_was_followed_by_another_programs_write() {
    for way in
        WAYS.into_iter().filter(|way| !matches!(way.name, "clone-btrfs" | "rewrite-ext2" | "insert-1k"))
    {
        let trap = Trap::new(way);
        let source = trap.source.as_str();
        trap.save();
        let saved = fs::read(source).unwrap();
        trap.reset();
        // Another version of the same layout, with another tree and other bytes in its last block.
        let mut other = trap.before.clone();
        let name = other.windows(OLD.len()).position(|bytes| bytes == OLD.as_bytes()).unwrap();
        other[name..name + OLD.len()].copy_from_slice(b"other light");
        // The last block has 300 000 bytes, before the block index.
        let last = other.len() - 250_000;
        other[last..last + 200_000].iter_mut().for_each(|byte| *byte ^= 1);
        let half = other.len() / 2;
        let first = saved.windows(4).position(|four| four == common::asdf::MAGIC).unwrap();
        // A program that does not truncate leaves the end of a longer file. It writes to the file as it is then.
        let mut over = saved.clone();
        over[..other.len()].copy_from_slice(&other);
        let mut failed = 0;
        let writes = [Writes::AtOnce, Writes::InHalves, Writes::Over];
        for (at, writes) in calls().flat_map(|at| writes.map(|writes| (at, writes))) {
            trap.reset();
            let stopped = trap.stopped(&trap.set_tree(), at);
            if !stopped.is_stopped {
                break;
            }
            let other_half = other[half..].to_vec();
            let begun = other[..half].to_vec();
            let truncates = !matches!(writes, Writes::Over);
            let options = File::options().write(true).truncate(truncates).clone();
            let opening = Opening::of(source.as_ref(), options, move |file| {
                file.write_all_at(&begun, 0).unwrap();
                if matches!(writes, Writes::AtOnce) {
                    file.write_all_at(&other_half, half as u64).unwrap();
                    return None;
                }
                Some(file)
            });
            let (succeeds, said) = stopped.ends();
            if let Some(file) = opening.ends() {
                file.write_all_at(&other[half..], half as u64).unwrap();
            }
            let now = fs::read(source).unwrap();
            let step = format!("{way:?}, {at}, {writes:?}: {said}");
            // A program that does not truncate may also have written only blocks: its tree is lost then.
            let is_beside =
                way.name == "in-place" && now[..first] == saved[..first] && now[first..] == over[first..];
            let is_over = matches!(writes, Writes::Over) && (now == over || is_beside);
            if succeeds {
                assert!(now == saved || now == other || is_over, "{step}");
            } else if said.contains("the journal") || said.contains("The journal") {
                assert!(ours_in(&trap.path("d")).iter().any(|name| name.ends_with("journal")), "{step}");
            } else {
                assert!(ours_in(&trap.path("d")).is_empty(), "{step}");
            }
            failed += usize::from(!succeeds);
        }
        assert!(failed > 0, "{way:?}");
    }
}

/// A program has the file open for writing, and has written nothing yet: blocks do not move in the file under it.
#[test]
fn blocks_do_not_move_in_a_file_that_another_program_has_open_for_writing() {
    for way in WAYS.into_iter().filter(|way| matches!(way.name, "insert-xfs" | "rewrite")) {
        let trap = Trap::new(way);
        let source = trap.source.as_str();
        let mut refused = 0;
        for at in calls() {
            trap.reset();
            let stopped = trap.stopped(&trap.set_tree(), at);
            if !stopped.is_stopped {
                break;
            }
            let options = File::options().read(true).write(true).clone();
            let opening = Opening::of(source.as_ref(), options, Some);
            let is_open = matches!(opening, Opening::Open(_));
            let (succeeds, said) = stopped.ends();
            let file = opening.ends();
            if is_open {
                assert!(!succeeds && said.contains("has the file open for writing"), "{way:?}, {at}: {said}");
                assert!(fs::read(source).unwrap() == trap.before, "{way:?}, {at}");
                assert!(ours_in(&trap.path("d")).is_empty(), "{way:?}, {at}");
                refused += 1;
            }
            drop(file);
        }
        assert!(refused > 3, "{way:?}: {refused}");
        assert!(trap.place.run(trap.set_tree()).status.success(), "{way:?}");
    }
}

/// The path of a file is only for messages.
#[test]
fn a_file_in_a_directory_that_was_renamed_is_saved_where_it_is_now() {
    // A file alone is locked when it is mounted, a file of a directory when it is written.
    for (mounted, tree) in [("d/a.asdf", "tree.yaml"), ("d", "a.asdf/tree.yaml")] {
        let trap = Trap::new(WAYS[0]);
        let mount = trap.place.try_mount(&trap.path(mounted), &[]).unwrap();
        fs::rename(trap.path("d"), trap.path("moved")).unwrap();
        fs::create_dir(trap.path("d")).unwrap();
        fs::write(trap.path("d/a.asdf"), &trap.before).unwrap();
        fs::write(mount.path(tree), trap.place.named("moved")).unwrap();
        mount.unmount();
        assert!(fs::read(trap.path("d/a.asdf")).unwrap() == trap.before, "{mounted}");
        let saved = crate::place::saved(Path::new(&trap.path("moved/a.asdf")));
        assert_eq!(saved, trap.place.named("moved"), "{mounted}");
    }
}
