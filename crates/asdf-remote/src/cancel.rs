//! Cancellation of requests whose readers were all interrupted, so that they free their slots.
//!
//! A request is sent on a thread of its own, which waits for the server in short slices and between them looks
//! at the request's [`Cancel`]. Only connecting and the resolution of a name, at most 5 s each, run to their
//! end.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use seekable::workers::caller::LOOK;

thread_local! {
    /// The flag of the request that this thread sends.
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// The flag of a request: set once the request is cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the request, whether it was sent already or not.
    pub(super) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Calls `send`, which sends the request on this thread.
    pub(super) fn watched<T>(&self, send: impl FnOnce() -> T) -> T {
        let _reset = Reset(CURRENT.replace(Some(self.clone())));
        send()
    }
}

/// A guard that restores the flag of the thread. A panic drops it, too.
struct Reset(Option<Cancel>);

impl Drop for Reset {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// True if the request that this thread sends is cancelled.
pub(super) fn is_cancelled() -> bool {
    CURRENT.with_borrow(|cancel| cancel.as_ref().is_some_and(|cancel| cancel.0.load(Ordering::Relaxed)))
}

/// Sleeps, but no longer than until the request of this thread is cancelled.
pub(super) fn sleep(pause: Duration) {
    let end = Instant::now() + pause;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() || is_cancelled() {
            return;
        }
        std::thread::sleep(rest.min(LOOK));
    }
}

/// A connector that wraps each connection, below TLS.
#[derive(Debug)]
pub(super) struct CancelConnector;

impl<In: Transport> Connector<In> for CancelConnector {
    type Out = Cancellable<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(Cancellable))
    }
}

/// A connection that fails once its request is cancelled.
#[derive(Debug)]
pub(super) struct Cancellable<T>(T);

impl<T: Transport> Transport for Cancellable<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.0.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.0.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        let begun = Instant::now();
        loop {
            let rest = timeout.after.saturating_sub(begun.elapsed());
            let slice = NextTimeout {
                after: rest.min(LOOK).into(),
                reason: timeout.reason,
                ..NextTimeout::default()
            };
            match self.0.await_input(slice) {
                Err(ureq::Error::Timeout(_)) if rest > LOOK && !is_cancelled() => {}
                result => return result,
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn is_tls(&self) -> bool {
        self.0.is_tls()
    }
}
