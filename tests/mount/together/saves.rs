//! Programs that write `tree.yaml` in a mount.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::content;
use crate::judge::{Outcome, State, Style};
use crate::readers::BROKEN;
use crate::world::World;
use common::dice::Dice;

impl World {
    /// Edits a tree in one of the styles of programs.
    pub(crate) fn save(&self, dice: &mut Dice) {
        self.save_in(&self.writable, Style::Save, dice);
    }

    /// Edits a tree in the mount of the second daemon.
    pub(crate) fn save_elsewhere(&self, dice: &mut Dice) {
        self.save_in(&self.elsewhere, Style::Elsewhere, dice);
    }

    fn save_in(&self, mountpoint: &Path, style: Style, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let kills = self.kills.now();
        let fills = self.fills.now();
        let member = self.member(dice);
        let tree = mountpoint.join(&member.below).join("tree.yaml");
        let begun = Instant::now();
        // Reads are judged elsewhere; this one may have met a draft.
        let Ok(base) = fs::read(&tree) else { return };
        let Ok(of_base) = content::state_of_tree(&base) else { return };
        let state = State { note: self.number(), ..of_base };
        let write = member.judge.begin(state, style);
        let edit = Edit {
            tree: &tree,
            source: &member.source,
            base: &base,
            text: &content::tree(state, dice.below(9000) as usize),
            number: state.note,
            texts: &self.folder.path().join("texts"),
        };
        let way = dice.below(4);
        let result = match way {
            0 => edit.write_in_place(),
            1 => edit.write_and_rename(),
            2 => edit.write_and_cut(),
            _ => edit.write_through_map(),
        };
        let (outcome, error) = match result {
            Ok(Ended::Saved) => return member.judge.end(write, Outcome::Succeeded),
            Ok(Ended::OnAnotherBase) => return member.judge.end(write, Outcome::Refused),
            Ok(Ended::PerhapsAtClose(error)) => (Outcome::Unknown, error),
            Err(error) => (Outcome::Refused, error),
        };
        if self.kills.lasted_since(kills) {
            member.judge.end(write, Outcome::Unknown);
            return;
        }
        self.mend_mixture(member);
        member.judge.end(write, outcome);
        let errno = error.raw_os_error().unwrap_or_default();
        let time = begun..Instant::now();
        // Two programs that write tree.yaml at once may mix their texts.
        let may_fail = errno == libc::EBUSY && member.judge.is_beside_a_change(write)
            || [libc::EINVAL, libc::EFAULT].contains(&errno) && member.judge.is_beside_a_save(write)
            || errno == libc::EIO && member.was_half_saved(begun, self.kind.recovers())
            || errno == libc::ENOENT && member.judge.moved(&time)
            || errno == libc::ENOSPC && self.fills.lasted_since(fills)
            || (BROKEN.contains(&errno) || errno == libc::EINVAL || errno == libc::EROFS)
                && member.judge.overwritten(&time, style == Style::Elsewhere);
        if !may_fail {
            self.is_wrong(member, &format!("save in way {way} in {}: {error}", mountpoint.display()));
        }
    }
}

/// A new text for a tree. Each style reads the tree again once its own edit has begun, and gives up if it is not `base`:
/// the mount can't know from which text another handle's text was made.
struct Edit<'a> {
    tree: &'a Path,
    source: &'a Path,
    base: &'a [u8],
    text: &'a str,
    number: u32,
    /// A directory for texts.
    texts: &'a Path,
}

/// How an edit ended that did not fail.
enum Ended {
    Saved,
    /// The text was not written.
    OnAnotherBase,
    /// The text was refused with this error, and the file then closed without one. Closing tries again.
    PerhapsAtClose(io::Error),
}

impl Edit<'_> {
    fn opened(&self) -> io::Result<Option<File>> {
        let mut file = OpenOptions::new().read(true).write(true).open(self.tree)?;
        Ok(self.is_base(&mut file)?.then_some(file))
    }

    fn is_base(&self, file: &mut File) -> io::Result<bool> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A draft that was refused is shown while another program has it open; it is no base.
        Ok(text == self.base && fs::read(self.source).is_ok_and(|bytes| bytes.starts_with(self.base)))
    }

    /// Truncates first.
    fn write_in_place(&self) -> io::Result<Ended> {
        let Some(file) = self.opened()? else { return Ok(Ended::OnAnotherBase) };
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
        let is_base = File::open(self.tree).and_then(|mut file| self.is_base(&mut file));
        let written = new.write_all(self.text.as_bytes());
        drop(new);
        let renamed = match is_base {
            Ok(true) => written.and_then(|()| fs::rename(&path, self.tree)).map(|()| Ended::Saved),
            Ok(false) => Ok(Ended::OnAnotherBase),
            Err(error) => Err(error),
        };
        if !matches!(renamed, Ok(Ended::Saved)) {
            let _ = fs::remove_file(&path);
        }
        renamed
    }

    /// Writes from the start, and truncates at the end.
    fn write_and_cut(&self) -> io::Result<Ended> {
        let Some(file) = self.opened()? else { return Ok(Ended::OnAnotherBase) };
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
    is_base = os.read(fd, 1 << 20) == base
    try:
        is_base = is_base and open(sys.argv[2], 'rb').read().startswith(base)
    except FileNotFoundError:
        is_base = False
    if not is_base:
        sys.exit()
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
    print('saved' if failed is None else f'closed {failed.errno}')
except OSError as error:
    print(f'failed {error.errno}')
";
        let input = self.texts.join(self.number.to_string());
        fs::write(&input, [self.base, b"\0", self.text.as_bytes()].concat())?;
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).args([self.tree, self.source]).stdin(File::open(&input)?);
        let output = command.output()?;
        fs::remove_file(&input)?;
        if !output.status.success() {
            // SIGBUS: another program has cut the file that this one has mapped.
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        let answer = String::from_utf8_lossy(&output.stdout);
        let error = |errno: &str| io::Error::from_raw_os_error(errno.parse().unwrap());
        match answer.trim().split_once(' ') {
            Some(("closed", errno)) => Ok(Ended::PerhapsAtClose(error(errno))),
            Some((_, errno)) => Err(error(errno)),
            None if answer.is_empty() => Ok(Ended::OnAnotherBase),
            None => Ok(Ended::Saved),
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
