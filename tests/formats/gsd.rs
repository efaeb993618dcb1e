//! GSD files: files of real writers compared with their truth, and crafted files.

mod chosen;
mod crafted;
mod million_frames;
mod model;
mod real_files;
mod rows;
mod series;
mod walked;
