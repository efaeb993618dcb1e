//! Reversible escaping of names in a file, which may be any bytes, to file names.
//!
//! | name | file name |
//! |---|---|
//! | `%`, a control character, a byte that is not UTF-8 | `%25`, `%0A`, `%FF` |
//! | `/` that would leave an empty component; `/` in a key | `%2F` |
//! | `.` and `..` | `%2E`, `%2E%2E` |
//! | `x.npy`, if the view gives files this ending itself | `x%2Enpy` |
//! | `x~1`, the file name of a duplicate of `x` | `x%7E1` |
//! | more than 240 bytes | a directory with a name that ends with `%+`, and the rest in it |
//! | empty | `%-` |
//!
//! The file name depends only on the name, so it stays the same when a file grows.

use seekable::error::is_unsafe;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Maximum length of a component, in bytes. The rest of the 255 is for endings.
const MAX_NAME: usize = 240;

/// The mark at the end of a component that continues in the directory of that name.
const CONTINUED: &str = "%+";

/// The component of an empty name.
const EMPTY: &str = "%-";

/// The file name endings of a view, such as `.npy`. In a name with one of these endings, the dot is escaped.
#[derive(Clone, Copy, Debug)]
pub struct ViewNames {
    /// Endings with their dots.
    pub endings: &'static [&'static str],
}

impl ViewNames {
    /// Returns the components of a name in which `/` separates directories.
    pub fn path(&self, name: &[u8]) -> Vec<String> {
        let mut components: Vec<Vec<u8>> = vec![Vec::new()];
        let mut rest = name;
        while let Some((byte, after)) = rest.split_first() {
            let last = components.len() - 1;
            // A slash separates if the components before and after it are not empty.
            let separates =
                *byte == b'/' && !components[last].is_empty() && !matches!(after, [] | [b'/', ..]);
            let separates = separates && !components[last].ends_with(b"/");
            if separates {
                components.push(Vec::new());
            } else {
                components[last].push(*byte);
            }
            rest = after;
        }
        components.iter().flat_map(|component| self.component(component)).collect()
    }

    /// Returns the components of a key: several only if it is too long for one.
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
                pieces.push(if special {
                    character.encode_utf8(&mut [0; 4]).bytes().map(hex).collect()
                } else {
                    character.to_string()
                });
                at += character.len_utf8();
            }
            pieces.extend(chunk.invalid().iter().map(|byte| hex(*byte)));
            at += chunk.invalid().len();
        }
        pieces
    }
}

/// Returns the place of the `~` in a name that has the form of a duplicate's file name.
fn duplicate(name: &[u8]) -> Option<usize> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let at = name.len().checked_sub(digits + 1)?;
    (digits > 0 && name[at] == b'~').then_some(at)
}

/// Returns the file name of a duplicate without the number that tells it from the others.
pub fn without_duplicate(name: &str) -> &str {
    duplicate(name.as_bytes()).and_then(|at| name.get(..at)).unwrap_or(name)
}

fn hex(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// Joins pieces to components that are not too long. Pieces are not split.
fn split(pieces: Vec<String>) -> Vec<String> {
    let mut components = vec![String::new()];
    for piece in pieces {
        let last = components.len() - 1;
        if components[last].len() + piece.len() > MAX_NAME {
            components[last].push_str(CONTINUED);
            components.push(String::new());
        }
        if let Some(component) = components.last_mut() {
            component.push_str(&piece);
        }
    }
    // The last component of a long name may be `.` or `..`.
    for component in &mut components {
        if matches!(component.as_str(), "." | "..") {
            *component = component.bytes().map(hex).collect();
        }
    }
    components
}

/// Returns the name from which `components` were made, by [`ViewNames::path`] or [`ViewNames::component`];
/// `None` if there is none.
///
/// The caller removes the ending and the number of a duplicate first. Different components can give the same
/// name: escape the name again to see if it has these components.
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

    const NAMES: ViewNames = ViewNames { endings: &[".npy", ".txt", ".frames"] };

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
    fn long_names_go_on_in_a_directory() {
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
