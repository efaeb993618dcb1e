//! Requests to the server, and the checks of its replies.

use std::sync::Arc;
use std::time::Instant;

use super::{Object, kept_version, of};
use crate::error::{Error, Result};
use crate::remote::block::BLOCK;
use crate::remote::client::{Ask, Condition, Reply, Trust};
use crate::remote::fetch::Fetch;
use crate::remote::retry::{self, Answer, Failure, eio};
use crate::remote::shared::RemoteState;
use crate::remote::url::Address;
use crate::remote::version::{self, ContentRange, ObjectVersion, changed, check_encoding};
use crate::workers::caller;

/// Asks for the version of an object on the server, with its first byte. If it is not the `known` version, the
/// request may fail with ESTALE.
pub(in crate::remote) fn ask_version(
    shared: &Arc<RemoteState>,
    address: &Address,
    trust: Trust,
    known: Option<&ObjectVersion>,
) -> Result<ObjectVersion> {
    let deadline = caller::deadline(shared.options.read_timeout);
    let (own, at) = (shared.clone(), address.clone());
    let etag = known.and_then(ObjectVersion::strong).map(str::to_owned);
    let asked = shared.schedule.answer(deadline, move || {
        let condition = etag.as_deref().map(Condition::Is);
        let ask = Ask { address: &at, trust, query: None, range: Some((0, 0)), condition };
        retry::until(deadline, &own.client.counters, || {
            let mut reply = own.client.get(&ask, deadline)?;
            let (version, _) = check_first(&reply)?;
            // The body is read so that the connection can be used again.
            let _ = reply.body.read_all(16);
            Ok(version)
        })
    });
    asked.map_err(of(address))
}

/// The result of the first request.
#[derive(Debug)]
pub(in crate::remote) enum Opened {
    /// An object, and its first bytes; no bytes if the first block is on disk.
    Object(ObjectVersion, Vec<u8>),
    /// The server redirected to the address with a slash at its end.
    Directory,
}

impl Opened {
    /// Sends the first request: the first block, unless the server still has the version that is on disk. The
    /// size comes with it.
    pub(in crate::remote) fn ask(shared: &Arc<RemoteState>, address: &Address, trust: Trust) -> Result<Self> {
        let deadline = caller::deadline(shared.options.read_timeout);
        let (own, at) = (shared.clone(), address.clone());
        let opened = shared.schedule.answer(deadline, move || Self::send(&own, &at, trust, deadline));
        opened.map_err(of(address))
    }

    fn send(shared: &RemoteState, address: &Address, trust: Trust, deadline: Instant) -> Result<Self> {
        let range = Some((0, BLOCK - 1));
        let kept = kept_version(shared, address);
        let condition = kept.as_ref().and_then(ObjectVersion::strong).map(Condition::IsNot);
        let ask = Ask { address, trust, query: None, range, condition };
        retry::until(deadline, &shared.client.counters, || {
            let mut reply = shared.client.get(&ask, deadline)?;
            if let (304, Some(kept)) = (reply.status, &kept) {
                return Ok(Self::Object(kept.clone(), Vec::new()));
            }
            if reply.status == 200 && reply.url.path.ends_with('/') && !address.is_directory() {
                return Ok(Self::Directory);
            }
            let (version, last) = check_first(&reply)?;
            let len = last.map_or(0, |last| last + 1) as usize;
            let mut bytes = vec![0; len];
            let mut filled = 0;
            while filled < len {
                match reply.body.read(&mut bytes[filled..])? {
                    0 => return Err(short()),
                    read => filled += read,
                }
            }
            if len > 0 {
                check_end(&mut reply)?;
            }
            Ok(Self::Object(version, bytes))
        })
    }
}

/// A block that is being received. A retry goes on after its last byte.
#[derive(Default)]
struct BegunBlock {
    bytes: Vec<u8>,
    filled: usize,
}

impl Object {
    /// Sends a request until its blocks have arrived, it fails for good, or its time is up.
    pub(super) fn run(self: &Arc<Self>, fetch: &Arc<Fetch>) {
        // Ends the request after a panic, too.
        let ending = Ending { object: self, fetch };
        let mut begun = BegunBlock::default();
        let counters = &self.shared.client.counters;
        let result = fetch.send(|| {
            loop {
                let arrived = fetch.arrived();
                let deadline = fetch.deadline();
                match retry::until(deadline, counters, || self.receive(fetch, &mut begun, deadline)) {
                    // A slow server has its time for each block.
                    Err(error)
                        if error.errno() == libc::EIO && fetch.arrived() > arrived && fetch.is_wanted() => {}
                    result => return result,
                }
            }
        });
        if result.as_ref().is_err_and(|error| error.errno() == libc::ESTALE) && !self.is_changed() {
            self.note_change(None);
        }
        // A reader that sees the end may send a request of its own.
        self.forget(fetch);
        fetch.end(result.map_err(of(&self.address)));
        drop(ending);
    }

    /// Receives the rest of a request, from the next byte of `begun` on.
    fn receive(&self, fetch: &Arc<Fetch>, begun: &mut BegunBlock, deadline: Instant) -> Answer<()> {
        let end = (fetch.blocks.end * BLOCK).min(self.size());
        loop {
            let at = (fetch.blocks.start + fetch.arrived()) * BLOCK + begun.filled as u64;
            if at >= end {
                return Ok(());
            }
            let ask = Ask {
                address: &self.address,
                trust: self.trust,
                query: None,
                range: Some((at, end - 1)),
                condition: self.version.strong().map(Condition::Is),
            };
            let mut reply = self.shared.client.get(&ask, deadline)?;
            let last = self.check_part(&reply, at, end)?;
            self.confirm();
            self.receive_part(fetch, begun, &mut reply, last + 1 - at)?;
            check_end(&mut reply)?;
        }
    }

    /// Receives `len` bytes into blocks.
    fn receive_part(
        &self,
        fetch: &Arc<Fetch>,
        begun: &mut BegunBlock,
        reply: &mut Reply,
        mut len: u64,
    ) -> Answer<()> {
        while len > 0 {
            let block_len = self.block_len(fetch.blocks.start + fetch.arrived());
            if begun.bytes.is_empty() {
                begun.bytes = self.buffer(block_len);
            }
            let wanted = ((block_len - begun.filled) as u64).min(len) as usize;
            match reply.body.read(&mut begun.bytes[begun.filled..][..wanted])? {
                0 => return Err(short()),
                read => {
                    begun.filled += read;
                    len -= read as u64;
                }
            }
            if begun.filled == block_len {
                self.arrive(fetch, std::mem::take(begun).bytes);
            }
        }
        Ok(())
    }

    /// Checks the reply to a range of this version; returns the offset of its last byte.
    fn check_part(&self, reply: &Reply, at: u64, end: u64) -> Answer<u64> {
        if reply.status == 416 {
            return Err(changed().into());
        }
        let (range, version) = check_partial(reply)?;
        if !version.is_same(&self.version) {
            return Err(changed().into());
        }
        match range {
            ContentRange::Part { first, last, .. } if first == at && last < end => {
                check_length(reply, last + 1 - first).map(|()| last)
            }
            _ => Err(another_range().into()),
        }
    }
}

/// A guard that ends a request when it is dropped.
struct Ending<'a> {
    object: &'a Object,
    fetch: &'a Arc<Fetch>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.object.forget(self.fetch);
        self.fetch.end(Err(eio("a request ended early")));
    }
}

/// Checks the reply to a range at offset 0; returns the version, and the offset of the last byte if the object
/// is not empty.
fn check_first(reply: &Reply) -> Answer<(ObjectVersion, Option<u64>)> {
    check_encoding(&reply.headers)?;
    let length = version::text(&reply.headers, "content-length");
    if reply.status == 200 && length == Some("0") {
        return Ok((ObjectVersion::of(&reply.headers, 0), None));
    }
    if reply.status == 416 {
        let range = version::text(&reply.headers, "content-range").and_then(ContentRange::parse);
        // Some servers do not tell the size of an empty object.
        let is_empty = matches!(range, Some(ContentRange::Beyond { total: 0 }) | None);
        return match is_empty {
            true => Ok((ObjectVersion::of(&reply.headers, 0), None)),
            false => Err(eio("the server refuses a range within the object (HTTP 416)").into()),
        };
    }
    let (range, version) = check_partial(reply)?;
    match range {
        ContentRange::Part { first: 0, last, .. } if last < BLOCK => {
            check_length(reply, last + 1).map(|()| (version, Some(last)))
        }
        _ => Err(another_range().into()),
    }
}

/// Checks that a reply is a part of an object, and returns the range and the object's version.
fn check_partial(reply: &Reply) -> Answer<(ContentRange, ObjectVersion)> {
    check_encoding(&reply.headers)?;
    if reply.status != 206 {
        let why = "the server does not support ranges (it answers HTTP 200 to a request for one)";
        return Err(eio(why).advise("download the file and mount the copy").into());
    }
    let range = version::text(&reply.headers, "content-range").and_then(ContentRange::parse);
    let Some(range @ ContentRange::Part { total, .. }) = range else {
        return Err(eio("the server's reply has no valid Content-Range with the size of the object").into());
    };
    Ok((range, ObjectVersion::of(&reply.headers, total)))
}

fn another_range() -> Error {
    eio("the server sends another range than was asked for")
}

/// Checks the `Content-Length` of a part, if there is one.
fn check_length(reply: &Reply, len: u64) -> Answer<()> {
    match version::text(&reply.headers, "content-length") {
        Some(text) if text.trim().parse() != Ok(len) => {
            Err(eio("the server's Content-Length and Content-Range contradict each other").into())
        }
        _ => Ok(()),
    }
}

/// Refuses a body that goes on after the announced bytes. A connection is used again once its body was read.
fn check_end(reply: &mut Reply) -> Answer<()> {
    match reply.body.read(&mut [0]) {
        Ok(1) => Err(eio("the server sends more bytes than it announced").into()),
        _ => Ok(()),
    }
}

fn short() -> Failure {
    Failure::transient("the server sent fewer bytes than it announced")
}
