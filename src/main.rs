//! The `asdf-mount` program.

fn main() {}
