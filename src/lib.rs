//! The program `asdf-mount`, as `main.rs`, the tests and the benches call it. Rust programs use the crate `asdf-access`.

mod check;
#[doc(hidden)]
pub mod cli;
mod daemon;
mod exit;
#[doc(hidden)]
pub mod fuse;
mod log;
mod look;
#[doc(hidden)]
pub mod mounted;
mod overlay;
mod progress;
mod text_diff;
#[doc(hidden)]
pub mod vfs;
#[doc(hidden)]
pub mod view;
