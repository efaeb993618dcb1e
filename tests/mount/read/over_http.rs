//! Tests of local mounts that run here with an HTTP server: `Mounted` serves the sources of tests in this module.

#![allow(clippy::duplicate_mod)] // each module is here a second time

#[path = "arrays_folder.rs"]
mod arrays_folder;
#[path = "bloscpack_folder.rs"]
mod bloscpack_folder;
#[path = "broken.rs"]
mod broken;
#[path = "damaged_blocks.rs"]
mod damaged_blocks;
#[path = "gsd_folder.rs"]
mod gsd_folder;
#[path = "mapped_by_python.rs"]
mod mapped_by_python;
#[path = "pages.rs"]
mod pages;
