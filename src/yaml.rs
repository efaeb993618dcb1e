//! What we ask of YAML: events of a text (`yaml/event.rs`).

pub mod event;
