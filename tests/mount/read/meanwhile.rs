//! While a large file is parsed or searched, other files stay responsive.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use asdf_access::Result;
use asdf_access::options::Verify;
use asdf_file::container::Container;
use seekable::source::Source;

use crate::adapter::{Gate, HEAD, Mount, Stand, made, sources};
use common::asdf::{AsdfBuilder, Block, sample};
use common::mount::{Asking, Mounted, fresh_folder, wait_until};
use common::names;

/// Number of large trees: more than the daemon has threads that look for arrays.
const TREES: usize = 70;

/// Makes all requests about one file that a slow file must not delay.
fn look_at_other_files(mount: &Mount, bytes: &[u8]) {
    assert_eq!(names(&mount.at), ["a.asdf", "slow.asdf", "sub"]);
    for entry in fs::read_dir(&mount.at).unwrap() {
        assert!(entry.unwrap().metadata().unwrap().is_dir());
    }
    assert_eq!(names(&mount.path("a.asdf/blocks")).len(), 5);
    assert!(fs::read(mount.path("a.asdf/blocks/0.bin")).unwrap() == bytes);
    assert_eq!(fs::read(mount.path("a.asdf/blocks/3.bin")).unwrap().len(), 100_000);
    assert!(fs::read_to_string(mount.path("a.asdf/.asdf-mount/status.yaml")).unwrap().contains("blocks: 5"));
    assert_eq!(fs::read(mount.path("sub/plain")).unwrap(), b"plain");
}

/// Makes more requests about a slow file than there are request threads.
fn ask_slow_file(mount: &Mount) -> Vec<Asking<()>> {
    let ask = |path: &str, ask: fn(&Path)| {
        let path = mount.path(path);
        Asking::begin(move || ask(&path))
    };
    vec![
        ask("slow.asdf/blocks", |path| assert_eq!(names(path).len(), 5)),
        ask("slow.asdf/blocks/3.bin", |path| assert_eq!(path.metadata().unwrap().len(), 100_000)),
        ask("slow.asdf/blocks/0.bin", |path| assert_eq!(fs::read(path).unwrap().len(), 3 << 20)),
        ask("slow.asdf/.asdf-mount", |path| assert_eq!(names(path).len(), 3)),
        ask("slow.asdf/.asdf-mount/status.yaml", |path| {
            assert!(fs::read_to_string(path).unwrap().contains("blocks: 5"));
        }),
        ask("slow.asdf/.asdf-mount/blocks.yaml", |path| assert!(path.metadata().unwrap().len() > 0)),
    ]
}

/// Mounts the directory of [`sources`] with an additional `slow.asdf`, opened by `opener` with the gate.
fn slow_mount(
    opener: fn(Arc<dyn Source>, &Arc<Gate>) -> Result<Stand>,
) -> (tempfile::TempDir, Mount, Arc<Gate>) {
    let (dir, _) = sources();
    fs::copy(dir.path().join("s/a.asdf"), dir.path().join("s/slow.asdf")).unwrap();
    let gate = Arc::new(Gate::default());
    let own = gate.clone();
    let opener = move |source: Arc<dyn Source>| -> Result<Arc<dyn Container>> {
        Ok(Arc::new(if source.path().ends_with("slow.asdf") {
            opener(source, &own)?
        } else {
            Stand(source.clone(), source.stat()?, None)
        }))
    };
    let mount = Mount::with(Verify::Off, Arc::new(opener), dir.path().join("s"), &dir.path().join("m"));
    (dir, mount, gate)
}

fn answers_meanwhile(mount: &Mount, gate: &Gate, also: impl FnOnce()) {
    let asking = ask_slow_file(mount);
    assert!(wait_until(|| asking.iter().all(Asking::waits)));
    look_at_other_files(mount, &(0..3u64 << 20).map(made).collect::<Vec<_>>());
    also();
    assert!(asking.iter().all(|asking| !asking.thread.is_finished()));
    gate.set(true);
    for asking in asking {
        asking.thread.join().unwrap();
    }
}

#[test]
fn a_file_that_is_looked_through_holds_up_no_other_file() {
    let (_dir, mount, gate) =
        slow_mount(|source, gate| Ok(Stand(source.clone(), source.stat()?, Some(gate.clone()))));
    answers_meanwhile(&mount, &gate, || {
        // Requests that need no search of the file are answered.
        assert_eq!(fs::read(mount.path("slow.asdf/tree.yaml")).unwrap(), HEAD);
        assert!(mount.path("slow.asdf/blocks").metadata().unwrap().is_dir());
    });
}

#[test]
fn a_file_that_is_parsed_holds_up_no_other_file() {
    let (_dir, mount, gate) = slow_mount(|source, gate| {
        gate.pass()?;
        Ok(Stand(source.clone(), source.stat()?, None))
    });
    answers_meanwhile(&mount, &gate, || {
        assert!(mount.path("slow.asdf").metadata().unwrap().is_dir());
    });
}

#[test]
fn an_open_file_whose_source_is_parsed_anew_holds_up_no_other_file() {
    let (dir, mount, gate) = slow_mount(|source, gate| {
        gate.pass()?;
        Ok(Stand(source.clone(), source.stat()?, None))
    });
    gate.set(true);
    let files: Vec<_> = (0..4).map(|_| File::open(mount.path("slow.asdf/blocks/0.bin")).unwrap()).collect();
    files[0].read_exact_at(&mut [0; 100], 0).unwrap();
    gate.set(false);
    File::options().append(true).open(dir.path().join("s/slow.asdf")).unwrap().write_all(b"more").unwrap();
    sleep(Duration::from_millis(300)); // until the source is checked for changes again
    // The block grows with its file; a read of a handle goes to the newest generation, which is being parsed.
    let reads =
        files.into_iter().map(|file| Asking::begin(move || file.read_exact_at(&mut [0; 100], 0).unwrap()));
    let reads: Vec<_> = reads.collect();
    assert!(wait_until(|| reads.iter().all(Asking::waits)));
    look_at_other_files(&mount, &(0..3u64 << 20).map(made).collect::<Vec<_>>());
    gate.set(true);
    for asking in reads {
        asking.thread.join().unwrap();
    }
}

#[test]
fn many_large_trees_hold_up_no_small_one() {
    let folder = fresh_folder();
    let array = "- !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [8]}\n";
    // The comment makes a tree large without much work.
    let file = |arrays: usize, comment: usize| {
        let head = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\na:\n";
        let tree = format!("{head}{}# {}\n...\n", array.repeat(arrays), "-".repeat(comment));
        AsdfBuilder::new().tree(tree).block(Block::new(sample(8, 1))).build()
    };
    let large = file(2500, 1 << 20).bytes;
    for n in 0..TREES {
        fs::write(folder.path().join(format!("{n}.asdf")), &large).unwrap();
    }
    file(1, 0).save(folder.path(), "small.asdf");
    let mount = Mounted::new([folder.path()]);
    let list = |n| {
        let path = mount.path(format!("{n}.asdf/arrays"));
        Asking::begin(move || names(&path))
    };
    let lists: Vec<_> = (0..TREES).map(list).collect();
    assert!(wait_until(|| lists.iter().all(|list| list.waits() || list.thread.is_finished())));
    assert_eq!(names(&mount.path("small.asdf/arrays")), ["a"]);
    assert_eq!(fs::read(mount.path("small.asdf/arrays/a/0.npy")).unwrap().len(), 128 + 8);
    let waiting = lists.iter().filter(|list| !list.thread.is_finished()).count();
    assert!(waiting > TREES / 2, "only {waiting} wait");
    for list in lists {
        assert_eq!(list.thread.join().unwrap(), ["a"]);
    }
}
