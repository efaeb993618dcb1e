//! Finds what tools habitually drop or change: tags, and scalars that another version of YAML reads
//! differently.

use asdf_tree::yaml::survey::TextSurvey;

use super::{Draft, Fault, Judgement};

/// Advice for lost tags.
const PUT_BACK: &str = "restore the tags, or use a tool that keeps them: without its tag, Python reads a \
                        node as a plain dict, list or text. If they are meant to go, save with -o \
                        validate=warn, or \
                        with asdf-mount --set-tree TREE --force FILE";
/// Advice for scalars whose meaning changed.
const QUOTE: &str = "write the scalar as it was, or in quotes if it is meant as text";

/// Reports lost tags of nodes that still exist. If at least half of the tags are gone, presumably because a
/// tool dropped them, the text is refused.
pub(super) fn tags(draft: &Draft<'_, '_>, survey: &TextSurvey, judgement: &mut Judgement) {
    let gone = &survey.changes.untagged;
    let stayed = survey.changes.stayed;
    if gone.count == 0 {
        return;
    }
    let refused = gone.count.saturating_mul(2) >= stayed;
    // Faults of the root and of arrays may have been reported already.
    let reported: Vec<_> = judgement.problems.iter().filter_map(|fault| fault.offset).collect();
    let mut faults = Vec::new();
    for (n, (path, at, tag)) in gone.first.iter().enumerate() {
        let name = survey.paths.show(*path);
        let mut what = format!("{name} has lost its tag {}", tag.escape_debug());
        if n == 0 && refused {
            what += &format!("; {} of {stayed} tags are gone", gone.count);
        }
        let fault = draft.fault(*at as usize, what, PUT_BACK);
        if n == 0 || !fault.offset.is_some_and(|offset| reported.contains(&offset)) {
            faults.push(fault);
        }
    }
    faults.extend(more(gone.count, gone.first.len(), "tags are gone", PUT_BACK));
    if refused {
        judgement.problems.append(&mut faults);
    } else {
        judgement.warnings.append(&mut faults);
    }
}

/// Warns about plain scalars that now have the value that a reader of another YAML version gives the old
/// scalar.
pub(super) fn readings(draft: &Draft<'_, '_>, survey: &TextSurvey, judgement: &mut Judgement) {
    let reread = &survey.changes.reread;
    for (path, at, text) in &reread.first {
        let name = survey.paths.show(*path);
        let what = format!(
            "{name}: \"{text}\" is not what Python read here before: versions of YAML differ in y, n, yes, \
             no, \
             on, off, 0o17, 190:20:30, dates and the like, and a tool has written the scalar for another \
             version"
        );
        judgement.warnings.push(draft.fault(*at as usize, what, QUOTE));
    }
    judgement.warnings.extend(more(reread.count, reread.first.len(), "scalars are read differently", QUOTE));
}

/// Returns a fault with the number of changes that are not listed, if any.
fn more(count: u64, listed: usize, what: &str, to_do: &str) -> Option<Fault> {
    let more = count.saturating_sub(listed as u64);
    (more > 0).then(|| Fault::of_all(format!("{more} more {what}"), to_do))
}

#[cfg(test)]
mod tests;
