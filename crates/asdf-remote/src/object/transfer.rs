//! Requests to the server, and the checks of its replies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use seekable::error::{Error, Result};
use seekable::sync::locked;
use seekable::workers::caller;
use sha2::{Digest, Sha256};

use super::{FirstBytes, Object, kept_version, of};
use crate::block::{BLOCK, FIRST, Key};
use crate::cancel;
use crate::client::{Ask, Condition, Reply, Trust};
use crate::fetch::Fetch;
use crate::proof::{Proof, Sent};
use crate::retry::{self, Answer, Failure, eio};
use crate::shared::RemoteState;
use crate::url::Address;
use crate::version::{self, ContentRange, ObjectVersion, changed, check_encoding};

/// Asks for the version of an object on the server, with its first byte. If it is not the `known` version, the
/// request may fail with ESTALE.
pub(crate) fn ask_version(
    shared: &Arc<RemoteState>,
    address: &Address,
    trust: Trust,
    known: Option<&ObjectVersion>,
) -> Result<ObjectVersion> {
    let deadline = caller::deadline(shared.options.read_timeout);
    let own = shared.clone();
    let at = address.clone();
    let etag = known.and_then(ObjectVersion::strong).map(str::to_owned);
    let asked = shared.schedule.answer(deadline, move || {
        let condition = etag.as_deref().map(Condition::Is);
        let ask = Ask { address: &at, trust, query: None, ranges: &[(0, 0)], condition, is_head: false };
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
pub(crate) enum Opened {
    Object(OpenedObject),
    /// The server redirected to the address with a slash at its end.
    Directory,
}

/// An object by the reply to the first request.
#[derive(Debug)]
pub(crate) struct OpenedObject {
    pub(crate) version: ObjectVersion,
    pub(crate) proof: Proof,
    pub(crate) sent: Sent,
    /// The first bytes; none if the first block is on disk.
    pub(crate) bytes: Vec<u8>,
}

impl Opened {
    /// Sends the first request: the first [`FIRST`] bytes, unless the server still has the version that is on disk. The
    /// size comes with it.
    pub(crate) fn ask(shared: &Arc<RemoteState>, address: &Address, trust: Trust) -> Result<Self> {
        let deadline = caller::deadline(shared.options.read_timeout);
        let own = shared.clone();
        let at = address.clone();
        let opened = shared.schedule.answer(deadline, move || Self::send(&own, &at, trust, deadline));
        opened.map_err(of(address))
    }

    fn send(shared: &RemoteState, address: &Address, trust: Trust, deadline: Instant) -> Result<Self> {
        let kept = kept_version(shared, address);
        let condition = kept.as_ref().and_then(ObjectVersion::strong).map(Condition::IsNot);
        let ask = Ask { address, trust, query: None, ranges: &[(0, FIRST - 1)], condition, is_head: false };
        retry::until(deadline, &shared.client.counters, || {
            let mut reply = shared.client.get(&ask, deadline)?;
            let sent = Sent::of(&reply);
            if let (304, Some(version)) = (reply.status, kept.clone()) {
                let proof = Proof::Proven;
                return Ok(Self::Object(OpenedObject { version, proof, sent, bytes: Vec::new() }));
            }
            if reply.status == 200 && reply.url.path.ends_with('/') && !address.is_directory() {
                return Ok(Self::Directory);
            }
            let (version, last) = check_first(&reply)?;
            let bytes = receive_first(&mut reply, last)?;
            let proof = Proof::of(address, &version, &sent);
            Ok(Self::Object(OpenedObject { version, proof, sent, bytes }))
        })
    }
}

/// Receives a body of `last + 1` bytes.
pub(super) fn receive_first(reply: &mut Reply, last: Option<u64>) -> Answer<Vec<u8>> {
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
        check_end(reply)?;
    }
    Ok(bytes)
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
                let received = retry::until(deadline, counters, || {
                    self.prove(deadline)?;
                    self.receive(fetch, &mut begun, deadline)
                });
                match received {
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

    /// Waits until the version is proven, so that bytes that are received from now on belong to the first ones.
    pub(super) fn prove(&self, deadline: Instant) -> Answer<()> {
        let mut unproven = locked(&self.unproven);
        while let Some(known) = &*unproven {
            let pause = known.last.until_proven(&self.version);
            if Instant::now().checked_add(pause).is_none_or(|then| then >= deadline) {
                return Err(too_recent().into());
            }
            cancel::sleep(pause);
            if cancel::is_cancelled() {
                return Err(retry::interrupted().into());
            }
            self.compare_first_bytes(&mut unproven, deadline)?;
        }
        Ok(())
    }

    /// Asks for the first bytes again, and returns the version if they are the same.
    pub(super) fn ask_first_bytes(self: &Arc<Self>) -> Result<ObjectVersion> {
        let deadline = caller::deadline(self.shared.options.read_timeout);
        let own = self.clone();
        let asked = self.shared.schedule.answer(deadline, move || {
            let counters = &own.shared.client.counters;
            let mut unproven = locked(&own.unproven);
            retry::until(deadline, counters, || own.compare_first_bytes(&mut unproven, deadline))?;
            Ok(own.version.clone())
        });
        asked.map_err(of(&self.address))
    }

    /// Asks for the first bytes again, and fails with ESTALE if they are others. If the reply is proven, so is
    /// the version.
    fn compare_first_bytes(&self, unproven: &mut Option<FirstBytes>, deadline: Instant) -> Answer<()> {
        let Some(known) = unproven else { return Ok(()) };
        let ask = Ask {
            address: &self.address,
            trust: self.trust,
            query: None,
            ranges: &[(0, known.len as u64 - 1)],
            condition: self.version.strong().map(Condition::Is),
            is_head: false,
        };
        let mut reply = self.shared.client.get(&ask, deadline)?;
        let sent = Sent::of(&reply);
        let (version, last) = check_first(&reply)?;
        let bytes = receive_first(&mut reply, last)?;
        let digest: Key = Sha256::digest(&bytes).into();
        if !version.is_same(&self.version) || digest != known.digest {
            self.note_change(None);
            return Err(changed().into());
        }
        known.last = sent;
        let proof = Proof::of(&self.address, &version, &sent);
        if proof == Proof::Proven || sent.is_well_after(&known.first) {
            *unproven = None;
            let is_durable = proof == Proof::Proven && version.strong().is_some();
            self.is_durable.store(is_durable, Ordering::Relaxed);
            self.keep_first(bytes);
        }
        Ok(())
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
                ranges: &[(at, end - 1)],
                condition: self.version.strong().map(Condition::Is),
                is_head: false,
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
    pub(super) fn check_part(&self, reply: &Reply, at: u64, end: u64) -> Answer<u64> {
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
        return if is_empty {
            Ok((ObjectVersion::of(&reply.headers, 0), None))
        } else {
            Err(eio("the server refuses a range within the object (HTTP 416)").into())
        };
    }
    let (range, version) = check_partial(reply)?;
    match range {
        ContentRange::Part { first: 0, last, .. } if last < FIRST => {
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

/// Returns the error for an object whose version can't be told from others.
fn too_recent() -> Error {
    eio(
        "the object has just been changed, and by the server's clock no time has passed since: another change \
         could not be told",
    )
}

fn short() -> Failure {
    Failure::transient("the server sent fewer bytes than it announced")
}
