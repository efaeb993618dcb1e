//! JSON pointers to nodes.

use std::collections::HashMap;

use asdf_tree::yaml::document::Id;
use seekable::error::Result;

use super::Tree;
use super::members::is_in_merge;
use super::nulls::Nulls;

/// Maximum number of nodes whose pointers have a known length.
const MAX_LENS: usize = 1 << 18;
/// Maximum total length of the pointers that are remembered, in bytes.
const MAX_PATHS: usize = 1 << 20;

/// JSON pointers. Aliases may lead to the same deep nodes many times, so the last pointers are remembered.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    /// The lengths of pointers, or the reasons why there are none.
    lens: HashMap<Id, std::result::Result<usize, &'static str>>,
    /// The pointers to collections.
    paths: HashMap<Id, Box<str>>,
    paths_len: usize,
}

impl Pointers {
    /// Returns the JSON pointer to a node, without `#`. The inner error is the reason why an alias of the node is null:
    /// the node is not shown, or the pointer is longer than `max_len` bytes.
    pub(super) fn get(
        &mut self,
        tree: &Tree,
        node: Id,
        max_len: usize,
    ) -> Result<std::result::Result<String, &'static str>> {
        let Tree { document, members } = tree;
        if is_in_merge(document, node) {
            return Ok(Err(Nulls::IN_MERGE));
        }
        match self.len(tree, node)? {
            Ok(len) if len <= max_len => {}
            Ok(_) => return Ok(Err(Nulls::TOO_LONG)),
            Err(why) => return Ok(Err(why)),
        }
        let Some(parent) = document.parent(node) else { return Ok(Ok(String::new())) };
        let mut pointer = self.path(tree, parent)?;
        if let Ok(Some(step)) = members.step(document, node)? {
            pointer.push('/');
            pointer.push_str(&step);
        }
        Ok(Ok(pointer))
    }

    fn len(&mut self, tree: &Tree, node: Id) -> Result<std::result::Result<usize, &'static str>> {
        if self.lens.len() > MAX_LENS {
            self.lens.clear();
        }
        let mut unknown = Vec::new();
        let mut found = Ok(0);
        let mut next = Some(node);
        while let Some(id) = next {
            if let Some(known) = self.lens.get(&id) {
                found = *known;
                break;
            }
            unknown.push(id);
            next = tree.document.parent(id);
        }
        for id in unknown.into_iter().rev() {
            let step = tree.members.step(&tree.document, id)?;
            found = found.and_then(|len| Ok(len + step?.map_or(0, |step| step.len() + 1)));
            self.lens.insert(id, found);
        }
        Ok(found)
    }

    /// Returns the pointer to a collection that has one.
    fn path(&mut self, tree: &Tree, collection: Id) -> Result<String> {
        if let Some(path) = self.paths.get(&collection) {
            return Ok(path.to_string());
        }
        let mut steps = Vec::new();
        let mut next = Some(collection);
        while let Some(id) = next {
            steps.extend(tree.members.step(&tree.document, id)?.unwrap_or_default());
            next = tree.document.parent(id);
        }
        let mut path = String::new();
        for step in steps.iter().rev() {
            path.push('/');
            path.push_str(step);
        }
        if self.paths_len + path.len() > MAX_PATHS {
            self.paths.clear();
            self.paths_len = 0;
        }
        self.paths_len += path.len();
        self.paths.insert(collection, path.as_str().into());
        Ok(path)
    }
}
