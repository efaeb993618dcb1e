//! Tests of the check of a whole file.

use std::sync::atomic::AtomicUsize;
use std::thread::{self, ThreadId};
use std::time::Duration;

use seekable::source::{Source, SourceStat, SourceVersion};

use super::*;
use crate::library::{File, OpenOptions};

const DATA: u64 = 256 << 20;

/// A file with one block of zeros, which takes its time.
#[derive(Debug)]
struct Slow {
    head: Vec<u8>,
    caller: ThreadId,
    looked: Arc<AtomicBool>,
    /// Number of long reads.
    reads: AtomicUsize,
}

impl Slow {
    fn of(looked: &Arc<AtomicBool>) -> Self {
        let mut head = b"#ASDF 1.0.0\n%YAML 1.1\n--- {}\n...\n\xd3BLK\0\x30\0\0\0\0\0\0\0\0".to_vec();
        (0..3).for_each(|_| head.extend(DATA.to_be_bytes()));
        head.extend([7; 16]);
        Self { head, caller: thread::current().id(), looked: looked.clone(), reads: AtomicUsize::new(0) }
    }
}

impl Source for Slow {
    fn path(&self) -> &Path {
        Path::new("slow.asdf")
    }

    fn stat(&self) -> Result<SourceStat> {
        let size = self.head.len() as u64 + DATA;
        Ok(SourceStat { size, mtime: (0, 0), version: SourceVersion::of_tag("slow") })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if buf.len() == PIECE {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let is_ahead = || thread::current().id() != self.caller && !self.looked.load(Ordering::Relaxed);
            // At most 10 s.
            let _ = (0..2000).find(|_| {
                thread::sleep(Duration::from_millis(5));
                !is_ahead()
            });
        }
        let all = self.head.iter().copied().chain(std::iter::repeat(0));
        let len = (self.stat()?.size.saturating_sub(offset)).min(buf.len() as u64) as usize;
        buf[..len].fill(0);
        let in_head = self.head.len().saturating_sub(offset as usize).min(len);
        for (to, from) in buf[..in_head].iter_mut().zip(all.skip(offset as usize)) {
            *to = from;
        }
        Ok(len)
    }
}

#[test]
fn a_check_ends_with_its_caller_on_both_threads() {
    let looked = Arc::new(AtomicBool::new(false));
    let source = Arc::new(Slow::of(&looked));
    let options = OpenOptions::parse("index-cache=off").unwrap();
    let file = File::of_source(source.clone(), &options.context).unwrap();
    let gone = move || {
        looked.store(true, Ordering::Relaxed);
        true
    };
    let error = caller::unless_given_up(gone, || file.check()).unwrap_err();
    assert_eq!(error.errno(), rustix::io::Errno::INTR.raw_os_error());
    let reads = source.reads.load(Ordering::Relaxed);
    assert!(reads > 0 && (reads as u64) < DATA / PIECE as u64, "{reads}");
}
