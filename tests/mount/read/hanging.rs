//! A file system that does not answer: requests about files elsewhere are answered all the same.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder};

/// Number of files and of clients of each kind: more than the daemon has threads that answer the kernel, or
/// that work for all files.
const CLIENTS: usize = 24;
/// Time limit for a request that a loaded machine may delay.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that a program serves, which can be stopped.
struct Served {
    shown: PathBuf,
    program: Child,
}

impl Served {
    fn new(directory: &Path, shown: &Path) -> Self {
        fs::create_dir(shown).unwrap();
        // bindfs gets a process group of its own: if a process of an orphaned group ends, the kernel
        // continues the stopped ones.
        let mut program = Command::new("bindfs");
        // The kernel caches no names and attributes of bindfs.
        let uncached = ["-f", "-o", "attr_timeout=0,entry_timeout=0"];
        let program = program.args(uncached).args([directory, shown]).process_group(0).spawn().unwrap();
        let begun = Instant::now();
        while !shown.join("0.asdf").exists() {
            assert!(begun.elapsed() < PATIENCE, "bindfs has not mounted");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { shown: shown.to_owned(), program }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.program), signal).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.program), Signal::CONT);
        let _ = Command::new("umount").arg("-l").arg(&self.shown).status();
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A process that reads in the mount, killed when dropped.
struct Client(Child, String);

impl Client {
    fn run(program: &str, path: PathBuf) -> Self {
        let child = Command::new(program).arg(&path).stdout(Stdio::null()).spawn().unwrap();
        Self(child, format!("{program} {}", path.display()))
    }

    fn is_waiting(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits until the process ends; true if it succeeded.
    fn ends_well(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            assert!(begun.elapsed() < PATIENCE, "{} does not end", self.1);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn node(source: &str) -> String {
    format!("!core/ndarray-1.1.0 {{source: '{source}', datatype: uint8, byteorder: little, shape: [8]}}")
}

fn tree(nodes: impl IntoIterator<Item = (String, String)>) -> AsdfBuilder {
    let nodes: String = nodes.into_iter().map(|(key, node)| format!("{key}: {node}\n")).collect();
    AsdfBuilder::new()
        .tree(format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{nodes}...\n"))
}

/// Makes files in `here`, and in `kept`, which is served as `there`. Links and arrays of `here` lead to
/// `there`.
fn make(folder: &Path) {
    let (here, kept) = (folder.join("here"), folder.join("kept"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&kept).unwrap();
    let packed = || Block::new(sample(300_000, 3)).encoding(Encoding::Bzip2(2));
    for n in 0..CLIENTS {
        let own = ("own".to_owned(), node("x").replace("'x'", "0"));
        let blocks = tree([own]).block(Block::new(b"01234567".to_vec())).block(packed());
        blocks.build().save(&kept, &format!("{n}.asdf"));
        symlink(format!("../there/{n}.asdf"), here.join(format!("link{n}"))).unwrap();
    }
    let others = (0..CLIENTS).map(|n| (format!("a{n}"), node(&format!("../there/{n}.asdf"))));
    tree(others).build().save(&here, "outside.asdf");
    for name in ["good.asdf", "other.asdf"] {
        tree([]).block(packed()).block(Block::new(sample(5000, 1))).build().save(&here, name);
    }
    fs::write(here.join("plain"), "plain").unwrap();
}

#[test]
fn a_file_system_that_does_not_answer_holds_up_no_file_elsewhere() {
    let folder = fresh_folder();
    make(folder.path());
    let served = Served::new(&folder.path().join("kept"), &folder.path().join("there"));
    let (here, there) = (folder.path().join("here"), served.shown.clone());
    let mounted =
        Mounted::new(["-o".as_ref(), "external=anywhere".as_ref(), here.as_os_str(), there.as_os_str()]);
    // `served` is dropped before the mount, so that a failed test can unmount.
    let served = served;
    // The files are opened before the file system stops answering, so that reads and closes wait for it, too.
    let names: Vec<_> = (0..CLIENTS).map(|n| format!("there/{n}.asdf")).collect();
    let open: Vec<_> =
        names.iter().map(|name| File::open(mounted.path(name).join("blocks/1.bin")).unwrap()).collect();
    assert_eq!(fs::read_dir(mounted.path("here/outside.asdf/arrays")).unwrap().count(), CLIENTS);
    served.send(Signal::STOP);
    let mut clients = Vec::new();
    for (n, name) in names.iter().enumerate() {
        clients.push(Client::run("stat", mounted.path(format!("here/link{n}"))));
        clients.push(Client::run("cat", mounted.path(name).join("tree.yaml")));
        clients.push(Client::run("cat", mounted.path(name).join("blocks/1.bin")));
        clients.push(Client::run("ls", mounted.path(name)));
        clients.push(Client::run("cat", mounted.path(format!("here/outside.asdf/arrays/a{n}.npy"))));
    }
    clients.push(Client::run("ls", mounted.path("there")));
    clients.push(Client::run("ls", mounted.path("here")));
    drop(open);
    // Only a pause can show that the clients make no progress.
    std::thread::sleep(Duration::from_millis(700));
    let waiting = clients.iter_mut().filter_map(|client| client.is_waiting().then_some(())).count();
    assert!(waiting > 3 * CLIENTS, "only {waiting} wait");
    for name in ["good.asdf", "other.asdf"] {
        for part in ["tree.yaml", "blocks/0.bin", "blocks/1.bin", ".asdf-mount/status.yaml"] {
            let mut read = Client::run("cat", mounted.path("here").join(name).join(part));
            assert!(read.ends_well(), "{}", read.1);
        }
        let save = mounted.path("here").join(name).join("tree.yaml");
        let text = fs::read_to_string(&save).unwrap().replace("...", "saved: 1\n...");
        fs::write(&save, &text).unwrap();
        assert_eq!(fs::read_to_string(&save).unwrap(), text);
    }
    assert!(Client::run("ls", mounted.path("here/good.asdf")).ends_well());
    assert!(Client::run("cat", mounted.path("here/plain")).ends_well());
    served.send(Signal::CONT);
    for client in &mut clients {
        assert!(client.ends_well(), "{}", client.1);
    }
    drop(clients);
    mounted.unmount();
}
