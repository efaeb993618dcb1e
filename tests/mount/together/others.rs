//! Changes to the sources by programs that know nothing of the mount.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::content::{self, state_of_file};
use crate::judge::{Outcome, State, Style};
use crate::world::{Member, World};
use common::dice::Dice;

impl World {
    /// Chooses a file. Other actors do not change it outside of the mount meanwhile.
    fn other(&self, dice: &mut Dice, act: impl FnOnce(&Member, &mut Dice)) {
        let member = self.member(dice);
        let _alone = member.by_others.lock().unwrap();
        let _room = self.room.read().unwrap();
        act(member, dice);
    }

    fn new_state(&self) -> State {
        let number = self.number();
        State { version: number, note: number }
    }

    pub(crate) fn replace_by_others(&self, dice: &mut Dice) {
        self.other(dice, |member, _| self.replace(member));
    }

    /// Overwrites a source in place; it is truncated first, as by `cp`, or at the end.
    pub(crate) fn overwrite(&self, dice: &mut Dice) {
        self.other(dice, |member, dice| {
            let first = if dice.below(2) == 0 { Some(0) } else { None };
            write_in_parts(member, self.new_state(), first, dice);
        });
    }

    /// Cuts a source off, and writes it again.
    pub(crate) fn cut(&self, dice: &mut Dice) {
        self.other(dice, |member, dice| {
            let Ok(state) = state_of_file(&member.source) else { return };
            write_in_parts(member, state, Some(dice.below(400_000)), dice);
        });
    }

    /// Replaces a source by another one, and then by its copy of before, with the old time.
    pub(crate) fn put_back(&self, dice: &mut Dice) {
        self.other(dice, |member, dice| {
            let kept = member.source.with_extension("kept");
            let copy = |from: &Path, to: &Path| {
                let status = Command::new("cp").arg("-p").args([from, to]).status().unwrap();
                assert!(status.success());
            };
            copy(&member.source, &kept);
            let Ok(old) = state_of_file(&kept) else { return };
            self.replace(member);
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            if dice.below(2) == 0 {
                let write = member.judge.begin(old, Style::InPlace);
                copy(&kept, &member.source);
                member.judge.end(write, Outcome::Succeeded);
            } else {
                rename_over(member, &kept, old);
            }
        });
    }

    /// Gives a source another name for a moment.
    pub(crate) fn move_away(&self, dice: &mut Dice) {
        self.other(dice, |member, dice| {
            let away = member.source.with_extension("away");
            let change = member.judge.begin_of_names(Style::Moved);
            fs::rename(&member.source, &away).unwrap();
            std::thread::sleep(Duration::from_millis(dice.below(200)));
            fs::rename(&away, &member.source).unwrap();
            member.judge.end(change, Outcome::Succeeded);
        });
    }

    /// Gives a source a second name for a moment. Saves meanwhile keep it.
    pub(crate) fn link(&self, dice: &mut Dice) {
        self.other(dice, |member, dice| {
            let name = member.source.file_name().unwrap();
            // Beside the mounted directory, on the same file system.
            let link = match self.disk {
                Some(_) => member.source.with_extension("link"),
                None => self.folder.path().join("links").join(name),
            };
            let change = member.judge.begin_of_names(Style::Linked);
            let begun = Instant::now();
            fs::hard_link(&member.source, &link).unwrap();
            let linked = begun..Instant::now();
            member.judge.end(change, Outcome::Succeeded);
            std::thread::sleep(Duration::from_millis(dice.below(300)));
            let [one, other] = [&member.source, &link].map(|path| fs::metadata(path).unwrap().ino());
            // A save that was under way had seen one name.
            if one != other && !member.judge.written(&linked) {
                self.is_wrong(member, "a save has parted the two names of the file");
            }
            let change = member.judge.begin_of_names(Style::Linked);
            fs::remove_file(&link).unwrap();
            member.judge.end(change, Outcome::Succeeded);
        });
    }

    /// Fills the disk for a moment.
    pub(crate) fn fill(&self, dice: &mut Dice) {
        let _alone = self.room.write().unwrap();
        let path = self.disk.as_ref().unwrap().path().join("ballast");
        self.fills.changes();
        let file = File::create(&path).unwrap();
        let mut len = 0;
        let mut more = 16 << 20;
        while more >= 4096 {
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), len, more) {
                Ok(()) => len += more,
                Err(_) => more /= 2,
            }
        }
        std::thread::sleep(Duration::from_millis(dice.below(400)));
        // A process that another thread has just forked may still have the file open.
        file.set_len(0).unwrap();
        fs::remove_file(&path).unwrap();
        // The blocks of a removed file are free once the journal says so.
        rustix::fs::syncfs(File::open(path.parent().unwrap()).unwrap()).unwrap();
        self.fills.changes();
    }

    /// Updates a file as Python does.
    pub(crate) fn update_by_python(&self, dice: &mut Dice) {
        self.other(dice, |member, _| {
            let Ok(base) = state_of_file(&member.source) else { return };
            let state = State { note: self.number(), ..base };
            let write = member.judge.begin(state, Style::InPlace);
            let updated = self.python.as_ref().unwrap().lock().unwrap().update(&member.source, state);
            member.judge.end(write, if updated.is_ok() { Outcome::Succeeded } else { Outcome::Unknown });
            // Python may have met a file that was being saved.
            if updated.is_err() && !member.judge.is_beside_a_change(write) {
                self.is_wrong(member, &format!("update(): {updated:?}"));
            }
        });
    }

    /// Does what users do if another program wrote to the source in the moment in which a save did: the file may be a
    /// mixture, so it is replaced by a sound one.
    pub(crate) fn mend_mixture(&self, member: &Member) {
        let _alone = member.by_others.lock().unwrap();
        if !member.journal().exists() {
            return;
        }
        let _room = self.room.read().unwrap();
        self.replace(member);
        // Before the journal goes: a read that has failed is judged by one of the two.
        *member.mended.lock().unwrap() = Some(Instant::now());
        // The journal is that of the replaced file.
        let _ = fs::remove_file(member.journal());
    }

    /// Renames a new file over the source.
    fn replace(&self, member: &Member) {
        let state = self.new_state();
        let new = member.source.with_extension("new");
        fs::write(&new, content::file(state)).unwrap();
        rename_over(member, &new, state);
    }
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

/// Overwrites a source in place, in three parts; with `first`, it is cut to this length before.
fn write_in_parts(member: &Member, state: State, first: Option<u64>, dice: &mut Dice) {
    let bytes = content::file(state);
    let write = member.judge.begin(state, Style::InPlace);
    let file = OpenOptions::new().write(true).open(&member.source).unwrap();
    if let Some(len) = first {
        file.set_len(len).unwrap();
        std::thread::sleep(Duration::from_millis(dice.below(20)));
    }
    for (n, part) in bytes.chunks(bytes.len().div_ceil(3)).enumerate() {
        file.write_all_at(part, (n * bytes.len().div_ceil(3)) as u64).unwrap();
        std::thread::sleep(Duration::from_millis(dice.below(5)));
    }
    file.set_len(bytes.len() as u64).unwrap();
    drop(file);
    member.judge.end(write, Outcome::Succeeded);
}
