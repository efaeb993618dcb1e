//! A line of styled text.

use seekable::error::{beginning, columns};

/// The style of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Title,
    Key,
    Type,
    Damage,
}

impl Style {
    /// Returns the parameter of the escape sequence.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Title => "1",
            Self::Key => "34",
            Self::Type => "36",
            Self::Damage => "31",
        }
    }
}

/// A line: parts of text, each with its style. The texts contain no characters that a terminal acts on.
#[derive(Clone, Debug, Default)]
pub(super) struct TextLine {
    parts: Vec<(Style, String)>,
}

impl TextLine {
    pub(super) fn of(style: Style, text: String) -> Self {
        Self { parts: vec![(style, text)] }
    }

    pub(super) fn push(&mut self, style: Style, text: String) {
        if !text.is_empty() {
            self.parts.push((style, text));
        }
    }

    /// Returns the parts in order.
    pub(super) fn parts(&self) -> &[(Style, String)] {
        &self.parts
    }

    /// Returns the text, at most `width` columns of a terminal.
    pub(super) fn text(&self, width: usize, colour: bool) -> String {
        let mut room = width;
        let mut out = String::new();
        let mut rest: usize = self.parts.iter().map(|(_, text)| columns(text)).sum();
        for (style, text) in &self.parts {
            let count = columns(text);
            let is_cut = rest > room && count >= room;
            let mut shown =
                (if is_cut { beginning(text, room.saturating_sub(1)) } else { text.as_str() }).to_owned();
            if is_cut {
                shown.push('…');
            }
            if colour && *style != Style::Plain {
                out += &format!("\x1b[{}m{shown}\x1b[0m", style.code());
            } else {
                out += &shown;
            }
            if is_cut {
                break;
            }
            room -= count;
            rest -= count;
        }
        out.truncate(out.trim_end_matches(' ').len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_its_width() {
        let mut line = TextLine::of(Style::Key, "ab: ".to_owned());
        line.push(Style::Plain, "cdé".to_owned());
        assert_eq!(line.text(7, false), "ab: cdé");
        assert_eq!(line.text(6, false), "ab: c…");
        assert_eq!(line.text(5, false), "ab: …");
        assert_eq!(line.text(4, false), "ab:…");
        assert_eq!(line.text(1, false), "…");
        assert_eq!(line.text(99, true), "\x1b[34mab: \x1b[0mcdé");
        // A wide character takes two columns, an accent none.
        let wide = TextLine::of(Style::Plain, "銀河e\u{301}x".to_owned());
        assert_eq!(wide.text(6, false), "銀河e\u{301}x");
        assert_eq!(wide.text(5, false), "銀河…");
        assert_eq!(wide.text(4, false), "銀…");
    }
}
