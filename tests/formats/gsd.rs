//! GSD files: those of real writers against their truth, and crafted ones.

mod chosen;
mod crafted;
mod million_frames;
mod model;
mod real_files;
mod rows;
mod series;
mod walked;
