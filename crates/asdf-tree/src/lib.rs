//! Reads and changes the trees of ASDF files, which are YAML texts.
//!
//! | module | responsibility | must not |
//! |---|---|---|
//! | [`yaml`] | the events of a text: from libyaml, or from our own reader for common YAML; the [document](yaml::document) that they make; scalars by the rules of Python asdf; [changes](yaml::assign) of a text that keep its comments | know ASDF |
//! | [`limits`] | what one tree may cost | |
//! | [`schema`] | whether the nodes of a tree fit the schemas of their tags | |
//! | [`product`] | where the trees of known products have instrument, filter, date and other facts | |
//!
//! ```
//! use asdf_tree::yaml::document::{Document, Kind};
//! use seekable::content::Text;
//!
//! # fn main() -> seekable::Result<()> {
//! let document = Document::read(&Text::new(*b"meta: {filter: V}\n"))?;
//! assert_eq!(document.root().map(|root| document.kind(root)), Some(Kind::Mapping));
//! # Ok(())
//! # }
//! ```
//!
//! Names of modules and types may change with each version of `asdf-mount`, for which the crate was written.

pub mod limits;
pub mod product;
pub mod schema;
pub mod yaml;
