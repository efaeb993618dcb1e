//! Signatures with the user's AWS credentials.
//!
//! The library is asynchronous over traits that are implemented here with blocking calls, so no runtime is needed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, Env, FileRead, HttpSend, OsEnv, SignRequest, SigningCredential};
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Proxy};

use super::blocking::block_on;
use super::credentials;
use crate::error::{Error, Kind, Result};
use crate::remote::tls;
use crate::sync::locked;

/// The time after which missing credentials are looked for again.
const MISSING: Duration = Duration::from_secs(300);
/// The time after which a source of credentials that failed is asked again.
const FAILED: Duration = Duration::from_secs(10);
/// Limits on a request for credentials. A service of the machine itself answers at once or is not there.
const CONNECT: Duration = Duration::from_secs(5);
const CONNECT_NEAR: Duration = Duration::from_secs(1);
const REPLY: Duration = Duration::from_secs(10);

/// A signer of requests, with the credentials of a user.
pub(super) struct Signer {
    context: Context,
    known: Mutex<Known>,
}

/// The result of the last search for credentials.
#[derive(Default)]
struct Known {
    since: Option<Instant>,
    /// The last credentials that were found.
    credential: Option<Credential>,
    /// The error of the last search.
    error: Option<Error>,
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
        Self::with_web(env, Web { ca_bundle })
    }

    fn with_web(env: impl Env, web: impl HttpSend) -> Self {
        let context = Context::new().with_env(env).with_file_read(Files).with_http_send(web);
        Self { context, known: Mutex::default() }
    }

    /// Adds a signature to the request if there are credentials.
    pub(super) fn sign(&self, region: &str, request: &mut Request<()>) -> Result<()> {
        let Some(credential) = self.credential(region)? else { return Ok(()) };
        let (mut parts, body) = std::mem::take(request).into_parts();
        let signer = RequestSigner::new("s3", region);
        let signed = block_on(signer.sign_request(&self.context, &mut parts, Some(&credential), None));
        *request = Request::from_parts(parts, body);
        // The library's message may name the credentials.
        let refused = |_| Error::new(Kind::System(libc::EACCES), "the request can't be signed");
        signed.map_err(refused)
    }

    /// Returns valid credentials, looking for new ones if needed; `None` if no source of them is configured.
    ///
    /// # Errors
    /// The source fails, and the last credentials are not valid any more.
    fn credential(&self, region: &str) -> Result<Option<Credential>> {
        let mut known = locked(&self.known);
        let has_waited = |time| known.since.is_none_or(|since| since.elapsed() >= time);
        let is_due = match (&known.error, &known.credential) {
            (Some(_), _) => has_waited(FAILED),
            (None, Some(credential)) if credential.is_valid() => false,
            // Near their end the source may give the same ones.
            (None, Some(credential)) => !credential.is_valid_at(Timestamp::now()) || has_waited(FAILED),
            (None, None) => has_waited(MISSING),
        };
        if is_due {
            known.search(&self.context, region);
        }
        known.answer()
    }

    /// Looks for credentials after a server refused the last ones; true if there are others.
    pub(super) fn renews(&self, region: &str) -> bool {
        let mut known = locked(&self.known);
        let Some(before) = known.credential.clone() else { return false };
        known.search(&self.context, region);
        known.credential.as_ref().is_some_and(|now| {
            now.access_key_id != before.access_key_id
                || now.secret_access_key != before.secret_access_key
                || now.session_token != before.session_token
        })
    }
}

impl Known {
    fn search(&mut self, context: &Context, region: &str) {
        let is_first = self.since.is_none();
        self.since = Some(Instant::now());
        match credentials::find(context, region) {
            Ok(found) => {
                if found.is_none() && (is_first || self.credential.is_some()) {
                    tracing::warn!(
                        "no AWS credentials are configured: requests to S3 are anonymous (-o anonymous)"
                    );
                }
                self.credential = found;
                self.error = None;
            }
            Err(error) => {
                if self.error.is_none() {
                    tracing::warn!("{error}");
                }
                self.error = Some(error);
            }
        }
    }

    /// Returns the credentials as long as they are valid, also if they could not be renewed.
    fn answer(&self) -> Result<Option<Credential>> {
        match (&self.error, &self.credential) {
            (None, found) => Ok(found.clone()),
            (Some(_), Some(last)) if last.is_valid_at(Timestamp::now()) => Ok(Some(last.clone())),
            (Some(error), _) => Err(error.clone()),
        }
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

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
    fn without_credentials_a_request_is_anonymous() {
        let signer = Signer::of(env(&[]), None);
        let mut request = Request::get("http://127.0.0.1/b/a").body(()).unwrap();
        signer.sign("eu-west-1", &mut request).unwrap();
        assert!(request.headers().is_empty());
    }

    /// A home directory with a configuration, and an environment that names it.
    fn configured(config: &str) -> (tempfile::TempDir, StaticEnv) {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let env = StaticEnv { home_dir: Some(home.path().to_owned()), ..env(&[]) };
        (home, env)
    }

    /// Signs a request, and returns the key in its signature; an empty one if it is anonymous.
    fn key(signer: &Signer) -> Result<String> {
        let mut request = Request::get("http://127.0.0.1/b/a").body(()).unwrap();
        signer.sign("eu-west-1", &mut request)?;
        let header = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let key =
            header.and_then(|header| Some(header.split_once("Credential=")?.1.split_once('/')?.0.to_owned()));
        Ok(key.unwrap_or_default())
    }

    #[test]
    fn credentials_are_kept_while_their_renewal_fails() {
        let (home, env) = configured("[default]\ncredential_process = sh -c \"cat '/nonexistent'\"\n");
        let signer = Signer::of(env, None);
        let error = key(&signer).unwrap_err();
        assert!(
            error.message().contains("credential_process of the profile \"default\" fails with the status 1"),
            "{error}"
        );
        assert!(error.message().contains("-o anonymous"), "{error}");
        // They are valid for less than the two minutes in which they are renewed.
        let end = Timestamp::now() + Duration::from_secs(60);
        let found = home.path().join("found.json");
        let json = format!(
            "{{\"Version\": 1, \"AccessKeyId\": \"OWN\", \"SecretAccessKey\": \"s\", \"Expiration\": \"{}\"}}",
            end.format_rfc3339_zulu()
        );
        std::fs::write(&found, json).unwrap();
        let config = format!("[default]\ncredential_process = cat '{}'\n", found.display());
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        locked(&signer.known).since = None;
        assert_eq!(key(&signer).unwrap(), "OWN");
        std::fs::remove_file(&found).unwrap();
        locked(&signer.known).since = None;
        assert_eq!(key(&signer).unwrap(), "OWN");
        assert!(locked(&signer.known).error.is_some());
        assert!(!signer.renews("eu-west-1"));
        // Once they are over, the error counts.
        let mut known = locked(&signer.known);
        let last = known.credential.take().unwrap();
        known.credential = Some(Credential { expires_in: Some(Timestamp::now()), ..last });
        drop(known);
        assert!(key(&signer).is_err());
    }

    /// A service that issues the credentials of a role.
    #[derive(Debug)]
    struct Roles(Arc<Mutex<Vec<String>>>);

    impl HttpSend for Roles {
        async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
            let signed = request.headers().get("authorization").map_or("", |value| value.to_str().unwrap());
            locked(&*self.0).push(format!("{} {signed}", request.uri()));
            let credentials = "<AccessKeyId>ASIAROLEROLEROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
                               <SessionToken>t</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>";
            let body = format!(
                "<AssumeRoleResponse><AssumeRoleResult><Credentials>{credentials}</Credentials></AssumeRoleResult>\
                 </AssumeRoleResponse>"
            );
            Ok(Response::new(Bytes::from(body)))
        }
    }

    #[test]
    fn the_role_of_a_profile_is_asked_for_with_the_keys_of_its_source() {
        let config = "[default]\nrole_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = keys\n\
                      external_id = x1\n[profile keys]\naws_access_key_id = AKID\naws_secret_access_key = s\n";
        let (_home, env) = configured(config);
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let signer = Signer::with_web(env, Roles(Arc::clone(&asked)));
        assert_eq!(key(&signer).unwrap(), "ASIAROLEROLEROLE");
        assert_eq!(key(&signer).unwrap(), "ASIAROLEROLEROLE");
        let asked = locked(&*asked);
        assert_eq!(asked.len(), 1);
        for part in
            ["https://sts.eu-west-1.amazonaws.com/", "role%2Freader", "ExternalId=x1", "Credential=AKID/"]
        {
            assert!(asked[0].contains(part), "{asked:?}");
        }
    }
}
