//! Any texts as a schema, a manifest and a tree: the check ends, and the places of violations are in the tree.
#![no_main]

use asdf_tree::schema::Schemas;
use asdf_tree::yaml::document::Document;
use seekable::content::Borrowed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut texts = data.split(|byte| *byte == 0);
    let [Some(schema), Some(manifest), Some(tree)] = [texts.next(), texts.next(), texts.next()] else { return };
    let Ok(schemas) = Schemas::of_texts(&[schema, manifest]) else { return };
    let Ok(document) = Document::read(&Borrowed(tree)) else { return };
    for violation in schemas.check(&document).violations {
        let _ = document.mark_at(violation.at);
    }
});
