//! Tests over HTTP that run only with `scripts/test --all`: they take longest, and test the same without a server.

use super::SOURCES;

#[path = "access.rs"]
mod access;
#[path = "blocks_yaml.rs"]
mod blocks_yaml;
#[path = "bloscpack_folder.rs"]
mod bloscpack_folder;
#[path = "broken.rs"]
mod broken;
#[path = "gsd_folder.rs"]
mod gsd_folder;
#[path = "mapped_by_python.rs"]
mod mapped_by_python;
#[path = "memory.rs"]
mod memory;
#[path = "pages.rs"]
mod pages;
#[path = "seek_tables.rs"]
mod seek_tables;
#[path = "verify.rs"]
mod verify;
