//! A user's URL, and a reference relative to it, such as the target of a server's redirect.
#![no_main]

use asdf_remote::{Address, Url};

libfuzzer_sys::fuzz_target!(|lines: &str| {
    let (text, reference) = lines.split_once('\n').unwrap_or((lines, ""));
    if let Ok(address) = Address::parse(text) {
        assert!(address.as_directory().is_directory());
        assert!(!address.server().is_empty());
        let _ = (address.to_string(), address.file_name());
    }
    if let Ok(base) = Url::parse(text)
        && let Ok(url) = base.resolve(reference)
    {
        assert!(
            url.to_string().bytes().all(|byte| byte.is_ascii_graphic()) || url.to_string().ends_with("?…")
        );
    }
});
