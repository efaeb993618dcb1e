//! Values that are computed from a file at their first use: at most one of each type.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock};

use seekable::error::Result;
use seekable::sync::{locked, made_once};

/// The values computed so far. Each module keeps its results in types of its own.
#[derive(Default)]
pub struct Computed {
    first: OnceLock<Box<ValueSlot>>,
}

/// A node of a linked list: the place of a value, and the next node. A list has about a dozen nodes.
struct ValueSlot {
    /// A `Place<T>`.
    place: Box<dyn Any + Send + Sync>,
    next: OnceLock<Box<ValueSlot>>,
}

/// The place of a value, empty until the value has been computed.
struct Place<T> {
    value: OnceLock<T>,
    /// Held while a computation that may fail is running.
    computing: Mutex<PhantomData<T>>,
}

impl Computed {
    /// Returns the place for the value of type `T`. The first call for a type adds its place to the list.
    fn place<T: Send + Sync + 'static>(&self) -> &Place<T> {
        let mut at = &self.first;
        loop {
            let new_place = || Place::<T> { value: OnceLock::new(), computing: Mutex::new(PhantomData) };
            let new = || Box::new(ValueSlot { place: Box::new(new_place()), next: OnceLock::new() });
            let entry = at.get_or_init(new);
            match entry.place.downcast_ref() {
                Some(place) => return place,
                None => at = &entry.next,
            }
        }
    }

    /// Returns the value, if it has been computed.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.place().value.get()
    }

    /// Returns the value. The first call computes it; other calls wait for that one.
    pub fn get_or_compute<T: Send + Sync + 'static>(&self, compute: impl FnOnce() -> T) -> &T {
        made_once(&self.place().value, compute)
    }

    /// Returns the value. The first call that succeeds computes it; meanwhile other calls wait. An error is not
    /// kept: the next call tries again.
    pub fn get_or_try_compute<T: Send + Sync + 'static>(
        &self,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<&T> {
        let place = self.place();
        if let Some(value) = place.value.get() {
            return Ok(value);
        }
        let _computing = locked(&place.computing);
        if let Some(value) = place.value.get() {
            return Ok(value);
        }
        let value = compute()?;
        Ok(place.value.get_or_init(|| value))
    }
}

impl fmt::Debug for Computed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Computed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_each_type_is_computed_once() {
        let computed = Computed::default();
        assert_eq!(computed.get::<u8>(), None);
        let value = computed.get_or_compute(|| computed.get_or_compute(|| "three").len());
        assert_eq!((*value, *computed.get_or_compute(|| 9_usize)), (5, 5));
        assert!(computed.get_or_try_compute(|| Err::<u8, _>(seekable::error::errno(libc::EIO))).is_err());
        assert_eq!(computed.get_or_try_compute(|| Ok(7_u8)), Ok(&7));
        assert_eq!(computed.get_or_try_compute(|| Ok(8_u8)), Ok(&7));
        assert_eq!((computed.get::<&str>(), computed.get::<u8>()), (Some(&"three"), Some(&7)));
    }
}
