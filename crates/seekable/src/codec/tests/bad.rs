//! Thousands of damaged zlib and bzip2 streams.

use super::*;
use crate::cache::store::Store;

/// Opens a content as a mount does that stores seek tables.
fn mounted(codec: Codec, stored: &[u8], data_size: usize, cache: &Arc<Cache>) -> Result<Arc<dyn Content>> {
    open_stream(
        codec,
        StoredStream::new(Arc::new(Text::new(stored)), data_size as u64).named(b"name".into()),
        cache,
    )
}

/// Returns the bytes that can be read from the start on, and the error that ends them.
fn read(content: &dyn Content, step: usize) -> (Vec<u8>, Option<Error>) {
    let (bytes, error) = prefix(content, step);
    let at = bytes.len() as u64;
    if let Some(error) = &error {
        assert_eq!(error.errno(), libc::EIO);
        // Later reads fail as well.
        for beyond in [at, at + 1, content.len().saturating_sub(1)] {
            let again = content.read_at(beyond.max(at), &mut [0; 10]);
            assert!(again.is_err() || beyond < at, "{again:?} at {beyond} of {}", content.len());
        }
    }
    (bytes, error)
}

fn spoil(good: &[u8], round: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bad = good.to_vec();
    match round % 4 {
        0 => bad.truncate(dice.roll(good.len())),
        1 => bad[dice.roll(good.len())] ^= 1 << dice.roll(8),
        2 => {
            let from = dice.roll(good.len());
            let to = dice.roll(good.len());
            let (from, to) = (from.min(to), from.max(to));
            bad[from..to.min(from + 300)].fill(dice.roll(256) as u8);
        }
        _ => {
            let from = dice.roll(good.len());
            let to = dice.roll(good.len());
            let part = good[from..good.len().min(from + 50)].to_vec();
            let end = (to + part.len()).min(bad.len());
            bad[to..end].copy_from_slice(&part[..end - to]);
        }
    }
    bad
}

#[test]
fn give_no_more_than_promised_and_then_an_error_with_its_place() {
    let mut dice = Dice(51);
    let truth = truth(60_000, 52);
    for (codec, good) in [(Codec::Zlib, zlib(&truth)), (Codec::Bzip2, bzip2(&truth))] {
        for round in 0..700 {
            let bad = spoil(&good, round, &mut dice);
            // The size in the header is right, slightly wrong, or random.
            let size = match dice.roll(8) {
                0 => truth.len() + 1 + dice.roll(3),
                1 => truth.len() - 1 - dice.roll(truth.len() - 1),
                2 => dice.roll(1 << 30),
                _ => truth.len(),
            };
            let cache = Arc::new(Cache::with_threads(1 << 20, 1).with_store(Store::in_memory()));
            let Ok(content) = mounted(codec, &bad, size, &cache) else { continue };
            assert_eq!(content.len(), size as u64);
            let (bytes, error) = read(&*content, 1 + dice.roll(40_000));
            assert!(bytes.len() <= size);
            match error {
                Some(error) => {
                    let said = error.message();
                    let place = said.contains("decoded offset ") || said.contains("decodes to ");
                    assert!(place, "{codec:?}, round {round}: {said}");
                    assert!(
                        matches!(content.soundness(), Soundness::Broken(_)) && content.damage().is_some()
                    );
                }
                None => assert_eq!((bytes.len(), content.soundness()), (size, Soundness::Sound)),
            }
        }
    }
}

#[test]
fn bombs_are_read_anywhere_and_lies_about_them_are_refused() {
    let zeros = vec![0; 40 << 20];
    for (codec, stored) in [(Codec::Zlib, zlib(&zeros)), (Codec::Bzip2, bzip2(&zeros))] {
        let cache = Arc::new(Cache::with_threads(1 << 20, 2).with_store(Store::in_memory()));
        for data_size in [zeros.len(), 1 << 20] {
            let content = mounted(codec, &stored, data_size, &cache).unwrap();
            let mut buf = [1; 5000];
            for at in [data_size - 5000, data_size / 2, 0] {
                assert_eq!(content.read_at(at as u64, &mut buf).unwrap_or(5000), 5000);
            }
            assert!(cache.held() <= cache.budget());
        }
    }
    let stored = zlib(&zeros[..100_000]);
    let most = stored.len() * 1032;
    let cache = Arc::new(Cache::new(0));
    assert!(mounted(Codec::Zlib, &stored, most, &cache).is_ok());
    for (codec, ratio) in [(Codec::Zlib, 1032), (Codec::Lz4, 255), (Codec::Lz4Frame, 255)] {
        let error = mounted(codec, &stored, stored.len() * ratio + 1, &cache).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Damaged);
        assert!(error.message().contains("can't decode to more"), "{error}");
    }
}
