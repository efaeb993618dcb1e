//! Commands that save a text into a file: through the mount if it has the file locked, else in the file itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::content::{self, sum};
use crate::judge::{Outcome, State, Style};
use crate::world::{Member, World};
use common::dice::Dice;

impl World {
    pub(crate) fn set(&self, dice: &mut Dice) {
        self.save_by_command("--set", dice);
    }

    pub(crate) fn filter(&self, dice: &mut Dice) {
        self.save_by_command("--filter", dice);
    }

    pub(crate) fn edit(&self, dice: &mut Dice) {
        self.save_by_command("--edit", dice);
    }

    pub(crate) fn set_tree(&self, dice: &mut Dice) {
        self.save_by_command("--set-tree", dice);
    }

    fn save_by_command(&self, option: &str, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let before = [self.kills.now(), self.fills.now()];
        let member = self.member(dice);
        // These two do not look at the text that they replace, so the version of the blocks must stay.
        let looks = option == "--filter" || option == "--edit";
        let alone = (!looks).then(|| member.by_others.lock().unwrap());
        let Some(base) = tree_on_disk(member) else { return };
        let Ok(of_base) = content::state_of_tree(base.as_bytes()) else { return };
        let state = State { note: self.number(), ..of_base };
        let write = member.judge.begin(state, Style::Command);
        // A save that ended after the text was read is not beside this one.
        if tree_on_disk(member).is_none_or(|now| now != base) {
            member.judge.end(write, Outcome::Refused);
            return;
        }
        let path = |name: &str| self.folder.path().join("texts").join(format!("{name}{}", state.note));
        let [old, new, editor] = ["old", "new", "editor"].map(path);
        fs::write(&old, &base).unwrap();
        fs::write(&new, content::tree(state, dice.below(9000) as usize)).unwrap();
        let mut command = self.asdf_mount();
        command.arg(option);
        let [old, new] = [&old, &new].map(|path| path.to_str().unwrap());
        match option {
            "--set" => {
                command.args([&format!("note=\"{}\"", state.note), option, &format!("sum={}", sum(state))])
            }
            "--filter" => command.arg(format!("cmp -s - {old} && cat {new}")),
            "--edit" => {
                fs::write(&editor, format!("#!/bin/sh\ncmp -s \"$1\" {old} && cat {new} >\"$1\"\n")).unwrap();
                fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
                command.env_remove("VISUAL").env("EDITOR", &editor)
            }
            _ => command.arg(new),
        };
        let output = command.arg(&member.source).output().unwrap();
        drop(alone);
        self.end_of_command(member, write, before, option, &output);
        for path in [old, new, editor.to_str().unwrap()] {
            let _ = fs::remove_file(path);
        }
    }

    /// Takes a save back. It is not known beforehand which text this brings back, and there may be none.
    pub(crate) fn undo(&self, dice: &mut Dice) {
        let _daemons = self.daemons.read().unwrap();
        let before = [self.kills.now(), self.fills.now()];
        let member = self.member(dice);
        let write = member.judge.begin_undo();
        let output = self.asdf_mount().arg("--undo").arg(&member.source).output().unwrap();
        self.end_of_command(member, write, before, "--undo", &output);
    }

    fn end_of_command(&self, member: &Member, write: usize, before: [u32; 2], option: &str, output: &Output) {
        let [kills, fills] = before;
        let is_killed = self.kills.lasted_since(kills);
        let is_success = output.status.success();
        if !is_success {
            self.mend_mixture(member);
        }
        member.judge.end(
            write,
            if is_success && option != "--undo" {
                Outcome::Succeeded
            } else if is_success || is_killed {
                Outcome::Unknown
            } else {
                Outcome::Refused
            },
        );
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let may_fail = is_killed
            || member.judge.is_beside_a_change(write)
            || self.fills.lasted_since(fills) && text.contains("no space")
            || option == "--undo" && (text.contains("history") || text.contains("not changed"));
        let is_usual = output.status.code().is_some_and(|code| code < 2) && !text.contains("panick");
        if !is_usual || !is_success && !may_fail {
            self.is_wrong(member, &format!("{option}: {output:?}"));
        }
    }
}

/// Returns the tree in the file, which another program may be writing.
fn tree_on_disk(member: &Member) -> Option<String> {
    let bytes = fs::read(&member.source).ok()?;
    let end = bytes.windows(5).position(|five| five == b"\n...\n")? + 5;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
