//! The options for sources on servers.

use std::path::PathBuf;
use std::time::Duration;

use seekable::error::Result;

use super::bad;
use super::values::{size, text};
pub use asdf_remote::RemoteOptions;
use asdf_remote::Url;

/// Maximum of `read-timeout=` in seconds.
const MAX_READ_TIMEOUT: u64 = 24 * 60 * 60;
/// Minimum of the size of `remote-cache=` in bytes.
const MIN_CACHE: u64 = 16 << 20;

const A_SIZE: &str = "DIR or DIR,SIZE with a size such as 10G, at least 16M";

/// Sets the option `name`, which has a value.
pub(super) fn set(options: &mut RemoteOptions, name: &str, value: &[u8]) -> Result<()> {
    match name {
        "ca-bundle" => options.ca_bundle = Some(text(name, value, "a file")?.into()),
        "token-file" => options.token_file = Some(text(name, value, "a file")?.into()),
        "endpoint" => {
            let wanted = "a URL such as https://minio.example.org:9000, without password and query";
            let url = std::str::from_utf8(value).ok().filter(|text| Url::parse(text).is_ok());
            // The value may contain a password, so it is not repeated.
            let url = url
                .filter(|text| !text.contains(['@', '?']))
                .ok_or_else(|| bad(name, "…".as_bytes(), wanted))?;
            options.endpoint = Some(url.to_owned());
        }
        "region" => {
            let is_valid = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
            let region = std::str::from_utf8(value).ok();
            let region = region.filter(|_| (1..=32).contains(&value.len()) && value.iter().all(is_valid));
            options.region =
                Some(region.ok_or_else(|| bad(name, value, "a region such as eu-west-1"))?.to_owned());
        }
        "read-timeout" => {
            let digits =
                std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let seconds = digits
                .and_then(|text| text.parse().ok())
                .filter(|seconds| (1..=MAX_READ_TIMEOUT).contains(seconds));
            let wanted = "a number of seconds from 1 to 86400";
            options.read_timeout = Duration::from_secs(seconds.ok_or_else(|| bad(name, value, wanted))?);
        }
        // `remote-cache`: if the list was quoted as a whole, the size is part of the value.
        _ => {
            let comma = value.iter().rposition(|byte| *byte == b',');
            let parts = comma.map(|comma| (&value[..comma], &value[comma + 1..]));
            let (dir, size) = match parts.filter(|(_, size)| size.first().is_some_and(u8::is_ascii_digit)) {
                Some((dir, size)) => (dir, Some(size)),
                None => (value, None),
            };
            options.cache_dir = Some(PathBuf::from(text(name, dir, A_SIZE)?));
            options.cache_size = RemoteOptions::default().cache_size;
            size.map(|size| take_cache_size(options, size)).transpose()?;
        }
    }
    Ok(())
}

/// Sets the size of the cache on disk.
pub(super) fn take_cache_size(options: &mut RemoteOptions, value: &[u8]) -> Result<()> {
    let bytes = size(value).filter(|bytes| *bytes >= MIN_CACHE);
    options.cache_size = bytes.ok_or_else(|| bad("remote-cache", &[b"DIR,", value].concat(), A_SIZE))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, refusal};
    use super::*;

    #[test]
    fn a_cache_has_a_directory_and_a_size_between_commas() {
        let cache = |list: &str| {
            let remote = parse(list).unwrap().remote;
            (remote.cache_dir.unwrap().into_os_string().into_string().unwrap(), remote.cache_size)
        };
        for list in [
            "ro,remote-cache=/c,2G,uid=1",
            r#"remote-cache="/c,2G",ro"#,
            r"remote-cache=/c\,2G",
            "remote-cache=/c,2048M",
        ] {
            assert_eq!(cache(list), ("/c".to_owned(), 2 << 30), "{list}");
        }
        assert_eq!(cache("remote-cache=/a,2G,remote-cache=/b,ro"), ("/b".to_owned(), 1 << 30));
        assert_eq!(cache(r"remote-cache=/a\,b,20M"), ("/a,b".to_owned(), 20 << 20));
        for list in ["remote-cache=/c,1K", "remote-cache=", "remote-cache=/c,2X", "remote-cache=,2G"] {
            assert!(refusal(list).contains("remote-cache"), "{list}");
        }
        assert!(refusal("remote-cache=/c,ro,2G").contains("2G"));
    }

    #[test]
    fn wrong_values_are_refused_without_passwords() {
        for list in [
            "endpoint=x",
            "endpoint=http://me:secret@h",
            "endpoint=http://h?secret",
            "region=",
            "region=A b",
            "read-timeout=0",
            "read-timeout=-1",
            "read-timeout=",
            "read-timeout=1e3",
            "ca-bundle=",
            "token-file=",
            "requester-pays=1",
            "anonymous=1",
        ] {
            assert!(!refusal(list).contains("secret"), "{list}");
        }
        let remote =
            parse("anonymous,read-timeout=7,region=eu-west-1,endpoint=http://h:9000/s3").unwrap().remote;
        assert!(remote.anonymous && remote.read_timeout == Duration::from_secs(7));
        assert_eq!(
            (remote.region.unwrap(), remote.endpoint.unwrap()),
            ("eu-west-1".into(), "http://h:9000/s3".into())
        );
    }
}
