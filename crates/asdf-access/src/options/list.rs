//! The syntax of a list after `-o`: names and values, separated by commas.
//!
//! A comma in a value is written `\,` and a backslash `\\`, or the whole value is in double quotes, as in
//! mount(8): `fsname="a,b"`.

use seekable::error::Result;

use super::usage;

/// One option of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedOption {
    pub(super) name: String,
    pub(super) value: Option<Vec<u8>>,
}

/// Splits a list at its commas, and removes escapes and quotes from the values.
pub(super) fn split(list: &[u8]) -> Result<Vec<ListedOption>> {
    let mut items = Vec::new();
    let mut bytes = list.iter().copied().peekable();
    while bytes.peek().is_some() {
        let mut name = Vec::new();
        let mut value: Option<Vec<u8>> = None;
        let mut quoted = false;
        while let Some(byte) = bytes.next() {
            match (byte, &mut value) {
                (b',', _) if !quoted => break,
                (b'=', None) => {
                    value = Some(Vec::new());
                    quoted = bytes.next_if_eq(&b'"').is_some();
                }
                (b'"', Some(_)) if quoted => quoted = false,
                (b'\\', Some(value)) => value.push(bytes.next().unwrap_or(b'\\')),
                (byte, Some(value)) => value.push(byte),
                (byte, None) => name.push(byte),
            }
        }
        let name = String::from_utf8_lossy(&name).into_owned();
        if quoted {
            return Err(usage(format!("-o {name}: the closing quote is missing")));
        }
        // Scripts that join lists may leave two commas in a row; the empty item is ignored.
        if !name.is_empty() || value.is_some() {
            items.push(ListedOption { name, value });
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use proptest::prelude::*;

    use super::super::tests::{parse, refusal};

    #[test]
    fn a_comma_in_a_value_is_escaped_or_quoted() {
        for list in [r"ro,fsname=a\,b\\c=d,uid=1", r#"ro,fsname="a,b\\c=d",uid=1"#] {
            let options = parse(list).unwrap();
            assert_eq!(options.fsname.unwrap(), r"a,b\c=d");
            assert_eq!(options.uid, Some(1));
        }
        assert!(refusal(r#"fsname="a,b"#).contains("closing quote"));
    }

    proptest! {
        #[test]
        fn an_escaped_value_comes_back(value in "[ -~]{1,20}") {
            let escaped: String = value.chars().flat_map(|c| ['\\', c]).collect();
            let options = parse(&format!("noexec,fsname={escaped},sync")).unwrap();
            prop_assert_eq!(options.fsname.unwrap(), OsString::from(value));
            prop_assert!(options.no_exec && options.synchronous);
        }
    }
}
