//! GSD files that grow, or are rewritten, while they are mounted.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::mount::{Mounted, fresh_folder, wait_until};
use common::python::{python, root};

/// A running `grow_gsd.py`.
struct Writer {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Writer {
    fn new(file: &Path) -> Self {
        let mut process = Command::new(python())
            .arg(root().join("tests/python/grow_gsd.py"))
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut writer = Self { process, stdin, stdout: BufReader::new(stdout) };
        writer.answer();
        writer
    }

    fn answer(&mut self) -> usize {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().parse().unwrap_or_else(|_| panic!("the writer said {line:?}"))
    }

    /// Sends the writer a command; returns the number of frames it has finished.
    fn tell(&mut self, what: &str) -> usize {
        writeln!(self.stdin, "{what}").unwrap();
        self.answer()
    }

    fn frames(&mut self, count: usize, names: usize) {
        for _ in 0..count {
            self.tell(&format!("frame {names}"));
        }
        self.tell("flush");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the data of `quantity/K` in a frame.
fn data(frame: i32, k: i32) -> Vec<u8> {
    [1000 * frame + k; 3].iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn shown(mounted: &Mounted) -> usize {
    fs::read_dir(mounted.path("arrays/frames")).unwrap().count()
}

fn chunk(mounted: &Mounted, frame: i32, k: i32) -> Vec<u8> {
    let path = mounted.path(format!("arrays/frames/{frame}/quantity/{k}.npy"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))[128..].to_vec()
}

/// Reads a handle to its end; `None` if it is stale.
fn all(handle: &File) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 1 << 20];
    match handle.read_at(&mut bytes, 0) {
        Ok(read) => Some(bytes[..read].to_vec()),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
            None
        }
    }
}

/// A mounted file with three frames, and handles opened on it.
struct Growing {
    mounted: Mounted,
    writer: Writer,
    handles: Vec<File>,
    chunk: Vec<u8>,
    /// A handle that holds the generation before the first frame.
    tree: File,
}

/// The opened files, one of each kind.
const OPENED: [&str; 3] = ["arrays/frames/1/quantity/0.npy", "blocks/2.bin", "arrays/series/quantity/1.npy"];

fn growing(folder: &Path) -> Growing {
    let file = folder.join("growing.gsd");
    let mut writer = Writer::new(&file);
    let mounted = Mounted::file(&file);
    assert_eq!(shown(&mounted), 0);
    let tree = File::open(mounted.path("tree.yaml")).unwrap();
    writer.frames(3, 2);
    assert!(wait_until(|| shown(&mounted) == 3), "new frames are not shown");
    let handles: Vec<File> = OPENED.iter().map(|path| File::open(mounted.path(path)).unwrap()).collect();
    let chunk = all(&handles[0]).unwrap();
    assert_eq!(chunk[128..], data(1, 0));
    Growing { mounted, writer, handles, chunk, tree }
}

#[test]
fn frames_come_when_they_are_finished_and_stay() {
    let folder = fresh_folder();
    let Growing { mounted, mut writer, handles, chunk: of_frame, tree } = growing(folder.path());
    let series = all(&handles[2]).unwrap();

    // One frame is finished and another begun, but neither is flushed.
    writer.tell("frame 2");
    writer.tell("chunk 0");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(shown(&mounted), 3);
    writer.tell("flush");
    assert!(wait_until(|| shown(&mounted) == 4), "the frame that was ended is not shown");
    assert!(!mounted.path("arrays/frames/4").exists(), "an unfinished frame is shown");
    assert_eq!(chunk(&mounted, 3, 1), data(3, 1));
    assert_eq!(all(&handles[0]).as_ref(), Some(&of_frame));

    // The writer moves index and names to a larger place.
    writer.tell("chunk 1");
    writer.frames(60, 2);
    writer.frames(1, 90);
    let frames = writer.tell("flush");
    assert!(wait_until(|| shown(&mounted) == frames), "{} of {frames} frames are shown", shown(&mounted));
    for frame in [0, 3, 4, 60, frames as i32 - 1] {
        assert_eq!(chunk(&mounted, frame, 1), data(frame, 1), "frame {frame}");
    }
    assert_eq!(chunk(&mounted, frames as i32 - 1, 89), data(frames as i32 - 1, 89));
    assert_eq!(all(&handles[0]).as_ref(), Some(&of_frame));
    assert_eq!(all(&handles[1]).unwrap(), data(1, 0));
    // The open handle has the old series; the next one is longer and begins with the same data.
    assert_eq!(all(&handles[2]).unwrap(), series);
    let grown = fs::read(mounted.path(OPENED[2])).unwrap();
    let wanted: Vec<u8> = (0..frames as i32).flat_map(|frame| data(frame, 1)).collect();
    assert!(grown[128..] == wanted && series[128..] == wanted[..36]);
    drop((handles, tree));
    mounted.unmount();
}

#[test]
fn what_was_open_of_a_truncated_file_has_no_other_bytes() {
    let folder = fresh_folder();
    let Growing { mounted, mut writer, handles, chunk: of_frame, tree } = growing(folder.path());
    writer.tell("truncate");
    // The new chunks have the same offsets and shapes as the old ones.
    writer.frames(4, 2);
    assert!(wait_until(|| shown(&mounted) == 4));
    assert_eq!(chunk(&mounted, 1, 0), data(501, 0));
    // The kernel may have cached the chunk.
    assert!(all(&handles[0]).is_none_or(|now| now == of_frame));
    for (handle, path) in handles.iter().zip(OPENED).skip(1) {
        assert!(all(handle).is_none(), "{path} can still be read");
    }
    let series = fs::read(mounted.path("arrays/series/quantity/1.npy")).unwrap().split_off(128);
    let wanted: Vec<u8> = (500..504).flat_map(|frame| data(frame, 1)).collect();
    assert_eq!(series, wanted);
    drop((handles, tree));
    mounted.unmount();
}

/// All states of one file, from an empty one to a rewritten one, are copied over the mounted file.
#[test]
fn a_file_is_overwritten_by_its_next_states() {
    let folder = fresh_folder();
    let (live, file) = (folder.path().join("live.gsd"), folder.path().join("mounted.gsd"));
    let mut writer = Writer::new(&live);
    let mut states: Vec<(PathBuf, i32, i32)> = Vec::new();
    let steps: [(&[&str], i32, i32); 6] = [
        (&[], 0, 0),
        (&["frame 2", "frame 2", "frame 2", "flush"], 3, 0),
        (&["frame 2", "frame 2"], 3, 0),
        (&["flush"], 5, 0),
        (&["frame 2"; 40], 5, 0),
        (&["truncate", "frame 2", "frame 2", "flush"], 2, 500),
    ];
    for (number, (orders, frames, first)) in steps.into_iter().enumerate() {
        for order in orders.iter() {
            writer.tell(order);
        }
        let mut frames = frames;
        if number == 4 {
            writer.tell("frame 80");
            writer.tell("flush");
            frames = 46;
        }
        let state = folder.path().join(format!("{number}.gsd"));
        fs::copy(&live, &state).unwrap();
        states.push((state, frames, first));
    }
    fs::copy(&states[0].0, &file).unwrap();
    let mounted = Mounted::file(&file);
    let mut opened: Option<(File, Vec<u8>)> = None;
    for (state, frames, first) in states {
        fs::write(&file, fs::read(&state).unwrap()).unwrap();
        assert!(wait_until(|| shown(&mounted) == frames as usize), "{}", state.display());
        for frame in 0..frames {
            assert_eq!(
                chunk(&mounted, frame, 1),
                data(first + frame, 1),
                "{}: frame {frame}",
                state.display()
            );
        }
        if let Some((handle, bytes)) = &opened {
            match first {
                0 => assert_eq!(all(handle).as_ref(), Some(bytes), "{}", state.display()),
                // The kernel may have cached the bytes.
                _ => assert!(all(handle).is_none_or(|now| now == *bytes), "an older frame has other bytes"),
            }
        } else if frames > 0 {
            let handle = File::open(mounted.path("arrays/frames/1/quantity/0.npy")).unwrap();
            let bytes = all(&handle).unwrap();
            opened = Some((handle, bytes));
        }
    }
    drop(opened);
    mounted.unmount();
}

#[test]
fn what_was_open_of_an_upgraded_file_has_no_other_bytes() {
    let folder = fresh_folder();
    let file = folder.path().join("old.gsd");
    fs::copy(root().join("tests/fixtures/gsd/gsd1.10.0_grown_index.gsd"), &file).unwrap();
    let mounted = Mounted::file(&file);
    let path = mounted.path("arrays/frames/7/c1.npy");
    let before = fs::read(&path).unwrap();
    let handle = File::open(&path).unwrap();
    assert_eq!(all(&handle).as_ref(), Some(&before));
    Writer::new(&file).tell("upgrade");
    assert!(
        wait_until(|| String::from_utf8(mounted.tree()).unwrap().contains("gsd_version: \"2.")),
        "the upgraded file is not shown"
    );
    assert!(all(&handle).is_none_or(|now| now == before), "a handle of the old version has other bytes");
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(handle);
    mounted.unmount();
}
