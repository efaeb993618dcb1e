//! Decoded chunks under a byte budget, shared by all files of a mount.

/// Decoded chunks of all contents of a mount, the least recently used dropped first.
#[derive(Debug)]
pub struct Cache {
    budget: u64,
}

impl Cache {
    /// A cache that holds at most `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Self { budget }
    }

    /// Bytes that may be held.
    pub fn budget(&self) -> u64 {
        self.budget
    }
}
