//! The facts about a tree that a check needs: its arrays, and the faults found by one survey.

use std::borrow::Cow;

use asdf_tree::limits::MAX_NOTES;
use asdf_tree::schema::{Schemas, Violation};
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::read::each_event_in;
use asdf_tree::yaml::survey::{
    self, Broken, PathId, Survey, TextSample, TextSurvey, Wanted, findings, nodes,
};
use seekable::content::Borrowed;

use super::{core_schemas, standard};
use crate::asdf::ndarray::{self, Ndarray, NodeFault};

/// The results of a survey.
#[derive(Debug)]
pub struct TreeFacts {
    /// The survey of the text's YAML.
    pub survey: TextSurvey,
    /// The survey of the nodes.
    pub nodes: Survey,
    /// The tree's ndarrays, in the order in which their nodes end.
    pub arrays: Vec<ArrayNode>,
    /// The faults in nodes of the standard's other types, with their paths.
    pub(super) unfit: Vec<(Option<PathId>, NodeFault)>,
    /// The nodes that do not fit the schemas of packages.
    pub(super) violations: Vec<Violation>,
}

/// An ndarray of a tree.
#[derive(Clone, Debug)]
pub struct ArrayNode {
    /// The array's path in the tree.
    pub path: Option<PathId>,
    /// The array's place in the text.
    pub place: Mark,
    /// The array, or the fault in it.
    pub array: Result<Ndarray, NodeFault>,
}

impl TreeFacts {
    /// Surveys a text.
    pub(super) fn of(
        text: &[u8],
        standard: Option<&str>,
        before: Option<&TextSample>,
        schemas: Option<&Schemas>,
    ) -> Result<Self, Box<Broken>> {
        let document = match survey::read(&Borrowed(text)) {
            // A text that is too large for a document is still YAML, but for the header line of 2014.
            Err(broken) if broken.too_large => {
                let mut yaml = Cow::Borrowed(text);
                if yaml.starts_with(b"%ASDF") {
                    yaml.to_mut()[0] = b'#';
                }
                each_event_in(&yaml, |_| Ok::<_, Box<Broken>>(true))?;
                return Err(broken);
            }
            document => document?,
        };
        let survey = findings::survey(&document, before);
        let mut arrays = Vec::new();
        let mut unfit = Vec::new();
        let wanted =
            |tag: &str| ndarray::is_tag(tag) || core_schemas::is_tag(tag) || standard::is_versioned(tag);
        let wanted = Wanted { tag: &wanted, root_keys: &core_schemas::ROOT_KEYS, ..ndarray::WANTED };
        let nodes = nodes::survey(&document, wanted, &mut |_, found| {
            let path = found.path;
            let value = found.value;
            let expected = found.tag.and_then(|tag| Some((tag, standard::expected(standard, tag)?)));
            if let Some((tag, expected)) = expected
                && unfit.len() < MAX_NOTES
            {
                let tag = tag.escape_debug();
                let what = format!(
                    "readers don't recognise {tag} in this file: its version of the standard has \
                             {expected}"
                );
                unfit.push((path, NodeFault { place: value.place, what }));
            }
            if let Some(tag) = found.tag.filter(|tag| ndarray::is_tag(tag)) {
                if !ndarray::is_known_tag(tag) && expected.is_none() && unfit.len() < MAX_NOTES {
                    let what =
                        format!("readers don't recognise this version of ndarray, {}", tag.escape_debug());
                    unfit.push((path, NodeFault { place: value.place, what }));
                }
                arrays.push(ArrayNode { path, place: value.place, array: Ndarray::read(tag, value) });
            }
            let tagged = found.tag.map_or(Ok(()), |tag| core_schemas::check(tag, value));
            let at_root = found.root_key.map_or(Ok(()), |key| core_schemas::check_root_key(key, value));
            if let Err(fault) = tagged.and(at_root)
                && unfit.len() < MAX_NOTES
            {
                unfit.push((path, fault));
            }
        })?;
        let violations = schemas.map_or_else(Vec::new, |schemas| schemas.check(&document).violations);
        Ok(Self { survey, nodes, arrays, unfit, violations })
    }
}
