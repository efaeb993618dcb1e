//! Values that are kept as long as there is room for them, and can be made again: documents of trees.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::ContentId;
use crate::sync::{MutexGuard, locked};

/// The time after which an unused value is dropped.
const IDLE: Duration = Duration::from_secs(60);

/// The kept values; the one used last is at the end.
pub(super) struct Kept {
    values: Mutex<Vec<KeptValue>>,
    most: u64,
}

struct KeptValue {
    id: ContentId,
    value: Arc<dyn Any + Send + Sync>,
    weight: u64,
    used: Instant,
}

impl Kept {
    /// Creates a list of values that together have at most three quarters of the budget.
    pub(super) fn new(budget: u64) -> Self {
        Self { values: Mutex::default(), most: budget / 4 * 3 }
    }

    /// Returns the bytes of all values.
    pub(super) fn weight(&self) -> u64 {
        self.values().iter().map(|kept| kept.weight).sum()
    }

    /// Returns the value of `id`, if it is kept.
    pub(super) fn get<T: Any + Send + Sync>(&self, id: ContentId) -> Option<Arc<T>> {
        let mut values = self.values();
        let place = values.iter().position(|kept| kept.id == id)?;
        let mut kept = values.remove(place);
        kept.used = Instant::now();
        let value = kept.value.clone();
        values.push(kept);
        value.downcast().ok()
    }

    /// Keeps a value in place of an earlier one of `id`. Drops the values used longest ago beyond the maximum.
    pub(super) fn put(&self, id: ContentId, value: Arc<dyn Any + Send + Sync>, weight: u64) {
        self.drop_if(|kept| kept.id == id);
        if weight > self.most {
            return;
        }
        let mut dropped = Vec::new();
        let mut values = self.values();
        values.push(KeptValue { id, value, weight, used: Instant::now() });
        while values.iter().map(|kept| kept.weight).sum::<u64>() > self.most {
            dropped.push(values.remove(0));
        }
        drop(values);
    }

    /// Drops the value of a content that is gone.
    pub(super) fn forget(&self, id: ContentId) {
        self.drop_if(|kept| kept.id == id);
    }

    /// Drops the values that were not used for a while.
    pub(super) fn drop_idle(&self) {
        self.drop_if(|kept| kept.used.elapsed() > IDLE);
    }

    /// Drops all values. Their users keep them until they are done.
    pub(super) fn clear(&self) {
        self.drop_if(|_| true);
    }

    /// Drops values after the lock is released: a large one takes time.
    fn drop_if(&self, mut is_dropped: impl FnMut(&KeptValue) -> bool) {
        let mut values = self.values();
        let dropped: Vec<_> = values.extract_if(.., |kept| is_dropped(kept)).collect();
        drop(values);
        drop(dropped);
    }

    fn values(&self) -> MutexGuard<'_, Vec<KeptValue>> {
        locked(&self.values)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.values().iter().map(|kept| (kept.id, kept.weight))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cache;
    use super::*;

    #[test]
    fn values_are_kept_while_there_is_room() {
        let cache = Cache::new(4000);
        let ids: Vec<ContentId> = (0..4).map(|_| cache.id()).collect();
        for id in &ids[..3] {
            cache.keep(*id, Arc::new(format!("{id:?}")), 1000);
        }
        assert!(ids[..3].iter().all(|id| *cache.kept::<String>(*id).unwrap() == format!("{id:?}")));
        // The one used longest ago goes. One that is too large is not kept at all.
        cache.kept::<String>(ids[0]);
        cache.keep(ids[3], Arc::new(5_u8), 1000);
        assert!(cache.kept::<String>(ids[1]).is_none() && cache.kept::<u8>(ids[3]).is_some());
        cache.keep(ids[3], Arc::new(5_u8), 4000);
        assert!(cache.kept::<u8>(ids[3]).is_none());
        cache.forget(ids[0]);
        assert!(cache.kept::<String>(ids[0]).is_none() && cache.kept::<String>(ids[2]).is_some());
    }

    #[test]
    fn values_leave_room_for_what_is_at_work() {
        let cache = Cache::new(4000);
        let id = cache.id();
        cache.put(id, 0, &Arc::new(vec![7; 2500]));
        cache.keep(id, Arc::new(5_u8), 2500);
        // The granule has to go, as both do not fit.
        assert_eq!((cache.held(), cache.kept::<u8>(id).as_deref()), (0, Some(&5)));
        drop(cache.demand(2000));
        assert!(cache.kept::<u8>(id).is_none());
    }
}
