//! Generation of the man page in roff.

use std::io::Write;

use super::texts::USAGE;

/// Renders the man page: the arguments by clap_mangen, then the sections of `--help`.
pub(super) fn page(command: clap::Command, sections: &[(&str, String)]) -> std::io::Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command).section("1");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    write_section(&mut page, "Synopsis", &USAGE.replace("       ", ""))?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for (title, text) in sections {
        write_section(&mut page, title, text)?;
    }
    // ASCII terminals have no ellipsis.
    Ok(String::from_utf8_lossy(&page).replace('…', "...").into_bytes())
}

/// Writes a section of fixed lines.
fn write_section(page: &mut Vec<u8>, title: &str, text: &str) -> std::io::Result<()> {
    let quoted = |part: &str| part.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    writeln!(page, ".SH \"{}\"\n.nf", quoted(&title.to_uppercase().replace("(-O)", "(-o)")))?;
    for line in text.lines().flat_map(wrapped) {
        // A dot at the start of a line would be a roff request.
        writeln!(page, "\\&{}", quoted(&line))?;
    }
    writeln!(page, ".fi")
}

/// Wraps a line for a terminal of 80 columns, of which man(1) leaves the first seven blank. Continuation
/// lines are indented like the text of the first line, or like its second column.
fn wrapped(line: &str) -> Vec<String> {
    const WIDTH: usize = 72;
    let indent = line.len() - line.trim_start().len();
    let second = line.get(indent..).and_then(|text| {
        let gap = text.find("  ")?;
        Some(indent + gap + text.get(gap..)?.find(|c| c != ' ')?)
    });
    let under = second.filter(|column| *column < WIDTH * 2 / 3).unwrap_or(indent);
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while rest.chars().count() > WIDTH {
        let end = rest.char_indices().nth(WIDTH).map_or(rest.len(), |(at, _)| at);
        let Some(cut) = rest.get(..=end).and_then(|head| head.rfind(' ')).filter(|cut| *cut > under) else {
            break;
        };
        let next = format!("{:under$}{}", "", rest.split_off(cut).trim_start());
        lines.push(std::mem::replace(&mut rest, next));
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::texts::sections;

    #[test]
    fn lines_of_paragraphs_are_short_enough_to_stay() {
        let is_paragraph = |title: &str| ["Signals", "Exit status"].contains(&title);
        let mut found = sections().into_iter().filter(|(title, _)| is_paragraph(title)).peekable();
        assert!(found.peek().is_some());
        for line in found.flat_map(|(_, text)| text.lines().map(str::to_owned).collect::<Vec<_>>()) {
            assert_eq!(wrapped(&line), [line]);
        }
    }
}
