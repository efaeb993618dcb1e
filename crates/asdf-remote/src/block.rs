//! A block: what requests ask for and caches keep.

/// Length of a block; the last one of an object is shorter. Headers and random reads cost one block each.
pub(super) const BLOCK: u64 = 64 << 10;

/// Length of the first request for an object.
pub(super) const FIRST: u64 = 256 << 10;

/// The identity of a version of an object: a digest of address and version.
pub(super) type Key = [u8; 32];
