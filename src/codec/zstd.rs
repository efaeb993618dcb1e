//! zstd: frames that decode apart, where there are several of them.
//!
//! | part | what it is |
//! |---|---|
//! | [`frame`] | the headers of frames and blocks; how a stream is cut between frames |
//! | [`library`] | libzstd, which decodes; from the start of the stream it says what is broken |
//!
//! The table of the seekable format, in a skippable frame at the end, is passed over like any other one.
//! It says how long frames are that don't say so themselves, but whether that is true shows only when they
//! are decoded: a read somewhere would give whatever the table says is there. Where frames begin is
//! found from header to header in little time without it.

mod frame;
mod library;

use std::sync::{Arc, OnceLock};

use super::parts::Parted;
use super::seek::Seekable;
use super::spill::Spilled;
use crate::cache::Cache;
use crate::content::{Content, Decoder, Sequential};
use crate::error::Result;

/// What frames begin with that are to be passed over; LZ4 has the same.
pub(super) use frame::SKIPPABLE;

/// What zstd can make of a byte at most: blocks of 128 KiB that take four.
pub(super) const RATIO: u64 = 32 << 10;

/// A first frame that decodes to more is taken for the only one, or as good as that.
const LONG: u64 = 64 << 20;

/// The frames in `stored`, of `data_size` bytes together as the header says.
pub(super) fn open(
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: &Arc<Cache>,
) -> impl Sequential + use<> + 'static {
    let frames = frame::Frames::new(stored.clone(), data_size, cache);
    let library = library::library(stored.clone());
    let parts: Arc<dyn Sequential> = Arc::new(Seekable::new(Parted::new(frames, data_size, cache), library));
    let (cache, way) = (cache.clone(), OnceLock::new());
    Zstd { stored, data_size, cache, parts, way }
}

/// Frames that are decoded apart, or a long one that is put aside while it is decoded.
#[derive(Debug)]
struct Zstd {
    stored: Arc<dyn Content>,
    data_size: u64,
    cache: Arc<Cache>,
    parts: Arc<dyn Sequential>,
    /// Which of them it is, once someone reads.
    way: OnceLock<Arc<dyn Sequential>>,
}

impl Zstd {
    fn way(&self) -> &dyn Sequential {
        &**self.way.get_or_init(|| {
            let folder = self.cache.spill().filter(|_| self.data_size > self.cache.budget());
            let frames = frame::Frames::new(self.stored.clone(), self.data_size, &self.cache);
            let Some(folder) = folder.filter(|_| frames.begin_longer_than(LONG.min(self.cache.budget())))
            else {
                return self.parts.clone();
            };
            Arc::new(Spilled::new(self.parts.clone(), folder, &self.cache))
        })
    }
}

impl Sequential for Zstd {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        self.way().start()
    }

    fn look_ahead(&self, wanted: u64) {
        self.way().look_ahead(wanted);
    }

    fn weight(&self) -> u64 {
        self.way().weight()
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.way().nearest(wanted)
    }

    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        self.way().start_at(at)
    }
}
