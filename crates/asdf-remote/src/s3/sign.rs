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
use seekable::error::{Error, Kind, Result};
use seekable::sync::locked;
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Proxy};

use super::blocking::block_on;
use super::credentials;
use crate::tls;

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
        let mut found = credentials::find(context, region);
        // The service of the machine may not answer for a moment.
        if matches!(found, Ok(None)) && self.credential.is_some() {
            found = Err(credentials::gone());
        }
        match found {
            Ok(found) => {
                if found.is_none() && is_first {
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
        let is_near =
            host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
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
            error.message().contains(
                "credential_process of the profile \"default\" fails with the status 1: cat: /nonexistent: No such file"
            ),
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

    /// The services that issue credentials: that of roles, of single sign-on, of containers and of EC2.
    #[derive(Clone, Debug, Default)]
    struct Services(Arc<Mutex<Vec<String>>>);

    impl HttpSend for Services {
        async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
            let header = |name: &str| {
                let value = request.headers().get(name).map_or("", |value| value.to_str().unwrap());
                value.split(", SignedHeaders").next().unwrap().to_owned()
            };
            let sent =
                [&header("authorization"), &header("x-amz-sso_bearer_token"), " host ", &header("host")];
            let sent = sent.concat();
            let body = String::from_utf8_lossy(request.body()).into_owned();
            let uri = request.uri().to_string();
            locked(&*self.0).push(format!("{} {uri} {body} {sent}", request.method()));
            let end = "2999-01-01T00:00:00Z";
            let action =
                if body.contains("WebIdentity") { "AssumeRoleWithWebIdentity" } else { "AssumeRole" };
            let answer = if uri.contains("sts.") || uri.contains("/sts/") {
                format!(
                    "<{action}Response><{action}Result><Credentials><AccessKeyId>ASIAROLEROLEROLE</AccessKeyId>\
                     <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{end}</Expiration>\
                     </Credentials></{action}Result></{action}Response>"
                )
            } else if uri.contains("portal.sso.") {
                "{\"roleCredentials\": {\"accessKeyId\": \"ASIASSO\", \"secretAccessKey\": \"s\", \
                 \"sessionToken\": \"t\", \"expiration\": 32472144000000}}"
                    .to_owned()
            } else {
                format!(
                    "{{\"AccessKeyId\": \"ASIABOX\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \
                     \"Expiration\": \"{end}\"}}"
                )
            };
            Ok(Response::new(Bytes::from(answer)))
        }
    }

    /// Names and values of variables of the environment.
    type Variables<'a> = &'a [(&'a str, &'a str)];

    /// Returns the key that is used with this configuration and these variables, and the requests for it. `HOME` in them is
    /// the home directory, in which `token` holds a token, and the single sign-ons `https://x.awsapps.com/start` and `corp`
    /// are logged in.
    fn key_of(config: &str, variables: &[(&str, &str)]) -> (Result<String>, Vec<String>) {
        let (home, mut env) = configured("");
        let path = home.path().to_str().unwrap();
        std::fs::write(home.path().join(".aws/config"), config.replace("HOME", path)).unwrap();
        std::fs::write(home.path().join("token"), "own-token\n").unwrap();
        let logins = home.path().join(".aws/sso/cache");
        std::fs::create_dir_all(&logins).unwrap();
        // The SHA-1 of the address, and of the name of the session.
        let names = [
            ("3947de8b16688092197fa616c34e01335f21d256", "legacy"),
            ("ee0bfd2552fbd840c02cc48b6e823320543c450f", "session"),
        ];
        for (name, token) in names {
            let login = format!("{{\"accessToken\": \"{token}\", \"expiresAt\": \"2999-01-01T00:00:00Z\"}}");
            std::fs::write(logins.join(format!("{name}.json")), login).unwrap();
        }
        for (name, value) in variables {
            env.envs.insert(name.to_string(), value.replace("HOME", path));
        }
        let services = Services::default();
        let signer = Signer::with_web(env, services.clone());
        let found = key(&signer);
        assert_eq!(key(&signer).is_ok(), found.is_ok());
        let asked = locked(&*services.0).clone();
        (found, asked)
    }

    /// The configurations of roles, single sign-on, web identities and containers, with the key and the requests: those of
    /// botocore 1.44 for the same configuration.
    #[test]
    fn services_are_asked_for_credentials_as_botocore_asks_them() {
        let role = "role_arn = arn:aws:iam::123456789012:role/reader\n";
        let keys = "[profile keys]\naws_access_key_id = AKID\naws_secret_access_key = s\n";
        let sts = "https://sts.eu-west-1.amazonaws.com/";
        let portal = "GET https://portal.sso.eu-central-1.amazonaws.com/federation/credentials";
        let sso = "sso_account_id = 123456789012\nsso_role_name = Reader\n";
        let place = "sso_region = eu-central-1\nsso_start_url = https://x.awsapps.com/start\n";
        let relative = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/own");
        let full = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost:9/own");
        let cases: [(String, Variables<'_>, &str, &[&str]); 13] = [
            (
                format!("[default]\n{role}source_profile = keys\n{keys}"),
                &[("AWS_ENDPOINT_URL_STS", "http://localhost:9/sts/")],
                "ASIAROLEROLEROLE",
                &[
                    "GET http://localhost:9/sts/?Action=AssumeRole&",
                    "Credential=AKID/",
                    "host sts.eu-west-1.amazonaws.com",
                ],
            ),
            (
                format!(
                    "[default]\n{role}web_identity_token_file = HOME/token\nendpoint_url = http://sts.localhost\n"
                ),
                &[],
                "ASIAROLEROLEROLE",
                &["POST http://sts.localhost/ ", "WebIdentityToken=own-token&"],
            ),
            (
                format!("[default]\n{sso}{place}"),
                &[("AWS_ENDPOINT_URL_SSO", "https://portal.sso.localhost:9")],
                "ASIASSO",
                &["GET https://portal.sso.localhost:9/federation/credentials?", "legacy"],
            ),
            (
                format!("[default]\n{role}source_profile = keys\nexternal_id = x1\n{keys}"),
                &[],
                "ASIAROLEROLEROLE",
                &[sts, "role%2Freader", "ExternalId=x1", "Credential=AKID/"],
            ),
            (
                format!("[default]\n{role}credential_source = Environment\n"),
                &[("AWS_ACCESS_KEY_ID", "AKENV"), ("AWS_SECRET_ACCESS_KEY", "s")],
                // The keys of the environment come first.
                "AKENV",
                &[],
            ),
            (
                format!("[default]\n{role}credential_source = EcsContainer\n"),
                &[relative],
                "ASIAROLEROLEROLE",
                &["GET http://169.254.170.2/v2/own", sts, "Credential=ASIABOX/"],
            ),
            (
                format!("[default]\n{role}web_identity_token_file = HOME/token\nrole_session_name = me\n"),
                &[],
                "ASIAROLEROLEROLE",
                &[sts, "WebIdentityToken=own-token&", "RoleSessionName=me", "role%2Freader"],
            ),
            (
                String::new(),
                &[
                    ("AWS_WEB_IDENTITY_TOKEN_FILE", "HOME/token"),
                    ("AWS_ROLE_ARN", "arn:aws:iam::1:role/of-pod"),
                ],
                "ASIAROLEROLEROLE",
                &[sts, "WebIdentityToken=own-token&", "role%2Fof-pod"],
            ),
            (
                format!("[default]\n{sso}{place}"),
                &[],
                "ASIASSO",
                &[portal, "role_name=Reader", "account_id=123456789012", "legacy"],
            ),
            (
                format!("[default]\n{sso}sso_session = corp\n[sso-session corp]\n{place}"),
                &[],
                "ASIASSO",
                &[portal, "role_name=Reader", "account_id=123456789012", "session"],
            ),
            (String::new(), &[full], "ASIABOX", &["GET http://localhost:9/own"]),
            (String::new(), &[full, relative], "ASIABOX", &["GET http://169.254.170.2/v2/own"]),
            (
                String::new(),
                &[
                    relative,
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "old-token"),
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "HOME/token"),
                ],
                "ASIABOX",
                &["GET http://169.254.170.2/v2/own", "own-token"],
            ),
        ];
        for (config, variables, wanted, parts) in cases {
            let (found, asked) = key_of(&config, variables);
            assert_eq!(found.unwrap(), wanted, "{config}{variables:?} {asked:?}");
            let asked = asked.join("\n");
            for part in parts {
                assert!(asked.contains(part), "{config}{variables:?}: {part}: {asked}");
            }
            assert_eq!(asked.is_empty(), parts.is_empty());
        }
    }

    /// The service of a machine. It answers the requests for a token, for the name of the role, and for its credentials, in
    /// this order, each with a status and a text. Without answers there is no service.
    #[derive(Clone, Debug, Default)]
    struct Machine(Arc<Mutex<Vec<(u16, String)>>>);

    impl HttpSend for Machine {
        async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
            let path = request.uri().path();
            let n = match path.strip_prefix("/latest/meta-data/iam/security-credentials/") {
                None => 0,
                Some("") => 1,
                Some(_) => 2,
            };
            let answers = locked(&*self.0);
            let (status, text) =
                answers.get(n).ok_or_else(|| reqsign_core::Error::unexpected("no connection"))?;
            let mut response = Response::new(Bytes::from(text.clone()));
            *response.status_mut() = (*status).try_into().unwrap();
            Ok(response)
        }
    }

    #[test]
    fn a_machine_is_anonymous_only_if_it_has_no_role() {
        let home = tempfile::tempdir().unwrap();
        let env = || StaticEnv { home_dir: Some(home.path().to_owned()), envs: HashMap::new() };
        let token = (200, "token".to_owned());
        let role = (200, "role".to_owned());
        let end = Timestamp::now() + Duration::from_secs(60);
        let json = format!(
            "{{\"Code\": \"Success\", \"AccessKeyId\": \"OWN\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \
             \"Expiration\": \"{}\"}}",
            end.format_rfc3339_zulu()
        );
        let error = |status: u16| (status, String::new());
        // No service, and those of other clouds.
        for answers in
            [vec![], vec![error(404)], vec![error(403)], vec![error(400)], vec![token.clone(), error(404)]]
        {
            let signer = Signer::with_web(env(), Machine(Arc::new(Mutex::new(answers.clone()))));
            assert_eq!(key(&signer).unwrap(), "", "{answers:?}");
        }
        for answers in [
            vec![error(500)],
            vec![token.clone(), error(503)],
            vec![token.clone()],
            vec![token.clone(), role.clone()],
            vec![token.clone(), role.clone(), error(500)],
            vec![token.clone(), role.clone(), (200, "{\"Code\"".to_owned())],
            vec![token.clone(), role.clone(), (200, "{\"Code\": \"Failed\"}".to_owned())],
        ] {
            let signer = Signer::with_web(env(), Machine(Arc::new(Mutex::new(answers.clone()))));
            let error = key(&signer).unwrap_err();
            assert!(error.message().contains("the service of EC2"), "{answers:?}: {error}");
        }
        // Credentials near their end are used until it, although the service does not answer any more.
        let machine = Machine(Arc::new(Mutex::new(vec![token, role, (200, json)])));
        let signer = Signer::with_web(env(), machine.clone());
        assert_eq!(key(&signer).unwrap(), "OWN");
        locked(&*machine.0).clear();
        locked(&signer.known).since = None;
        assert_eq!(key(&signer).unwrap(), "OWN");
        let mut known = locked(&signer.known);
        let last = known.credential.take().unwrap();
        known.credential = Some(Credential { expires_in: Some(Timestamp::now()), ..last });
        drop(known);
        assert!(key(&signer).unwrap_err().message().contains("not answer"));
    }

    #[test]
    fn a_source_that_fails_is_an_error_and_no_anonymous_request() {
        let role = "role_arn = arn:aws:iam::123456789012:role/reader\n";
        let sso = "[default]\nsso_account_id = 1\nsso_role_name = R\nsso_region = eu-central-1\n";
        let old = "{\"Version\": 1, \"AccessKeyId\": \"OLD\", \"SecretAccessKey\": \"s\", \"Expiration\": \
                   \"2001-01-01T00:00:00Z\"}";
        let cases: [(String, Variables<'_>, &str); 12] = [
            (format!("[default]\ncredential_process = echo '{old}'\n"), &[], "have expired"),
            (
                format!("[default]\n{role}web_identity_token_file = HOME/token\n"),
                &[("AWS_ENDPOINT_URL_STS", "localhost")],
                "AWS_ENDPOINT_URL_STS: \"localhost\" is not the address of a server",
            ),
            ("[default\nregion = x\n".to_owned(), &[], "line 1 of "),
            ("[default]\n# none\nregion\n".to_owned(), &[], "line 3 of "),
            (
                format!("[default]\n{role}credential_source = Environment\n"),
                &[],
                "AWS_ACCESS_KEY_ID is not set",
            ),
            (format!("[default]\n{role}credential_source = EcsContainer\n"), &[], "there is no container"),
            (format!("[default]\n{role}credential_source = Nowhere\n"), &[], "unknown credential_source"),
            (
                format!("[default]\n{role}web_identity_token_file = HOME/nothing\n"),
                &[],
                "the web identity of",
            ),
            (String::new(), &[("AWS_WEB_IDENTITY_TOKEN_FILE", "HOME/token")], "but not AWS_ROLE_ARN"),
            (
                format!("{sso}sso_start_url = https://nobody.awsapps.com/start\n"),
                &[],
                "log in: aws sso login --profile default",
            ),
            (format!("{sso}sso_session = gone\n"), &[], "sso-session \"gone\""),
            (
                String::new(),
                &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/own")],
                "http:// to another machine",
            ),
        ];
        for (config, variables, reason) in cases {
            let (found, asked) = key_of(&config, variables);
            let error = found.unwrap_err();
            assert!(error.message().contains(reason), "{config}{variables:?}: {error}");
            assert!(error.message().contains("-o anonymous"), "{error}");
            assert!(asked.is_empty(), "{asked:?}");
        }
    }
}
