//! Short ranges far from each other: read with as few requests as the server allows, past the cache of blocks.
//!
//! A server that knows `multipart/byteranges` gets one request for many ranges. Many servers, buckets of S3 among them,
//! answer with a single range or with the whole object; they get a request for each range, several at a time. A HEAD request
//! shows what a server can do: of a whole object that nobody wants, megabytes would be under way before the connection is
//! closed.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use seekable::error::Result;
use seekable::sync::locked;

use super::transfer::receive_first;
use super::{Object, digest};
use crate::block::{BLOCK, Key};
use crate::client::{Ask, Condition, Reply};
use crate::multipart::{self, MAX_PART_HEADERS};
use crate::retry::{self, Answer, Failure, eio};
use crate::url::Address;
use crate::version::{self, ObjectVersion, changed, check_encoding};

/// Maximum number of ranges of a request. Apache ignores more than 200, and a header of nginx has at most 8 KiB.
const MAX_RANGES: usize = 100;
/// Maximum number of ranges that are requested one by one, at the same time, before it is known what the server can do.
/// Earlier ranges count half: a reader of several ranges will probably ask for more.
const MAX_SINGLE: usize = 6;
/// Maximum number of bytes of several ranges in a request.
const MAX_LEN: u64 = 2 << 20;
/// Maximum distance of ranges that are requested as one, because the headers of a part are as long.
const MAX_GAP: u64 = 256;
/// Maximum number of servers that are remembered to send one range at a time.
const MAX_SERVERS: usize = 1024;

/// The bytes from an offset on.
type Piece = (u64, Vec<u8>);

impl Object {
    /// Returns the bytes in some ranges, which are ascending.
    pub(crate) fn read_ranges(self: &Arc<Self>, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        let size = self.size();
        let there = |range: &Range<u64>| range.start.min(size)..range.end.min(size);
        let ranges: Vec<_> = ranges.iter().map(there).collect();
        let mut missing: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().filter(|range| !range.is_empty() && self.cached(range).is_none()) {
            match missing.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(MAX_GAP) => {
                    last.end = last.end.max(range.end)
                }
                _ => missing.push(range.clone()),
            }
        }
        let pieces = self.request_ranges(&missing)?;
        let bytes_of = |range: &Range<u64>| {
            let len = range.end.saturating_sub(range.start) as usize;
            let within = |(first, bytes): &Piece| {
                let skip = usize::try_from(range.start.checked_sub(*first)?).ok()?;
                bytes.get(skip..)?.get(..len).map(<[u8]>::to_vec)
            };
            let arrived = if len == 0 { Some(Vec::new()) } else { pieces.iter().find_map(within) };
            // Without room in the cache, its blocks may have been evicted meanwhile.
            arrived.or_else(|| self.cached(range)).map_or_else(|| self.read_range(range, len), Ok)
        };
        ranges.iter().map(bytes_of).collect()
    }

    /// Reads a range through the cache of blocks.
    fn read_range(self: &Arc<Self>, range: &Range<u64>, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_at(range.end, range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the bytes in a range, if their blocks are in memory.
    fn cached(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            let held = self.in_memory(block)?;
            let from = range.start.saturating_sub(start) as usize;
            let to = (range.end - start).min(held.len() as u64) as usize;
            bytes.extend_from_slice(held.get(from..to)?);
        }
        Some(bytes)
    }

    /// Requests ranges, several with each request if the server can do that.
    fn request_ranges(self: &Arc<Self>, ranges: &[Range<u64>]) -> Result<Vec<Piece>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        if self.is_changed() {
            return Err(changed());
        }
        let mut pieces = Vec::new();
        let earlier = self.ranges.fetch_add(ranges.len(), Ordering::Relaxed);
        if ranges.len() > 1 && earlier / 2 + ranges.len() > MAX_SINGLE && self.sends_several().is_none() {
            self.probe(ranges)?;
        }
        if ranges.len() > 1 && self.sends_several() == Some(true) {
            pieces.extend(self.answers(&groups(ranges))?);
        }
        let is_missing = |range: &&Range<u64>| {
            let holds = |(first, bytes): &Piece| {
                *first <= range.start && first.saturating_add(bytes.len() as u64) >= range.end
            };
            !pieces.iter().any(holds)
        };
        let missing: Vec<_> = ranges.iter().filter(is_missing).map(std::slice::from_ref).collect();
        pieces.extend(self.answers(&missing)?);
        Ok(pieces)
    }

    /// True if the server sends several ranges in a reply; `None` if that is not known.
    fn sends_several(&self) -> Option<bool> {
        match &self.address {
            Address::Web(url) => locked(&self.shared.send_several).get(&url.origin()).copied(),
            Address::S3 { .. } => Some(false),
        }
    }

    fn note_sends_several(&self, sends_several: bool) {
        let Address::Web(url) = &self.address else { return };
        let mut servers = locked(&self.shared.send_several);
        if servers.len() >= MAX_SERVERS {
            servers.clear();
        }
        servers.insert(url.origin(), sends_several);
    }

    /// Asks the server whether it sends several ranges in a reply. If that can't be found out, it does not.
    fn probe(self: &Arc<Self>, ranges: &[Range<u64>]) -> Result<()> {
        let deadline = self.deadline();
        let object = self.clone();
        let asked: Vec<_> = ranges.iter().take(2).map(|range| (range.start, range.end - 1)).collect();
        let sends_several = self.shared.schedule.answer(deadline, move || {
            let Ok(reply) = object.shared.client.get(&object.ask(&asked, true), deadline) else {
                return Ok(false);
            };
            let kind = version::text(&reply.headers, "content-type").unwrap_or_default();
            Ok(reply.status == 206 && multipart::boundary(kind).is_some())
        })?;
        self.note_sends_several(sends_several);
        Ok(())
    }

    /// Sends a request for each group of ranges, all at once.
    fn answers(self: &Arc<Self>, groups: &[&[Range<u64>]]) -> Result<Vec<Piece>> {
        let deadline = self.deadline();
        let requests: Vec<_> = groups
            .iter()
            .map(|group| {
                let object = self.clone();
                let group = group.to_vec();
                move || {
                    let counters = &object.shared.client.counters;
                    retry::until(deadline, counters, || object.ask_for_ranges(&group, deadline))
                }
            })
            .collect();
        let mut pieces = Vec::new();
        for answer in self.shared.schedule.answers(deadline, requests)? {
            match answer {
                Ok(arrived) => pieces.extend(arrived),
                Err(error) => {
                    if error.errno() == libc::ESTALE && !self.is_changed() {
                        self.note_change(None);
                    }
                    return Err(error);
                }
            }
        }
        Ok(pieces)
    }

    /// Returns a request for ranges of this version of the object.
    fn ask<'a>(&'a self, ranges: &'a [(u64, u64)], is_head: bool) -> Ask<'a> {
        Ask {
            address: &self.address,
            trust: self.trust,
            query: None,
            ranges,
            condition: self.version.strong().map(Condition::Is),
            is_head,
        }
    }

    /// Sends a request for some ranges. If the server can't send several, the result may lack some.
    fn ask_for_ranges(&self, ranges: &[Range<u64>], deadline: Instant) -> Answer<Vec<Piece>> {
        self.prove(deadline)?;
        let asked: Vec<_> = ranges.iter().map(|range| (range.start, range.end - 1)).collect();
        let ask = self.ask(&asked, false);
        let is_several = ranges.len() > 1;
        let mut reply = match self.shared.client.get(&ask, deadline) {
            Err(failure) if is_several && !failure.is_transient && failure.error.errno() == libc::EIO => {
                self.note_sends_several(false);
                return Ok(Vec::new());
            }
            reply => reply?,
        };
        if !is_several {
            let [range] = ranges else { return Ok(Vec::new()) };
            return self.receive_range(reply, range);
        }
        let kind = version::text(&reply.headers, "content-type").unwrap_or_default();
        let Some(boundary) = multipart::boundary(kind).map(str::to_owned).filter(|_| reply.status == 206)
        else {
            // The reply may be the whole object, so it is not read.
            self.note_sends_several(false);
            return Ok(Vec::new());
        };
        check_encoding(&reply.headers)?;
        let len: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let body = reply.body.read_all(len as usize + (ranges.len() + 1) * MAX_PART_HEADERS)?;
        let Some(parts) = multipart::parts(&body, &boundary) else {
            return Err(eio("the server's reply to a request for several ranges is not valid").into());
        };
        let mut pieces = Vec::new();
        for part in parts {
            if !ObjectVersion::of(&reply.headers, part.total).is_same(&self.version) {
                return Err(changed().into());
            }
            pieces.push((part.first, body.get(part.bytes).unwrap_or_default().to_vec()));
        }
        self.note_sends_several(true);
        self.note_arrival();
        Ok(pieces)
    }

    /// Receives the reply to a request for one range.
    fn receive_range(&self, mut reply: Reply, range: &Range<u64>) -> Answer<Vec<Piece>> {
        let last = self.check_part(&reply, range.start, range.end)?;
        if last + 1 != range.end {
            return Err(Failure::transient("the server sent a part of the range that was asked for"));
        }
        let bytes = receive_first(&mut reply, Some(last - range.start))?;
        self.note_arrival();
        Ok(vec![(range.start, bytes)])
    }

    fn note_arrival(&self) {
        self.confirm();
        *locked(&self.arrived) = Instant::now();
    }

    /// Returns the bytes that an earlier mount kept under a name for this version.
    pub(crate) fn kept(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk()?;
        let key = self.key_of_facts(name);
        let first = disk.get(&key, 0, BLOCK as usize)?;
        let len = usize::try_from(u64::from_le_bytes(*first.first_chunk()?)).ok()?;
        let mut bytes = first;
        bytes.drain(..8);
        let mut block = 1;
        while bytes.len() < len {
            bytes.extend(disk.get(&key, block, BLOCK as usize)?);
            block += 1;
        }
        bytes.truncate(len);
        Some(bytes)
    }

    /// Keeps bytes under a name for this version, in whole blocks that begin with the length.
    pub(crate) fn keep_facts(&self, name: &str, bytes: &[u8]) {
        let Some(disk) = self.disk() else { return };
        let mut record = (bytes.len() as u64).to_le_bytes().to_vec();
        record.extend_from_slice(bytes);
        record.resize(record.len().next_multiple_of(BLOCK as usize), 0);
        let key = self.key_of_facts(name);
        for (block, part) in (0..).zip(record.chunks(BLOCK as usize)) {
            disk.put(&key, block, part);
        }
    }

    fn key_of_facts(&self, name: &str) -> Key {
        digest([&self.kept_key, name.as_bytes()])
    }
}

/// Divides ranges into those of one request each.
fn groups(ranges: &[Range<u64>]) -> Vec<&[Range<u64>]> {
    let mut groups = Vec::new();
    let mut rest = ranges;
    while !rest.is_empty() {
        let mut len = 0_u64;
        let fits = |range: &&Range<u64>| {
            len = len.saturating_add(range.end - range.start);
            len <= MAX_LEN
        };
        let count = rest.iter().take(MAX_RANGES).take_while(fits).count().max(1);
        let (group, others) = rest.split_at(count);
        groups.push(group);
        rest = others;
    }
    groups
}
