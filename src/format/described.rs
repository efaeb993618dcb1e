//! The description of a file in the catalogue.

use super::asdf::json::JsonLine;
pub(crate) use super::asdf::json::TreeJson;
use super::{ArrayFacts, Container};
use crate::error::Result;
pub(crate) use crate::yaml::read::Listener;

/// Passes the arrays of a file to `take`, and returns the tree in JSON, by the rules of `tree.json` but in one
/// line. The tree is read once for both. The inner error says that the tree is not valid, or that its JSON is
/// longer than `longest` bytes.
///
/// # Errors
/// The arrays can't be found.
pub(crate) fn describe(
    container: &dyn Container,
    longest: u64,
    take: &mut dyn FnMut(ArrayFacts),
) -> Result<Result<TreeJson>> {
    let tree = container.tree();
    let mut json = JsonLine::new(&*tree, longest);
    container.each_array(&mut json, take)?;
    Ok(json.end(&*tree))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::cache::Cache;
    use crate::error::Error;
    use crate::format::{self, Context};
    use crate::source::FileSource;
    use crate::yaml::event::Event;

    #[derive(Default)]
    struct Counter(u64);

    impl Listener for Counter {
        fn take(&mut self, _: &Event<'_>) -> bool {
            self.0 += 1;
            true
        }

        fn fail(&mut self, error: &Error) {
            panic!("{error}");
        }
    }

    /// The JSON of the tree is made from the events of the search for arrays, without a second pass.
    #[test]
    fn the_search_for_arrays_passes_its_events_on() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf");
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let file = format::open(Arc::new(FileSource::open(&sample).unwrap()), &context).unwrap();
        let mut counts = [Counter::default(), Counter::default()];
        let mut arrays = 0;
        for counter in &mut counts {
            file.each_array(counter, &mut |_| arrays += 1).unwrap();
        }
        assert!(counts[0].0 > 50 && counts[1].0 == 0 && arrays > 1, "{} {}", counts[0].0, counts[1].0);
        // A later search passes no events, so the tree is read again for the JSON.
        let again = describe(&*file, 1 << 20, &mut |_| {}).unwrap().unwrap();
        let new = format::open(Arc::new(FileSource::open(&sample).unwrap()), &context).unwrap();
        assert_eq!(again, describe(&*new, 1 << 20, &mut |_| {}).unwrap().unwrap());
        assert!(describe(&*new, 100, &mut |_| {}).unwrap().is_err());
    }
}
