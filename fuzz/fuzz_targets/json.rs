//! Any text as the tree: what it gives is JSON, as long as was measured.
#![no_main]

use asdf_mount::format::asdf::json::of_text;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for tagged in [false, true] {
        let Ok(bytes) = of_text(data, tagged) else { continue };
        if let Err(error) = serde_json::from_slice::<serde_json::Value>(&bytes) {
            // This reader has limits of its own.
            let told = error.to_string();
            assert!(told.contains("recursion limit") || told.contains("out of range"), "{told}");
        }
    }
});
