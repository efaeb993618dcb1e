//! The saves that led to the present text.
//!
//! Each entry has the digests of the text that a save replaced and of the text that it wrote. From the present
//! text the entries are followed back, the last one first:
//!
//! | the entry's | is the text reached so far | meaning |
//! |---|---|---|
//! | new text | yes | the save led to this text; its old text is reached now |
//! | old text | yes | the save did not happen |
//! | neither | | another program wrote a text: this and all older entries are of another text |
//!
//! A torn entry may stand for any save. After the entries of the file's own directory, another
//! directory's entries follow if one of their saves wrote the text reached so far.

use super::{Digest, Save};

/// An entry of a file's history.
#[derive(Debug)]
pub(super) enum Link {
    Whole(Save),
    /// An entry that a power cut has torn.
    Torn,
}

/// Returns the saves of a file with this text, the last one first, then the entries of other texts. `own` and
/// each of `others` are the entries of one directory, the last one first.
pub(super) fn changes(now: Digest, own: Vec<Link>, mut others: Vec<Vec<Link>>) -> Vec<Save> {
    let (mut changes, mut text) = (Vec::new(), Some(now));
    let strangers = follow(own, &mut text, &mut changes);
    let begins = |links: &[Link], text| {
        links.iter().position(|link| matches!(link, Link::Whole(change) if Some(change.new) == text))
    };
    while let Some((bucket, from)) =
        others.iter().enumerate().find_map(|(n, links)| Some((n, begins(links, text)?)))
    {
        let links = others.swap_remove(bucket).split_off(from);
        follow(links, &mut text, &mut changes);
    }
    changes.iter_mut().for_each(|change| change.is_own = true);
    changes.extend(strangers);
    changes
}

/// Follows the entries of a directory back from a text, `None` for an unknown one. Adds the saves to
/// `changes`; returns the entries of other texts.
fn follow(links: Vec<Link>, text: &mut Option<Digest>, changes: &mut Vec<Save>) -> Vec<Save> {
    let (mut strangers, before) = (Vec::new(), changes.len());
    for link in links {
        match link {
            Link::Whole(change) if !strangers.is_empty() => strangers.push(change),
            Link::Whole(change) if text.is_none_or(|text| text == change.new) => {
                *text = Some(change.old);
                changes.push(change);
            }
            Link::Whole(change) if *text != Some(change.old) => strangers.push(change),
            // A torn entry may stand for any save, so the text before it is unknown. Without a newer entry
            // that led to the present text, the torn entry is skipped.
            Link::Torn if strangers.is_empty() && changes.len() > before => *text = None,
            Link::Whole(_) | Link::Torn => {}
        }
    }
    strangers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: char) -> Digest {
        Digest::of(text.to_string().as_bytes())
    }

    /// Returns entries for saves such as `ab` (`b` replaced `a`), the last one first; `?` is a torn entry.
    fn bucket(saves: &str) -> Vec<Link> {
        let link = |save: &str| {
            let mut texts = save.chars().map(digest);
            match (texts.next(), texts.next()) {
                (Some(old), Some(new)) => Link::Whole(Save {
                    name: save.to_owned(),
                    time: (0, 0),
                    program: None,
                    old,
                    new,
                    is_own: false,
                    place: Default::default(),
                }),
                _ => Link::Torn,
            }
        };
        saves.split_whitespace().map(link).collect()
    }

    #[test]
    fn only_saves_that_led_to_the_present_text_are_its_own() {
        for (now, own, others, expected) in [
            ('c', "bc ab", &[][..], "bc ab"),
            ('a', "", &[], ""),
            // Undone, and done again.
            ('b', "ab ba ab", &[], "ab ba ab"),
            // The last save did not happen.
            ('b', "bc ab", &[], "ab"),
            ('d', "bd bc ab", &[], "bd ab"),
            // Another program wrote x.
            ('x', "bc ab", &[], "(bc ab)"),
            ('d', "xd bc ab", &[], "xd (bc ab)"),
            // A power cut tore an entry.
            ('d', "cd ? ab", &[], "cd ab"),
            ('x', "? ab", &[], "(ab)"),
            // The file was copied back to its old name.
            ('c', "", &["ab", "cd bc ab"], "bc ab"),
            ('d', "cd", &["xx", "bc ab"], "cd bc ab"),
            ('d', "", &["bc ab"], ""),
        ] {
            let others = others.iter().map(|saves| bucket(saves)).collect();
            let found = changes(digest(now), bucket(own), others);
            let shown = |own: bool| {
                let changes = found.iter().filter(|change| change.is_own == own);
                changes.map(|change| change.name.as_str()).collect::<Vec<_>>().join(" ")
            };
            let strangers = shown(false);
            let strangers = if strangers.is_empty() { strangers } else { format!("({strangers})") };
            assert_eq!(format!("{} {strangers}", shown(true)).trim(), expected, "{now} {own}");
        }
    }
}
