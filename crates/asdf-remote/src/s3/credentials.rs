//! The user's AWS credentials, found in the order of botocore. The first source that is configured decides: if it fails,
//! that is an error, and no other source is asked.
//!
//! | source | is configured by |
//! |---|---|
//! | environment | `AWS_ACCESS_KEY_ID` |
//! | role | `role_arn` of the profile, with `source_profile` or `credential_source` |
//! | web identity | `AWS_WEB_IDENTITY_TOKEN_FILE`, or `web_identity_token_file` of the profile |
//! | single sign-on | `sso_account_id` or `sso_role_name` of the profile |
//! | keys | `aws_access_key_id` in the file of credentials |
//! | command | `credential_process` of the profile |
//! | keys | `aws_access_key_id` in the configuration |
//! | container | `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`, `AWS_CONTAINER_CREDENTIALS_FULL_URI` |
//! | machine of EC2 | always, unless `AWS_EC2_METADATA_DISABLED` is `true` |

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, AssumeRoleWithWebIdentityCredentialProvider, Credential,
    ECSCredentialProvider, IMDSv2CredentialProvider, RequestSigner, SSOCredentialProvider,
    StaticCredentialProvider,
};
use reqsign_core::{
    Context, ErrorKind, HttpSend, ProvideCredential, Signer, SigningCredential, time::Timestamp,
};
use seekable::error::{Error, Kind, Result, beginning, one_line};
use serde::Deserialize;
use ureq::http::header::HOST;
use ureq::http::{HeaderValue, Request, Response, Uri};

use super::blocking::{block_on, run};
use super::settings::{Endpoint, Sections, Service, User, endpoint, profile_name};

/// The name of a role's session, unless the profile has another.
const SESSION: &str = "asdf-mount";
/// Settings of a profile that are not supported.
const UNSUPPORTED: [&str; 2] = ["login_session", "mfa_serial"];
/// Maximum length of what a command for credentials says of its failure, in columns.
const MAX_REASON: usize = 200;

/// The sources of credentials.
pub(super) struct Sources<'c> {
    context: &'c Context,
    /// The region whose service for roles is asked.
    region: &'c str,
    profile: String,
    all: Sections,
    /// The file of credentials alone.
    keys: Sections,
}

/// The user of a context: its variables, and the files of the system.
struct UserOf<'c>(&'c Context);

impl User for UserOf<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.env_var(name)
    }

    fn text(&self, path: &Path) -> std::io::Result<String> {
        super::settings::text_of(path)
    }

    fn home(&self) -> Option<PathBuf> {
        self.0.home_dir()
    }
}

/// The requests to the service of EC2.
#[derive(Debug)]
struct MachineService {
    context: Context,
    /// True if an answer shows that the service is there.
    is_there: Arc<AtomicBool>,
}

impl HttpSend for MachineService {
    async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
        let answer = self.context.http_send(request).await?;
        let status = answer.status();
        if status.is_success() || status.is_server_error() {
            self.is_there.store(true, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

/// Returns the credentials; `None` if no source is configured.
///
/// # Errors
/// The source that is configured fails.
pub(super) fn find(context: &Context, region: &str) -> Result<Option<Credential>> {
    let found = Sources::of(context, region).and_then(|sources| sources.find());
    let found = found.and_then(|found| match found {
        Some(old) if !old.is_valid_at(Timestamp::now()) => Err(failed("those that were found have expired")),
        found => Ok(found),
    });
    found.map_err(advised)
}

/// Returns the error of a search that finds no source, where the last one found credentials.
pub(super) fn gone() -> Error {
    advised(failed("their source does not answer any more, or is not configured any more"))
}

fn advised(error: Error) -> Error {
    error.advise("-o anonymous reads public buckets without credentials").within("AWS credentials")
}

/// Returns the error of a source.
fn failed(what: impl Into<String>) -> Error {
    Error::new(Kind::System(libc::EACCES), what)
}

impl<'c> Sources<'c> {
    fn of(context: &'c Context, region: &'c str) -> Result<Self> {
        let user = UserOf(context);
        let all = Sections::of(&user).map_err(failed)?;
        let keys = Sections::of_credentials(&user).map_err(failed)?;
        let named = profile_name(|name| user.variable(name).filter(|value| !value.is_empty()));
        if let Some(name) = named.as_ref().filter(|name| !all.has_profile(name)) {
            let of = if user.variable("AWS_DEFAULT_PROFILE").as_ref() == Some(name) {
                "AWS_DEFAULT_PROFILE"
            } else {
                "AWS_PROFILE"
            };
            return Err(failed(format!("the profile \"{name}\" of {of} does not exist")));
        }
        let profile = named.unwrap_or_else(|| "default".to_owned());
        Ok(Self { context, region, profile, all, keys })
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.context.env_var(name).filter(|value| !value.is_empty())
    }

    fn find(&self) -> Result<Option<Credential>> {
        if let Some(credential) = self.of_environment()? {
            return Ok(Some(credential));
        }
        let setting = |key: &str| self.all.profile(&self.profile, key);
        if setting("role_arn").is_some() && setting("web_identity_token_file").is_none() {
            return self.of_role(&self.profile, &mut Vec::new()).map(Some);
        }
        if let Some(token) = self.variable("AWS_WEB_IDENTITY_TOKEN_FILE") {
            let role = self.variable("AWS_ROLE_ARN");
            let role = role.or_else(|| setting("role_arn").map(str::to_owned));
            let role =
                role.ok_or_else(|| failed("AWS_WEB_IDENTITY_TOKEN_FILE is set, but not AWS_ROLE_ARN"))?;
            return self.of_token(role, token, self.variable("AWS_ROLE_SESSION_NAME")).map(Some);
        }
        if let Some(credential) = self.of_profile(&self.profile)? {
            return Ok(Some(credential));
        }
        if let Some(credential) = self.of_container()? {
            return Ok(Some(credential));
        }
        self.of_machine()
    }

    /// Asks the service of EC2. It is configured if it answers, and a role is attached to the machine. Other clouds answer
    /// at its address, too, and refuse the first request.
    fn of_machine(&self) -> Result<Option<Credential>> {
        let is_there = Arc::new(AtomicBool::new(false));
        let service = MachineService { context: self.context.clone(), is_there: is_there.clone() };
        let context = self.context.clone().with_http_send(service);
        match block_on(IMDSv2CredentialProvider::new().provide_credential(&context)) {
            Ok(found) => Ok(found),
            Err(_) if !is_there.load(Ordering::Relaxed) => Ok(None),
            Err(error) if error.kind() == ErrorKind::ConfigInvalid => Ok(None),
            Err(error) => Err(failed(format!("the service of EC2 gives none: {error}"))),
        }
    }

    fn of_environment(&self) -> Result<Option<Credential>> {
        let Some(access_key_id) = self.variable("AWS_ACCESS_KEY_ID") else { return Ok(None) };
        let secret_access_key = self
            .variable("AWS_SECRET_ACCESS_KEY")
            .ok_or_else(|| failed("AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY"))?;
        let token = self.variable("AWS_SESSION_TOKEN").or_else(|| self.variable("AWS_SECURITY_TOKEN"));
        Ok(Some(Credential { access_key_id, secret_access_key, session_token: token, expires_in: None }))
    }

    fn of_container(&self) -> Result<Option<Credential>> {
        let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
        let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let service = ECSCredentialProvider::new();
        let (name, mut service) = match (self.variable(relative), self.variable(full)) {
            (Some(path), _) => (relative, service.with_relative_uri(path)),
            (None, Some(url)) => {
                if !is_safe(&url) {
                    return Err(failed(format!("{full} is http:// to another machine; use https://")));
                }
                (full, service.with_endpoint(url))
            }
            (None, None) => return Ok(None),
        };
        if let Some(file) = self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            service = service.with_auth_token_file(file);
        }
        self.provided(service, &format!("the service of {name}")).map(Some)
    }

    /// Asks a source of the library.
    fn provided(
        &self,
        source: impl ProvideCredential<Credential = Credential>,
        name: &str,
    ) -> Result<Credential> {
        self.provided_at(self.context, source, name)
    }

    /// Asks a source of the library that is a service of AWS, at the endpoint that the user has set for it.
    fn provided_by(
        &self,
        service: Service,
        source: impl ProvideCredential<Credential = Credential>,
        name: &str,
    ) -> Result<Credential> {
        let variable = |name: &str| self.variable(name);
        let Some(Endpoint { url, origin }) = endpoint(service, variable, &self.all, &self.profile) else {
            return self.provided(source, name);
        };
        let wrong = || failed(format!("{origin}: \"{}\" is not the address of a server", url.escape_debug()));
        let url: Uri = url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none() {
            return Err(wrong());
        }
        let context = self.context.clone();
        let context = context.clone().with_http_send(ToEndpoint { context, url });
        self.provided_at(&context, source, name)
    }

    fn provided_at(
        &self,
        context: &Context,
        source: impl ProvideCredential<Credential = Credential>,
        name: &str,
    ) -> Result<Credential> {
        match block_on(source.provide_credential(context)) {
            Ok(Some(credential)) => Ok(credential),
            Ok(None) => Err(failed(format!("{name} gives none"))),
            Err(error) => Err(failed(format!("{name} gives none: {error}"))),
        }
    }

    /// Returns the credentials of a profile, apart from those of a role; `None` if it has none.
    fn of_profile(&self, profile: &str) -> Result<Option<Credential>> {
        let setting = |key: &str| self.all.profile(profile, key);
        if let Some(key) = UNSUPPORTED.into_iter().find(|key| setting(key).is_some()) {
            return Err(unsupported(profile, key));
        }
        if let Some(token) = setting("web_identity_token_file") {
            let role = setting("role_arn").ok_or_else(|| {
                failed(format!("the profile \"{profile}\" has web_identity_token_file, but no role_arn"))
            })?;
            let session = setting("role_session_name").map(str::to_owned);
            return self.of_token(role.to_owned(), token.to_owned(), session).map(Some);
        }
        if ["sso_account_id", "sso_role_name"].into_iter().any(|key| setting(key).is_some()) {
            return self.of_sso(profile).map(Some);
        }
        if let Some(credential) = keys_of(&self.keys, profile)? {
            return Ok(Some(credential));
        }
        if let Some(command) = setting("credential_process") {
            return of_command(command)
                .map(Some)
                .map_err(|why| failed(format!("credential_process of the profile \"{profile}\" {why}")));
        }
        keys_of(&self.all, profile)
    }

    /// Asks for the credentials of a profile's role. `above` are the profiles that led to it.
    fn of_role(&self, profile: &str, above: &mut Vec<String>) -> Result<Credential> {
        let of_profile = |what: &str| failed(format!("the profile \"{profile}\" {what}"));
        if above.iter().any(|name| name == profile) {
            return Err(of_profile("is its own source_profile"));
        }
        above.push(profile.to_owned());
        let setting = |key: &str| self.all.profile(profile, key);
        if let Some(key) = UNSUPPORTED.into_iter().find(|key| setting(key).is_some()) {
            return Err(unsupported(profile, key));
        }
        let role = setting("role_arn").ok_or_else(|| of_profile("has no role_arn"))?;
        let own = match (setting("source_profile"), setting("credential_source")) {
            (Some(_), Some(_)) => return Err(of_profile("has both source_profile and credential_source")),
            (None, None) => {
                return Err(of_profile("has role_arn, but neither source_profile nor credential_source"));
            }
            (Some(source), None) => self.of_source(profile, source, above)?,
            (None, Some("Environment")) => self.of_environment()?.ok_or_else(|| {
                of_profile("has credential_source = Environment, but AWS_ACCESS_KEY_ID is not set")
            })?,
            (None, Some("EcsContainer")) => self.of_container()?.ok_or_else(|| {
                of_profile("has credential_source = EcsContainer, but there is no container")
            })?,
            (None, Some("Ec2InstanceMetadata")) => {
                self.provided(IMDSv2CredentialProvider::new(), "the service of EC2")?
            }
            (None, Some(other)) => {
                let other = other.escape_debug();
                return Err(of_profile(&format!("has an unknown credential_source: \"{other}\"")));
            }
        };
        let mut keys = StaticCredentialProvider::new(&own.access_key_id, &own.secret_access_key);
        if let Some(token) = &own.session_token {
            keys = keys.with_session_token(token);
        }
        let signer = Signer::new(self.context.clone(), keys, RequestSigner::new("sts", self.region));
        let session = setting("role_session_name").unwrap_or(SESSION);
        let mut provider = AssumeRoleCredentialProvider::new(role.to_owned(), signer)
            .with_role_session_name(session.to_owned())
            .with_region(self.region.to_owned())
            .with_regional_sts_endpoint();
        if let Some(id) = setting("external_id") {
            provider = provider.with_external_id(id.to_owned());
        }
        if let Some(seconds) = setting("duration_seconds") {
            let seconds = seconds.parse().map_err(|_| of_profile("has a wrong duration_seconds"))?;
            provider = provider.with_duration_seconds(seconds);
        }
        self.provided_by(Service::Sts, provider, &format!("the role of the profile \"{profile}\""))
    }

    /// Returns the credentials of `source`, with which `profile` asks for a role.
    fn of_source(&self, profile: &str, source: &str, above: &mut Vec<String>) -> Result<Credential> {
        if !self.all.has_profile(source) {
            let source = source.escape_debug();
            return Err(failed(format!(
                "the source_profile \"{source}\" of the profile \"{profile}\" does not exist"
            )));
        }
        let setting = |key: &str| self.all.profile(source, key);
        let has_keys = setting("aws_access_key_id").is_some();
        let has_role = setting("role_arn").is_some() && setting("web_identity_token_file").is_none();
        if has_role && !has_keys {
            return self.of_role(source, above);
        }
        let none = || failed(format!("the source_profile \"{source}\" of \"{profile}\" has no credentials"));
        self.of_profile(source)?.ok_or_else(none)
    }

    fn of_token(&self, role: String, file: String, session: Option<String>) -> Result<Credential> {
        let name = format!("the web identity of {}", file.escape_debug());
        let provider = AssumeRoleWithWebIdentityCredentialProvider::with_config(role, PathBuf::from(file))
            .with_role_session_name(session.unwrap_or_else(|| SESSION.to_owned()))
            .with_region(self.region.to_owned())
            .with_regional_sts_endpoint();
        self.provided_by(Service::Sts, provider, &name)
    }

    fn of_sso(&self, profile: &str) -> Result<Credential> {
        let session = self.all.profile(profile, "sso_session");
        if let Some(name) = session.filter(|name| !self.all.has(&format!("sso-session {name}"))) {
            let name = name.escape_debug();
            return Err(failed(format!(
                "the sso-session \"{name}\" of the profile \"{profile}\" does not exist"
            )));
        }
        let setting = |key: &str| {
            let of_session = || self.all.get(&format!("sso-session {}", session?), key);
            let found = self.all.profile(profile, key).or_else(of_session);
            found.ok_or_else(|| failed(format!("the profile \"{profile}\" has no {key}")))
        };
        // The library uses the URL only for the name of the file with the token, which is that of the session if there
        // is one.
        let token = match session {
            Some(name) => name,
            None => setting("sso_start_url")?,
        };
        let provider = SSOCredentialProvider::new()
            .with_account_id(setting("sso_account_id")?)
            .with_role_name(setting("sso_role_name")?)
            .with_region(setting("sso_region")?)
            .with_start_url(token);
        let name = format!("the single sign-on of the profile \"{profile}\"");
        let advice = format!("log in: aws sso login --profile {profile}");
        self.provided_by(Service::Sso, provider, &name).map_err(|error| error.advise(advice))
    }
}

/// Sends the requests for a service of AWS to another address.
#[derive(Debug)]
struct ToEndpoint {
    context: Context,
    url: Uri,
}

impl HttpSend for ToEndpoint {
    async fn http_send(&self, mut request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
        let unusable = || reqsign_core::Error::unexpected("the endpoint can't be asked");
        let asked = request.uri().clone();
        // The host is a part of what was signed.
        let host = HeaderValue::from_str(asked.host().unwrap_or_default()).map_err(|_| unusable())?;
        request.headers_mut().insert(HOST, host);
        let path = asked.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", self.url.to_string().trim_end_matches('/'));
        *request.uri_mut() = url.parse().map_err(|_| unusable())?;
        self.context.http_send(request).await
    }
}

/// True if a service may get the token of a container: by https, or without it on this machine, or at the addresses of the
/// services of ECS and EKS.
fn is_safe(url: &str) -> bool {
    const SERVICES: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    url.scheme_str() == Some("https")
        || host == "localhost"
        || address.is_ok_and(|address| address.is_loopback())
        || SERVICES.contains(&host)
}

fn unsupported(profile: &str, key: &str) -> Error {
    failed(format!("{key} of the profile \"{profile}\" is not supported")).advise(format!(
        "take the credentials of aws configure export-credentials --profile {profile} --format env"
    ))
}

/// Returns the keys of a profile; `None` if it has none.
fn keys_of(sections: &Sections, profile: &str) -> Result<Option<Credential>> {
    let setting = |key: &str| sections.profile(profile, key).map(str::to_owned);
    let Some(access_key_id) = setting("aws_access_key_id") else { return Ok(None) };
    let secret_access_key = setting("aws_secret_access_key").ok_or_else(|| {
        failed(format!("the profile \"{profile}\" has aws_access_key_id, but no aws_secret_access_key"))
    })?;
    let session_token = setting("aws_session_token").or_else(|| setting("aws_security_token"));
    Ok(Some(Credential { access_key_id, secret_access_key, session_token, expires_in: None }))
}

/// The output of a command for credentials.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CommandCredential {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

/// Runs a command for credentials. The error says what the command did.
fn of_command(command: &str) -> std::result::Result<Credential, String> {
    let words = split(command).ok_or("has a quote without an end")?;
    let (program, arguments) = words.split_first().ok_or("is empty")?;
    let output = run(Command::new(program).args(arguments))
        .map_err(|error| format!("fails: {}: {error}", program.escape_debug()))?;
    if output.status != 0 {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let reason = one_line(beginning(last, MAX_REASON));
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        return Err(format!("fails with the status {}{reason}", output.status));
    }
    // The text of the error could have a part of the credentials.
    let found: CommandCredential =
        serde_json::from_slice(&output.stdout).map_err(|_| "prints no credentials in JSON".to_owned())?;
    if found.version != 1 {
        return Err(format!("prints the unknown version {}", found.version));
    }
    let expires_in = found.expiration.map(|time| time.parse::<Timestamp>()).transpose();
    Ok(Credential {
        access_key_id: found.access_key_id,
        secret_access_key: found.secret_access_key,
        session_token: found.session_token,
        expires_in: expires_in.map_err(|_| "prints a wrong Expiration".to_owned())?,
    })
}

/// Splits a command into words as a POSIX shell does, without expansions; `None` if a quote has no end.
fn split(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().push(rest.next()?),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            special @ ('"' | '\\' | '$' | '`') => word.push(special),
                            other => word.extend(['\\', other]),
                        },
                        quoted => word.push(quoted),
                    }
                }
            }
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_by_a_shell() {
        for (command, words) in [
            ("a b\t c", &["a", "b", "c"][..]),
            ("'a b' \"c \\\" \\n\" d\\ e ''", &["a b", "c \" \\n", "d e", ""]),
            ("a'b'\"c\"", &["abc"]),
            ("", &[]),
        ] {
            assert_eq!(split(command).unwrap(), words, "{command}");
        }
        for command in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(split(command), None, "{command}");
        }
    }
}
