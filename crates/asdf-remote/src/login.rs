//! The login for a web server that the user named: of its URL, a token, or an entry of `~/.netrc`.
//!
//! Files are read for each request, so that a new token or password counts at once. No message repeats a secret.

use std::fs::File;
use std::io::Read;
use std::iter::Peekable;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::Chars;

use seekable::error::{Error, Kind, Result, in_shell};
use seekable::user_dirs;
use ureq::http::HeaderValue;

use super::options::{RemoteOptions, TokenServer};
use super::url::{Secret, Url};

/// Maximum length of a file with logins in bytes.
const MAX_FILE: u64 = 1 << 20;
const TOKEN: &str = "ASDF_MOUNT_TOKEN";
const NETRC: &str = "NETRC";

/// Where logins come from.
#[derive(Debug)]
pub(super) struct Logins {
    token_file: Option<PathBuf>,
    token: Option<Secret>,
    netrc: Option<Netrc>,
    token_server: TokenServer,
}

#[derive(Debug)]
struct Netrc {
    path: PathBuf,
    /// True for the file of `$NETRC`, which has to exist. Others may read it.
    is_named: bool,
}

/// A name and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Login {
    name: String,
    password: String,
}

impl Logins {
    pub(super) fn of_user(options: &RemoteOptions) -> Self {
        let named = std::env::var_os(NETRC).filter(|path| !path.is_empty());
        let netrc = match named {
            Some(path) => Some(Netrc { path: path.into(), is_named: true }),
            None => user_dirs::home().map(|home| Netrc { path: home.join(".netrc"), is_named: false }),
        };
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let token_file = options.token_file.clone();
        let token_server = options.token_server.clone();
        Self { token_file, token: token.map(Secret), netrc, token_server }
    }

    /// Returns the header with the login for a server that the user named; `None` if there is none.
    ///
    /// # Errors
    /// A file with logins can't be read, or the token is for another server.
    pub(super) fn header(&self, url: &Url) -> Result<Option<HeaderValue>> {
        let text = match &url.login {
            Some(Secret(login)) if login.contains(':') => basic(login),
            Some(Secret(name)) => {
                let password = self.in_netrc(url, Some(name))?.map(|login| login.password);
                basic(&format!("{name}:{}", password.unwrap_or_default()))
            }
            None => match self.token(url)? {
                Some(token) => format!("Bearer {token}"),
                None => {
                    let Some(Login { name, password }) = self.in_netrc(url, None)? else { return Ok(None) };
                    basic(&format!("{name}:{password}"))
                }
            },
        };
        let refused =
            |_| Error::new(Kind::Usage, "the login for the server has a character that can't be sent");
        let mut value = HeaderValue::from_str(&text).map_err(refused)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn token(&self, url: &Url) -> Result<Option<String>> {
        let (text, path) = match (&self.token_file, &self.token) {
            (Some(path), _) => (read(path).map_err(|error| error.within("token-file"))?.0, Some(path)),
            (None, Some(Secret(token))) => (token.clone(), None),
            (None, None) => return Ok(None),
        };
        let token = text.trim();
        if token.is_empty() || token.contains(char::is_whitespace) {
            let refused = |what: &str| Error::new(Kind::System(libc::EACCES), what);
            return Err(match path {
                Some(path) => refused("token-file: the file is not a token alone").of(path),
                None => refused("ASDF_MOUNT_TOKEN: it is not a token alone; leave out words such as Bearer"),
            });
        }
        let origin = url.origin();
        let server = self.token_server.or(&origin);
        if server != origin {
            let what = format!("the token is sent to {server} only: give the login for {origin} in ~/.netrc");
            return Err(Error::new(Kind::System(libc::EACCES), what));
        }
        Ok(Some(token.to_owned()))
    }

    /// Returns the login for the host of a URL; with `name`, that of this user.
    fn in_netrc(&self, url: &Url, name: Option<&str>) -> Result<Option<Login>> {
        let Some(netrc) = &self.netrc else { return Ok(None) };
        let (text, mode) = match read(&netrc.path) {
            Err(error) if error.errno() == libc::ENOENT && !netrc.is_named => return Ok(None),
            read => read?,
        };
        let wrong = |line| {
            let what = format!(
                "line {line}: this is not an entry such as \"machine HOST login NAME password WORD\""
            );
            Error::new(Kind::System(libc::EACCES), what).of(&netrc.path)
        };
        let login = find(&text, &url.host, name).map_err(wrong)?;
        if login.is_some() && !netrc.is_named && mode & 0o077 != 0 {
            let what = "other users can read the passwords in it";
            let error = Error::new(Kind::System(libc::EACCES), what).of(&netrc.path);
            return Err(error.advise(format!("chmod 600 {}", in_shell(&netrc.path))));
        }
        Ok(login)
    }
}

/// Reads a short file; returns its text and its mode.
fn read(path: &Path) -> Result<(String, u32)> {
    let failed = |error: std::io::Error| Error::from(error).of(path);
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    let mut text = String::new();
    // The length of a device is not known before.
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::new(Kind::TooLarge, format!("the file is larger than {MAX_FILE} bytes")).of(path));
    }
    Ok((text, mode))
}

fn basic(login: &str) -> String {
    format!("Basic {}", base64(login.as_bytes()))
}

/// Finds the login for a host in the text of a netrc file; with `name`, that of this user. The first entry counts.
///
/// # Errors
/// The number of the line that is not valid.
fn find(text: &str, host: &str, name: Option<&str>) -> std::result::Result<Option<Login>, usize> {
    let mut words = Words { chars: text.chars().peekable(), line: 1 };
    let mut found = None;
    // True while the words are about the wanted host; `None` before the first entry.
    let mut is_wanted = None;
    let mut login = Login { name: String::new(), password: String::new() };
    let fits = |login: &Login| name.is_none_or(|name| name == login.name || login.name.is_empty());
    loop {
        let word = words.keyword();
        if matches!(word.as_deref(), None | Some("machine" | "default")) {
            if is_wanted == Some(true) && fits(&login) && found.is_none() {
                found = Some(login);
            }
            login = Login { name: String::new(), password: String::new() };
        }
        let Some(word) = word else { return Ok(found) };
        match word.as_str() {
            "machine" => {
                let machine = words.value().ok_or(words.line)?;
                is_wanted = Some(machine.eq_ignore_ascii_case(host));
            }
            "default" => is_wanted = Some(true),
            "macdef" => words.skip_macro(),
            "login" | "user" if is_wanted.is_some() => login.name = words.value().ok_or(words.line)?,
            "password" if is_wanted.is_some() => login.password = words.value().ok_or(words.line)?,
            "account" if is_wanted.is_some() => drop(words.value().ok_or(words.line)?),
            // A word of another program, in the entry of another server.
            _ if is_wanted == Some(false) => {}
            _ => return Err(words.line),
        }
    }
}

/// The words of a netrc file.
struct Words<'t> {
    chars: Peekable<Chars<'t>>,
    line: usize,
}

impl Words<'_> {
    fn next_char(&mut self) -> Option<char> {
        let next = self.chars.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    /// Returns the next word outside of comments.
    fn keyword(&mut self) -> Option<String> {
        loop {
            let word = self.value()?;
            if !word.starts_with('#') {
                return Some(word);
            }
            while self.chars.peek().is_some_and(|next| *next != '\n') {
                self.next_char();
            }
        }
    }

    /// Returns the next word. In quotation marks, it may have any character, some after a backslash.
    fn value(&mut self) -> Option<String> {
        while self.chars.peek().is_some_and(|next| next.is_whitespace()) {
            self.next_char();
        }
        let is_quoted = *self.chars.peek()? == '"';
        if is_quoted {
            self.next_char();
        }
        let mut word = String::new();
        while let Some(next) = self.chars.peek().copied() {
            if is_quoted && next == '"' {
                self.next_char();
                break;
            }
            if !is_quoted && next.is_whitespace() {
                break;
            }
            self.next_char();
            word.push(if next == '\\' { self.next_char()? } else { next });
        }
        Some(word)
    }

    /// A macro ends with an empty line.
    fn skip_macro(&mut self) {
        let mut before = ' ';
        while let Some(next) = self.next_char() {
            if next == '\n' && before == '\n' {
                break;
            }
            before = next;
        }
    }
}

/// Encodes a login.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= group.len() { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_encoded() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("a:~ü", "YTp+w7w=")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn the_first_entry_of_a_host_counts() {
        let text = "# machine x.org login no password no\nmachine a.org login me password pw account x\n\
                    machine A.org\n  login you\n  password \"p w\\\"#\"\nmachine a.org login late password no\n\
                    macdef init\nmachine b.org login no password no\n\nmachine b.org user b password #b\n\
                    default login any password one";
        for (host, name, wanted) in [
            ("a.org", None, "me pw"),
            ("a.org", Some("you"), "you p w\"#"),
            ("b.org", None, "b #b"),
            ("x.org", None, "any one"),
            ("x.org", Some("other"), ""),
        ] {
            let found = find(text, host, name).unwrap();
            let shown = found.map(|login| format!("{} {}", login.name, login.password));
            assert_eq!(shown.unwrap_or_default(), wanted, "{host} {name:?}");
        }
        assert_eq!(find("", "a", None), Ok(None));
        assert_eq!(find("machine b port 8080 login x password y", "a", None), Ok(None));
        for (text, line) in [("login a", 1), ("machine", 1), ("machine a\n\nlogin", 3), ("machine a\nx y", 2)]
        {
            assert_eq!(find(text, "a", None), Err(line), "{text}");
        }
    }
}
