//! The saves that led to the present text.
//!
//! Each entry has the digests of the text that a save replaced and of the text that it wrote. From the present
//! text the entries are followed back, the last one first:
//!
//! | the entry's | is the text reached so far | meaning |
//! |---|---|---|
//! | new text | yes | the save led to this text; its old text is reached now |
//! | old text | yes | the save did not happen, unless entries of other texts are newer |
//! | neither | | an entry of another text: another program wrote a text since, or an older one was put back |
//!
//! A torn entry may stand for any save. After the entries of the file's own directory, another
//! directory's entries follow if one of their saves wrote the text reached so far.

use seekable::source::Time;

use super::{Digest, Save};

/// An entry of a file's history.
#[derive(Debug)]
pub(super) enum Link {
    Whole {
        save: Box<Save>,
        /// The file was born, or last changed before the save, at this time.
        since: Time,
        /// Time at which the save was done; `None` if it is running, or the program was killed.
        done: Option<Time>,
    },
    /// An entry that a power cut has torn.
    Torn,
}

/// Returns the saves of a file with this text, the last one first, then the entries of other texts. `own` and
/// each of `others` are the entries of one directory, the last one first. `since` is the time since which the
/// file exists. A newer file is a restored one if its text was made by a save, and else another one.
pub(super) fn changes(now: Digest, since: Time, own: Vec<Link>, mut others: Vec<Vec<Link>>) -> Vec<Save> {
    let firsts = own.iter().filter_map(|link| match link {
        Link::Whole { since: first, .. } => Some(*first),
        Link::Torn => None,
    });
    let since = firsts.fold(since, Time::min);
    let mut changes = Vec::new();
    let mut text = Some(now);
    let strangers = follow(own, &mut text, &mut changes);
    let is_restored = text.is_some_and(|text| is_made_by_a_save(&others, text));
    others.retain(|links| is_restored || may_precede(links, since));
    let begins = |links: &[Link], text| {
        links.iter().position(|link| matches!(link, Link::Whole { save, .. } if Some(save.new) == text))
    };
    while let Some((bucket, from)) =
        others.iter().enumerate().find_map(|(n, links)| Some((n, begins(links, text)?)))
    {
        let links = others.swap_remove(bucket).split_off(from);
        follow(links, &mut text, &mut changes);
    }
    for change in &mut changes {
        change.is_own = true;
    }
    changes.extend(strangers);
    changes
}

/// False if a file that exists since this time is newer than all saves of a directory, and thus another file.
/// If the program was killed in the last save, that save may have made the file.
fn may_precede(links: &[Link], since: Time) -> bool {
    let last = links.iter().find_map(|link| match link {
        Link::Whole { done, .. } => Some(*done),
        Link::Torn => None,
    });
    last.is_some_and(|done| done.is_none_or(|done| since <= done))
}

/// True if no other program is known to have written this text before a save did.
fn is_made_by_a_save(buckets: &[Vec<Link>], text: Digest) -> bool {
    let mut first = None;
    for link in buckets.iter().flatten() {
        // A torn entry may stand for any save.
        let Link::Whole { save, .. } = link else { return false };
        if save.old == text || save.new == text {
            let is_new = save.old != text;
            first = first.into_iter().chain([(save.time, is_new)]).min();
        }
    }
    first.is_some_and(|(_, is_new)| is_new)
}

/// Follows the entries of a directory back from a text, `None` for an unknown one. Adds the saves to
/// `changes`; returns the entries of other texts.
fn follow(links: Vec<Link>, text: &mut Option<Digest>, changes: &mut Vec<Save>) -> Vec<Save> {
    let mut strangers = Vec::new();
    let before = changes.len();
    for link in links {
        match link {
            Link::Whole { save, .. } if text.is_none_or(|text| text == save.new) => {
                *text = Some(save.old);
                changes.push(*save);
            }
            Link::Whole { save, .. } if *text == Some(save.old) && strangers.is_empty() => {}
            Link::Whole { save, .. } => strangers.push(*save),
            // A torn entry may stand for any save, so the text before it is unknown. Without a newer entry
            // that led to the present text, the torn entry is skipped.
            Link::Torn if strangers.is_empty() && changes.len() > before => *text = None,
            Link::Torn => {}
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
        let link = |n: usize, save: &str| {
            let mut texts = save.chars().map(digest);
            match (texts.next(), texts.next()) {
                (Some(old), Some(new)) => {
                    let save = Save {
                        name: save.to_owned(),
                        time: (5, 1000 - n as u32),
                        program: None,
                        old,
                        new,
                        is_own: false,
                        is_omitted: false,
                        place: Default::default(),
                    };
                    Link::Whole { save: Box::new(save), since: (4, 0), done: Some((5, 0)) }
                }
                _ => Link::Torn,
            }
        };
        saves.split_whitespace().enumerate().map(|(n, save)| link(n, save)).collect()
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
            // An older text was put back, and saved again.
            ('b', "cd bc ab", &[], "ab (cd bc)"),
            ('e', "be cd bc ab", &[], "be ab (cd bc)"),
            // A power cut tore an entry.
            ('d', "cd ? ab", &[], "cd ab"),
            ('x', "? ab", &[], "(ab)"),
            // The file was copied back to its old name.
            ('c', "", &["ab", "cd bc ab"], "bc ab"),
            ('d', "cd", &["xx", "bc ab"], "cd bc ab"),
            ('d', "", &["bc ab"], ""),
        ] {
            let others = others.iter().map(|saves| bucket(saves)).collect();
            let found = changes(digest(now), (4, 0), bucket(own), others);
            let shown = |own: bool| {
                let changes = found.iter().filter(|change| change.is_own == own);
                changes.map(|change| change.name.as_str()).collect::<Vec<_>>().join(" ")
            };
            let strangers = shown(false);
            let strangers = if strangers.is_empty() { strangers } else { format!("({strangers})") };
            assert_eq!(format!("{} {strangers}", shown(true)).trim(), expected, "{now} {own}");
        }
    }

    #[test]
    fn a_file_born_after_the_last_save_is_another_file_unless_a_save_made_its_text() {
        let found = |text, since, other: &str, done| {
            let mut other = bucket(other);
            if let Some(Link::Whole { done: last, .. }) = other.first_mut() {
                *last = done;
            }
            changes(digest(text), since, Vec::new(), vec![other]).len()
        };
        // Another program wrote a, a save made b.
        assert_eq!(found('a', (5, 0), "ba ab", Some((5, 0))), 2);
        assert_eq!(found('a', (5, 1), "ba ab", Some((5, 0))), 0);
        assert_eq!(found('b', (5, 1), "ba ab", Some((5, 0))), 1);
        assert_eq!(found('b', (5, 1), "bc ab", Some((5, 0))), 1);
        assert_eq!(found('b', (5, 1), "bc ab ?", Some((5, 0))), 0);
        // The program was killed in the save that made the file.
        assert_eq!(found('a', (6, 0), "ba ab", None), 2);
        // The file was saved since.
        let own = |text| {
            let mut own = bucket(text);
            for link in &mut own {
                if let Link::Whole { since, .. } = link {
                    *since = (5, 1);
                }
            }
            changes(digest('d'), (5, 1), own, vec![bucket("ba ab")]).len()
        };
        assert_eq!(own("ad"), 1);
        assert_eq!(own("bd"), 2);
    }
}
