//! Every state after a crash is recovered to the old file or the new one, for every plan.

use asdf_access::{Kind, Result};
use asdf_file::edit::{Applied, Indexed, SaveOptions, SavePlan as Plan};

use crate::cases::{blocks, crashes, open, source};
use crate::files::{Parts, block, index, text};
use common::dice::Dice;
use common::sim::{Abilities, Disk, Fault, Sim};

/// The result of a recovery, or a sentence that says what is wrong after it.
type Recovered<T> = std::result::Result<T, String>;

/// A file, and a text to save into it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    abilities: Abilities,
    pub(crate) plan: Plan,
    indexed: Indexed,
    old: Vec<u8>,
    new: Vec<u8>,
    text: Vec<u8>,
    options: SaveOptions,
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |name, abilities, plan, indexed, parts: &Parts, right: &Parts, text: Vec<u8>, padding| {
        let options = SaveOptions { padding, only: None };
        let new = right.saved(&text, &options).bytes();
        all.push(Scenario { name, abilities, plan, indexed, old: parts.bytes(), new, text, options });
    };
    let none = Abilities::default();
    let padded = Parts { text: text('a', 900), padding: vec![b' '; 5000], blocks: blocks(), tail: None };
    for (name, len) in [("the same length", 900), ("shorter", 300), ("longer", 5900)] {
        add(name, none, Plan::InPlace, Indexed::Kept, &padded, &padded, text('b', len), None);
    }
    let closed = Abilities { closed: true, ..none };
    add("no place beside", closed, Plan::InPlace, Indexed::Kept, &padded, &padded, text('b', 700), None);
    for (name, tail) in [
        ("no index", Vec::new()),
        ("a stale index", index(&[5, 9, 13])),
        ("a cut index", index(&padded.offsets())[..40].to_vec()),
        ("zeros at the end", vec![0; 9000]),
    ] {
        let parts = Parts { tail: Some(tail), ..padded.clone() };
        add(name, none, Plan::InPlace, Indexed::Written, &parts, &padded, text('b', 700), None);
    }
    let bare = Parts { text: text('a', 5000), ..Parts::default() };
    for (name, len) in [("no blocks, shorter", 1000), ("no blocks, longer", 11_000)] {
        add(name, none, Plan::InPlace, Indexed::None, &bare, &bare, text('b', len), None);
    }
    let streamed = Parts { blocks: vec![block(&[7; 900], 0, 1)], tail: Some(Vec::new()), ..padded.clone() };
    add("streamed", none, Plan::InPlace, Indexed::None, &streamed, &streamed, text('b', 700), None);
    for plan in [Plan::Clone, Plan::Insert, Plan::Copy, Plan::Rewrite] {
        let can = Abilities::of(plan);
        for (name, len, padding) in
            [("small head", 900, None), ("head of a page", 4096, Some(0)), ("large head", 9300, Some(0))]
        {
            let parts = Parts { text: text('a', len), padding: Vec::new(), blocks: blocks(), tail: None };
            let text = text('b', len + 1500);
            add(name, can, plan, Indexed::Written, &parts, &parts, text.clone(), padding);
            let unknown = Parts { tail: Some(b"another file's bytes".to_vec()), ..parts.clone() };
            if len == 900 {
                add("unknown bytes", can, plan, Indexed::Unknown, &unknown, &unknown, text.clone(), padding);
                let zeros = Parts { tail: Some(vec![0; 9000]), ..parts.clone() };
                add("grows, zeros at the end", can, plan, Indexed::Written, &zeros, &parts, text, padding);
            }
        }
    }
    for plan in [Plan::Clone, Plan::Copy] {
        let can = Abilities { leases: true, ..Abilities::of(plan) };
        let parts = Parts { text: text('a', 900), padding: Vec::new(), ..streamed.clone() };
        let text = text('b', 2000);
        add("a stream that no program writes", can, plan, Indexed::None, &parts, &parts, text, None);
    }
    let parts = Parts { text: text('a', 900), padding: Vec::new(), blocks: blocks(), tail: None };
    let shares = Abilities { clones: true, copies_on_write: true, ..Abilities::of(Plan::Rewrite) };
    add("shares the image", shares, Plan::Rewrite, Indexed::Written, &parts, &parts, text('b', 2000), None);
    for plan in [Plan::Insert, Plan::Rewrite] {
        let can = Abilities { closed: true, ..Abilities::of(plan) };
        let text = text('b', 2000);
        add("grows, no place beside", can, plan, Indexed::Written, &parts, &parts, text, None);
    }
    all
}

impl Scenario {
    pub(crate) fn disk(&self) -> Disk {
        Disk::with(source(), &self.old, self.abilities)
    }

    pub(crate) fn save(&self, sim: &Sim) -> Result<Applied> {
        open(sim)?.save(&self.text, &self.options)
    }

    /// Returns 'o' for the old file, 'n' for the new one, and `None` for any other.
    pub(crate) fn side(&self, disk: &Disk) -> Option<char> {
        if disk.has_bytes(source(), &self.old) {
            Some('o')
        } else {
            disk.has_bytes(source(), &self.new).then_some('n')
        }
    }

    /// Recovers `disk`; returns the letter of the source's text, or an error.
    pub(crate) fn recover(&self, disk: Disk, must_be: Option<char>) -> Recovered<(char, Sim)> {
        let sim = disk.record().mount();
        let target = open(&sim).map_err(|error| format!("recovery: {error}"))?;
        if !target.recovered().set_aside.is_empty() {
            return Err(format!("set aside: {:?}", target.recovered().set_aside));
        }
        let side = self.side(&sim.disk()).ok_or("neither old nor new")?;
        if must_be.is_some_and(|must_be| must_be != side) {
            return Err(format!("became {side}"));
        }
        let again = open(&sim).map_err(|error| format!("second recovery: {error}"))?;
        if !again.recovered().is_nothing() || self.side(&sim.disk()) != Some(side) {
            return Err("a second recovery did something".to_owned());
        }
        if sim.disk().names() != [source()] {
            return Err(format!("left behind: {:?}", sim.disk().names()));
        }
        Ok((side, sim))
    }

    /// Recovers all states that a crash at `moment` may leave, and crashes again during some of the
    /// recoveries. Fails at the first state that does not become what it must be.
    fn crash(&self, moment: &Disk, must_be: Option<char>, dice: &mut Dice, depth: usize) -> Recovered<()> {
        let mut states = vec![("killed".to_owned(), moment.killed())];
        for (name, state) in crashes(moment, dice, if depth == 0 { 12 } else { 3 }) {
            states.push((name, state));
        }
        for (name, state) in states {
            let recovered = self.recover(state, must_be);
            let (side, sim) = recovered.map_err(|why| format!("{}: {name}: {why}", self.name))?;
            if depth > 0 || (name != "killed" && dice.below(16) != 0) {
                continue;
            }
            let moments = sim.moments();
            let last = moments.len() - 1;
            for (n, moment) in moments.iter().enumerate() {
                // A finished recovery must be durable; only a rename that was not reported as durable
                // may be lost.
                let settled = n == last && !matches!(self.plan, Plan::Clone | Plan::Copy);
                let must_be = if settled { Some(side) } else { must_be };
                self.crash(moment, must_be, dice, 1)
                    .map_err(|why| format!("{name}, then at moment {n} of the recovery: {why}"))?;
            }
        }
        Ok(())
    }

    /// Saves, and simulates a crash at each moment.
    fn run(&self, disk: Disk, dice: &mut Dice) -> Recovered<()> {
        let sim = disk.record().mount();
        let saved = self.save(&sim).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        assert_eq!((saved.plan, saved.indexed), (Some(self.plan), self.indexed), "{}", self.name);
        let moments = sim.moments();
        let last = moments.len() - 1;
        for (n, moment) in moments.iter().enumerate() {
            let must_be = (n == last).then_some('n');
            self.crash(moment, must_be, dice, 0).map_err(|why| format!("moment {n}: {why}"))?;
        }
        Ok(())
    }
}

#[test]
fn a_save_makes_the_new_file_and_nothing_else() {
    for scenario in scenarios() {
        let sim = scenario.disk().record().mount();
        let mut target = open(&sim).unwrap();
        let saved = target.save(&scenario.text, &scenario.options).unwrap();
        let shown = format!("{} {:?}", scenario.name, scenario.plan);
        assert_eq!((saved.plan, saved.indexed), (Some(scenario.plan), scenario.indexed), "{shown}");
        assert_eq!(scenario.side(&sim.disk()), Some('n'), "{shown}");
        assert_eq!(sim.disk().names(), [source()], "{shown}");
        let most = match scenario.plan {
            Plan::InPlace => 3,
            Plan::Clone | Plan::Copy => 2,
            Plan::Insert => 4,
            Plan::Rewrite => 5,
        };
        assert_eq!((sim.counts().0, saved.fsyncs), (most, most as u32), "{shown}");
        // The layout known without reading equals the layout that reading finds.
        let known = target.layout().unwrap().clone();
        assert_eq!(&known, open(&sim).unwrap().layout().unwrap(), "{shown}");
        let changes = sim.counts().1;
        assert_eq!(target.save(&scenario.text, &scenario.options).unwrap().plan, None, "{shown}");
        assert_eq!(sim.counts().1, changes, "{shown}");
    }
}

/// A save reports the file as it left it, not as another program made it a moment later.
#[test]
fn a_write_after_the_save_is_not_taken_for_the_save() {
    for plan in [Plan::InPlace, Plan::Insert, Plan::Rewrite, Plan::Clone, Plan::Copy] {
        for next_writer in [false, true] {
            let padding = if plan == Plan::InPlace { vec![b' '; 3000] } else { Vec::new() };
            let parts = Parts { text: text('a', 3000), padding, blocks: blocks(), tail: None };
            let able = if plan == Plan::InPlace { Abilities::default() } else { Abilities::of(plan) };
            let sim = Disk::with(source(), &parts.bytes(), Abilities { next_writer, ..able }).mount();
            let applied = open(&sim).unwrap().save(&text('b', 3500), &SaveOptions::default()).unwrap();
            assert_eq!(applied.plan, Some(plan));
            let now = sim.meta_of(source()).unwrap().identity;
            assert_eq!(applied.saved != now, next_writer, "{plan:?}");
        }
    }
}

/// A program looks up the file's name before the save swaps it, and opens the old file after the swap.
#[test]
fn a_program_that_comes_late_to_a_stream_finds_the_file_that_has_the_name() {
    for plan in [Plan::Clone, Plan::Copy] {
        let abilities = Abilities { leases: true, late_writer: true, ..Abilities::of(plan) };
        let parts = Parts { text: text('a', 900), blocks: vec![block(&[7; 900], 0, 1)], ..Parts::default() };
        let sim = Disk::with(source(), &parts.bytes(), abilities).mount();
        let before = sim.meta_of(source()).unwrap().identity;
        let error = open(&sim).unwrap().save(&text('b', 9000), &SaveOptions::default()).unwrap_err();
        assert!(error.message().contains("has it open for writing"), "{plan:?}: {error}");
        assert_eq!(sim.meta_of(source()).unwrap().identity, before, "{plan:?}");
        assert_eq!(sim.disk().names(), [source()], "{plan:?}");
    }
}

#[test]
fn a_save_that_finds_no_room_to_be_undone_waits_for_that_of_others() {
    let mut undone = 0;
    for scenario in scenarios() {
        let sim = scenario.disk().record().mount();
        scenario.save(&sim).unwrap();
        for at in 0..sim.counts().1 {
            let shown = format!("{} {:?}: at {at}", scenario.name, scenario.plan);
            let full = Fault { at, errno: libc::ENOSPC, always: true, reads: false };
            let sim = scenario.disk().record().fail(full).ends_after(3).mount();
            let answer = scenario.save(&sim);
            let disk = sim.disk().clone();
            let side = scenario.side(&disk);
            match answer {
                Ok(_) => assert_eq!(side, Some('n'), "{shown}"),
                Err(error) if error.message().contains("the new file is in place") => {
                    assert_eq!(side, Some('n'), "{shown}");
                }
                Err(error) => {
                    assert!(error.kind() != Kind::Unfinished && side == Some('o'), "{shown}: {error}");
                    undone += 1;
                }
            }
        }
    }
    assert!(undone > 100, "{undone}");
}

/// Nothing else writes here: a question without an answer does not show another program.
#[test]
fn a_call_that_fails_once_is_not_taken_for_another_program() {
    for scenario in scenarios() {
        for errno in [libc::EIO, libc::EACCES] {
            let mut at = 0;
            loop {
                let fault = Fault { at, errno, always: false, reads: true };
                let sim = scenario.disk().record().fail(fault).mount();
                let answer = scenario.save(&sim).map(|saved| saved.plan);
                if at >= sim.counts().1 {
                    break;
                }
                let recovered = scenario.recover(sim.disk().killed(), None).map(|(side, _)| side);
                let shown = format!("{} {:?}, {fault:?}: {answer:?}", scenario.name, scenario.plan);
                assert!(recovered.is_ok(), "{shown}, then {recovered:?}");
                at += 1;
            }
        }
    }
}

/// `scripts/test --all` runs these: `states` has more states, and these say that each sync is needed.
mod rare {
    use super::*;

    #[test]
    fn any_crash_leaves_the_old_file_or_the_new_one() {
        let mut dice = Dice(1);
        for scenario in scenarios() {
            scenario
                .run(scenario.disk(), &mut dice)
                .unwrap_or_else(|why| panic!("{:?}: {why}", scenario.plan));
        }
    }

    #[test]
    fn each_sync_of_a_save_is_needed() {
        for scenario in scenarios() {
            let sim = scenario.disk().record().mount();
            scenario.save(&sim).unwrap();
            for forgotten in 0..sim.counts().0 {
                let mut dice = Dice(2);
                let found =
                    (0..4).any(|_| scenario.run(scenario.disk().forget_sync(forgotten), &mut dice).is_err());
                assert!(found, "{} {:?}: sync {forgotten} is not missed", scenario.name, scenario.plan);
            }
        }
    }

    #[test]
    fn each_sync_of_a_recovery_is_needed() {
        let mut dice = Dice(3);
        for scenario in
            scenarios().into_iter().filter(|scenario| !matches!(scenario.plan, Plan::Clone | Plan::Copy))
        {
            let sim = scenario.disk().record().mount();
            scenario.save(&sim).unwrap();
            let mut missed = std::collections::BTreeMap::new();
            for moment in sim.moments() {
                for (_, state) in
                    std::iter::once((String::new(), moment.killed())).chain(crashes(&moment, &mut dice, 4))
                {
                    let sim = match scenario.recover(state.clone(), None) {
                        Ok((_, sim)) => sim,
                        Err(why) => panic!("{} {:?}: {why}", scenario.name, scenario.plan),
                    };
                    let syncs = sim.counts().0;
                    for forgotten in 0..syncs {
                        let sim = state.clone().forget_sync(forgotten).record().mount();
                        let Ok(_) = open(&sim) else { continue };
                        let side = scenario.side(&sim.disk());
                        let moments = sim.moments();
                        let missed = missed.entry((syncs, forgotten)).or_insert(false);
                        let mut wrong = || {
                            moments.iter().enumerate().any(|(n, moment)| {
                                let must_be = side.filter(|_| n + 1 == moments.len());
                                scenario.crash(moment, must_be, &mut dice, 1).is_err()
                            })
                        };
                        // Only few of the states depend on this sync.
                        *missed = *missed || (0..3).any(|_| wrong());
                    }
                }
            }
            let all = missed.values().all(|missed| *missed);
            assert!(all, "{} {:?}, (syncs, the one forgotten): {missed:?}", scenario.name, scenario.plan);
        }
    }
}
