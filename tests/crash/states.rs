//! All states that a save may leave: crashes with every subset of the unsynced writes, kills, failing calls, full disks,
//! and recoveries that are interrupted by all of these. Each is recovered to the old file or the new one.
//!
//! For each plan a test walks through the scenarios of `simulated`. It explores
//!
//! - a save, and the recovery of some of the states that it leaves, at every change and sync;
//! - a save of which each call fails in turn, once or from then on, also calls that only read;
//! - a save on a disk that has room for a number of blocks only, for every number;
//! - a recovery of which each call fails in turn, and one on a full disk.
//!
//! At a sync, a crash may keep any subset of the changes that are not durable, sectors torn from each other, so that there
//! are up to 2^70 states. All are recovered if they are few, else as many drawn ones (`Choices::random`).
//!
//! A push explores some 20 000 states of each plan, `scripts/test --all` for a minute each. For more:
//! `STATES_SECONDS=3600 STATES_SEED=1 cargo test --test crash states:: -- --nocapture`

use std::time::{Duration, Instant};

use asdf_access::Kind;
use asdf_file::edit::SavePlan as Plan;

use crate::cases::{open, source};
use crate::simulated::{Scenario, scenarios};
use common::dice::Dice;
use common::sim::{Choices, Disk, Fault, Moment, Sim};

/// States of each plan that are recovered at least.
const LEAST: u64 = 20_000;
/// Blocks of 1 KiB that no save here fills.
const MAX_ROOM: usize = 400;

/// The numbers of states that are drawn at one moment, where there are more.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// After a save.
    save: u64,
    /// After a save of which a call failed, or on a full disk.
    failed: u64,
    /// After an interrupted recovery.
    recovery: u64,
    /// One of so many states has its recovery interrupted.
    recovered: u64,
    /// One of so many calls fails, and one of so many numbers of blocks is tried.
    steps: usize,
}

const FEW: Sizes = Sizes { save: 30, failed: 2, recovery: 2, recovered: 30, steps: 5 };
const MANY: Sizes = Sizes { save: 3000, failed: 60, recovery: 20, recovered: 30, steps: 1 };

/// The exploration of one plan.
struct Explorer {
    plan: Plan,
    dice: Dice,
    sizes: Sizes,
    /// The save that is explored, for messages.
    shown: String,
    states: u64,
    /// Moments of which all states were recovered, and those of which some were.
    whole: u64,
    drawn: u64,
    end: Option<Instant>,
}

impl Explorer {
    fn new(plan: Plan, sizes: Sizes) -> Self {
        Self { plan, dice: Dice(1), sizes, shown: String::new(), states: 0, whole: 0, drawn: 0, end: None }
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() > end)
    }

    /// Recovers states that a crash or a kill at a moment leaves. `must_be` is the side that they have to become.
    fn moment(
        &mut self,
        scenario: &Scenario,
        moment: &Moment,
        must_be: Option<char>,
        most: u64,
        depth: usize,
    ) {
        self.state(scenario, &moment.disk.killed(), must_be, depth, &|| "killed".to_owned());
        if !moment.is_at_sync {
            return;
        }
        let choices = Choices::of(&moment.disk);
        let count = choices.count();
        let is_whole = count <= most;
        if is_whole {
            self.whole += 1;
        } else {
            self.drawn += 1;
        }
        for n in 0..count.min(most) {
            let state = if is_whole { choices.state(n) } else { choices.random(&mut self.dice) };
            let shown = || format!("state {n} of {count} after {} syncs, depth {depth}", moment.disk.syncs());
            self.state(scenario, &state, must_be, depth, &shown);
        }
    }

    /// Opens the file, which recovers it. A recovery needs no room; only if a crash during a rewriting loses where the new
    /// pages are, but not the size, the recovery waits for room.
    fn recovered(&self, disk: Disk) -> (Sim, asdf_access::Result<usize>) {
        let open = |sim: &Sim| open(sim).map(|target| target.recovered().set_aside.len());
        let sim = disk.mount();
        let recovered = open(&sim);
        if self.plan != Plan::Rewrite
            || recovered.as_ref().map_err(asdf_access::Error::errno) != Err(libc::ENOSPC)
        {
            return (sim, recovered);
        }
        let disk = sim.disk().killed().with_room(MAX_ROOM).record_changes();
        let sim = disk.mount();
        let recovered = open(&sim);
        (sim, recovered)
    }

    /// Recovers one state; interrupts some of the recoveries.
    fn state(
        &mut self,
        scenario: &Scenario,
        state: &Disk,
        must_be: Option<char>,
        depth: usize,
        shown: &dyn Fn() -> String,
    ) {
        self.states += 1;
        let is_interrupted = depth == 0 && self.dice.below(self.sizes.recovered) == 0;
        let disk = if is_interrupted { state.clone().record_changes() } else { state.clone() };
        let (sim, recovered) = self.recovered(disk);
        let side = scenario.side(&sim.disk());
        let context = self.shown.clone();
        let shown = || format!("{} {:?}, {context}: {}", scenario.name, scenario.plan, shown());
        assert!(
            matches!(recovered, Ok(0)) && side.is_some(),
            "{}: {recovered:?}, {side:?}, {}",
            shown(),
            state.source_map()
        );
        assert!(must_be.is_none() || must_be == side, "{}: became {side:?}", shown());
        assert!(sim.disk().has_only(source()), "{}: {:?} are left", shown(), sim.disk().names());
        if !is_interrupted {
            return;
        }
        let (_, calls) = sim.counts();
        self.moments(scenario, &sim.all_moments(), must_be, side, self.sizes.recovery, 1);
        // A disk that fails during the recovery.
        let at = self.dice.below(4 * calls as u64 + 1) as usize;
        for errno in [libc::EIO, libc::ENOSPC] {
            for always in [false, true] {
                for reads in [false, true] {
                    let at = if reads { at } else { at / 4 };
                    let fault = Fault { at, errno, always, reads };
                    let sim = state.clone().fail(fault).record_changes().mount();
                    let _ = open(&sim).map(drop);
                    self.moments(scenario, &sim.all_moments(), must_be, must_be, self.sizes.recovery, 1);
                }
            }
        }
        let (sim, recovered) = self.recovered(state.clone().with_room(0).record_changes());
        let side = scenario.side(&sim.disk());
        assert!(recovered.is_ok() && side.is_some(), "{}, on a full disk: {recovered:?}, {side:?}", shown());
        self.moments(scenario, &sim.all_moments(), must_be, side, self.sizes.recovery, 1);
    }

    /// Recovers states of all moments. Of the last moment, they must become the second side, of the others, the first.
    fn moments(
        &mut self,
        scenario: &Scenario,
        moments: &[Moment],
        must_be: Option<char>,
        in_the_end: Option<char>,
        most: u64,
        depth: usize,
    ) {
        for (n, moment) in moments.iter().enumerate() {
            // Only a rename that was not reported as durable may be lost.
            let is_last =
                n + 1 == moments.len() && (depth == 0 || !matches!(self.plan, Plan::Clone | Plan::Copy));
            self.moment(scenario, moment, if is_last { in_the_end } else { must_be }, most, depth);
        }
    }

    fn save(&mut self, scenario: &Scenario) {
        "a save".clone_into(&mut self.shown);
        let sim = scenario.disk().record_changes().mount();
        scenario.save(&sim).unwrap();
        self.moments(scenario, &sim.all_moments(), None, Some('n'), self.sizes.save, 0);
    }

    /// Lets each call of a save fail.
    fn failed_save(&mut self, scenario: &Scenario) {
        for reads in [false, true] {
            let fault = Fault { at: usize::MAX, errno: 0, always: false, reads };
            let sim = scenario.disk().record().fail(fault).mount();
            scenario.save(&sim).unwrap();
            let (_, calls) = sim.counts();
            let mut at = self.dice.below(self.sizes.steps as u64) as usize;
            while at < calls && !self.is_over() {
                for errno in [libc::EIO, libc::ENOSPC, libc::EACCES] {
                    let always = self.dice.below(2) == 0;
                    self.fails(scenario, Fault { at, errno, always, reads });
                }
                at += self.sizes.steps * if reads { 4 } else { 1 };
            }
        }
    }

    fn fails(&mut self, scenario: &Scenario, fault: Fault) {
        self.shown = format!("{fault:?}");
        let shown = format!("{} {:?}, {fault:?}", scenario.name, scenario.plan);
        let sim = scenario.disk().fail(fault).record_changes().mount();
        let answer = scenario.save(&sim);
        let side = scenario.side(&sim.disk());
        match &answer {
            Ok(_) => assert_eq!(side, Some('n'), "{shown}"),
            Err(error) if error.kind() == Kind::Unfinished => {}
            Err(error) if error.message().contains("the new file is in place") => {
                assert_eq!(side, Some('n'), "{shown}");
            }
            // The new file has the name, and can't be examined.
            Err(_) if fault.reads && matches!(scenario.plan, Plan::Clone | Plan::Copy) => {
                assert!(side.is_some(), "{shown}: {answer:?}");
            }
            Err(error) => {
                assert_eq!(side, Some('o'), "{shown}: {error}");
                if !fault.reads && fault.errno != libc::EACCES {
                    assert_eq!(error.errno(), fault.errno, "{shown}: {error}");
                }
            }
        }
        let in_the_end = answer.is_ok().then_some('n');
        self.moments(scenario, &sim.all_moments(), None, in_the_end, self.sizes.failed, 0);
    }

    /// Saves on a disk with every number of free blocks, until one is enough.
    fn full_disk(&mut self, scenario: &Scenario) {
        let mut room = self.dice.below(self.sizes.steps as u64) as usize;
        let mut is_enough = false;
        while !is_enough && !self.is_over() {
            assert!(room < MAX_ROOM, "{}: no room is enough", scenario.name);
            self.shown = format!("room for {room} blocks");
            let shown = format!("{} {:?}, {}", scenario.name, scenario.plan, self.shown);
            let sim = scenario.disk().with_room(room).record_changes().mount();
            let answer = scenario.save(&sim);
            let side = scenario.side(&sim.disk());
            match &answer {
                Ok(_) => {
                    is_enough = true;
                    assert_eq!(side, Some('n'), "{shown}");
                }
                Err(error) => {
                    // It is undone at once.
                    assert_eq!((error.errno(), side), (libc::ENOSPC, Some('o')), "{shown}: {error}");
                    let disk = sim.disk();
                    assert!(disk.has_only(source()), "{shown}: {error}: {:?}", disk.names());
                }
            }
            let in_the_end = if answer.is_ok() { Some('n') } else { Some('o') };
            self.moments(scenario, &sim.all_moments(), None, in_the_end, self.sizes.failed, 0);
            room += self.sizes.steps;
        }
    }
}

/// Explores a plan: until enough states were recovered, or until the time is up that `STATES_SECONDS` gives to each plan.
fn explore(plan: Plan) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = number("STATES_SECONDS");
    let start = Instant::now();
    let mut explorer = Explorer {
        dice: Dice(number("STATES_SEED").unwrap_or(1)),
        end: seconds.map(|seconds| start + Duration::from_secs(seconds)),
        ..Explorer::new(plan, if seconds.is_some() { MANY } else { FEW })
    };
    let mut scenarios = scenarios();
    scenarios.retain(|scenario| scenario.plan == plan);
    loop {
        for scenario in &scenarios {
            explorer.save(scenario);
            explorer.failed_save(scenario);
            explorer.full_disk(scenario);
        }
        if explorer.is_over() || (explorer.end.is_none() && explorer.states >= LEAST) {
            break;
        }
    }
    let Explorer { states, whole, drawn, .. } = explorer;
    let seconds = start.elapsed().as_secs();
    println!("{plan:?}: {states} states, all of {whole} moments, some of {drawn}, {seconds} s");
}

/// An insertion that is refused is undone, and the next way begins with the time that undoing has set.
#[test]
fn of_the_next_way_are_recovered() {
    let mut scenarios = scenarios();
    scenarios.retain(|scenario| scenario.plan == Plan::Insert && scenario.name == "grows, no place beside");
    let mut explorer = Explorer::new(Plan::Insert, Sizes { failed: 1000, recovered: u64::MAX, ..FEW });
    for at in 4..8 {
        let fault = Fault { at, errno: libc::EACCES, always: false, reads: false };
        explorer.fails(&scenarios[0], fault);
    }
    assert!(explorer.states > 5000, "{}", explorer.states);
}

#[test]
fn of_a_save_in_place_are_recovered() {
    explore(Plan::InPlace);
}

#[test]
fn of_an_insertion_are_recovered() {
    explore(Plan::Insert);
}

#[test]
fn of_a_clone_are_recovered() {
    explore(Plan::Clone);
}

#[test]
fn of_a_copy_are_recovered() {
    explore(Plan::Copy);
}

#[test]
fn of_a_rewriting_are_recovered() {
    explore(Plan::Rewrite);
}
