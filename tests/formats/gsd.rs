//! GSD files: those of real writers against their truth, and crafted ones.

mod fixtures;
mod open;
