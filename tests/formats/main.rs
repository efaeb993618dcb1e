//! Containers opened through the library, without a mount, compared with the tests' builder.

#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "../common/counted.rs"]
mod counted;

mod blosc2;
mod bloscpack;
mod check;
mod chunked;
mod damage;
mod gsd;
mod in_fits;
mod layouts;
mod open;
mod products;
mod repack;
mod repair;
mod requests;
mod shown;
mod unreadable;
