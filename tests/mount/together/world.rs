//! The mounted files, and who acts on them at the same time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use crate::content;
use crate::judge::{Judge, Outcome, State, Style};
use common::dice::Dice;
use common::mount::{fresh_folder, is_mounted, program, wait_until};

/// Lines of the log that a finding shows.
const LOG_LINES: usize = 12;

/// Errors of a read whose file another program overwrites in place meanwhile.
const BROKEN: [i32; 4] = [libc::ESTALE, libc::EIO, libc::ENOENT, libc::ENOTDIR];

/// One source file.
#[derive(Debug)]
struct Member {
    source: PathBuf,
    /// The path of its directory below the mountpoint.
    below: PathBuf,
    judge: Judge,
    /// One program at a time changes the source, as people do.
    by_others: Mutex<()>,
    /// The time at which a mixture, which a save had left, was last replaced.
    mended: Mutex<Option<Instant>>,
}

impl Member {
    fn journal(&self) -> PathBuf {
        let name = self.source.file_name().unwrap().to_str().unwrap();
        self.source.with_file_name(format!(".{name}.asdf-mount-journal"))
    }

    /// True if a save has noted in its journal that the file may be a mixture.
    fn is_mixture(&self) -> bool {
        const NOTE: &[u8] = b"OVERWRIT";
        let journal = fs::read(self.journal()).unwrap_or_default();
        journal.windows(NOTE.len()).any(|bytes| bytes == NOTE)
    }

    /// True if the file may have been a mixture at some time since `begun`, of a save and of what another program wrote in
    /// the same moment: it can't be read then.
    fn was_half_saved(&self, begun: Instant) -> bool {
        // A program that is replacing a mixture holds this until it has noted the time.
        let _alone = self.by_others.lock().unwrap();
        self.journal().exists() || self.mended.lock().unwrap().is_some_and(|mended| mended >= begun)
    }
}

/// The files, their mounts, and what was found wrong.
#[derive(Debug)]
pub(crate) struct World {
    folder: tempfile::TempDir,
    members: Vec<Member>,
    mounted: PathBuf,
    writable: PathBuf,
    read_only: PathBuf,
    /// Held for reading by each operation in a mount, and for writing while the daemon is killed or remounts.
    daemons: RwLock<()>,
    /// Changes at the beginning and at the end of the time without a daemon; odd in between. A handle from before a
    /// kill is dead.
    kills: AtomicU32,
    next: AtomicU32,
    is_over: AtomicBool,
    wrong: Mutex<Vec<String>>,
    done: Mutex<std::collections::BTreeMap<&'static str, u32>>,
}

impl World {
    /// Makes `count` files in a directory, which is mounted; with one file, the file itself is mounted.
    pub(crate) fn new(count: usize) -> Self {
        let folder = fresh_folder();
        let sources = folder.path().join("sources");
        for name in ["sources", "rw", "ro", "state", "cache"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let next = AtomicU32::new(10_000_000);
        let mut members = Vec::new();
        for n in 0..count {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let first = State { version: number, note: number };
            let name = format!("f{n}.asdf");
            fs::write(sources.join(&name), content::file(first)).unwrap();
            let below = if count == 1 { PathBuf::new() } else { name.clone().into() };
            let judge = Judge::new(first);
            members.push(Member {
                source: sources.join(&name),
                below,
                judge,
                by_others: Mutex::new(()),
                mended: Mutex::new(None),
            });
        }
        let mounted = if count == 1 { members[0].source.clone() } else { sources };
        let world = Self {
            writable: folder.path().join("rw"),
            read_only: folder.path().join("ro"),
            folder,
            members,
            mounted,
            daemons: RwLock::new(()),
            kills: AtomicU32::new(0),
            next,
            is_over: AtomicBool::new(false),
            wrong: Mutex::new(Vec::new()),
            done: Mutex::new(std::collections::BTreeMap::new()),
        };
        world.mount();
        world
    }

    fn asdf_mount(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["60", program()]).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }

    fn mount(&self) {
        let log = self.folder.path().join("log");
        for (mountpoint, options) in [(&self.writable, "cache=1M"), (&self.read_only, "ro,cache=1M")] {
            if is_mounted(mountpoint) {
                continue;
            }
            // A killed daemon keeps its locks until its last thread has ended.
            let is_ready = wait_until(|| {
                let mut command = self.asdf_mount();
                command.arg("-v").arg("--log-file").arg(&log).args(["-o", options]);
                command.arg(&self.mounted).arg(mountpoint).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().unwrap().success()
            });
            assert!(is_ready, "{} is not mounted any more", mountpoint.display());
        }
    }

    /// Lets all act for this time; returns what was found wrong.
    pub(crate) fn run(&self, time: Duration, seed: u64) -> Vec<String> {
        type Actor = fn(&World, &mut Dice);
        let actors: [(&'static str, Actor); 10] = [
            ("save", World::save),
            ("save", World::save),
            ("command", World::save_by_command),
            ("other", World::change_by_others),
            ("read", World::read_once),
            ("read", World::read_once),
            ("hold", World::hold),
            ("hold", World::hold),
            ("map", World::map),
            ("daemon", World::disturb_daemons),
        ];
        std::thread::scope(|scope| {
            for (n, (name, act)) in actors.into_iter().enumerate() {
                scope.spawn(move || {
                    let mut dice = Dice(seed.wrapping_add(n as u64 * 7919));
                    while !self.is_over.load(Ordering::Relaxed) {
                        act(self, &mut dice);
                        *self.done.lock().unwrap().entry(name).or_default() += 1;
                        std::thread::sleep(Duration::from_millis(dice.below(30)));
                    }
                });
            }
            std::thread::sleep(time);
            self.is_over.store(true, Ordering::Relaxed);
        });
        self.look_at_the_end();
        eprintln!("{:?}", self.done.lock().unwrap());
        std::mem::take(&mut self.wrong.lock().unwrap())
    }

    fn is_wrong(&self, member: &Member, what: &str) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
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

    fn member(&self, dice: &mut Dice) -> &Member {
        &self.members[dice.below(self.members.len() as u64) as usize]
    }

    /// Returns the directory of a file in one of the two mounts.
    fn directory(&self, member: &Member, dice: &mut Dice) -> PathBuf {
        let mountpoint = if dice.below(3) == 0 { &self.read_only } else { &self.writable };
        mountpoint.join(&member.below)
    }

    /// True if a daemon was killed since `kills` was read, or was dead then.
    fn is_disturbed(&self, kills: u32) -> bool {
        kills % 2 == 1 || self.kills.load(Ordering::SeqCst) != kills
    }

    fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Edits the tree in one of the styles of programs.
    fn save(&self, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let kills = self.kills.load(Ordering::SeqCst);
        let member = self.member(dice);
        let tree = self.writable.join(&member.below).join("tree.yaml");
        let begun = Instant::now();
        let base = match fs::read(&tree).map(|text| content::state_of_tree(&text)) {
            Ok(Ok(state)) => state,
            // Reads are judged elsewhere; this one may have met a draft.
            _ => return,
        };
        let state = State { note: self.number(), ..base };
        let write = member.judge.begin(state, Style::Save);
        let edit = Edit {
            tree: &tree,
            source: &member.source,
            base: &content::tree(base),
            text: &content::tree(state),
            number: state.note,
        };
        let style = dice.below(4);
        let result = match style {
            0 => edit.write_in_place(),
            1 => edit.write_and_rename(),
            2 => edit.write_and_cut(),
            _ => edit.write_through_map(),
        };
        let (outcome, error) = match result {
            Ok(Ended::Saved) => return member.judge.end(write, Outcome::Succeeded),
            Ok(Ended::PerhapsAtClose(error)) => (Outcome::Unknown, error),
            Err(error) => (Outcome::Refused, error),
        };
        if self.is_disturbed(kills) {
            member.judge.end(write, Outcome::Unknown);
            return;
        }
        self.mend_mixture(member);
        member.judge.end(write, outcome);
        let errno = error.raw_os_error().unwrap_or_default();
        let time = begun..Instant::now();
        // EBUSY if another program changed the file. Two programs that write tree.yaml at once may mix their texts.
        let may_fail = errno == libc::EBUSY
            || [libc::EINVAL, libc::EFAULT].contains(&errno) && member.judge.is_beside_a_save(write)
            || errno == libc::EIO && member.was_half_saved(begun)
            || (BROKEN.contains(&errno) || errno == libc::EINVAL || errno == libc::EROFS)
                && member.judge.overwritten(&time, false);
        if !may_fail {
            self.is_wrong(member, &format!("save of style {style}: {error}"));
        }
    }

    /// Does what users do if another program wrote to the source in the moment in which a save did: the file may be a
    /// mixture, so it is replaced by a sound one.
    fn mend_mixture(&self, member: &Member) {
        let _alone = member.by_others.lock().unwrap();
        if !member.journal().exists() {
            return;
        }
        let number = self.number();
        self.replace(member, State { version: number, note: number });
        // Before the journal goes: a read that has failed is judged by one of the two.
        *member.mended.lock().unwrap() = Some(Instant::now());
        // The journal is that of the replaced file.
        let _ = fs::remove_file(member.journal());
    }

    /// Renames a new file over the source.
    fn replace(&self, member: &Member, state: State) {
        let new = member.source.with_extension("new");
        fs::write(&new, content::file(state)).unwrap();
        Self::rename_over(member, &new, state);
    }

    /// Renames this file over the source. The next save or command removes the journal of a mixture then.
    fn rename_over(member: &Member, new: &Path, state: State) {
        let write = member.judge.begin(state, Style::Replaced);
        let was_mixture = member.is_mixture();
        fs::rename(new, &member.source).unwrap();
        if was_mixture || member.is_mixture() {
            *member.mended.lock().unwrap() = Some(Instant::now());
        }
        member.judge.end(write, Outcome::Succeeded);
    }

    /// Takes a save back: through the mount if it has the file locked, else in the file itself.
    fn save_by_command(&self, dice: &mut Dice) {
        std::thread::sleep(Duration::from_millis(dice.below(500)));
        let _daemons = self.daemons.read().unwrap();
        let member = self.member(dice);
        // It is not known beforehand which text this brings back.
        let write = member.judge.begin_undo();
        let output = self.asdf_mount().arg("--undo").arg(&member.source).output().unwrap();
        let outcome = if output.status.success() { Outcome::Unknown } else { Outcome::Refused };
        if outcome == Outcome::Refused {
            self.mend_mixture(member);
        }
        member.judge.end(write, outcome);
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        if output.status.code().is_none_or(|code| code > 2) || text.contains("panick") {
            self.is_wrong(member, &format!("--undo: {output:?}"));
        }
    }

    /// Changes a source as other programs do.
    fn change_by_others(&self, dice: &mut Dice) {
        std::thread::sleep(Duration::from_millis(dice.below(400)));
        let member = self.member(dice);
        let _alone = member.by_others.lock().unwrap();
        let number = self.number();
        let state = State { version: number, note: number };
        match dice.below(5) {
            0 | 1 => self.replace(member, state),
            2 => self.overwrite(member, state, true, dice),
            3 => self.overwrite(member, state, false, dice),
            _ => self.put_back(member, dice),
        }
    }

    /// Overwrites a source in place, in three parts; it is truncated first, as by `cp`, or at the end.
    fn overwrite(&self, member: &Member, state: State, is_truncated_first: bool, dice: &mut Dice) {
        let bytes = content::file(state);
        let write = member.judge.begin(state, Style::InPlace);
        let file = OpenOptions::new().write(true).truncate(is_truncated_first).open(&member.source).unwrap();
        for (n, part) in bytes.chunks(bytes.len().div_ceil(3)).enumerate() {
            file.write_all_at(part, (n * bytes.len().div_ceil(3)) as u64).unwrap();
            std::thread::sleep(Duration::from_millis(dice.below(5)));
        }
        file.set_len(bytes.len() as u64).unwrap();
        drop(file);
        member.judge.end(write, Outcome::Succeeded);
    }

    /// Replaces a source by another one, and then by its copy of before, with the old time.
    fn put_back(&self, member: &Member, dice: &mut Dice) {
        let kept = member.source.with_extension("kept");
        let copied = Command::new("cp").arg("-p").arg(&member.source).arg(&kept).status().unwrap();
        assert!(copied.success());
        let Ok(old) = state_of_file(&kept) else { return };
        let number = self.number();
        self.replace(member, State { version: number, note: number });
        std::thread::sleep(Duration::from_millis(dice.below(300)));
        if dice.below(2) == 0 {
            let write = member.judge.begin(old, Style::InPlace);
            let copied = Command::new("cp").arg("-p").arg(&kept).arg(&member.source).status().unwrap();
            assert!(copied.success());
            member.judge.end(write, Outcome::Succeeded);
        } else {
            Self::rename_over(member, &kept, old);
        }
    }

    /// Opens, reads and closes one file of a view.
    fn read_once(&self, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let kills = self.kills.load(Ordering::SeqCst);
        let member = self.member(dice);
        let directory = self.directory(member, dice);
        let begun = Instant::now();
        let array = content::ARRAYS[dice.below(3) as usize];
        let view = dice.below(7);
        let name = match view {
            0 => "tree.yaml".to_owned(),
            1 => "tree.json".to_owned(),
            2 => "blocks/0.bin".to_owned(),
            3 => "blocks/1.bin".to_owned(),
            _ => format!("arrays/{}.npy", array.0),
        };
        let mut bytes = Vec::new();
        let opened = File::open(directory.join(&name));
        let step = if opened.is_ok() { "read" } else { "opened" };
        let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
        let seen = read.map(|_| match view {
            0 => content::state_of_tree(&bytes).map(Seen::State),
            1 => version_of_json(&bytes).map(Seen::Version),
            2 | 3 => content::version_of_block(&bytes).map(Seen::Version),
            _ => content::version_of_array(&bytes, array.1).map(Seen::Version),
        });
        let time = begun..Instant::now();
        if seen.is_ok() || !self.is_disturbed(kills) {
            self.judge(member, &format!("{}/{name} {step}", directory.display()), &time, seen);
        }
    }

    /// Judges what a read in this interval has seen.
    fn judge(
        &self,
        member: &Member,
        name: &str,
        time: &Range<Instant>,
        seen: io::Result<Result<Seen, String>>,
    ) {
        // The other mount's saves are changes by another program there.
        let other_mount = name.starts_with(self.read_only.to_str().unwrap());
        let is_broken = member.judge.overwritten(time, other_mount);
        let name = &format!("{name} (in {:.3} s)", (time.end - time.start).as_secs_f64());
        match seen {
            Ok(Ok(seen)) => {
                if !member.judge.allows(time, other_mount, |state| seen.is(state)) {
                    self.is_wrong(
                        member,
                        &format!("{name} shows {seen:?}, which the file did not have then"),
                    );
                }
            }
            // A draft is what programs have written so far.
            Ok(Err(_)) if name.contains("/tree.yaml ") => {}
            // The file on disk is a mixture then.
            Ok(Err(_)) if is_broken => {}
            Ok(Err(what)) => self.is_wrong(member, &format!("{name}: {what}")),
            Err(error) if is_broken && error.raw_os_error().is_some_and(|it| BROKEN.contains(&it)) => {}
            // ESTALE if the file was opened before the save noticed that it left a mixture.
            Err(error)
                if [Some(libc::EIO), Some(libc::ESTALE)].contains(&error.raw_os_error())
                    && member.was_half_saved(time.start) => {}
            Err(error)
                if error.raw_os_error() == Some(libc::ESTALE) && member.judge.changed_by_command(time) => {}
            Err(error) => {
                let directory =
                    if other_mount { &self.read_only } else { &self.writable }.join(&member.below);
                let status = fs::read_to_string(directory.join(".asdf-mount/status.yaml"));
                let on_disk = state_of_file(&member.source);
                self.is_wrong(
                    member,
                    &format!("{name}: {error}\n  on disk: {on_disk:?}\n  status: {status:?}"),
                );
            }
        }
    }

    /// Opens an array, reads its beginning, and the rest later.
    fn hold(&self, dice: &mut Dice) {
        let member = self.member(dice);
        let directory = self.directory(member, dice);
        let (name, count) = content::ARRAYS[dice.below(3) as usize];
        let path = directory.join(format!("arrays/{name}.npy"));
        let kills = self.kills.load(Ordering::SeqCst);
        let begun = Instant::now();
        let daemons = self.daemons.read().unwrap();
        let opened = File::open(&path).and_then(|mut file| {
            let mut start = vec![0; 5000.min(128 + count * 4)];
            file.read_exact(&mut start)?;
            Ok((file, start))
        });
        let time = begun..Instant::now();
        drop(daemons);
        let (mut file, start) = match opened {
            Ok(opened) => opened,
            Err(_) if self.is_disturbed(kills) => return,
            Err(error) => return self.judge(member, &path.display().to_string(), &time, Err(error)),
        };
        std::thread::sleep(Duration::from_millis(dice.below(400)));
        let daemons = self.daemons.read().unwrap();
        let mut npy = start;
        let read = file.seek(SeekFrom::Start(npy.len() as u64)).and_then(|_| file.read_to_end(&mut npy));
        let all = begun..Instant::now();
        drop(daemons);
        if self.is_disturbed(kills) {
            return;
        }
        match read {
            Ok(_) => {
                let seen = content::version_of_array(&npy, count).map(Seen::Version);
                self.judge(member, &format!("{}, held", path.display()), &time, Ok(seen));
            }
            Err(error) => self.judge(member, &format!("{}, held", path.display()), &all, Err(error)),
        }
    }

    /// Maps an array in another process, and reads it twice.
    fn map(&self, dice: &mut Dice) {
        const SCRIPT: &str = "
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
data = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
first = data[200:9000]
print(int.from_bytes(first[-4:], 'little'), flush=True)
time.sleep(float(sys.argv[2]))
assert data[200:] == first[:4] * ((size - 200) // 4), 'mixed'
";
        let member = self.member(dice);
        let path = self.directory(member, dice).join("arrays/stored.npy");
        let kills = self.kills.load(Ordering::SeqCst);
        let begun = Instant::now();
        let output = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(&path)
            .arg(format!("0.{}", dice.below(6)))
            .output()
            .unwrap();
        let time = begun..Instant::now();
        let is_broken = member.judge.overwritten(&time, path.starts_with(&self.read_only));
        let is_unproven = member.judge.changed_by_command(&time);
        if self.is_disturbed(kills) || is_broken || is_unproven || member.was_half_saved(begun) {
            let text = String::from_utf8_lossy(&output.stderr);
            // SIGBUS and errors are right then. A map that was made while another program overwrote the file shows the
            // mixture that the file was.
            if text.contains("mixed") && !member.judge.overwritten(&time, false) {
                self.is_wrong(member, &format!("{}: the map shows two versions", path.display()));
            }
            return;
        }
        let version = String::from_utf8_lossy(&output.stdout).trim().parse();
        match version {
            Ok(version) if output.status.success() => {
                self.judge(
                    member,
                    &format!("{}, mapped", path.display()),
                    &time,
                    Ok(Ok(Seen::Version(version))),
                );
            }
            _ => self.is_wrong(member, &format!("{}, mapped: {output:?}", path.display())),
        }
    }

    /// Kills a daemon and mounts again, or makes the mount read-only and writable again.
    fn disturb_daemons(&self, dice: &mut Dice) {
        std::thread::sleep(Duration::from_millis(1500 + dice.below(2000)));
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        if dice.below(2) == 0 {
            let _alone = self.daemons.write().unwrap();
            for mode in ["remount,ro", "remount,rw"] {
                let output = self.asdf_mount().args(["-o", mode]).arg(&self.writable).output().unwrap();
                // A refused text stays writable.
                let is_refused = String::from_utf8_lossy(&output.stderr).contains("was refused");
                if !output.status.success() && !is_refused {
                    self.is_wrong(&self.members[0], &format!("-o {mode}: {output:?}"));
                }
            }
            return;
        }
        // Reads and saves may be under way when the daemon dies; they end with errors.
        let mountpoint = if dice.below(3) == 0 { &self.read_only } else { &self.writable };
        let pid = common::mount::daemon_of(mountpoint).unwrap();
        self.kills.fetch_add(1, Ordering::SeqCst);
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        assert!(killed.success());
        let _alone = self.daemons.write().unwrap();
        assert!(Command::new("umount").arg("-l").arg(mountpoint).status().unwrap().success());
        self.mount();
        self.kills.fetch_add(1, Ordering::SeqCst);
    }

    /// Unmounts, and judges the files on disk: each is sound and of one state that was legal at the end.
    fn look_at_the_end(&self) {
        for mountpoint in [&self.writable, &self.read_only] {
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
            match state_of_file(&member.source) {
                Ok(state) if member.judge.allows(&(now..now), true, |other| other == state) => {}
                Ok(state) => {
                    self.is_wrong(member, &format!("the file has {state:?}, which is not a last state"))
                }
                Err(what) => self.is_wrong(member, &format!("the file on disk is damaged: {what}")),
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for mountpoint in [&self.writable, &self.read_only] {
            if is_mounted(mountpoint) {
                let _ = Command::new("umount").arg("-l").arg(mountpoint).status();
            }
        }
    }
}

/// The part of a state that a read saw.
#[derive(Clone, Copy, Debug)]
enum Seen {
    State(State),
    Version(u32),
}

impl Seen {
    fn is(self, state: State) -> bool {
        match self {
            Self::State(seen) => seen == state,
            Self::Version(version) => version == state.version,
        }
    }
}

/// Returns the state of a file on disk, if the tree and all blocks are of one version.
fn state_of_file(path: &Path) -> Result<State, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let end = bytes.windows(5).position(|five| five == b"\n...\n").ok_or("no end of the tree")? + 5;
    let state = content::state_of_tree(&bytes[..end])?;
    let wanted = content::file(state);
    let blocks = &wanted[content::tree(state).len()..];
    let first = bytes[end..].windows(4).position(|four| four == b"\xd3BLK").ok_or("no block")? + end;
    // The offsets in the block index depend on the padding.
    let length = blocks.windows(18).rposition(|it| it == b"#ASDF BLOCK INDEX\n").ok_or("no index")?;
    if bytes.get(first..first + length) == Some(&blocks[..length]) {
        Ok(state)
    } else {
        Err(format!("{state:?} with blocks of another version"))
    }
}

fn version_of_json(json: &[u8]) -> Result<u32, String> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    value["version"].as_str().and_then(|it| it.parse().ok()).ok_or_else(|| "no version".to_owned())
}

/// A new text for a tree. Each style reads the tree again once its own edit has begun, and gives up if it is not `base`:
/// the mount can't know from which text another handle's text was made.
struct Edit<'a> {
    tree: &'a Path,
    source: &'a Path,
    base: &'a str,
    text: &'a str,
    number: u32,
}

/// How an edit ended that did not fail.
enum Ended {
    Saved,
    /// The text was refused with this error, and the file then closed without one. Closing tries again.
    PerhapsAtClose(io::Error),
}

impl Edit<'_> {
    fn opened(&self) -> io::Result<File> {
        let mut file = OpenOptions::new().read(true).write(true).open(self.tree)?;
        self.is_base(&mut file)?;
        Ok(file)
    }

    fn is_base(&self, file: &mut File) -> io::Result<()> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A draft that was refused is shown while another program has it open; it is no base.
        let is_saved = || fs::read(self.source).is_ok_and(|bytes| bytes.starts_with(self.base.as_bytes()));
        if text == self.base.as_bytes() && is_saved() {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EBUSY))
        }
    }

    /// Truncates first.
    fn write_in_place(&self) -> io::Result<Ended> {
        let file = self.opened()?;
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all_at(self.text.as_bytes(), 0))
            .and_then(|()| file.sync_all());
        closed(file, written)
    }

    /// Writes like `sed -i`.
    fn write_and_rename(&self) -> io::Result<Ended> {
        let path = self.tree.with_file_name(format!("sed{}", self.number));
        let mut new = File::create(&path)?;
        let written = File::open(self.tree)
            .and_then(|mut file| self.is_base(&mut file))
            .and_then(|()| new.write_all(self.text.as_bytes()));
        drop(new);
        let renamed = written.and_then(|()| fs::rename(&path, self.tree));
        renamed.map(|()| Ended::Saved).inspect_err(|_| drop(fs::remove_file(&path)))
    }

    /// Writes from the start, and truncates at the end.
    fn write_and_cut(&self) -> io::Result<Ended> {
        let file = self.opened()?;
        let written = file
            .write_all_at(self.text.as_bytes(), 0)
            .and_then(|()| file.set_len(self.text.len() as u64))
            .and_then(|()| file.sync_all());
        closed(file, written)
    }

    /// Writes through a shared map in another process, as some databases do.
    fn write_through_map(&self) -> io::Result<Ended> {
        const SCRIPT: &str = "
import errno, mmap, os, sys
base, text = sys.stdin.buffer.read().split(b'\\0')
try:
    fd = os.open(sys.argv[1], os.O_RDWR)
    if os.read(fd, 1 << 20) != base or not open(sys.argv[2], 'rb').read().startswith(base):
        sys.exit(errno.EBUSY)
    failed = None
    try:
        os.ftruncate(fd, len(text))
        with mmap.mmap(fd, len(text)) as data:
            data[:] = text
            data.flush()
        os.fsync(fd)
    except OSError as error:
        failed = error
    except ValueError:
        # Another program has cut the file.
        failed = OSError(errno.EINVAL, 'cut')
    os.close(fd)
    if failed:
        sys.exit(100 + failed.errno)
except OSError as error:
    sys.exit(error.errno)
";
        // Another test numbers its texts alike.
        let input = self.source.with_extension(format!("{}.text", self.number));
        fs::write(&input, format!("{}\0{}", self.base, self.text))?;
        let mut command = Command::new("python3");
        let status = command
            .args(["-c", SCRIPT])
            .arg(self.tree)
            .arg(self.source)
            .stdin(File::open(&input)?)
            .status()?;
        fs::remove_file(&input)?;
        match status.code() {
            Some(0) => Ok(Ended::Saved),
            Some(code @ 100..) => Ok(Ended::PerhapsAtClose(io::Error::from_raw_os_error(code - 100))),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            // SIGBUS: another program has cut the file that this one has mapped.
            None => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }
}

/// Closes a file after these writes.
fn closed(file: File, written: io::Result<()>) -> io::Result<Ended> {
    let closed = common::case::close(file);
    match written {
        Ok(()) => Ok(Ended::Saved),
        Err(error) => closed.map(|()| Ended::PerhapsAtClose(error)),
    }
}
