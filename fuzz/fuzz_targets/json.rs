//! Any text as the tree: the result is valid JSON of the measured length.
#![no_main]

use asdf_views::views::json::of_text;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for tagged in [false, true] {
        let Ok(bytes) = of_text(data, tagged) else { continue };
        if let Err(error) = serde_json::from_slice::<serde_json::Value>(&bytes) {
            // serde_json has limits that the tree does not have.
            let told = error.to_string();
            assert!(told.contains("recursion limit") || told.contains("out of range"), "{told}");
        }
    }
});
