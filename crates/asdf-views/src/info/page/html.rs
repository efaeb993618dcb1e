//! Text and links in HTML.

use seekable::error::one_line;

/// Returns a text in which nothing is markup, and no character acts on the text around it.
pub(super) fn escape(text: &str) -> String {
    entities(&one_line(text))
}

/// Returns a text of several lines as [`escape`] does.
pub(super) fn escape_lines(text: &str) -> String {
    text.lines().map(|line| escape(line) + "\n").collect()
}

fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

/// Returns the beginning of a text, at most this many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns a number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            // A narrow space that does not break.
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Returns a path below the page's directory as a relative reference. `None` if it would lead out of it.
pub(super) fn reference(path: &str) -> Option<String> {
    let mut out = String::from(".");
    for name in path.split('/') {
        if matches!(name, "" | "." | "..") {
            return None;
        }
        out.push('/');
        for byte in name.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'.' => out.push(byte.into()),
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    Some(out)
}

/// Returns a link to a path below the page's directory.
pub(super) fn link(path: &str, text: &str) -> String {
    match reference(path) {
        Some(reference) => format!("<a href=\"{reference}\">{}</a>", escape(text)),
        None => escape(text),
    }
}

/// Returns a link whose text is the ending of the file; readers of the page aloud get its name.
pub(super) fn link_by_ending(path: &str, ending: &str) -> String {
    let name = escape(path.rsplit('/').next().unwrap_or_default());
    match reference(path) {
        Some(reference) => format!("<a href=\"{reference}\" aria-label=\"{name}\">{}</a>", escape(ending)),
        None => escape(ending),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup_and_no_link_leads_out() {
        assert_eq!(
            escape("<b a='1' c=\"2\">&amp;\u{202e}\n"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;\\u{202e}\\n"
        );
        assert_eq!(reference("arrays/a b/ü%.npy").unwrap(), "./arrays/a%20b/%C3%BC%25.npy");
        assert_eq!(reference("javascript:alert(1)").unwrap(), "./javascript%3Aalert%281%29");
        for path in ["../a", "a/../../b", "/etc/passwd", "a//b", "", "a/."] {
            assert_eq!(reference(path), None, "{path}");
        }
        assert_eq!(reference("%2E%2E/a\\b?c#d").unwrap(), "./%252E%252E/a%5Cb%3Fc%23d");
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!((grouped(999), grouped(1_000_000)), ("999".into(), "1\u{202f}000\u{202f}000".into()));
    }
}
