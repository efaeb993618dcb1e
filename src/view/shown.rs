//! Which of the views that a format offers are in the folder of a file (`-o views=`).

use std::ffi::OsStr;

/// The names of all views, of all formats, as they lie beside `tree.yaml` and `blocks/`.
pub const NAMES: [&str; 11] = [
    "arrays",
    "data.bin",
    "exploded",
    "fits",
    "imploded.asdf",
    "meta.json",
    "preview",
    "preview.png",
    "tables",
    "tree.json",
    "tree.tagged.json",
];

/// Whether the view of this name is a file beside `tree.yaml`.
pub fn is_file(name: &OsStr) -> bool {
    NAMES.iter().any(|known| known.contains('.') && name == *known)
}

/// The views that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownViews(Vec<&'static str>);

impl Default for ShownViews {
    fn default() -> Self {
        Self(NAMES.to_vec())
    }
}

impl ShownViews {
    /// Only `tree.yaml` and `blocks/`.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds the view of this name, or all of them (`all`), or nothing (`none`); whether there is such a view.
    pub fn add(&mut self, name: &str) -> bool {
        match (name, NAMES.into_iter().find(|known| *known == name)) {
            ("all", _) => *self = Self::default(),
            ("none", _) => {}
            (_, Some(known)) => self.0.push(known),
            (_, None) => return false,
        }
        true
    }

    /// Whether the view of this name is shown.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}
