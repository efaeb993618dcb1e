//! Everything that a crash may leave of a disk, as independent choices.

use std::collections::{BTreeMap, BTreeSet};

use super::Disk;
use super::state::{Change, SECTOR};
use crate::dice::Dice;

/// The choices of a crash about the changes of a disk that are not durable. Each combination is another state.
#[derive(Debug)]
pub struct Choices<'a> {
    disk: &'a Disk,
    choices: Vec<Choice>,
}

/// One of the things that a crash decides.
#[derive(Debug)]
enum Choice {
    /// A sector: it has what it had, or what one of these changes wrote.
    Sector(Vec<usize>),
    /// The size and the page map of a file.
    Metadata(Vec<Metadata>),
    /// Names change or stay.
    Name(usize),
}

/// The kept changes of the size and page map of a file, which are in order.
#[derive(Clone, Debug, Default)]
struct Metadata {
    kept: Vec<usize>,
    /// The change after these, an insertion or its reverse, and the page at which it stopped.
    stopped: Option<(usize, u64)>,
}

impl Choice {
    fn count(&self) -> u64 {
        match self {
            Self::Sector(versions) => versions.len() as u64 + 1,
            Self::Metadata(options) => options.len() as u64,
            Self::Name(_) => 2,
        }
    }
}

impl<'a> Choices<'a> {
    pub fn of(disk: &'a Disk) -> Self {
        let mut sectors: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
        let mut files: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut choices = Vec::new();
        for (n, change) in disk.pending.iter().enumerate() {
            match change {
                Change::Data { page, sector, .. } => sectors.entry((*page, *sector)).or_default().push(n),
                change => match change.inode() {
                    Some(inode) => files.entry(inode).or_default().push(n),
                    None => choices.push(Choice::Name(n)),
                },
            }
        }
        for ((page, sector), versions) in sectors {
            let mut seen = BTreeSet::from([disk.durable.sector(page, sector)]);
            // Changes that write the same are one version.
            let versions = versions.into_iter().rev().filter(|n| match &disk.pending[*n] {
                Change::Data { bytes, .. } => seen.insert(bytes.to_vec()),
                _ => false,
            });
            choices.push(Choice::Sector(versions.collect()));
        }
        choices.extend(
            files.into_iter().map(|(inode, changes)| Choice::Metadata(metadata(disk, inode, &changes))),
        );
        choices.retain(|choice| choice.count() > 1);
        Self { disk, choices }
    }

    /// Returns the number of states.
    pub fn count(&self) -> u64 {
        self.choices.iter().fold(1, |product, choice| product.saturating_mul(choice.count()))
    }

    /// Returns the state of a number.
    pub fn state(&self, mut number: u64) -> Disk {
        self.with(|choice| {
            let count = choice.count();
            let one = number % count;
            number /= count;
            one
        })
    }

    /// Returns a random state: any, one with few changes or with many, or one that has lost or kept a few choices only.
    pub fn random(&self, dice: &mut Dice) -> Disk {
        let way = dice.below(4);
        let weight = 1 + dice.below(15);
        let some = dice.below(self.choices.len().max(1) as u64);
        let mut at = 0;
        self.with(|choice| {
            at += 1;
            let all = match choice {
                Choice::Metadata(options) => options.len() as u64 - 1,
                Choice::Sector(_) | Choice::Name(_) => 1,
            };
            let any = dice.below(choice.count());
            match way {
                0 => any,
                1 if dice.below(16) < weight => all,
                1 => 0,
                2 if at - 1 == some => any,
                2 => all,
                _ if at - 1 == some => any,
                _ => 0,
            }
        })
    }

    /// Returns the disk after a crash. For a sector, 1 is the last change; for names, 1 is the change; for a file's size and
    /// map, the last option is all changes. 0 is no change.
    fn with(&self, mut choose: impl FnMut(&Choice) -> u64) -> Disk {
        let mut kept: Vec<(usize, Option<u64>)> = Vec::new();
        for choice in &self.choices {
            let chosen = choose(choice) as usize;
            match choice {
                Choice::Sector(versions) if chosen > 0 => kept.push((versions[chosen - 1], None)),
                Choice::Name(n) if chosen > 0 => kept.push((*n, None)),
                Choice::Metadata(options) => {
                    let option = &options[chosen];
                    kept.extend(option.kept.iter().map(|n| (*n, None)));
                    kept.extend(option.stopped.map(|(n, page)| (n, Some(page))));
                }
                Choice::Sector(_) | Choice::Name(_) => {}
            }
        }
        kept.sort_unstable();
        let mut disk = self.disk.after_crash();
        for (n, stopped) in kept {
            disk.durable.apply(&self.disk.pending[n], stopped);
        }
        disk.durable.clear_behind_ends();
        disk.now = disk.durable.clone();
        disk
    }
}

/// Lists what may be kept of the changes of a file's size and map: a number of the first ones, perhaps with a part of the
/// next one, or with a later size. Times go with the change before them.
fn metadata(disk: &Disk, inode: u64, changes: &[usize]) -> Vec<Metadata> {
    let is_time = |n: &usize| matches!(disk.pending[*n], Change::Time { .. });
    let moves = |n: &usize| matches!(disk.pending[*n], Change::Insert { .. } | Change::Collapse { .. });
    let has_moved = changes.iter().any(moves);
    let mut options = Vec::new();
    for len in 0..=changes.len() {
        let kept = changes[..len].to_vec();
        let rest = &changes[len..];
        if len > 0 && rest.first().is_some_and(is_time) {
            continue;
        }
        options.push(Metadata { kept: kept.clone(), stopped: None });
        match rest.first().map(|n| (n, &disk.pending[*n])) {
            Some((n, Change::Insert { from, .. } | Change::Collapse { from, .. })) => {
                let map = disk.durable.inodes.get(&inode).map(|inode| &inode.map);
                let end = map.and_then(|map| map.keys().next_back().copied()).unwrap_or(0) + 2;
                options.extend(
                    (*from..=end).map(|page| Metadata { kept: kept.clone(), stopped: Some((*n, page)) }),
                );
            }
            // Sizes are independent, but not across a move of the file's pages.
            Some(_) if !has_moved => {
                let sizes = rest[1..].iter().filter(|n| matches!(disk.pending[**n], Change::Size { .. }));
                options.extend(sizes.map(|size| Metadata {
                    kept: kept.iter().chain([size]).copied().collect(),
                    stopped: None,
                }));
            }
            _ => {}
        }
    }
    // The last option is all changes.
    options.sort_by_key(|option| option.kept.len() == changes.len());
    options
}

impl super::State {
    fn sector(&self, page: u64, sector: usize) -> Vec<u8> {
        let page = self.pages.get(&page);
        page.map_or_else(|| vec![0; SECTOR], |page| page[sector * SECTOR..][..SECTOR].to_vec())
    }
}
