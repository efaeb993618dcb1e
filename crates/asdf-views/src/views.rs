//! The views of an ASDF file's tree, beside `arrays/`. Each module is a view, and imports no other view.
//!
//! | module | view |
//! |---|---|
//! | [`fits`], [`hdus`] | `fits/`, `hdus/` |
//! | [`tables`] | `tables/` |
//! | [`tree_json`] | `tree.json`, `tree.tagged.json`; their text is made by [`json`] |
//! | [`preview`] | `preview/`, `preview.png` |
//! | [`refs`] | `refs.json` |
//! | [`exploded`], [`imploded`] | the file with its blocks in files of their own, and as one file |
//! | [`same_paths`] | the paths of a view that has a file for each array |

pub mod exploded;
pub mod fits;
pub mod hdus;
pub mod imploded;
pub mod json;
pub mod preview;
pub mod refs;
pub mod same_paths;
pub mod tables;
pub mod tree_json;
