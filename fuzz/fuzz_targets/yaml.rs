//! Any text: its survey ends, and gives the same result when the text comes from a content.
#![no_main]

use asdf_mount::content::Text;
use asdf_mount::yaml::parser::Events;
use asdf_mount::yaml::survey::{Wanted, survey};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let wanted = || Wanted { tag: &|tag| tag.ends_with('n'), telling: &["source"], array: "data", ..Wanted::NOTHING };
    let (mut nodes, mut same) = (0, 0);
    let whole = survey(Events::new(text), wanted(), &mut |_, _| nodes += 1);
    let content = Text::new(text);
    let pieces = survey(Events::of(&content), wanted(), &mut |_, _| same += 1);
    assert_eq!((whole.is_ok(), nodes), (pieces.is_ok(), same));
});
