//! The user's settings for S3 servers, from the environment and the profile, as AWS's SDKs read them.
//!
//! | setting | the first one that is set |
//! |---|---|
//! | endpoint | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `endpoint_url` below `s3` in the profile's `services` section, `endpoint_url` of the profile; those of `sts` and `sso` likewise |
//! | region | `AWS_REGION`, `AWS_DEFAULT_REGION`, `region` of the profile |
//! | profile | `AWS_DEFAULT_PROFILE`, `AWS_PROFILE`, `default` |
//!
//! With `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true`, or `ignore_configured_endpoint_urls = true` in the profile,
//! there is no endpoint.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use seekable::user_dirs;

/// Maximum length of a file with profiles; the rest is ignored.
const MAX_FILE: u64 = 1 << 20;

/// The settings of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserSettings {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) region: Option<String>,
}

/// The URL of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: String,
    /// The variable or the profile that has it, for messages.
    pub(super) origin: String,
}

/// Access to the environment and to files.
pub(super) trait User {
    /// Returns a variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the text of a file.
    fn text(&self, path: &Path) -> std::io::Result<String>;

    /// Returns the user's home directory.
    fn home(&self) -> Option<PathBuf>;
}

/// The user that runs this program.
pub(super) struct ThisUser;

impl User for ThisUser {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn text(&self, path: &Path) -> std::io::Result<String> {
        text_of(path)
    }

    fn home(&self) -> Option<PathBuf> {
        user_dirs::home()
    }
}

/// Returns the text of a file.
pub(super) fn text_of(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the name of the profile that a variable names.
pub(super) fn profile_name(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    variable("AWS_DEFAULT_PROFILE").or_else(|| variable("AWS_PROFILE"))
}

impl UserSettings {
    /// Reads the settings.
    pub(super) fn of(user: &impl User) -> Self {
        let variable = |name: &str| user.variable(name).filter(|value| !value.is_empty());
        let profile = profile_name(variable).unwrap_or_else(|| "default".to_owned());
        // Without the files a request can't be signed, and then they give an error.
        let sections = Sections::of(user).unwrap_or_default();
        let of_profile = |key: &str| sections.profile(&profile, key);
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable);
        Self {
            endpoint: endpoint(Service::S3, variable, &sections, &profile),
            region: region.or_else(|| of_profile("region").map(str::to_owned)),
        }
    }
}

/// A service of AWS.
#[derive(Clone, Copy, Debug)]
pub(super) enum Service {
    S3,
    /// That of roles.
    Sts,
    /// That of single sign-on.
    Sso,
}

/// Returns the address that the user has set for a service.
pub(super) fn endpoint(
    service: Service,
    variable: impl Fn(&str) -> Option<String>,
    sections: &Sections,
    profile: &str,
) -> Option<Endpoint> {
    let is_true = |text: &str| text.eq_ignore_ascii_case("true");
    let is_ignored = match variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
        Some(text) => is_true(&text),
        None => sections.profile(profile, "ignore_configured_endpoint_urls").is_some_and(is_true),
    };
    if is_ignored {
        return None;
    }
    let (of_service, key) = match service {
        Service::S3 => ("AWS_ENDPOINT_URL_S3", "s3.endpoint_url"),
        Service::Sts => ("AWS_ENDPOINT_URL_STS", "sts.endpoint_url"),
        Service::Sso => ("AWS_ENDPOINT_URL_SSO", "sso.endpoint_url"),
    };
    for name in [of_service, "AWS_ENDPOINT_URL"] {
        if let Some(url) = variable(name) {
            return Some(Endpoint { url, origin: name.to_owned() });
        }
    }
    let services = sections.profile(profile, "services");
    let of_service = services.and_then(|services| sections.get(&format!("services {services}"), key));
    let url = of_service.or_else(|| sections.profile(profile, "endpoint_url"))?;
    Some(Endpoint { url: url.to_owned(), origin: format!("endpoint_url of the AWS profile '{profile}'") })
}

/// The sections of the user's files, by their names. Keys below another key are `KEY.BELOW`.
#[derive(Debug, Default)]
pub(super) struct Sections(HashMap<String, HashMap<String, String>>);

impl Sections {
    /// Reads `~/.aws/config`, then `~/.aws/credentials`.
    ///
    /// # Errors
    /// A file is there, but can't be read; the text names it.
    pub(super) fn of(user: &impl User) -> Result<Self, String> {
        let mut sections = Self::default();
        sections.add(user, "AWS_CONFIG_FILE", "config")?;
        sections.add(user, "AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        Ok(sections)
    }

    /// Reads `~/.aws/credentials`.
    pub(super) fn of_credentials(user: &impl User) -> Result<Self, String> {
        let mut sections = Self::default();
        sections.add(user, "AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
        Ok(sections)
    }

    /// Reads the file that a variable names, or else `~/.aws/NAME`.
    fn add(&mut self, user: &impl User, variable: &str, name: &str) -> Result<(), String> {
        let set = user.variable(variable).filter(|path| !path.is_empty());
        let path = match set {
            Some(path) => match path.strip_prefix("~/") {
                Some(rest) => user.home().map(|home| home.join(rest)),
                None => Some(PathBuf::from(path)),
            },
            None => user.home().map(|home| home.join(".aws").join(name)),
        };
        let Some(path) = path else { return Ok(()) };
        match user.text(&path) {
            Ok(text) => self.read(&text, name == "config").map_err(|line| {
                format!("line {line} of {} is neither a section nor a setting", path.display())
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {}", path.display(), error.kind())),
        }
        Ok(())
    }

    /// True if there is a section of this name.
    pub(super) fn has(&self, section: &str) -> bool {
        self.0.contains_key(section)
    }

    /// True if there is a profile of this name.
    pub(super) fn has_profile(&self, name: &str) -> bool {
        self.has(&format!("profile {name}"))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The number of a line that AWS's tools refuse.
    fn read(&mut self, text: &str, is_config: bool) -> Result<(), usize> {
        let mut section: Option<&mut HashMap<String, String>> = None;
        let mut is_in_section = false;
        let mut above = String::new();
        for (number, line) in text.lines().enumerate() {
            let is_below = line.starts_with([' ', '\t']);
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                section = section_name(name, is_config).map(|name| self.0.entry(name).or_default());
                is_in_section = true;
                above.clear();
                continue;
            }
            if !is_in_section || !is_below && !line.contains(['=', ':']) {
                return Err(number + 1);
            }
            let (Some(section), Some((key, value))) = (&mut section, line.split_once('=')) else { continue };
            let key = key.trim().to_ascii_lowercase();
            let value = value.trim();
            if is_below && !above.is_empty() {
                section.insert(format!("{above}.{key}"), value.to_owned());
                continue;
            }
            above = if value.is_empty() { key.clone() } else { String::new() };
            section.insert(key, value.to_owned());
        }
        Ok(())
    }

    pub(super) fn get(&self, section: &str, key: &str) -> Option<&str> {
        self.0.get(section)?.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn profile(&self, name: &str, key: &str) -> Option<&str> {
        self.get(&format!("profile {name}"), key)
    }
}

/// Returns the name of a section as `profile NAME`, `services NAME` or `sso-session NAME`. The file of credentials has names of
/// profiles only.
fn section_name(name: &str, is_config: bool) -> Option<String> {
    let unquoted = |part: &str| part.trim().trim_matches(['"', '\'']).to_owned();
    let name = name.trim();
    match name.split_once([' ', '\t']) {
        Some((kind @ ("profile" | "services" | "sso-session"), name)) if is_config => {
            Some(format!("{kind} {}", unquoted(name)))
        }
        _ if !is_config || name == "default" => Some(format!("profile {}", unquoted(name))),
        _ => None,
    }
}

/// Removes a comment: a line that begins with `#` or `;`, or the rest of a line after a space and one of these.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with(['#', ';']) {
        return "";
    }
    let ends = [" #", " ;", "\t#", "\t;"].into_iter().filter_map(|mark| line.find(mark));
    ends.min().map_or(line, |end| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FakeUser {
        variables: Vec<(&'static str, &'static str)>,
        files: Vec<(&'static str, &'static str)>,
    }

    impl User for FakeUser {
        fn variable(&self, name: &str) -> Option<String> {
            let found = self.variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }

        fn text(&self, path: &Path) -> std::io::Result<String> {
            let found = self.files.iter().find(|(known, _)| Path::new(known) == path);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| std::io::ErrorKind::NotFound.into())
        }

        fn home(&self) -> Option<PathBuf> {
            Some(PathBuf::from("/users/u"))
        }
    }

    const CONFIG: &str = "\
# [profile no]
[default]
region = eu-central-1
endpoint_url = http://default:1 ; the old one

[profile \"dev\"]
endpoint_url=http://dev:2
services = ours
s3 =
  max_concurrent_requests = 20
  endpoint_url = http://wrong:1

[services ours]
dynamodb =
  endpoint_url = http://wrong:2
s3 =
\tendpoint_url = http://ours:3

[profile plain]
output = json
[profile off]
endpoint_url = http://wrong:3
ignore_configured_endpoint_urls = True
[plain]
endpoint_url = http://wrong:4
";

    fn settings(variables: &[(&'static str, &'static str)]) -> (Option<String>, Option<String>) {
        let files = vec![
            ("/users/u/.aws/config", CONFIG),
            ("/users/u/.aws/credentials", "[keys]\naws_access_key_id = x\nendpoint_url = http://keys:5\n"),
            ("/users/u/other", "[default]\nendpoint_url = http://other:6\n"),
        ];
        let settings = UserSettings::of(&FakeUser { variables: variables.to_vec(), files });
        (settings.endpoint.map(|endpoint| endpoint.url), settings.region)
    }

    #[test]
    fn endpoint_and_region_are_found_as_the_sdks_find_them() {
        let region = Some("eu-central-1".to_owned());
        for (variables, wanted) in [
            (&[][..], Some("http://default:1")),
            (
                &[("AWS_ENDPOINT_URL", "http://all:7"), ("AWS_ENDPOINT_URL_S3", "http://s3:8")],
                Some("http://s3:8"),
            ),
            (&[("AWS_ENDPOINT_URL", "http://all:7"), ("AWS_ENDPOINT_URL_S3", "")], Some("http://all:7")),
            (&[("AWS_PROFILE", "dev")], Some("http://ours:3")),
            (&[("AWS_PROFILE", "dev"), ("AWS_ENDPOINT_URL", "http://all:7")], Some("http://all:7")),
            (&[("AWS_DEFAULT_PROFILE", "keys")], Some("http://keys:5")),
            (&[("AWS_PROFILE", "plain")], None),
            (&[("AWS_PROFILE", "no")], None),
            (&[("AWS_PROFILE", "off")], None),
            (&[("AWS_CONFIG_FILE", "~/other")], Some("http://other:6")),
            (&[("AWS_CONFIG_FILE", "/users/u/none")], None),
            (&[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"), ("AWS_ENDPOINT_URL", "http://all:7")], None),
        ] {
            let (endpoint, found) = settings(variables);
            assert_eq!(endpoint.as_deref(), wanted, "{variables:?}");
            let is_default =
                variables.iter().all(|(name, _)| !name.contains("PROFILE") && !name.contains("FILE"));
            assert_eq!(found, region.clone().filter(|_| is_default), "{variables:?}");
        }
        assert_eq!(settings(&[("AWS_DEFAULT_REGION", "us-west-1")]).1.as_deref(), Some("us-west-1"));
    }
}
