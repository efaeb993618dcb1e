//! Random saves, crashes and remounts compared with a model: a text, blocks, an index.

use asdf_file::edit::{SaveOptions, SavePlan};

use crate::cases::{blocks, crashes, open, source};
use crate::files::{Parts, text};
use common::dice::Dice;
use common::sim::{Abilities, Disk};

/// Returns a random text, longer or shorter by little or much.
fn some_text(dice: &mut Dice) -> Vec<u8> {
    let letter = char::from(b'a' + dice.below(26) as u8);
    let len = match dice.below(4) {
        0 => dice.below(500),
        1 => 4096 * dice.below(5) + dice.below(3),
        _ => dice.below(30_000),
    };
    text(letter, 80 + len as usize)
}

#[test]
fn random_saves_and_crashes_end_as_the_model_says() {
    let can_all = Abilities { clones: true, inserts: true, links: 1, ..Abilities::default() };
    let many = [
        Abilities::of(SavePlan::Clone),
        Abilities::of(SavePlan::Insert),
        Abilities::of(SavePlan::Copy),
        Abilities::of(SavePlan::Rewrite),
        Abilities { closed: true, ..Abilities::of(SavePlan::Insert) },
        can_all,
        Abilities { links: 3, ..can_all },
    ];
    let mut dice = Dice(6);
    for (n, abilities) in many.into_iter().cycle().take(70).enumerate() {
        let blocks = if n % 9 == 8 { Vec::new() } else { blocks() };
        let mut model = Parts { text: some_text(&mut dice), blocks, ..Parts::default() };
        let mut disk = Disk::with(source(), &model.bytes(), abilities);
        for _ in 0..8 {
            let padding = [None, Some(0), Some(dice.below(20_000))][dice.below(3) as usize];
            let options = SaveOptions { padding, only: None };
            let sim = disk.clone().record().mount();
            let mut target = open(&sim).unwrap();
            for _ in 0..dice.below(3) {
                let text = some_text(&mut dice);
                let fits = text.len() <= model.text.len() + model.padding.len();
                let before = model.clone();
                model = model.saved(&text, &options);
                let saved = target.save(&text, &options).unwrap();
                if saved.plan.is_some() && !model.blocks.is_empty() {
                    assert_eq!(fits, saved.plan == Some(SavePlan::InPlace));
                }
                assert!(sim.disk().bytes(source()).unwrap() == model.bytes());
                // Refused texts change nothing.
                let refused = [b"#ASDF 1.0.0\n--- {}\n".to_vec(), b"%YAML\n...\n".to_vec(), Vec::new()];
                let refused = &refused[dice.below(3) as usize];
                assert_eq!(target.save(refused, &options).unwrap_err().errno(), libc::EINVAL);
                if dice.below(3) == 0 {
                    // A crash during or after this save.
                    let moments = sim.moments();
                    let at = dice.below(moments.len() as u64) as usize;
                    let states = crashes(&moments[at], &mut dice, 2);
                    let (_, state) = &states[dice.below(states.len() as u64) as usize];
                    let crashed = state.clone().mount();
                    let mut recovered = open(&crashed).unwrap();
                    let bytes = crashed.disk().bytes(source()).unwrap();
                    if at + 1 < moments.len() && bytes == before.bytes() {
                        model = before;
                    }
                    assert!(bytes == model.bytes(), "{abilities:?}");
                    assert_eq!(recovered.layout().unwrap().head.len, model.text.len() as u64);
                    disk = crashed.disk().killed();
                    break;
                }
                disk = sim.disk().killed();
                // Saved texts are durable; restart recording, so that the moments belong to a single save.
                let sim_again = disk.clone().record().mount();
                sim.disk().clone_from(&sim_again.disk());
            }
        }
    }
}
