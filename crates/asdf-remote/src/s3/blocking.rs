//! Blocking calls: futures of the library on this thread, and commands with a limit on their time.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context as Wakers, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// Limits on a command for credentials, which may ask a server, and on its output.
const COMMAND: Duration = Duration::from_secs(60);
const OUTPUT: u64 = 1 << 20;
/// Interval at which a command is asked if it has ended.
const INTERVAL: Duration = Duration::from_millis(10);

/// The result of a command.
pub(super) struct CommandOutput {
    /// The exit status; -1 if a signal ended it.
    pub(super) status: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs the command of a profile's `credential_process`.
pub(super) fn run(command: &mut Command) -> io::Result<CommandOutput> {
    run_for(command, COMMAND)
}

/// Runs a command, which is killed after `limit`.
///
/// The output goes to memory instead of a pipe, so that no process that the command leaves running delays the
/// result. The processes that the command started are killed with it.
fn run_for(command: &mut Command, limit: Duration) -> io::Result<CommandOutput> {
    let (output, errors) = (in_memory()?, in_memory()?);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?).process_group(0);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let is_long = output.metadata()?.len().max(errors.metadata()?.len()) > OUTPUT;
        if is_long || begun.elapsed() > limit {
            kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            child.wait()?;
            return Err(io::Error::other(if is_long {
                format!("its output is longer than {OUTPUT} bytes")
            } else {
                format!("it did not end within {} s", limit.as_secs())
            }));
        }
        std::thread::sleep(INTERVAL);
    };
    Ok(CommandOutput {
        status: status.code().unwrap_or(-1),
        stdout: bytes_of(&output)?,
        stderr: bytes_of(&errors)?,
    })
}

fn in_memory() -> io::Result<File> {
    // Kernels before 6.3 do not know the second flag, which others may demand.
    let output = memfd_create("credentials", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create("credentials", MemfdFlags::CLOEXEC));
    Ok(File::from(output?))
}

/// Returns the output in a file. A process that goes on writing shares the file's position.
fn bytes_of(output: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; output.metadata()?.len().min(OUTPUT) as usize];
    output.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Runs a future on this thread. Those of the library are ready at once, because all calls block.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut wakers = Wakers::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut wakers) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_for_credentials_is_killed_after_its_time() {
        let script = |script: &str, limit| run_for(Command::new("sh").args(["-c", script]), limit);
        // `cat` reads no terminal, and the process that is left running has the output open.
        let output = script("cat; sleep 1000 & echo $!; echo why >&2; exit 3", COMMAND).unwrap();
        assert_eq!((output.status, &*output.stderr), (3, &b"why\n"[..]));
        let left = String::from_utf8(output.stdout).unwrap();
        script(&format!("kill {left}"), COMMAND).unwrap();
        let error = script("sleep 1000; true", Duration::from_millis(1)).err().unwrap();
        assert_eq!(error.to_string(), "it did not end within 0 s");
        let error = script("cat /dev/zero; true", COMMAND).err().unwrap();
        assert_eq!(error.to_string(), "its output is longer than 1048576 bytes");
        assert!(run(&mut Command::new("/missing")).is_err());
    }
}
