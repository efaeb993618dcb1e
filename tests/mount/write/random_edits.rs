//! A random sequence of edits, refusals, kills and remounts, compared with a model: the saved text.

use std::fs::{self, File};
use std::io::Write;

use rustix::process::{Pid, Signal, kill_process};

use crate::killed::{WAYS, Way, kill};
use crate::place::{BAD, Place, close, errno, write};
use common::dice::Dice;
use common::mount::{Mounted, wait_until};

/// Number of steps in a sequence.
const STEPS: usize = 25;

/// A file, its mount, and its expected text.
#[derive(Debug)]
struct Run {
    place: Place,
    mount: Option<Mounted>,
    text: String,
    dice: Dice,
}

impl Run {
    fn mount(&self) -> &Mounted {
        self.mount.as_ref().expect("it is mounted between the steps")
    }

    fn some_text(&mut self, n: usize) -> String {
        let len = match self.dice.below(4) {
            0 => self.dice.below(40),
            1 => 4096 * self.dice.below(6) + self.dice.below(3),
            _ => self.dice.below(40_000),
        };
        self.place.named(&format!("n{n} {}", "some words ".repeat(len as usize / 11)))
    }

    #[allow(clippy::too_many_lines)] // the cases, in chronological order
    fn step(&mut self, n: usize) {
        let new = self.some_text(n);
        match self.dice.below(10) {
            // The text is written, or renamed onto the tree.
            0..=2 => {
                write(self.mount(), &new).unwrap();
                self.text = new;
            }
            3 => {
                fs::write(self.mount().path("scratch"), &new).unwrap();
                fs::rename(self.mount().path("scratch"), self.mount().path("tree.yaml")).unwrap();
                self.text = new;
            }
            // An invalid text is refused in both ways, then a valid one is saved.
            4 => {
                let bad = self.place.named(&format!("{BAD} {n}"));
                assert_eq!(errno(write(self.mount(), &bad)), libc::EINVAL);
                fs::write(self.mount().path("scratch"), &bad).unwrap();
                let renamed = fs::rename(self.mount().path("scratch"), self.mount().path("tree.yaml"));
                assert_eq!(errno(renamed), libc::EINVAL);
            }
            // A text is saved, and saved again unchanged.
            5 => {
                let before = fs::metadata(&self.place.source).unwrap().modified().unwrap();
                write(self.mount(), &self.text).unwrap();
                assert_eq!(fs::metadata(&self.place.source).unwrap().modified().unwrap(), before);
            }
            // The daemon is killed while idle, with an open draft, or during a save.
            6 => {
                let mut draft = File::create(self.mount().path("tree.yaml")).unwrap();
                draft.write_all(&new.as_bytes()[..new.len() / 2]).unwrap();
                kill(self.mount());
                let _ = close(draft);
                self.remount();
            }
            7 => {
                let mount = self.mount.take().unwrap();
                let answer = std::thread::scope(|scope| {
                    let writing = scope.spawn(|| write(&mount, &new));
                    std::thread::sleep(std::time::Duration::from_micros(self.dice.below(9000)));
                    kill(&mount);
                    writing.join().unwrap()
                });
                drop(mount);
                self.mount = Some(self.place.mount());
                match self.place.holds_one_of(&[&self.text, &new]) {
                    0 => assert!(answer.is_err(), "it was said to be saved"),
                    _ => self.text = new,
                }
            }
            // The mount ends with an open draft.
            8 => {
                let mut draft = File::create(self.mount().path("tree.yaml")).unwrap();
                draft.write_all(&new.as_bytes()[..new.len() / 2]).unwrap();
                let daemon = self.mount().daemon().unwrap();
                for _ in 0..2 {
                    // The second signal does not wait for the handle.
                    let _ = kill_process(Pid::from_raw(daemon.cast_signed()).unwrap(), Signal::TERM);
                }
                assert!(wait_until(|| self.mount().daemon().is_none()));
                let _ = close(draft);
                self.remount();
            }
            _ => self.remount(),
        }
        // The kernel reports the last close of a refused draft only after close(2) has returned.
        let shows = wait_until(|| self.mount().tree() == self.text.as_bytes());
        assert!(shows, "{}", String::from_utf8_lossy(&self.mount().tree()));
        self.place.holds(&self.text);
        self.place.shows_blocks(self.mount());
        self.place.nothing_is_beside();
    }

    fn remount(&mut self) {
        drop(self.mount.take());
        self.mount = Some(self.place.mount());
    }
}

fn run(way: Way, seed: u64) {
    let place = way.place();
    let (mount, text) = (Some(place.mount()), place.text());
    let mut run = Run { place, mount, text, dice: Dice(seed) };
    for n in 0..STEPS {
        run.step(n);
    }
    run.place.is_sound();
}

#[test]
fn sequences_end_as_the_model_says() {
    for (n, way) in WAYS.into_iter().enumerate() {
        run(way, 90_001 + n as u64);
    }
}
