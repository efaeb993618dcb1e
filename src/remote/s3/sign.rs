//! Signatures with the user's AWS credentials.
//!
//! The library finds the credentials as AWS's own tools do: environment, profiles, SSO, web identity,
//! process, ECS, EC2. It is asynchronous over traits that are implemented here with blocking calls, so no
//! runtime is needed.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context as Wakers, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner};
use reqsign_core::{
    CommandExecute, CommandOutput, Context, Env, FileRead, HttpSend, OsEnv, ProvideCredential, SignRequest,
    SigningCredential,
};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Proxy};

use crate::error::{Error, Kind, Result};
use crate::remote::tls;
use crate::sync::locked;

/// The time after which missing credentials are looked for again.
const MISSING: Duration = Duration::from_secs(300);
/// Limits on a request for credentials. A service of the machine itself answers at once or is not there.
const CONNECT: Duration = Duration::from_secs(5);
const CONNECT_NEAR: Duration = Duration::from_secs(1);
const REPLY: Duration = Duration::from_secs(10);
/// Limits on a command for credentials, which may ask a server, and on its output.
const COMMAND: Duration = Duration::from_secs(60);
const OUTPUT: u64 = 1 << 20;
/// Interval at which a command is asked if it has ended.
const INTERVAL: Duration = Duration::from_millis(10);

/// A signer of requests, with the credentials of a user.
pub(super) struct Signer {
    context: Context,
    credentials: DefaultCredentialProvider,
    known: Mutex<Option<(Instant, Option<Credential>)>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    /// Creates a signer with the environment and the files of this user.
    pub(super) fn of_user(ca_bundle: Option<PathBuf>) -> Self {
        Self::of(OsEnv, ca_bundle)
    }

    fn of(env: impl Env, ca_bundle: Option<PathBuf>) -> Self {
        let web = Web { ca_bundle };
        let context = Context::new().with_env(env).with_file_read(Files).with_http_send(web);
        let context = context.with_command_execute(Commands);
        Self { context, credentials: DefaultCredentialProvider::new(), known: Mutex::default() }
    }

    /// Adds a signature to the request if there are credentials.
    pub(super) fn sign(&self, region: &str, request: &mut Request<()>) -> Result<()> {
        let Some(credential) = self.credential() else { return Ok(()) };
        let (mut parts, body) = std::mem::take(request).into_parts();
        let signer = RequestSigner::new("s3", region);
        let signed = block_on(signer.sign_request(&self.context, &mut parts, Some(&credential), None));
        *request = Request::from_parts(parts, body);
        // The library's message may name the credentials.
        let refused = |_| Error::new(Kind::System(libc::EACCES), "the request can't be signed");
        signed.map_err(refused)
    }

    /// Returns valid credentials, looking for new ones if needed.
    fn credential(&self) -> Option<Credential> {
        let mut known = locked(&self.known);
        match &*known {
            Some((_, Some(credential))) if credential.is_valid() => return Some(credential.clone()),
            Some((since, None)) if since.elapsed() < MISSING => return None,
            _ => {}
        }
        let found = block_on(self.credentials.provide_credential(&self.context)).ok().flatten();
        if found.is_none() && !matches!(&*known, Some((_, None))) {
            tracing::warn!("no AWS credentials were found: requests to S3 are anonymous (-o anonymous)");
        }
        *known = Some((Instant::now(), found.clone()));
        found
    }
}

/// The library's access to files.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|_| reqsign_core::Error::unexpected("the file can't be read"))
    }
}

/// The library's way to run the command of a profile's `credential_process`.
#[derive(Debug)]
struct Commands;

impl CommandExecute for Commands {
    async fn command_execute(&self, program: &str, args: &[&str]) -> reqsign_core::Result<CommandOutput> {
        run(Command::new(program).args(args), COMMAND).map_err(|error| {
            tracing::warn!("credential_process of an AWS profile: {program}: {error}");
            reqsign_core::Error::unexpected("the command can't be run")
        })
    }
}

/// Runs a command, which is killed after `limit`.
///
/// The output goes to memory instead of a pipe, so that no process that the command leaves running delays the
/// result. The processes that the command started are killed with it.
fn run(command: &mut Command, limit: Duration) -> io::Result<CommandOutput> {
    // Kernels before 6.3 do not know the second flag, which others may demand.
    let output = memfd_create("credentials", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create("credentials", MemfdFlags::CLOEXEC));
    let output = File::from(output?);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let is_long = output.metadata()?.len() > OUTPUT;
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
    // A process that goes on writing shares the file's position.
    let mut stdout = vec![0; output.metadata()?.len().min(OUTPUT) as usize];
    output.read_exact_at(&mut stdout, 0)?;
    Ok(CommandOutput { status: status.code().unwrap_or(-1), stdout, stderr: Vec::new() })
}

/// The library's way to send requests to the services that issue credentials.
#[derive(Debug)]
struct Web {
    ca_bundle: Option<PathBuf>,
}

impl HttpSend for Web {
    async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
        let failed = || reqsign_core::Error::unexpected("the request for credentials failed");
        let host = request.uri().host().unwrap_or_default();
        let is_near = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(if is_near { None } else { Proxy::try_from_env() })
            .tls_config(tls::config(self.ca_bundle.as_deref()).map_err(|_| failed())?)
            .timeout_connect(Some(if is_near { CONNECT_NEAR } else { CONNECT }))
            .timeout_global(Some(REPLY))
            .build()
            .into();
        let (parts, body) = request.into_parts();
        let response = if body.is_empty() && parts.method == Method::GET {
            agent.run(Request::from_parts(parts, ()))
        } else {
            agent.run(Request::from_parts(parts, body.to_vec()))
        };
        let response = response.map_err(|_| failed())?;
        let (head, mut response_body) = response.into_parts();
        let bytes = response_body.with_config().limit(1 << 20).read_to_vec().map_err(|_| failed())?;
        Ok(Response::from_parts(head, Bytes::from(bytes)))
    }
}

/// Runs a future on this thread. Those of the library are ready at once, because all calls block.
fn block_on<T>(future: impl Future<Output = T>) -> T {
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
    use std::collections::HashMap;

    use reqsign_core::StaticEnv;

    use super::*;

    fn env(variables: &[(&str, &str)]) -> StaticEnv {
        let disabled = [("AWS_EC2_METADATA_DISABLED", "true")];
        let envs =
            variables.iter().chain(&disabled).map(|(name, value)| (name.to_string(), value.to_string()));
        StaticEnv { home_dir: None, envs: HashMap::from_iter(envs) }
    }

    #[test]
    fn a_request_is_signed_with_the_credentials_of_the_environment() {
        let secret = "wJalrXUtnFEMI";
        let signer =
            Signer::of(env(&[("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", secret)]), None);
        let mut request = Request::get("http://127.0.0.1/b/a%20b?list-type=2")
            .header("range", "bytes=0-1")
            .body(())
            .unwrap();
        signer.sign("eu-west-1", &mut request).unwrap();
        let authorisation = request.headers()["authorization"].to_str().unwrap();
        assert!(authorisation.starts_with("AWS4-HMAC-SHA256 Credential=AKID/"), "{authorisation}");
        assert!(authorisation.contains("/eu-west-1/s3/aws4_request") && authorisation.contains("range"));
        assert!(request.headers().contains_key("x-amz-content-sha256"));
        assert_eq!(request.uri(), "http://127.0.0.1/b/a%20b?list-type=2");
        assert!(!format!("{signer:?} {request:?}").contains(secret));
    }

    #[test]
    fn a_command_for_credentials_is_killed_after_its_time() {
        let script = |script: &str, limit| run(Command::new("sh").args(["-c", script]), limit);
        // `cat` reads no terminal, and the process that is left running has the output open.
        let output = script("cat; sleep 1000 & echo $!; exit 3", COMMAND).unwrap();
        assert_eq!(output.status, 3);
        let left = String::from_utf8(output.stdout).unwrap();
        Command::new("kill").arg(left.trim()).status().unwrap();
        let error = script("sleep 1000; true", Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.to_string(), "it did not end within 0 s");
        let error = script("cat /dev/zero; true", COMMAND).unwrap_err();
        assert_eq!(error.to_string(), "its output is longer than 1048576 bytes");
        assert!(run(&mut Command::new("/missing"), COMMAND).is_err());
    }

    #[test]
    fn without_credentials_a_request_is_anonymous() {
        let signer = Signer::of(env(&[]), None);
        let mut request = Request::get("http://127.0.0.1/b/a").body(()).unwrap();
        signer.sign("eu-west-1", &mut request).unwrap();
        assert!(request.headers().is_empty());
    }
}
