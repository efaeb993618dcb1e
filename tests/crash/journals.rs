//! A journal is applied only to a file that is a mixture of the journal's old and new bytes.

use std::ffi::OsStr;
use std::path::Path;

use asdf_access::Kind;
use asdf_file::edit::recovery::SaveSide;
use asdf_file::edit::{SaveOptions, SavePlan};
use seekable::source::storage::Storage;

use crate::cases::{blocks, open, source};
use crate::files::{Parts, text};
use common::dice::Dice;
use common::sim::{Abilities, Disk, Sim, split};

const JOURNAL: &str = "/data/.galaxy.asdf.asdf-mount-journal";
const PLANS: [SavePlan; 3] = [SavePlan::InPlace, SavePlan::Insert, SavePlan::Rewrite];

/// Returns a disk with a save in progress: before the first change to the source, or near the end if `late`.
fn interrupted(plan: SavePlan, late: bool) -> (Parts, Parts, Disk) {
    let padding = if plan == SavePlan::InPlace { vec![b' '; 3000] } else { Vec::new() };
    let old = Parts { text: text('a', 3000), padding, blocks: blocks(), tail: None };
    let abilities = if plan == SavePlan::InPlace { Abilities::default() } else { Abilities::of(plan) };
    let sim = Disk::with(source(), &old.bytes(), abilities).record().mount();
    let options = SaveOptions::default();
    let new = text('b', 3500);
    assert_eq!(open(&sim).unwrap().save(&new, &options).unwrap().plan, Some(plan));
    let wanted = old.saved(&new, &options);
    let mut moments = sim.moments().into_iter().filter(|disk| {
        let written = disk.bytes(source()).unwrap() == wanted.bytes();
        disk.names().iter().any(|name| name == Path::new(JOURNAL)) && written == late
    });
    let moment = if late { moments.next() } else { moments.next_back() };
    (old, wanted, moment.unwrap())
}

fn is_there(sim: &Sim) -> bool {
    sim.disk().names().iter().any(|name| name == Path::new(JOURNAL))
}

#[test]
fn one_of_a_file_that_was_changed_since_keeps_it_from_being_opened() {
    for plan in PLANS {
        let (_, new, disk) = interrupted(plan, true);
        let sim = disk.mount();
        let file = sim.open_at(source()).unwrap();
        sim.write_at(&file, 300, b"another program").unwrap();
        let now = sim.disk().bytes(source()).unwrap();
        assert_ne!(now, new.bytes());
        for _ in 0..2 {
            let error = open(&sim).unwrap_err();
            assert_eq!(error.kind(), Kind::Unfinished, "{plan:?}: {error}");
            assert!(error.message().contains("remove the journal"), "{plan:?}: {error}");
            assert!(sim.disk().bytes(source()).unwrap() == now && is_there(&sim), "{plan:?}");
        }
        let (dir, journal) = split(Path::new(JOURNAL));
        sim.unlink(&dir, journal).unwrap();
        open(&sim).unwrap();
    }
}

/// The copy has another inode and another place on the disk than the journal says.
#[test]
fn one_of_a_file_that_was_copied_or_restored_recovers_it() {
    for plan in PLANS {
        for late in [false, true] {
            let (old, new, disk) = interrupted(plan, late);
            let sim = disk.mount();
            let paths = sim.disk().names();
            for path in &paths {
                let Some(bytes) = sim.disk().bytes(path) else { continue };
                let ((dir, name), copy) = (split(path), OsStr::new("copy"));
                let file = sim.create(&dir, copy).unwrap();
                sim.write_at(&file, 0, &bytes).unwrap();
                sim.rename(&dir, copy, name).unwrap();
            }
            let outcome = open(&sim).unwrap().recovered().outcome;
            let bytes = sim.disk().bytes(source()).unwrap();
            assert!(bytes == old.bytes() || bytes == new.bytes(), "{plan:?}, {late}: {outcome:?}");
            assert_eq!(sim.disk().names(), [source()], "{plan:?}, {late}");
        }
    }
}

#[test]
fn one_of_the_save_that_was_killed_is_finished_or_undone() {
    for plan in PLANS {
        for late in [false, true] {
            let (old, new, disk) = interrupted(plan, late);
            let sim = disk.mount();
            let outcome = open(&sim).unwrap().recovered().outcome.unwrap();
            let wanted = if outcome == SaveSide::Old { old } else { new };
            assert!(outcome == SaveSide::New || !late, "{plan:?}");
            assert!(sim.disk().bytes(source()).unwrap() == wanted.bytes(), "{plan:?}");
        }
    }
}

#[test]
fn a_damaged_one_changes_nothing_wrongly() {
    let mut dice = Dice(7);
    for plan in PLANS {
        for round in 0..400 {
            let (old, new, disk) = interrupted(plan, round % 2 == 0);
            let sim = disk.mount();
            let before = sim.disk().bytes(source()).unwrap();
            let journal = sim.open_at(Path::new(JOURNAL)).unwrap();
            let size = sim.meta(&journal).unwrap().identity.size;
            match dice.below(4) {
                0 => sim.set_len(&journal, dice.below(size)).unwrap(),
                1 => sim.write_at(&journal, 0, &[0; 512]).unwrap(),
                _ => {
                    let at = dice.below(size.min(700));
                    let mut byte = [0];
                    sim.read_at(&journal, at, &mut byte).unwrap();
                    sim.write_at(&journal, at, &[byte[0] ^ (1 << dice.below(8))]).unwrap();
                }
            }
            let answer = open(&sim);
            let after = sim.disk().bytes(source()).unwrap();
            let settled = after == old.bytes() || after == new.bytes();
            assert!(after == before || settled, "{plan:?}");
            assert!(answer.is_err() || settled, "{plan:?}");
        }
    }
}

/// The file system gives root's files to another user, so the journal would not be trusted after a crash.
#[test]
fn one_that_would_not_be_believed_is_not_relied_on() {
    for plan in PLANS {
        let padding = if plan == SavePlan::InPlace { vec![b' '; 3000] } else { Vec::new() };
        let old = Parts { text: text('a', 3000), padding, blocks: blocks(), tail: None };
        let abilities = Abilities { squashes: true, ..Abilities::of(plan) };
        let sim = Disk::with(source(), &old.bytes(), abilities).mount();
        let options = SaveOptions { padding: None, only: (plan != SavePlan::InPlace).then_some(plan) };
        let error = open(&sim).unwrap().save(&text('b', 3500), &options).unwrap_err();
        assert!(error.message().contains("it belongs to another user (uid 4242)"), "{plan:?}: {error}");
        assert!(sim.disk().bytes(source()).unwrap() == old.bytes(), "{plan:?}");
        assert_eq!(sim.disk().names(), [source()], "{plan:?}");
    }
}
