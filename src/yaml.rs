//! What we ask of YAML: the events of a text (`yaml/event.rs`), what a scalar is taken for
//! (`yaml/scalar.rs`), and a survey of a whole text in one pass (`yaml/survey.rs`).

pub mod event;
pub mod scalar;
pub mod survey;
