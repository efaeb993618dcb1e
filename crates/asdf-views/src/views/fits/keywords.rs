//! The cards that people search by, from the facts of an image.

use asdf_file::asdf::image_facts;
use asdf_file::asdf::view::AsdfFile;
use asdf_tree::product::FileSummary;
use seekable::error::Result;

use super::card::{Cards, Value};

/// Keywords, the facts that they have, and the comments of the cards.
const KEYWORDS: [(&str, &str, &str); 8] = [
    ("TELESCOP", "telescope", ""),
    ("INSTRUME", "instrument", ""),
    ("DETECTOR", "detector", ""),
    ("FILTER", "filter", ""),
    ("EXPTIME", "exposure", "[s]"),
    ("DATE-OBS", "date", ""),
    ("TARGNAME", "target", ""),
    ("OBJECT", "target", ""),
];

/// Ends of paths that have a fact of a similar kind: the date of the file, a wavelength, a time in another unit.
const OTHERS: [&str; 9] = [
    "file_date",
    "meta.date",
    "date",
    "WAVELNTH",
    "wavelnth",
    "LINEWAV",
    "inventory.wavelengthMin",
    "XPOSURE",
    "xposure",
];

/// Returns the cards for the image or table at a path. The first call reads the tree.
pub(super) fn of(file: &AsdfFile, path: &[&str]) -> Result<Cards> {
    Ok(cards(&image_facts::of(file)?.of(path)))
}

/// Returns the cards that all images at these paths have.
pub(super) fn of_all<'p>(file: &AsdfFile, paths: impl Iterator<Item = &'p Vec<&'p str>>) -> Result<Cards> {
    let known = image_facts::of(file)?;
    let common = paths.map(|path| known.of(path)).reduce(|mut common, facts| {
        common.keep_common(&facts);
        common
    });
    Ok(common.map_or_else(Cards::default, |common| cards(&common)))
}

fn cards(summary: &FileSummary) -> Cards {
    let mut cards = Cards::default();
    for (keyword, fact, comment) in KEYWORDS {
        let Some((_, text)) = summary.found(fact).filter(|(path, _)| !OTHERS.contains(path)) else {
            continue;
        };
        let date = date(text);
        let value = match keyword {
            "EXPTIME" => text.parse().ok().filter(|seconds: &f64| seconds.is_finite()).map(Value::Float),
            "DATE-OBS" => date.as_deref().map(Value::Text),
            _ => Some(Value::Text(text)),
        };
        // A fact that no card can hold has none.
        if let Some(value) = value {
            let _ = cards.add(keyword, value, comment);
        }
    }
    cards
}

/// Returns a date in the form of FITS: `2024-05-06T07:08:09.123`; `None` if it has another form.
pub(super) fn date(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('Z');
    let text = text.strip_suffix("+00:00").unwrap_or(text).replacen(' ', "T", 1);
    let is_digits = |from: usize, to: usize| {
        text.get(from..to).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_date = is_digits(0, 4) && is_digits(5, 7) && is_digits(8, 10) && text.get(4..5) == Some("-");
    let is_time = text.len() == 10
        || (text.get(10..11) == Some("T") && is_digits(11, 13) && is_digits(14, 16) && is_digits(17, 19));
    let rest = text.get(19..).unwrap_or_default();
    let is_fraction = rest.is_empty()
        || rest.strip_prefix('.').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    (is_date && is_time && is_fraction).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_have_the_form_of_fits() {
        for (text, wanted) in [
            ("2024-05-06", Some("2024-05-06")),
            ("2024-05-06 07:08:09.123", Some("2024-05-06T07:08:09.123")),
            ("2024-05-06T07:08:09Z", Some("2024-05-06T07:08:09")),
            ("2024-05-06T07:08:09+00:00", Some("2024-05-06T07:08:09")),
            ("2024-05-06T07:08:09+02:00", None),
            ("6 May 2024", None),
            ("", None),
        ] {
            assert_eq!(date(text).as_deref(), wanted, "{text}");
        }
    }
}
