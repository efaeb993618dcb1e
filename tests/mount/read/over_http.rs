//! Tests of local mounts that run here with an HTTP server: each module mounts what its `super::SOURCES` says.
//!
//! Some modules are left out. They test access rights (`acl`, `local_arrays`), descriptors and sources in another
//! mount (`limits`, `hanging`), saves and changes by programs (`local_folders`, `meanwhile`), tables that `--index` or
//! a copy of the file made (`local_tables`), mount by themselves (`damaged_blocks`), count system calls
//! (`picture_costs`), or have a server of their own.

#![allow(clippy::duplicate_mod)] // each module is here a second time

use common::mount::Sources;

const SOURCES: Sources = Sources::OverHttp;

#[path = "arrays_folder.rs"]
mod arrays_folder;
#[path = "external_arrays.rs"]
mod external_arrays;
#[path = "over_http_rare.rs"]
mod rare;
#[path = "window.rs"]
mod window;
