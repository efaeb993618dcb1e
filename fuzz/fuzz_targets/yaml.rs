//! Any text: the events of the fast reader equal those of libyaml.
#![no_main]

use asdf_tree::yaml::fast::FastParser;
use asdf_tree::yaml::parser::Events;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let Some(mut fast) = FastParser::new(text) else { return };
    let mut events = Events::new(text);
    while let Ok(ours) = fast.next_event() {
        assert_eq!(events.next_event().as_ref().ok(), Some(&ours));
        if ours.is_none() {
            return;
        }
    }
});
