//! What we ask of YAML: events of a text (`yaml/event.rs`).
