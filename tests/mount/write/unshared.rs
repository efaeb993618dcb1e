//! Writers of one file that share no locks: two mounts of one server, or two machines.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;

use crate::exchanged::Stopped;
use crate::faults::{Fault, Faults, calls};
use crate::place::{Place, file, write};
use crate::remote::Through;
use common::asdf::{Block, sample};
use common::dice::Dice;
use common::mount::Mounted;

const ROUNDS: usize = 40;

/// Returns a text of a random length: one that fits, or that moves the blocks by any distance.
fn text(place: &Place, writer: usize, round: usize, dice: &mut Dice) -> String {
    let lengths = [5, 400, 5000, 12_000, 40_000];
    let len = lengths[dice.below(lengths.len() as u64) as usize];
    place.named(&format!("{writer} in round {round} {}", "y".repeat(len)))
}

/// Saves two texts at the same moment.
fn save_both(mounts: &[Mounted; 2], texts: &[String; 2]) -> [std::io::Result<()>; 2] {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let savers = [0, 1].map(|n| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                write(&mounts[n], &texts[n])
            })
        });
        savers.map(|saver| saver.join().unwrap())
    })
}

#[test]
fn the_file_has_one_of_the_texts_whatever_two_writers_do() {
    has_one_of_the_texts(["bindfs", "bindfs"]);
    has_one_of_the_texts(["", "bindfs"]);
}

/// Saves beside another writer; each writer sees the file through a program of its own, or directly.
pub(crate) fn has_one_of_the_texts(programs: [&str; 2]) {
    let mut dice = Dice(19);
    let place =
        Place::with("tmpfs", &file(vec![Block::new(sample(9000, 1)), Block::new(sample(300_000, 2))]));
    let throughs = [0, 1].map(|n| {
        let program = programs[n];
        (!program.is_empty()).then(|| Through::new(program, &place, &format!("shown{n}")))
    });
    let mounts = [0, 1].map(|n| {
        let source = match &throughs[n] {
            Some(through) => through.0.join("a.asdf"),
            None => place.source.clone(),
        };
        place.try_mount(&source, &[]).unwrap_or_else(|output| panic!("{output:?}"))
    });
    let mut before = place.saved();
    let mut saved = 0;
    for round in 0..ROUNDS {
        let texts = [0, 1].map(|writer| text(&place, writer, round, &mut dice));
        let answers = save_both(&mounts, &texts);
        let found = place.holds_one_of(&[&texts[0], &texts[1], &before]);
        for (n, answer) in answers.iter().enumerate() {
            match answer {
                Ok(()) => saved += 1,
                Err(error) => {
                    let errno = error.raw_os_error();
                    // A file that loses its name is not there for sshfs for a moment. One that the other writer is
                    // saving in place is no ASDF file for a moment.
                    assert!(
                        matches!(errno, Some(libc::EBUSY | libc::ENOENT | libc::ESTALE | libc::EIO)),
                        "{programs:?}, {round}, {n}: {error}: {}",
                        place.log()
                    );
                }
            }
        }
        let is_told = answers.iter().any(Result::is_ok);
        assert!(!is_told || found < 2, "{programs:?}, {round}: {answers:?}: {}", place.log());
        before = place.saved();
    }
    assert!(saved > 0, "{programs:?}: {saved}: {}", place.log());
    drop((mounts, throughs));
    place.nothing_is_beside();
}

/// Another program gives the name to its own file, which has other blocks, while a save is stopped before one of its calls.
/// The save then goes on, or is killed at one of its next calls.
#[test]
fn a_file_that_takes_the_name_during_a_save_is_never_lost() {
    let place =
        Place::with("tmpfs", &file(vec![Block::new(sample(9000, 1)), Block::new(sample(300_000, 2))]));
    let other = file(vec![Block::new(sample(50_000, 7))]).build().bytes;
    let tree = place.folder().join("tree");
    fs::write(&tree, place.named(&"longer ".repeat(1000))).unwrap();
    let original = fs::read(&place.source).unwrap();
    let new = place.disk.path().join("new");
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let mut kept = 0;
    for kill_after in [None, Some(0), Some(1), Some(2), Some(3)] {
        for at in calls() {
            for name in place.ours_beside() {
                fs::remove_file(place.disk.path().join(name)).unwrap();
            }
            fs::write(&new, &original).unwrap();
            fs::rename(&new, &place.source).unwrap();
            let command = place.command([Path::new("--set-tree"), &tree, &place.source]);
            let stopped = Stopped::at_call(at, &faults, command);
            if !stopped.is_stopped {
                assert!(stopped.ends().0);
                break;
            }
            fs::write(&new, &other).unwrap();
            fs::rename(&new, &place.source).unwrap();
            match kill_after {
                Some(calls) => faults.after(calls, Fault::KilledBefore),
                None => drop(faults.none()),
            }
            let (_, said) = stopped.ends();
            let output = place.run([Path::new("--recover"), &place.source]);
            let mut files = place.ours_beside();
            files.push("a.asdf".to_owned());
            let is_there = |name: &String| fs::read(place.disk.path().join(name)).unwrap() == other;
            assert!(files.iter().any(is_there), "{kill_after:?}, {at}: {files:?}: {said}: {output:?}");
            if files.len() > 1 {
                // The file that was in the place of the source is named.
                let told = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(files.len() == 2 && told.contains("has other blocks"), "{files:?}: {told}");
                kept += 1;
            } else {
                assert!(is_there(&files[0]));
            }
        }
    }
    assert!(kept > 0, "no save was killed while it had the other file's name");
}

/// Two programs look at the same files in the same order: the second one waits for the lock of the first one's save.
#[test]
fn two_programs_that_set_a_value_at_the_same_time_both_succeed() {
    let place = Place::with("ext4", &file(vec![Block::new(sample(9000, 1))]));
    let bytes = fs::read(&place.source).unwrap();
    let paths: Vec<_> = (0..40).map(|n| place.disk.path().join(format!("{n}.asdf"))).collect();
    for path in &paths {
        fs::write(path, &bytes).unwrap();
    }
    let set = |value: &str| {
        let mut command = place.command(["--set", value]);
        command.args(&paths).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let longer = format!("name=second {}", "longer ".repeat(2000));
    for output in [set("name=first"), set(&longer)].map(|child| child.wait_with_output().unwrap()) {
        assert!(output.status.success(), "{output:?}");
    }
    for path in &paths {
        assert!(fs::read(path).unwrap().windows(9).any(|part| part == b"name: fir" || part == b"name: sec"));
    }
    place.nothing_is_beside();
}

/// A file server such as Samba has a lease on the file for its client, and gives it up when it is asked. A read lease is
/// against writers, a write lease also against readers.
#[test]
fn a_lease_of_another_program_is_waited_for() {
    let place = Place::on("ext4");
    let tree = place.folder().join("tree");
    fs::write(&tree, place.named("after the lease")).unwrap();
    let holder = "
import fcntl, os, signal, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
def give_up(*_):
    time.sleep(0.5)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.write(1, b'asked\\n')
signal.signal(signal.SIGIO, give_up)
# A process that another test has just forked may still have the file open.
for _ in range(300):
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, getattr(fcntl, sys.argv[2]))
        break
    except BlockingIOError:
        time.sleep(0.1)
# Unlike print, it may be interrupted by the handler.
os.write(1, b'leased\\n')
sys.stdin.read()
";
    let set = [Path::new("--set-tree"), &tree, &place.source];
    let read = ["--info", "--check", "--log"].map(|verb| [Path::new(verb), &place.source]);
    let cat = [Path::new("--cat"), &place.source, Path::new("tree.yaml")];
    let mut cases = vec![("F_RDLCK", &set[..]), ("F_WRLCK", &set), ("F_WRLCK", &cat)];
    cases.extend(read.iter().map(|arguments| ("F_WRLCK", &arguments[..])));
    for (lease, arguments) in cases {
        let mut child = Command::new("python3")
            .args(["-c", holder])
            .arg(&place.source)
            .arg(lease)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "leased");
        let output = place.run(arguments);
        assert!(output.status.success(), "{lease}, {arguments:?}: {output:?}");
        assert_eq!(lines.next().unwrap().unwrap(), "asked");
        place.holds(&place.named("after the lease"));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
