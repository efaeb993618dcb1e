//! Concurrent readers of several streams.

use super::*;
use crate::codec::seek::{SeekTable, SegmentReader};

/// A reader with its position.
struct Route {
    stream: usize,
    reader: Box<dyn SegmentReader>,
    at: usize,
    out: Vec<u8>,
}

/// Waits until all tasks have ended and their reservations are released.
#[track_caller]
fn wait_for_writes(cache: &Cache) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while cache.reserved() > 0 {
        assert!(std::time::Instant::now() < until, "{} bytes are not given back", cache.reserved());
        std::thread::yield_now();
    }
}

fn few_streams() -> Vec<(Vec<u8>, Vec<u8>)> {
    let long = truth(2_000_000, 31);
    let zeros = [&long[..300_000], &vec![0; 1_500_000], &long[..700_000]].concat();
    let flushed = encode(&long[..900_000], 6, 10_000);
    vec![
        (long.clone(), encode(&long, 6, usize::MAX)),
        (zeros.clone(), encode(&zeros, 9, usize::MAX)),
        (long[..900_000].to_vec(), flushed),
    ]
}

#[test]
fn ways_in_any_turn_that_are_left_anywhere_give_the_truth_and_their_room_back() {
    let streams = few_streams();
    let mut dice = Dice(32);
    let mut ended = 0;
    for threads in [1, 2, 3, 4, 5, 6, 16] {
        for budget in [0, 3 << 20, 1 << 30] {
            let cache = Arc::new(Cache::with_threads(budget, threads));
            let zlibs: Vec<_> = streams
                .iter()
                .map(|(_, stored)| {
                    Arc::new(ZlibTable::new(Arc::new(Text::new(&**stored)), SMALL, &cache, None))
                })
                .collect();
            let mut ways: Vec<Option<Route>> =
                std::iter::repeat_with(|| None).take(1 + dice.roll(6)).collect();
            for _ in 0..250 {
                let slot = dice.roll(ways.len());
                let way = match &mut ways[slot] {
                    Some(_) if dice.roll(40) == 0 => {
                        ways[slot] = None;
                        continue;
                    }
                    Some(way) => way,
                    none => {
                        let stream = dice.roll(streams.len());
                        let from = [0, dice.roll(streams[stream].0.len())][dice.roll(2)] as u64;
                        let (at, mut reader) = SeekTable::read_from(zlibs[stream].clone(), from).unwrap();
                        reader.wanted([0, u64::MAX][dice.roll(2)]);
                        // A buffer with old contents.
                        let out = vec![0x55; dice.roll(400_000)];
                        none.insert(Route { stream, reader, at: at as usize, out })
                    }
                };
                // Some readers advance for long while the others wait.
                for _ in 0..[1, 1, 20][dice.roll(3)] {
                    let truth = &streams[way.stream].0;
                    let mut part = vec![0x55; dice.roll(90_000)];
                    if dice.roll(3) > 0
                        && let Some(read) = way.reader.read(&mut part)
                    {
                        let read = read.unwrap();
                        assert!(
                            truth[way.at..].starts_with(&part[..read]),
                            "{threads} threads, at {}",
                            way.at
                        );
                        way.at += read;
                        continue;
                    }
                    let Some(start) = way.reader.next(&mut way.out).unwrap() else {
                        assert_eq!(way.at, truth.len());
                        (ways[slot], ended) = (None, ended + 1);
                        break;
                    };
                    let there = &way.out[start..];
                    assert!(truth[way.at..].starts_with(there), "{threads} threads, at {}", way.at);
                    way.at += there.len();
                }
            }
            drop(ways);
            wait_for_writes(&cache);
        }
    }
    assert!(ended > 100, "{ended}");
}

#[test]
fn readers_at_once_of_the_same_and_of_other_streams_read_the_truth() {
    let streams = few_streams();
    for threads in 1..=6 {
        let cache = Arc::new(Cache::with_threads([4 << 20, 1 << 30][threads % 2], threads));
        let contents: Vec<_> =
            streams.iter().map(|(truth, stored)| content(stored.clone(), truth.len(), &cache).0).collect();
        std::thread::scope(|scope| {
            for reader in 0..5_usize {
                let contents = &contents;
                let streams = &streams;
                scope.spawn(move || {
                    let mut dice = Dice(reader as u64 + 40);
                    for stream in [reader % 3, (reader + 1) % 3] {
                        let order = ["on", "on", "back", "far", "random"][dice.roll(5)];
                        read_in(order, &contents[stream], &streams[stream].0, &mut dice);
                    }
                });
            }
        });
        for (content, (truth, _)) in contents.iter().zip(&streams) {
            read_in("on", content, truth, &mut Dice(1));
            assert_eq!(content.soundness(), Soundness::Sound, "{threads} threads");
        }
        drop(contents);
        wait_for_writes(&cache);
        assert_eq!(cache.held(), 0);
    }
}

#[test]
fn a_reader_that_stopped_leaves_room_to_others() {
    let one = truth(3_000_000, 33);
    let long = one.repeat(7);
    let cache = Arc::new(Cache::with_threads(23 << 20, 2));
    let (stopped, _) = content(encode(&one, 6, usize::MAX), one.len(), &cache);
    for n in 0..12 {
        check(&stopped, &one, n * 131_072, 131_072);
    }
    assert!(cache.reserved() > 2 << 20, "nothing was decoded ahead");
    let (other, _) = content(encode(&long, 1, usize::MAX), long.len(), &cache);
    read_in("on", &other, &long, &mut Dice(1));
    wait_for_writes(&cache);
    // The stopped reader then continues where it was.
    for n in 12..22 {
        check(&stopped, &one, n * 131_072, 131_072);
    }
    assert_eq!(stopped.soundness(), Soundness::Unknown);
}
