use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;

use super::*;
use crate::decode::Decoder;
use crate::decode::idle::PER_CONTENT;
use crate::error::Kind;

/// A stream whose byte at `n` is a function of `n`, and which counts starts and decoded bytes.
#[derive(Debug, Default)]
struct Counted {
    len: u64,
    /// Offset from which on reads fail with EIO; `refusals` counts down.
    refuse: Option<u64>,
    refusals: AtomicUsize,
    starts: AtomicUsize,
    bytes: AtomicU64,
}

fn byte(at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

#[derive(Debug)]
struct Shared(Arc<Counted>);

struct Counting(Arc<Counted>, u64);

impl Sequential for Shared {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        self.0.starts.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Counting(self.0.clone(), 0)))
    }
}

impl Decoder for Counting {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut count = (self.0.len - self.1).min(out.len() as u64).min(10_000);
        if let Some(refuse) = self.0.refuse
            && self.1 + count > refuse
            && self.0.refusals.load(Ordering::Relaxed) > 0
        {
            count = refuse.saturating_sub(self.1);
            if count == 0 {
                self.0.refusals.fetch_sub(1, Ordering::Relaxed);
                return Err(Error::new(Kind::System(libc::EIO), "the disk refuses"));
            }
        }
        for (at, out) in (self.1..self.1 + count).zip(out) {
            *out = byte(at);
        }
        self.1 += count;
        self.0.bytes.fetch_add(count, Ordering::Relaxed);
        Ok(count as usize)
    }
}

fn counted(counted: Counted, budget: u64) -> (Arc<Counted>, Decoded, Arc<Cache>) {
    let counted = Arc::new(counted);
    let cache = Arc::new(Cache::new(budget));
    let content = Decoded::stream(Shared(counted.clone()), counted.len, &cache);
    (counted, content, cache)
}

fn read(content: &Decoded, at: u64, count: usize) {
    let mut buf = vec![0; count];
    let read = content.read_at(at, &mut buf).unwrap();
    assert_eq!(read as u64, (content.len() - at).min(count as u64));
    assert!((at..).zip(&buf[..read]).all(|(at, got)| *got == byte(at)));
}

#[test]
fn reading_on_decodes_each_byte_once_even_without_a_cache() {
    let (counted, content, _) = counted(Counted { len: 40 * GRANULE + 3, ..Counted::default() }, 0);
    for at in (0..content.len()).step_by(GRANULE as usize) {
        read(&content, at, GRANULE as usize);
    }
    assert_eq!(counted.starts.load(Ordering::Relaxed), 1);
    assert_eq!(counted.bytes.load(Ordering::Relaxed), content.len());
    assert_eq!(content.soundness(), Soundness::Sound);
}

#[test]
fn requests_out_of_order_and_readers_in_several_places_begin_anew_only_once_each() {
    let (counted, content, _) = counted(Counted { len: 400 * GRANULE, ..Counted::default() }, 16 * GRANULE);
    // Three readers in turn, each of which asks for the second of two granules first.
    for step in 0..20 {
        for place in [0, 100, 200] {
            for next in [1, 0] {
                read(&content, (place + 2 * step + next) * GRANULE, GRANULE as usize);
            }
        }
    }
    assert!(counted.starts.load(Ordering::Relaxed) <= 3);
}

#[test]
fn many_readers_of_one_stream_do_not_evict_each_other() {
    let (counted, content, _) = counted(Counted { len: 400 * GRANULE, ..Counted::default() }, 0);
    for step in 0..5 {
        for reader in 0..16 {
            read(&content, (20 * reader + step) * GRANULE, GRANULE as usize);
        }
    }
    assert!(counted.starts.load(Ordering::Relaxed) <= 16);
}

#[test]
fn what_many_readers_want_at_once_is_decoded_once() {
    let (counted, content, _) = counted(Counted { len: 30 * GRANULE, ..Counted::default() }, 0);
    let content = &content;
    let barrier = &std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for reader in 0..8 {
            scope.spawn(move || {
                barrier.wait();
                read(content, 29 * GRANULE + reader, 100);
            });
        }
    });
    // Without a cache, a reader that comes after the others decodes again. It needs a start of its own, so
    // the number of decoded bytes never exceeds what the starts account for.
    let starts = counted.starts.load(Ordering::Relaxed) as u64;
    assert!(counted.bytes.load(Ordering::Relaxed) <= starts * 30 * GRANULE);
}

/// A stream whose decoder stops at its second granule until it is released.
#[derive(Debug)]
struct Gated(Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>);

struct Gate(u64, Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl Sequential for Gated {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        let gate = self.0.lock().unwrap().take().expect("it is started once");
        Ok(Box::new(Gate(0, Some(gate))))
    }
}

impl Decoder for Gate {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.0 >= GRANULE
            && let Some((here, go)) = self.1.take()
        {
            here.send(()).unwrap();
            go.recv().unwrap();
        }
        let count = out.len().min((4 * GRANULE - self.0) as usize);
        for (at, out) in (self.0..).zip(&mut out[..count]) {
            *out = byte(at);
        }
        self.0 += count as u64;
        Ok(count)
    }
}

#[test]
fn a_run_serves_readers_on_its_way_without_a_cache() {
    let (here, is_here) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let gated = Gated(Mutex::new(Some((here, goes))));
    let content = &Decoded::stream(gated, 4 * GRANULE, &Arc::new(Cache::new(0)));
    std::thread::scope(|scope| {
        scope.spawn(move || read(content, 3 * GRANULE, 10));
        is_here.recv().unwrap();
        // The job has reached the second granule; these readers want granules that it will pass.
        scope.spawn(move || read(content, GRANULE, 20));
        scope.spawn(move || read(content, 2 * GRANULE, 30));
        scope.spawn(move || read(content, 3 * GRANULE, 40));
        while content.state().waiting() < 3 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
    });
}

#[test]
fn a_refusal_of_the_system_is_not_damage() {
    let refuse = Some(2 * GRANULE + 100);
    let counts = Counted { len: 4 * GRANULE, refuse, refusals: AtomicUsize::new(3), ..Counted::default() };
    let (_, content, _) = counted(counts, 1 << 30);
    let mut buf = vec![0; GRANULE as usize];
    // This read fails twice, as it retries at the byte after those it got.
    assert_eq!(content.read_at(2 * GRANULE, &mut buf).unwrap(), 100);
    assert_eq!(content.read_at(3 * GRANULE, &mut buf).unwrap_err().kind(), Kind::System(libc::EIO));
    assert_eq!((content.soundness(), content.damage().is_none()), (Soundness::Unknown, true));
    read(&content, 0, 4 * GRANULE as usize);
    assert_eq!(content.soundness(), Soundness::Sound);
}

/// A decoder that panics.
#[derive(Debug)]
struct Bad;

impl Sequential for Bad {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        panic!("this is what the test is about");
    }
}

#[test]
fn a_decoder_that_panics_leaves_nobody_waiting() {
    let content = Decoded::stream(Bad, 100, &Arc::new(Cache::new(0)));
    for _ in 0..2 * PER_CONTENT {
        let read = std::panic::AssertUnwindSafe(|| content.read_at(0, &mut [0]).is_ok());
        assert!(std::panic::catch_unwind(read).is_err());
    }
}

#[test]
fn a_content_that_is_gone_leaves_nothing_behind() {
    let (counted, content, cache) = counted(Counted { len: 9 * GRANULE, ..Counted::default() }, 1 << 30);
    read(&content, 3 * GRANULE, 10);
    assert!(cache.held() > 0 && Arc::strong_count(&counted) == 3);
    drop(content);
    assert_eq!((cache.held(), Arc::strong_count(&counted)), (0, 1));
}

fn wait_for(condition: impl Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not come to that within a minute");
}

#[test]
fn granules_are_decoded_ahead_of_sequential_reads_but_the_last() {
    let counted = Arc::new(Counted { len: 6 * GRANULE, ..Counted::default() });
    let cache = Arc::new(Cache::with_threads(64 << 20, 2));
    let content = Decoded::stream(Shared(counted.clone()), counted.len, &cache).with_read_ahead();
    let is_there = |n| cache.get(content.id, n * GRANULE).is_some();
    read(&content, 0, 10);
    read(&content, 2 * GRANULE, 10);
    assert_eq!((0..6).filter(|n| is_there(*n)).count(), 3, "no reader reads on yet");
    read(&content, GRANULE, 10);
    read(&content, 2 * GRANULE, 10);
    read(&content, 3 * GRANULE, 10);
    wait_for(|| is_there(4));
    wait_for(|| content.state().waiting() == 0 && cache.reserved() == 0);
    assert!(!is_there(5), "its end is looked at when it is read");
    assert_eq!(counted.bytes.load(Ordering::Relaxed), 5 * GRANULE);
    read(&content, 5 * GRANULE, GRANULE as usize);
    assert_eq!((counted.starts.load(Ordering::Relaxed), content.soundness()), (1, Soundness::Sound));
}

#[test]
fn nothing_is_decoded_ahead_where_the_cache_has_no_room_for_it() {
    let counted = Arc::new(Counted { len: 20 * GRANULE, ..Counted::default() });
    let cache = Arc::new(Cache::with_threads(2 * GRANULE - 1, 2));
    let content = Decoded::stream(Shared(counted.clone()), counted.len, &cache).with_read_ahead();
    for n in 0..10 {
        read(&content, n * GRANULE, GRANULE as usize);
    }
    assert_eq!((cache.reserved(), counted.bytes.load(Ordering::Relaxed)), (0, 10 * GRANULE));
}

#[test]
fn what_is_shared_is_what_is_read() {
    let (counted, content, cache) =
        counted(Counted { len: 3 * GRANULE + 100, ..Counted::default() }, 8 << 20);
    assert!(content.share(0, 10, false).is_none(), "nothing is there yet");
    for (at, len) in [(0, 10), (GRANULE - 5, 5), (3 * GRANULE + 90, 10), (3 * GRANULE + 90, 1000)] {
        for at_any_cost in [true, false] {
            let shared = content.share(at, len, at_any_cost).unwrap();
            let mut copied = vec![0; len];
            let copied = content.read_at(at, &mut copied).map(|read| copied[..read].to_vec()).unwrap();
            assert_eq!(shared[..], copied);
        }
    }
    // Ranges in two buffers, or beyond the end, are not lent.
    assert!(content.share(GRANULE - 5, 6, true).is_none());
    assert!([counted.len, counted.len + 1, u64::MAX].iter().all(|at| content.share(*at, 9, true).is_none()));
    assert!(content.share(5, 0, true).is_none());
    assert_eq!(cache.reserved(), 0);
}

/// A stream of the bytes of another stream. Its decoder signals its start, and waits before it reads.
#[derive(Debug)]
struct Over {
    inner: Arc<Decoded>,
    gate: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

struct OverDecoder(Arc<Decoded>, u64, Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl Sequential for Over {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(OverDecoder(self.inner.clone(), 0, self.gate.lock().unwrap().take())))
    }
}

impl Decoder for OverDecoder {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if let Some((begun, go)) = self.2.take() {
            begun.send(()).unwrap();
            go.recv().unwrap();
        }
        let read = self.0.read_at(self.1, out)?;
        self.1 += read as u64;
        Ok(read)
    }
}

/// A reader that waits for memory must not block the reader that holds the memory.
#[test]
fn a_stream_within_a_stream_is_read_while_others_wait_for_memory() {
    let (_, inner, cache) = counted(Counted { len: 4 * GRANULE, ..Counted::default() }, 0);
    let inner = Arc::new(inner);
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let (done, ends) = mpsc::channel();
    let gate = Mutex::new(Some((begun, goes)));
    let outer = Decoded::stream(Over { inner: inner.clone(), gate }, inner.len(), &cache);
    let finished = done.clone();
    std::thread::spawn(move || {
        read(&outer, 0, 100);
        finished.send("outer").unwrap();
    });
    begins.recv().unwrap();
    // The outer stream holds memory. This reader wants the granule that the outer stream is about to read.
    let wanted = inner.clone();
    std::thread::spawn(move || {
        read(&wanted, 0, 100);
        done.send("inner").unwrap();
    });
    // It may also wait for memory before it begins a job.
    for _ in 0..20 {
        if !inner.state().jobs.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    go.send(()).unwrap();
    for _ in 0..2 {
        ends.recv_timeout(std::time::Duration::from_secs(60)).expect("two readers wait for each other");
    }
}

/// A reader that gives up stops a long decoding, and the next one goes on where it stopped.
#[test]
fn a_decoding_ends_when_its_reader_gives_up() {
    let size = 1 << 30;
    let (stream, content, _cache) = counted(Counted { len: size, ..Counted::default() }, 16 << 20);
    let mut buf = [0; 16];
    let read_last = |content: &Decoded, buf: &mut [u8]| content.read_at(size - 16, buf);
    let error =
        crate::workers::caller::unless_given_up(|| true, || read_last(&content, &mut buf)).unwrap_err();
    assert_eq!(error.errno(), libc::EINTR);
    let done = stream.bytes.load(Ordering::Relaxed);
    assert!(done < size);
    read(&content, size - 16, 16);
    assert_eq!(stream.starts.load(Ordering::Relaxed), 1);
}
