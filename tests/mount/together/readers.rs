//! Programs that read the views.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::content::{self, ELEMENTS};
use crate::judge::NOTICED;
use crate::views::{Seen, VIEWS, View, numbers, reference};
use crate::world::{Kind, Member, World};
use common::dice::Dice;

/// Errors of a read while another program overwrites the file in place.
pub(crate) const BROKEN: [i32; 4] = [libc::ESTALE, libc::EIO, libc::ENOENT, libc::ENOTDIR];

impl World {
    /// Returns the directory of a file in one of the first two mounts.
    fn directory(&self, member: &Member, dice: &mut Dice) -> PathBuf {
        let mountpoint = if dice.below(3) == 0 { &self.read_only } else { &self.writable };
        mountpoint.join(&member.below)
    }

    /// Opens, reads and closes one file of a view.
    pub(crate) fn read_once(&self, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let kills = self.kills.now();
        let member = self.member(dice);
        let directory = self.directory(member, dice);
        let begun = Instant::now();
        let view = &VIEWS[dice.below(VIEWS.len() as u64) as usize];
        let path = directory.join(view.name);
        let mut bytes = Vec::new();
        let opened = File::open(&path);
        let step = if opened.is_ok() { "read" } else { "opened" };
        let read = opened.and_then(|mut file| {
            let len = file.metadata()?.len();
            file.read_to_end(&mut bytes)?;
            Ok(len)
        });
        let time = begun..Instant::now();
        // This one keeps its inode number, and the kernel its length for a while after another program's change.
        let is_late = view.name == "tree.yaml" && member.judge.written(&(begun - NOTICED..Instant::now()));
        let seen = read.map(|len| {
            if bytes.len() as u64 == len || is_late {
                (view.seen)(&bytes)
            } else {
                Err(format!("{} bytes of a file of {len} bytes", bytes.len()))
            }
        });
        if let Ok(Ok(Seen::Version(version))) = seen
            && view.name == "refs.json"
        {
            self.follow_reference(member, version, &bytes, begun);
        }
        if seen.is_ok() || !self.kills.lasted_since(kills) {
            self.judge(member, &format!("{} {step}", path.display()), &time, seen);
        }
    }

    /// Reads from the file what `refs.json` names.
    fn follow_reference(&self, member: &Member, version: u32, json: &[u8], begun: Instant) {
        let found = reference(json).ok_or_else(|| "no place".to_owned()).and_then(|(offset, len)| {
            let mut bytes = vec![0; len];
            let read = File::open(&member.source).and_then(|file| file.read_exact_at(&mut bytes, offset));
            read.map_err(|error| error.to_string()).and_then(|()| numbers(&bytes, ELEMENTS))
        });
        let time = begun - NOTICED..Instant::now();
        if found != Ok(version) && !member.judge.written(&time) && !member.judge.moved(&time) {
            self.is_wrong(member, &format!("refs.json of {version} leads to {found:?}"));
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
        let other_mount = self.kind == Kind::ReadOnly || name.starts_with(self.read_only.to_str().unwrap());
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
            // A draft is what programs have written so far; two that write at once may even save a mixed text.
            Ok(Err(_)) if name.contains("/tree.yaml ") && self.kind != Kind::ReadOnly => {}
            Ok(Err(_)) if member.judge.mixed(time) => {}
            Ok(Err(what)) => self.is_wrong(member, &format!("{name}: {what}")),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                let is_recovered = self.kind.recovers() && !other_mount;
                // ESTALE if the file was opened before the save noticed that it left a mixture.
                let may_fail = is_broken && BROKEN.contains(&errno)
                    || [libc::EIO, libc::ESTALE].contains(&errno)
                        && member.was_half_saved(time.start, is_recovered)
                    || errno == libc::ESTALE && member.judge.renewed(time)
                    || errno == libc::ENOENT && member.judge.moved(&self.absent(time));
                if may_fail {
                    return;
                }
                let directory = if name.starts_with(self.read_only.to_str().unwrap()) {
                    &self.read_only
                } else {
                    &self.writable
                }
                .join(&member.below);
                let status = fs::read_to_string(directory.join(".asdf-mount/status.yaml"));
                let on_disk = content::state_of_file(&member.source);
                self.is_wrong(
                    member,
                    &format!("{name}: {error}\n  on disk: {on_disk:?}\n  status: {status:?}"),
                );
            }
        }
    }

    /// Lists a directory, which must have the names of all views in it.
    pub(crate) fn list(&self, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let kills = self.kills.now();
        let member = self.member(dice);
        let below = Path::new(["", "blocks", "arrays", "fits", "tables", "preview"][dice.below(6) as usize]);
        let path = self.directory(member, dice).join(below);
        let begun = Instant::now();
        let listed: io::Result<BTreeSet<_>> =
            fs::read_dir(&path).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        let time = begun..Instant::now();
        if self.kills.lasted_since(kills) {
            return;
        }
        let wanted =
            VIEWS.iter().map(|view| Path::new(view.name)).filter(|view| view.parent() == Some(below));
        let missing = |names: BTreeSet<OsString>| {
            wanted.clone().find(|view| !names.contains(view.file_name().unwrap()))
        };
        match listed.map(missing) {
            Ok(None) => {}
            // The C library takes ENOENT for the end of the directory.
            Ok(Some(_)) if member.judge.moved(&self.absent(&time)) => {}
            Ok(Some(name)) => {
                let what = format!("{} is not listed", name.display());
                self.judge(member, &format!("{}/", path.display()), &time, Ok(Err(what)));
            }
            Err(error) => self.judge(member, &format!("{}/ listed", path.display()), &time, Err(error)),
        }
    }

    /// Returns the interval in which a name was missing that a read in this interval may have missed: the kernel keeps for a
    /// while that a directory has no such name.
    fn absent(&self, time: &Range<Instant>) -> Range<Instant> {
        let delay = if self.kind == Kind::File { Duration::ZERO } else { NOTICED };
        time.start - delay..time.end
    }

    /// Opens a file of a view, reads its beginning, and the rest later.
    pub(crate) fn hold(&self, dice: &mut Dice) {
        let member = self.member(dice);
        // Drafts are in the first one.
        let View { name, seen } = &VIEWS[1 + dice.below(VIEWS.len() as u64 - 1) as usize];
        let path = self.directory(member, dice).join(name);
        let kills = self.kills.now();
        let begun = Instant::now();
        let daemons = self.daemons.read().unwrap();
        let mut bytes = Vec::new();
        let opened = File::open(&path).and_then(|mut file| {
            (&mut file).take(dice.below(5000)).read_to_end(&mut bytes)?;
            Ok(file)
        });
        let time = begun..Instant::now();
        drop(daemons);
        let mut file = match opened {
            Ok(opened) => opened,
            Err(_) if self.kills.lasted_since(kills) => return,
            Err(error) => {
                return self.judge(member, &format!("{} opened", path.display()), &time, Err(error));
            }
        };
        std::thread::sleep(Duration::from_millis(dice.below(400)));
        let daemons = self.daemons.read().unwrap();
        let read = file.read_to_end(&mut bytes);
        let all = begun..Instant::now();
        drop(daemons);
        if self.kills.lasted_since(kills) {
            return;
        }
        let name = format!("{}, held", path.display());
        match read {
            Ok(_) => self.judge(member, &name, &time, Ok(seen(&bytes))),
            Err(error) => self.judge(member, &name, &all, Err(error)),
        }
    }

    /// Maps an array in another process, and reads it twice.
    pub(crate) fn map(&self, dice: &mut Dice) {
        const SCRIPT: &str = "
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
start, size = int(sys.argv[3]), int(sys.argv[4])
data = mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ)
first = data[start:start + 8800]
print(int.from_bytes(first[-4:], sys.argv[5]), flush=True)
time.sleep(float(sys.argv[2]))
assert data[start:start + size] == first[:4] * (size // 4), 'mixed'
";
        let member = self.member(dice);
        // Place and byte order of the numbers, and what is added to them.
        let (name, start, order, more) = match dice.below(3) {
            0 => ("arrays/stored.npy", 128, "little", 0),
            1 => ("arrays/packed.npy", 128, "little", 0),
            _ => ("fits/stored.fits", 2880, "big", 1 << 31),
        };
        let path = self.directory(member, dice).join(name);
        let kills = self.kills.now();
        let begun = Instant::now();
        let output = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(&path)
            .arg(format!("0.{}", dice.below(6)))
            .args([&format!("{start}"), &format!("{}", ELEMENTS * 4), order])
            .output()
            .unwrap();
        let time = begun..Instant::now();
        let is_broken =
            member.judge.overwritten(&time, self.kind == Kind::ReadOnly || path.starts_with(&self.read_only));
        let is_unproven = member.judge.renewed(&time);
        if self.kills.lasted_since(kills) || is_broken || is_unproven || member.was_half_saved(begun, false) {
            let text = String::from_utf8_lossy(&output.stderr);
            // SIGBUS and errors are right then. A map that was made while another program overwrote the file shows the
            // mixture that the file was.
            if text.contains("mixed") && !member.judge.mixed(&time) {
                self.is_wrong(member, &format!("{}: the map shows two versions", path.display()));
            }
            return;
        }
        let version: Result<u32, _> = String::from_utf8_lossy(&output.stdout).trim().parse();
        match version {
            Ok(version) if output.status.success() => {
                let seen = Seen::Version(version ^ more);
                self.judge(member, &format!("{}, mapped", path.display()), &time, Ok(Ok(seen)));
            }
            _ => self.is_wrong(member, &format!("{}, mapped: {output:?}", path.display())),
        }
    }
}
