//! Reading through real mounts: blocks of every codec, seek tables, damage and limits.
//!
//! Needs root, `/dev/fuse` and the package acl. If one is missing, tests fail.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod access;
mod acl;
mod adapter;
mod arrays_folder;
mod blocks_yaml;
mod bloscpack_folder;
mod broken;
mod catalog_of_servers;
mod changed_on_servers;
mod check_of_servers;
mod damaged_blocks;
mod deadlines;
mod elsewhere;
mod external_arrays;
mod gsd_folder;
mod hanging;
mod in_fits;
mod interrupted;
mod large;
mod limits;
mod listed;
mod listing_memory;
mod local_arrays;
mod local_folders;
mod local_tables;
mod logins;
mod mapped_by_python;
mod meanwhile;
mod memory;
mod named_by_trees;
mod on_servers;
mod over_http;
mod pages;
mod picture_costs;
mod rare;
mod same_second;
mod seek_tables;
mod tls;
mod unlisted;
mod verify;
mod window;

use common::mount::Sources;

/// Where the modules that also run in [`over_http`] have their sources.
const SOURCES: Sources = Sources::Local;
