//! Streams with seek tables: the calls of the library's decoder.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A stream that both our decoder and the library find broken at once; it counts the calls of the library.
#[derive(Debug)]
struct Broken(Arc<AtomicUsize>);

impl SeekTable for Broken {
    fn nearest(&self, _: u64) -> u64 {
        0
    }

    fn read_from(self: Arc<Self>, _: u64) -> Result<(u64, Box<dyn SegmentReader>)> {
        Ok((0, Box::new(BrokenWalk)))
    }
}

struct BrokenWalk;

impl SegmentReader for BrokenWalk {
    fn next(&mut self, _: &mut Vec<u8>) -> Result<Option<usize>> {
        Err(Error::damaged("ours"))
    }

    fn wanted(&mut self, _: u64) {}

    fn weight(&self) -> u64 {
        0
    }

    fn bit(&self) -> Option<u64> {
        Some(7)
    }
}

impl Sequential for Broken {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(BrokenLibrary))
    }
}

struct BrokenLibrary;

impl Decoder for BrokenLibrary {
    fn read(&mut self, _: &mut [u8]) -> Result<usize> {
        Err(Error::damaged("theirs"))
    }

    fn suspect(&self) -> Option<u64> {
        Some(3)
    }
}

#[test]
fn the_library_is_asked_once_about_the_same_place() {
    let asked = Arc::<AtomicUsize>::default();
    let stream = Seekable::new(Broken(asked.clone()), Broken(asked.clone()));
    for _ in 0..3 {
        let mut decoder = stream.start().unwrap();
        let error = decoder.read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.to_string(), "compressed bit 7, decoded offset 0: theirs");
        assert_eq!(decoder.suspect(), Some(3));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}
