//! The mounted files, and who acts on them at the same time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use crate::content;
use crate::judge::{Judge, State};
use crate::python::Python;
use common::dice::Dice;
use common::disk::{Disk, run};
use common::mount::{fresh_folder, is_mounted, program, wait_until};

/// Lines of the log that a finding shows.
const LOG_LINES: usize = 12;

/// The sources and their mounts, and the actors on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A directory that is mounted read-only: commands and other programs change its files.
    ReadOnly,
    /// A directory on a file system that is full at times.
    FullDisk,
    /// A directory that a second daemon shows through bindfs: the two share no locks.
    TwoDaemons,
    /// A directory in which Python updates files.
    Python,
}

impl Kind {
    /// True if this actor acts.
    fn has(self, actor: &str) -> bool {
        match actor {
            "save" => self != Self::ReadOnly,
            "fill" => self == Self::FullDisk,
            "save elsewhere" => self == Self::TwoDaemons,
            "python" => self == Self::Python,
            // bindfs may show a file that is being overwritten as it was a second ago.
            "overwrite" | "cut" | "put back" => self != Self::TwoDaemons,
            _ => true,
        }
    }

    /// True if the writable mount can recover each half-saved file: it sees the locks of all programs, and there is room.
    pub(crate) fn recovers(self) -> bool {
        matches!(self, Self::File | Self::Directory | Self::Python)
    }

    fn files(self) -> usize {
        match self {
            Self::File => 1,
            Self::Directory | Self::ReadOnly => 20,
            Self::FullDisk | Self::TwoDaemons | Self::Python => 3,
        }
    }
}

type Actor = fn(&World, &mut Dice);

/// All actors: name, function, and the longest pause before each act in milliseconds.
const ACTORS: [(&str, Actor, u64); 24] = [
    ("save", World::save, 60),
    ("save", World::save, 60),
    ("save elsewhere", World::save_elsewhere, 100),
    ("undo", World::undo, 2000),
    ("set", World::set, 2000),
    ("filter", World::filter, 2000),
    ("edit", World::edit, 2000),
    ("set-tree", World::set_tree, 2000),
    ("replace", World::replace_by_others, 1500),
    ("overwrite", World::overwrite, 2000),
    ("cut", World::cut, 2000),
    ("put back", World::put_back, 2000),
    ("move", World::move_away, 2000),
    ("link", World::link, 2000),
    ("python", World::update_by_python, 500),
    ("fill", World::fill, 1500),
    ("read", World::read_once, 40),
    ("read", World::read_once, 40),
    ("list", World::list, 100),
    ("hold", World::hold, 60),
    ("hold", World::hold, 60),
    ("map", World::map, 300),
    ("remount", World::remount, 10_000),
    ("kill", World::kill, 10_000),
];

/// One source file.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) source: PathBuf,
    /// The path of its directory below the mountpoint.
    pub(crate) below: PathBuf,
    pub(crate) judge: Judge,
    /// One program at a time changes the source, as people do.
    pub(crate) by_others: Mutex<()>,
    /// The time at which a mixture, which a save had left, was last replaced.
    pub(crate) mended: Mutex<Option<Instant>>,
}

impl Member {
    pub(crate) fn journal(&self) -> PathBuf {
        let name = self.source.file_name().unwrap().to_str().unwrap();
        self.source.with_file_name(format!(".{name}.asdf-mount-journal"))
    }

    /// True if a save has noted in its journal that the file may be a mixture.
    pub(crate) fn is_mixture(&self) -> bool {
        const NOTE: &[u8] = b"OVERWRIT";
        let journal = fs::read(self.journal()).unwrap_or_default();
        journal.windows(NOTE.len()).any(|bytes| bytes == NOTE)
    }

    /// True if the file may have been a mixture at some time since `begun`, of a save and of what another program wrote in
    /// the same moment: it can't be read then. With `is_recovered`, a read recovers any other half-saved file.
    pub(crate) fn was_half_saved(&self, begun: Instant, is_recovered: bool) -> bool {
        // A program that is replacing a mixture holds this until it has noted the time.
        let _alone = self.by_others.lock().unwrap();
        let is_half_saved = if is_recovered { self.is_mixture() } else { self.journal().exists() };
        is_half_saved || self.mended.lock().unwrap().is_some_and(|mended| mended >= begun)
    }
}

/// Counts the beginnings and ends of something that comes and goes: odd while it lasts.
#[derive(Debug, Default)]
pub(crate) struct Spells(AtomicU32);

impl Spells {
    pub(crate) fn now(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn changes(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// True if it lasted at some time since `now` returned `then`.
    pub(crate) fn lasted_since(&self, then: u32) -> bool {
        then % 2 == 1 || self.now() != then
    }
}

#[derive(Debug)]
struct Mount {
    source: PathBuf,
    mountpoint: PathBuf,
    options: &'static str,
    /// Name of its state directory.
    state: &'static str,
}

/// The files, their mounts, and what was found wrong.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    /// A small file system with the files.
    pub(crate) disk: Option<Disk>,
    pub(crate) kind: Kind,
    members: Vec<Member>,
    mounts: Vec<Mount>,
    pub(crate) writable: PathBuf,
    pub(crate) read_only: PathBuf,
    /// Where the second daemon shows the files.
    pub(crate) elsewhere: PathBuf,
    pub(crate) python: Option<Mutex<Python>>,
    /// Held for reading by each operation in a mount, and for writing while the daemon is killed or remounts.
    pub(crate) daemons: RwLock<()>,
    /// The times without a daemon. A handle from before a kill is dead.
    pub(crate) kills: Spells,
    /// Held for reading by other programs that write to the disk, and for writing while it is full.
    pub(crate) room: RwLock<()>,
    /// The times at which the disk is full.
    pub(crate) fills: Spells,
    next: AtomicU32,
    is_over: AtomicBool,
    wrong: Mutex<Vec<String>>,
    done: Mutex<BTreeMap<&'static str, u32>>,
}

impl World {
    /// Makes files in a directory, which is mounted; a single file is mounted itself.
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let folder = fresh_folder();
        // Not btrfs, on which other programs can't even rename a file for some time after the disk was full.
        let disk = (kind == Kind::FullDisk).then(|| match seed % 3 {
            0 => Disk::new("tmpfs", 16),
            1 => Disk::new("ext4", 32),
            _ => Disk::new("xfs", 320),
        });
        let path = |name: &str| folder.path().join(name);
        for name in
            ["sources", "rw", "ro", "elsewhere", "through", "links", "texts", "state", "other-state", "cache"]
        {
            fs::create_dir(path(name)).unwrap();
        }
        let sources = disk.as_ref().map_or_else(|| path("sources"), Disk::path);
        let next = AtomicU32::new(10_000_000);
        let mut members = Vec::new();
        for n in 0..kind.files() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let first = State { version: number, note: number };
            let name = format!("f{n}.asdf");
            fs::write(sources.join(&name), content::file(first)).unwrap();
            members.push(Member {
                source: sources.join(&name),
                below: if kind == Kind::File { PathBuf::new() } else { name.into() },
                judge: Judge::new(first),
                by_others: Mutex::new(()),
                mended: Mutex::new(None),
            });
        }
        let source = if kind == Kind::File { members[0].source.clone() } else { sources.clone() };
        let mount = |source: &Path, name: &str, options, state| Mount {
            source: source.into(),
            mountpoint: path(name),
            options,
            state,
        };
        let options = if kind == Kind::ReadOnly { "ro,cache=1M" } else { "cache=1M" };
        let mut mounts =
            vec![mount(&source, "rw", options, "state"), mount(&source, "ro", "ro,cache=1M", "state")];
        if kind == Kind::TwoDaemons {
            let [served, shown] = [&sources, &path("through")].map(|path| path.to_str().unwrap().to_owned());
            run("bindfs", &[&served, &shown]);
            mounts.push(mount(&path("through"), "elsewhere", "cache=1M", "other-state"));
        }
        let world = Self {
            writable: path("rw"),
            read_only: path("ro"),
            elsewhere: path("elsewhere"),
            python: (kind == Kind::Python).then(|| Mutex::new(Python::start())),
            folder,
            disk,
            kind,
            members,
            mounts,
            daemons: RwLock::new(()),
            kills: Spells::default(),
            room: RwLock::new(()),
            fills: Spells::default(),
            next,
            is_over: AtomicBool::new(false),
            wrong: Mutex::new(Vec::new()),
            done: Mutex::new(BTreeMap::new()),
        };
        world.mount();
        world
    }

    /// Returns the program with the state directory of the first two mounts.
    pub(crate) fn asdf_mount(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["60", program()]).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }

    fn mount(&self) {
        let log = self.folder.path().join("log");
        for mount in &self.mounts {
            if is_mounted(&mount.mountpoint) {
                continue;
            }
            // A killed daemon keeps its locks until its last thread has ended.
            let is_ready = wait_until(|| {
                let mut command = self.asdf_mount();
                command.arg("-v").arg("--log-file").arg(&log).args(["-o", mount.options]);
                command.env("XDG_STATE_HOME", self.folder.path().join(mount.state));
                command.args([&mount.source, &mount.mountpoint]).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().unwrap().success()
            });
            assert!(is_ready, "{} is not mounted any more", mount.mountpoint.display());
        }
    }

    /// Returns the names of all actors on this kind.
    pub(crate) fn actors(kind: Kind) -> Vec<&'static str> {
        let mut names: Vec<_> = ACTORS.iter().map(|actor| actor.0).filter(|name| kind.has(name)).collect();
        names.dedup();
        names
    }

    /// Lets these act for this time; returns what was found wrong.
    pub(crate) fn run(&self, time: Duration, seed: u64, actors: &[&str]) -> Vec<String> {
        std::thread::scope(|scope| {
            for (n, (name, act, pause)) in ACTORS.into_iter().enumerate() {
                if !actors.contains(&name) {
                    continue;
                }
                scope.spawn(move || {
                    let mut dice = Dice(seed.wrapping_add(n as u64 * 7919));
                    loop {
                        std::thread::sleep(Duration::from_millis(dice.below(pause)));
                        if self.is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        act(self, &mut dice);
                        *self.done.lock().unwrap().entry(name).or_default() += 1;
                    }
                });
            }
            let end = Instant::now() + time;
            while Instant::now() < end && !self.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.is_over.store(true, Ordering::Relaxed);
        });
        self.look_at_the_end();
        let mut changes = BTreeMap::new();
        for member in &self.members {
            member.judge.count(&mut changes);
        }
        eprintln!("{:?}, seed {seed}: {:?}, {changes:?}", self.kind, self.done.lock().unwrap());
        std::mem::take(&mut self.wrong.lock().unwrap())
    }

    pub(crate) fn is_wrong(&self, member: &Member, what: &str) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let log = self.log();
        let name = member.source.file_name().unwrap().to_str().unwrap();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(name)).collect();
        let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
        let mut wrong = self.wrong.lock().unwrap();
        let second = now.as_secs_f64() % 60.;
        wrong.push(format!(
            "{}: {what}\n  at second {second:.3}\n{}  {log}",
            member.source.display(),
            member.judge
        ));
        // The first few say enough.
        if wrong.len() >= 5 {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn member(&self, dice: &mut Dice) -> &Member {
        &self.members[dice.below(self.members.len() as u64) as usize]
    }

    pub(crate) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes the mount read-only and writable again.
    fn remount(&self, _dice: &mut Dice) {
        if self.kind == Kind::ReadOnly {
            return;
        }
        let _alone = self.daemons.write().unwrap();
        let kills = self.kills.now();
        for mode in ["remount,ro", "remount,rw"] {
            let output = self.asdf_mount().args(["-o", mode]).arg(&self.writable).output().unwrap();
            // A refused text stays writable.
            let is_refused = String::from_utf8_lossy(&output.stderr).contains("was refused");
            if !output.status.success() && !is_refused && !self.kills.lasted_since(kills) {
                self.is_wrong(&self.members[0], &format!("-o {mode}: {output:?}"));
            }
        }
    }

    /// Kills a daemon and mounts again. Reads and saves may be under way when the daemon dies; they end with errors.
    fn kill(&self, dice: &mut Dice) {
        let mountpoint = &self.mounts[dice.below(self.mounts.len() as u64) as usize].mountpoint;
        let pid = common::mount::daemon_of(mountpoint).unwrap();
        self.kills.changes();
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        assert!(killed.success());
        let _alone = self.daemons.write().unwrap();
        run("umount", &["-l", mountpoint.to_str().unwrap()]);
        self.mount();
        self.kills.changes();
    }

    /// Unmounts, and judges the files on disk: each is sound and of one state that was legal at the end.
    fn look_at_the_end(&self) {
        for Mount { mountpoint, .. } in &self.mounts {
            let output = self.asdf_mount().arg("-u").arg(mountpoint).output().unwrap();
            if !output.status.success() {
                self.is_wrong(&self.members[0], &format!("-u: {output:?}"));
            }
        }
        for member in &self.members {
            self.mend_mixture(member);
        }
        let now = Instant::now();
        for member in &self.members {
            match content::state_of_file(&member.source) {
                Ok(state) if member.judge.allows(&(now..now), true, |other| other == state) => {}
                Ok(state) => {
                    self.is_wrong(member, &format!("the file has {state:?}, which is not a last state"))
                }
                Err(what) => self.is_wrong(member, &format!("the file on disk is damaged: {what}")),
            }
        }
        if let Some(line) = self.log().lines().find(|line| line.contains("panic")) {
            self.is_wrong(&self.members[0], line);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let through = self.folder.path().join("through");
        for mountpoint in self.mounts.iter().map(|mount| &mount.mountpoint).chain([&through]) {
            if is_mounted(mountpoint) {
                let _ = Command::new("umount").arg("-l").arg(mountpoint).status();
            }
        }
    }
}
