//! The description of a file in the catalogue.

use seekable::error::Result;

pub use crate::views::json::TreeJson;
use crate::views::json::in_one_line;
use asdf_file::container::{ArrayFacts, Container};

/// Passes the arrays of a file to `take`, and returns the tree in JSON, by the rules of `tree.json` but in one
/// line. The tree is read once for both. The inner error says that the tree is not valid, or that its JSON is
/// longer than `longest` bytes.
///
/// # Errors
/// The arrays can't be found.
pub fn describe(
    container: &dyn Container,
    longest: u64,
    take: &mut dyn FnMut(ArrayFacts),
) -> Result<Result<TreeJson>> {
    let document = container.document();
    container.each_array(take)?;
    Ok(document.and_then(|document| in_one_line(&document, longest)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::format;
    use asdf_file::container::Context;
    use seekable::cache::Cache;
    use seekable::source::FileSource;

    #[test]
    fn a_tree_in_json_has_a_maximum_length() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sample.asdf");
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let file = format::open(Arc::new(FileSource::open(&sample).unwrap()), &context).unwrap();
        let mut arrays = 0;
        let json = describe(&*file, 1 << 20, &mut |_| arrays += 1).unwrap().unwrap();
        assert!(arrays > 1 && json.text.len() > 100);
        let error = describe(&*file, 100, &mut |_| {}).unwrap().unwrap_err();
        assert_eq!(error.message(), "the tree is longer than 100 bytes");
    }
}
