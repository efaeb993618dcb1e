//! The selection of views in the directory of a file (`-o views=`).

use std::ffi::OsStr;

use asdf_views::format::view_names;

/// True if the view of this name is a file beside `tree.yaml`.
pub fn is_file(name: &OsStr) -> bool {
    view_names().any(|known| known.contains('.') && name == known)
}

/// The views that are shown: those of a list, or all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownViews(Option<Vec<&'static str>>);

impl ShownViews {
    /// Selects only `tree.yaml` and `blocks/`.
    pub fn none() -> Self {
        Self(Some(Vec::new()))
    }

    /// Adds the view of this name, or all of them (`all`), or nothing (`none`); false if there is no such
    /// view.
    pub fn add(&mut self, name: &str) -> bool {
        let known = view_names().find(|known| *known == name);
        match (name, known) {
            ("all", _) => self.0 = None,
            ("none", _) => {}
            (_, Some(known)) => self.0.iter_mut().for_each(|shown| shown.push(known)),
            (_, None) => return false,
        }
        true
    }

    /// True if the view of this name is shown.
    pub fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|shown| shown.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_any_name_is_shown_unless_others_are_named() {
        let mut shown = ShownViews::none();
        assert!(!shown.has("arrays") && !shown.add("note.txt") && shown.add("arrays"));
        assert!(shown.has("arrays") && !shown.has("note.txt"));
        assert!(ShownViews::default().has("note.txt"));
    }
}
