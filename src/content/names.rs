//! Names from a file as names of files: any bytes, and back again without loss.
//!
//! | in the name | in the file's name |
//! |---|---|
//! | `%`, a control character, a byte that is not UTF-8 | `%25`, `%0A`, `%FF` |
//! | `/` that would leave an empty component; `/` in a key | `%2F` |
//! | `.` and `..` | `%2E`, `%2E%2E` |
//! | `x.npy`, where the view itself gives files that ending | `x%2Enpy` |
//! | `x~1`, which a duplicate of `x` is called | `x%7E1` |
//! | more than 240 bytes | a folder, whose name ends with `%+`, and the rest within |
//! | nothing | `%-` |
//!
//! What a name becomes depends on nothing but the name, so it stays when a file grows.

use crate::error::is_unsafe;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The longest component, in bytes. The rest of the 255 is for endings.
const LONGEST: usize = 240;

/// The mark of a component that goes on in the folder that it names.
const CONTINUED: &str = "%+";

/// The component of an empty name.
const EMPTY: &str = "%-";

/// The endings that a view gives to its files, `.npy`: a name that ends with one has its dot escaped.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// With their dots.
    pub endings: &'static [&'static str],
}

impl Names {
    /// The components of a name in which `/` separates folders.
    pub fn path(&self, name: &[u8]) -> Vec<String> {
        let mut components: Vec<Vec<u8>> = vec![Vec::new()];
        let mut rest = name;
        while let Some((byte, after)) = rest.split_first() {
            let last = components.len() - 1;
            // A slash separates where a component ends before it and one begins behind it.
            let separates =
                *byte == b'/' && !components[last].is_empty() && !matches!(after, [] | [b'/', ..]);
            let separates = separates && !components[last].ends_with(b"/");
            match separates {
                true => components.push(Vec::new()),
                false => components[last].push(*byte),
            }
            rest = after;
        }
        components.iter().flat_map(|component| self.component(component)).collect()
    }

    /// The components of a name that is one key: more than one only if it is too long.
    pub fn component(&self, name: &[u8]) -> Vec<String> {
        split(self.escape(name))
    }

    fn escape(&self, name: &[u8]) -> Vec<String> {
        if name.is_empty() {
            return vec![EMPTY.to_owned()];
        }
        let dot = self.endings.iter().find(|ending| name.ends_with(ending.as_bytes()));
        let dot = dot.map(|ending| name.len() - ending.len()).into_iter();
        let escaped: Vec<usize> = dot.chain(duplicate(name)).collect();
        let mut pieces = Vec::with_capacity(name.len());
        let mut at = 0;
        for chunk in name.utf8_chunks() {
            for character in chunk.valid().chars() {
                let special = is_unsafe(character) || matches!(character, '%' | '/') || escaped.contains(&at);
                pieces.push(match special {
                    true => character.encode_utf8(&mut [0; 4]).bytes().map(hex).collect(),
                    false => character.to_string(),
                });
                at += character.len_utf8();
            }
            pieces.extend(chunk.invalid().iter().map(|byte| hex(*byte)));
            at += chunk.invalid().len();
        }
        pieces
    }
}

/// Where the `~` of a name stands that ends as those of duplicates do.
fn duplicate(name: &[u8]) -> Option<usize> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let at = name.len().checked_sub(digits + 1)?;
    (digits > 0 && name[at] == b'~').then_some(at)
}

fn hex(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// Joins pieces to components that are not too long. No piece is cut.
fn split(pieces: Vec<String>) -> Vec<String> {
    let mut components = vec![String::new()];
    for piece in pieces {
        let last = components.len() - 1;
        if components[last].len() + piece.len() > LONGEST {
            components[last].push_str(CONTINUED);
            components.push(String::new());
        }
        if let Some(component) = components.last_mut() {
            component.push_str(&piece);
        }
    }
    // The end of a name that was cut may be one of the two that mean something else.
    for component in &mut components {
        if matches!(component.as_str(), "." | "..") {
            *component = component.bytes().map(hex).collect();
        }
    }
    components
}

/// The name of which `components` were made, by either method; `None` if they are of none.
///
/// The caller takes ending and number of a duplicate away. A file shows a name if the name gives its components:
/// other components can give the same name.
pub fn original<'a>(components: impl IntoIterator<Item = &'a OsStr>) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut joined = true;
    for component in components {
        if !joined {
            name.push(b'/');
        }
        let bytes = component.as_bytes();
        let whole = bytes.strip_suffix(CONTINUED.as_bytes());
        joined = whole.is_some();
        let mut rest = whole.unwrap_or(bytes);
        if rest == EMPTY.as_bytes() {
            continue;
        }
        while let Some((byte, after)) = rest.split_first() {
            (rest, _) = match byte {
                b'%' => {
                    let (digits, after) = after.split_at_checked(2)?;
                    let digits =
                        std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
                    name.push(u8::from_str_radix(digits, 16).ok()?);
                    (after, ())
                }
                byte => {
                    name.push(*byte);
                    (after, ())
                }
            };
        }
    }
    (!joined).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NAMES: Names = Names { endings: &[".npy", ".txt", ".frames"] };

    fn path(name: &str) -> String {
        NAMES.path(name.as_bytes()).join(" ")
    }

    #[test]
    fn plain_names_stay() {
        assert_eq!(path("particles/position"), "particles position");
        assert_eq!(path("größe λ"), "größe λ");
        assert_eq!(path(".hidden"), ".hidden");
        assert_eq!(path("a.b.c"), "a.b.c");
    }

    #[test]
    fn what_names_of_files_cannot_have_is_escaped() {
        assert_eq!(path(""), "%-");
        assert_eq!(path(".."), "%2E%2E");
        assert_eq!(path("a/../b"), "a %2E%2E b");
        assert_eq!(path("a\nb%"), "a%0Ab%25");
        assert_eq!(NAMES.path(b"a\xffb"), ["a%FFb"]);
        assert_eq!(NAMES.component(b"a/b"), ["a%2Fb"]);
    }

    #[test]
    fn slashes_that_separate_nothing_are_escaped() {
        assert_eq!(path("/"), "%2F");
        assert_eq!(path("/x"), "%2Fx");
        assert_eq!(path("x/"), "x%2F");
        assert_eq!(path("a//b"), "a%2F%2Fb");
    }

    #[test]
    fn nothing_clashes_with_endings_and_duplicates() {
        assert_eq!(path("x.npy"), "x%2Enpy");
        assert_eq!(path("x.npy/y"), "x%2Enpy y");
        assert_eq!(path("x~12"), "x%7E12");
        assert_eq!(path("x~"), "x~");
    }

    #[test]
    fn long_names_go_on_in_a_folder() {
        let long = "a".repeat(300);
        assert_eq!(path(&long), format!("{}%+ {}", "a".repeat(240), "a".repeat(60)));
        assert_eq!(path(&format!("{}../b", "a".repeat(240))), format!("{}%+ %2E%2E b", "a".repeat(240)));
        let components = NAMES.path(&[0xff; 300]);
        assert!(components.iter().all(|component| component.len() <= 242));
        assert_eq!(original(components.iter().map(OsStr::new)), Some(vec![0xff; 300]));
    }

    #[test]
    fn each_name_has_a_path_of_its_own_that_leads_back() {
        let alphabet = [b'a', b'/', b'.', b'%', b'~', b'1', 0xff, b'+', b'-'];
        let mut names = vec![Vec::new()];
        let mut paths = HashSet::new();
        for _ in 0..=5 {
            let mut longer = Vec::new();
            for name in &names {
                let components = NAMES.path(name);
                assert!(components.iter().all(|part| !part.is_empty() && part != "." && part != ".."));
                assert!(components.iter().all(|part| !part.contains('/')));
                let back = original(components.iter().map(OsStr::new));
                assert_eq!(back.as_deref(), Some(&name[..]), "{components:?}");
                assert!(paths.insert(components));
                longer.extend(alphabet.iter().map(|byte| [&name[..], &[*byte]].concat()));
            }
            names = longer;
        }
    }

    #[test]
    fn what_is_no_component_has_no_name() {
        for part in ["%", "%2", "%GG", "%+1", "a%+"] {
            assert_eq!(original([OsStr::new(part)]), None, "{part}");
        }
    }
}
