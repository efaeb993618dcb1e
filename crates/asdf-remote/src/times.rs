//! The modification times that a mount shows for files on servers.
//!
//! An index page has minutes, often in the server's time zone, and a reply has seconds. A file keeps the time that
//! was shown first until the page or the reply has another one than before, because programs such as `tar` and
//! `rsync` take another time for a change.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::Mutex;

use lru::LruCache;

use seekable::source::Time;
use seekable::sync::locked;

/// Maximum number of addresses whose time is remembered.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(1 << 16).expect("65536 is not zero");
/// Offsets of time zones are multiples of this, in seconds.
const ZONE_STEP: i64 = 15 * 60;
/// Maximum offset of a time zone, in seconds.
const MAX_OFFSET: i64 = 14 * 3600;

/// The time of an address, and the times from which it was taken.
#[derive(Clone, Copy, Debug)]
struct Shown {
    time: Time,
    listed: Option<Time>,
    replied: Option<Time>,
}

/// The shown times, by digests of the addresses.
#[derive(Debug)]
pub(super) struct ShownTimes {
    keys: RandomState,
    times: Mutex<LruCache<u64, Shown>>,
}

impl Default for ShownTimes {
    fn default() -> Self {
        Self { keys: RandomState::new(), times: Mutex::new(LruCache::new(ADDRESSES)) }
    }
}

impl ShownTimes {
    /// Returns the shown time of an address, if there is one.
    pub(super) fn get(&self, identity: &str) -> Option<Time> {
        locked(&self.times).peek(&self.keys.hash_one(identity)).map(|shown| shown.time)
    }

    /// Takes the time in a listing; returns the time to show.
    pub(super) fn of_listing(&self, identity: &str, listed: Option<Time>) -> Time {
        let Some(time) = listed else { return self.get(identity).unwrap_or_default() };
        let new = Shown { time, listed, replied: None };
        let mut times = locked(&self.times);
        let shown = times.get_or_insert_mut(self.keys.hash_one(identity), || new);
        let is_same = match shown.listed {
            Some(before) => before == time,
            None => shown.replied.is_none_or(|replied| may_be_one(time, replied)),
        };
        *shown = if is_same { Shown { listed, ..*shown } } else { new };
        shown.time
    }

    /// Takes the time in a reply; returns the time to show.
    pub(super) fn of_reply(&self, identity: &str, replied: Option<Time>) -> Time {
        let new = Shown { time: replied.unwrap_or_default(), listed: None, replied };
        let mut times = locked(&self.times);
        let shown = times.get_or_insert_mut(self.keys.hash_one(identity), || new);
        let Some(time) = replied else { return shown.time };
        let is_same = match (shown.replied, shown.listed) {
            (Some(before), _) => before == time,
            (None, Some(listed)) => may_be_one(listed, time),
            (None, None) => false,
        };
        *shown = if is_same { Shown { replied, ..*shown } } else { new };
        shown.time
    }
}

/// True if the time in a listing, which may be rounded down to minutes and in any time zone, may be the time in a
/// reply.
fn may_be_one(listed: Time, replied: Time) -> bool {
    let later = replied.0.saturating_sub(listed.0);
    later.rem_euclid(ZONE_STEP) < 60 && (-MAX_OFFSET..MAX_OFFSET + 60).contains(&later)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37, and that minute.
    const REPLIED: Time = (784_111_777, 0);
    const LISTED: Time = (784_111_740, 0);

    #[test]
    fn a_file_keeps_the_time_that_was_shown_first() {
        let zone = 5 * 3600 + 30 * 60;
        for listed in [LISTED, (LISTED.0 - zone, 0), (LISTED.0 + zone, 0), (REPLIED.0, 250_000_000)] {
            let times = ShownTimes::default();
            assert_eq!(times.get("a"), None);
            assert_eq!(times.of_listing("a", Some(listed)), listed);
            for _ in 0..2 {
                assert_eq!(times.of_reply("a", Some(REPLIED)), listed);
                assert_eq!(times.of_listing("a", Some(listed)), listed);
                assert_eq!(times.of_reply("a", None), listed);
            }
            let times = ShownTimes::default();
            for _ in 0..2 {
                assert_eq!(times.of_reply("a", Some(REPLIED)), REPLIED);
                assert_eq!(times.of_listing("a", Some(listed)), REPLIED);
                assert_eq!(times.of_listing("a", None), REPLIED);
            }
            assert_eq!(times.get("a"), Some(REPLIED));
        }
        // A server whose replies have no time.
        let times = ShownTimes::default();
        assert_eq!(times.of_reply("a", None), (0, 0));
        assert_eq!(times.of_listing("a", Some(LISTED)), (0, 0));
    }

    #[test]
    fn a_change_has_another_time() {
        // An hour later, and in another year.
        for seconds in [3600, 31_536_000] {
            let times = ShownTimes::default();
            times.of_listing("a", Some(LISTED));
            times.of_reply("a", Some(REPLIED));
            let changed = (REPLIED.0 + seconds, 0);
            assert_eq!(times.of_reply("a", Some(changed)), changed);
            assert_eq!(times.of_listing("a", Some((LISTED.0 + seconds, 0))), changed);
            let changed = (LISTED.0 + 2 * seconds, 0);
            assert_eq!(times.of_listing("a", Some(changed)), changed);
            assert_eq!(times.of_reply("a", Some((changed.0 + 37, 0))), changed);
            assert_eq!(times.of_reply("a", Some((changed.0 + 38, 0))), (changed.0 + 38, 0));
        }
    }
}
