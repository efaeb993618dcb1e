//! The file that is saved, and its possible states after a crash.

use std::path::{Path, PathBuf};

use asdf_access::Result;
use asdf_file::edit::Target;

use crate::files::block;
use common::dice::Dice;
use common::sim::{Disk, SOURCE, Sim};

pub(crate) fn source() -> &'static Path {
    Path::new(SOURCE)
}

pub(crate) fn open(sim: &Sim) -> Result<Target<Sim>> {
    Target::open_in(sim.clone(), source(), Some(PathBuf::from("/state")))
}

/// Returns blocks with distinct bytes in every sector, and holes.
pub(crate) fn blocks() -> Vec<Vec<u8>> {
    let data: Vec<u8> = (0..2000_u32).map(|n| (n / 7 + n / 512) as u8 | 1).collect();
    let mut sparse = vec![0; 12_500];
    sparse[..300].fill(b's');
    sparse[12_000..].fill(b't');
    vec![block(&data, 2000, 0), block(&sparse, 12_500, 0), block(&data[..700], 900, 0)]
}

/// Returns states after a crash: no change lost, all lost, all after some change lost, one lost, all but one
/// lost, random ones.
pub(crate) fn crashes(moment: &Disk, dice: &mut Dice, some: u64) -> Vec<(String, Disk)> {
    let count = moment.at_risk();
    let mut states = vec![
        ("nothing kept".to_owned(), moment.crashed(dice, |_, _| false)),
        ("everything kept".to_owned(), moment.crashed(dice, |_, _| true)),
    ];
    if count == 0 {
        states.truncate(1);
        return states;
    }
    for _ in 0..some {
        let n = dice.below(count as u64) as usize;
        states.push((format!("{n} of {count} kept"), moment.crashed(dice, |at, _| at < n)));
        states.push((format!("only {n} of {count} kept"), moment.crashed(dice, |at, _| at == n)));
        states.push((format!("all but {n} of {count} kept"), moment.crashed(dice, |at, _| at != n)));
        let weight = 1 + dice.below(15);
        let kept = moment.crashed(dice, |_, dice| dice.below(16) < weight);
        states.push((format!("some of {count} kept"), kept));
    }
    states
}
