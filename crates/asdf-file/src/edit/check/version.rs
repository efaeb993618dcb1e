//! Recognises versions of Python packages (PEP 440), which Python asdf compares.

/// True if Python's `packaging` reads `text` as a version.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix('v').unwrap_or(&text);
    let (public, local) = text.split_once('+').map_or((text, None), |(public, local)| (public, Some(local)));
    let is_local = |local: &str| {
        local
            .split(['-', '_', '.'])
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    if !local.is_none_or(is_local) {
        return false;
    }
    let mut rest = public.as_bytes();
    let rest = &mut rest;
    if digits(rest) == 0 {
        return false;
    }
    if rest.first() == Some(&b'!') {
        *rest = &rest[1..];
        if digits(rest) == 0 {
            return false;
        }
    }
    while let [b'.', b'0'..=b'9', ..] = rest {
        *rest = &rest[1..];
        digits(rest);
    }
    part(rest, &["alpha", "a", "beta", "b", "preview", "pre", "rc", "c"]);
    if let [b'-', b'0'..=b'9', ..] = rest {
        *rest = &rest[1..];
        digits(rest);
    } else {
        part(rest, &["post", "rev", "r"]);
    }
    part(rest, &["dev"]);
    rest.is_empty()
}

/// Removes the leading digits of `text`. Returns how many digits were removed.
fn digits(text: &mut &[u8]) -> usize {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *text = &text[len..];
    len
}

fn separator(text: &[u8]) -> &[u8] {
    match text {
        [b'-' | b'_' | b'.', rest @ ..] => rest,
        _ => text,
    }
}

/// Removes one of `words` from the start of `text`, with an optional separator before the word and an
/// optional number after it. Does nothing if `text` starts with none of `words`.
fn part(text: &mut &[u8], words: &[&str]) {
    let begin = separator(text);
    let Some(rest) = words.iter().find_map(|word| begin.strip_prefix(word.as_bytes())) else { return };
    let mut number = separator(rest);
    *text = match digits(&mut number) {
        0 => rest,
        _ => number,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_other_texts() {
        for text in [
            "1",
            "6.0.0",
            "v1.0",
            "1!2.3",
            "1.0a1",
            "1.0.dev3",
            "1.0-1",
            "2.1.2.dev264+g8dc45c6",
            "1.0.post1.dev2",
            "1.0-rc.1",
            "4.1.0rc",
            " 1.0 ",
        ] {
            assert!(is_version(text), "{text}");
        }
        for text in [
            "", "x", "1.x", "1.0x10.0", "6.0.0*", "1..0", "4.1.-1", "1.1.'5'", "1.1.1_0x", "1.0+",
            "1.0+a..b", "ä",
        ] {
            assert!(!is_version(text), "{text}");
        }
    }
}
