//! The facts of each image of a tree: those of the nearest mapping around it.
//!
//! A fact belongs to the image, the array or the mapping with arrays that is nearest around it. A mapping `meta`, or
//! another one without arrays and without its own `meta`, is a part of the mapping that contains it. Nothing belongs to
//! what stands beside it.

use std::collections::{HashMap, HashSet};

use super::summary::{FactStep, MAX_PLACED_DEPTH, PlacedFact};
use super::{FACTS, FileSummary};

/// The key of a mapping about the mapping that contains it.
const META: &str = "meta";
/// The characters between words of a key.
const BETWEEN_WORDS: [char; 4] = ['_', '-', '.', ' '];

/// The facts of images.
#[derive(Debug)]
pub struct ImageFacts {
    /// The facts by the path of the node that they belong to.
    owners: HashMap<Vec<String>, [Option<OwnFact>; FACTS.len()]>,
    tag: Option<(Vec<String>, String)>,
}

/// A fact of a node.
#[derive(Clone, Debug)]
struct OwnFact {
    /// The position of its path in the list of [`FACTS`], and the number of mappings on the way to it. The least is the
    /// likeliest.
    rank: (usize, usize),
    /// `None` if equally likely mappings have different values.
    value: Option<String>,
}

impl ImageFacts {
    /// Finds the facts of each image. `arrays` are the paths of all arrays of the tree; `components` splits a key as
    /// these paths are split.
    pub fn new(
        summary: &FileSummary,
        arrays: impl Iterator<Item = Vec<String>>,
        components: &dyn Fn(&str) -> Vec<String>,
    ) -> Self {
        let mut nodes = Nodes::default();
        for array in arrays.filter(|array| array.len() <= MAX_PLACED_DEPTH) {
            nodes.add(&array);
        }
        for steps in &summary.arrays {
            nodes.add(&path_of(steps, components));
        }
        let mut owners: HashMap<Vec<String>, [Option<OwnFact>; FACTS.len()]> = HashMap::new();
        // If facts are left out, a fact of a parent might be taken for the lost one of an image.
        let placed = if summary.is_cut { &[][..] } else { &summary.placed[..] };
        for fact in placed {
            let (owner, distance) = nodes.owner(fact, components);
            let own = &mut owners.entry(owner).or_default()[fact.fact];
            let rank = (fact.rank, distance);
            match own {
                Some(known) if known.rank < rank => {}
                Some(known) if known.rank == rank => {
                    if known.value.as_ref() != Some(&fact.value) {
                        known.value = None;
                    }
                }
                _ => *own = Some(OwnFact { rank, value: Some(fact.value.clone()) }),
            }
        }
        let tag = summary.tag.as_ref().map(|(key, tag)| (components(key), tag.clone()));
        Self { owners, tag }
    }

    /// Returns the facts of the image at a path.
    pub fn of<S: AsRef<str>>(&self, path: &[S]) -> FileSummary {
        let path: Vec<String> = path.iter().map(|name| name.as_ref().to_owned()).collect();
        let mut facts = FileSummary::default();
        if path.len() > MAX_PLACED_DEPTH {
            return facts;
        }
        let mut is_known = [false; FACTS.len()];
        for len in (0..=path.len()).rev() {
            let Some(own) = path.get(..len).and_then(|around| self.owners.get(around)) else { continue };
            for (number, fact) in own.iter().enumerate() {
                let Some(fact) = fact.as_ref().filter(|_| !is_known[number]) else { continue };
                is_known[number] = true;
                facts.found[number] = fact.value.clone().map(|value| (fact.rank.0, value));
            }
        }
        if let Some((around, tag)) = &self.tag
            && path.starts_with(around)
        {
            facts.tag = Some((String::new(), tag.clone()));
        }
        facts
    }
}

/// The arrays of a tree, and all that contain them.
#[derive(Default)]
struct Nodes {
    paths: HashSet<Vec<String>>,
    /// The last components of these paths by the path of the parent.
    children: HashMap<Vec<String>, Vec<String>>,
}

impl Nodes {
    fn add(&mut self, array: &[String]) {
        for len in (1..=array.len()).rev() {
            if !self.paths.insert(array[..len].to_vec()) {
                break;
            }
            self.children.entry(array[..len - 1].to_vec()).or_default().push(array[len - 1].clone());
        }
    }

    /// Returns the path of the node that a fact belongs to, and the number of mappings on the way to the fact.
    fn owner(&self, fact: &PlacedFact, components: &dyn Fn(&str) -> Vec<String>) -> (Vec<String>, usize) {
        let steps = fact.mapping();
        let mut path = path_of(steps, components);
        let mut distance = 0;
        let mut is_of_meta = fact.path.get(steps.len()).is_some_and(|step| step.key() == META);
        for (n, step) in steps.iter().enumerate().rev() {
            let FactStep::Key(key) = step else { break };
            let len = path_of(&steps[..n], components).len();
            if key != META {
                if self.paths.contains(&path) {
                    break;
                }
                if let Some(described) = self.described_by(&path[..len], key) {
                    path.truncate(len);
                    path.push(described.to_owned());
                    break;
                }
                // A mapping with its own `meta` is a thing of its own, also if its image is not in the tree.
                if is_of_meta {
                    break;
                }
                distance += 1;
            }
            is_of_meta = key == META;
            path.truncate(len);
        }
        (path, distance)
    }

    /// Returns the name of the node that the mapping beside it is named after, such as `sky` of `sky_header`.
    fn described_by(&self, parent: &[String], key: &str) -> Option<&str> {
        let is_after = |name: &&String| {
            let rest = key.strip_prefix(name.as_str()).filter(|rest| rest.starts_with(BETWEEN_WORDS));
            let before = key.strip_suffix(name.as_str()).filter(|rest| rest.ends_with(BETWEEN_WORDS));
            !name.is_empty() && (rest.is_some() || before.is_some())
        };
        let named = self.children.get(parent)?.iter().filter(is_after);
        named.max_by_key(|name| name.len()).map(String::as_str)
    }
}

/// Returns the path that arrays below these steps have.
fn path_of(steps: &[FactStep], components: &dyn Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut path = Vec::new();
    for step in steps {
        match step {
            FactStep::Key(key) => path.extend(components(key)),
            FactStep::Item(number) => path.push(number.to_string()),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::ImageFacts;
    use crate::product::FileSummary;
    use crate::yaml::document::Document;
    use seekable::content::Text;

    /// Returns filter and exposure time of images, by their paths.
    fn facts(tree: &str, arrays: &[&str]) -> Vec<(Option<String>, Option<String>)> {
        let document = Document::read(&Text::new(tree.as_bytes().to_vec())).unwrap();
        let summary = FileSummary::of(&document);
        let split = |path: &&str| path.split('/').map(str::to_owned).collect::<Vec<String>>();
        let found = ImageFacts::new(&summary, arrays.iter().map(split), &|key| vec![key.to_owned()]);
        let of = |path: &&str| {
            let facts = found.of(&split(path));
            let get = |name: &str| facts.get(name).map(str::to_owned);
            (get("filter"), get("exposure"))
        };
        arrays.iter().map(of).collect()
    }

    #[test]
    fn an_image_has_the_facts_of_the_nearest_mapping() {
        for (tree, images) in [
            // Two products, one of which lacks a fact.
            (
                "sci: {meta: {filter: A, exptime: 1}, data: 0}\nsky: {meta: {filter: B}, data: 0}",
                &[("sci/data", "A", "1"), ("sky/data", "B", "")][..],
            ),
            // The parents of an image, but nothing beside it.
            (
                "filter: A\nsci: {data: 0}\nsky: {meta: {exptime: 2, filter: B}, data: 0}",
                &[("sci/data", "A", ""), ("sky/data", "B", "2")],
            ),
            ("sci: 0\nsky: {filter: B, data: 0}", &[("sci", "", ""), ("sky/data", "B", "")]),
            // Items of a sequence.
            (
                "all: [{filter: A, data: 0}, {meta: {exptime: 2}, data: 0}, {data: 0}]\nexptime: 9",
                &[("all/0/data", "A", "9"), ("all/1/data", "", "2"), ("all/2/data", "", "9")],
            ),
            // A mapping without arrays describes what contains it, and the better key counts.
            (
                "data: 0\nerr: 0\nobject: {filter: A}\nheader: {XPOSURE: 3, EXPTIME: 2}",
                &[("data", "A", "2"), ("err", "A", "2")],
            ),
            // Two such mappings contradict each other, unless one is nearer or named after the image.
            ("data: 0\none: {filter: A}\nother: {filter: B, exptime: 1}", &[("data", "", "1")]),
            ("data: 0\nmeta: {filter: A}\nother: {filter: B}", &[("data", "A", "")]),
            (
                "sci: 0\nsky: {data: 0}\nsci_header: {filter: A}\nheader-sky: {filter: B}",
                &[("sci", "A", ""), ("sky/data", "B", "")],
            ),
            // Arrays in the metadata make no image of them.
            (
                "sci: {meta: {filter: A, offsets: 0}, data: 0}\nsky: {data: 0}",
                &[("sci/data", "A", ""), ("sci/meta/offsets", "A", ""), ("sky/data", "", "")],
            ),
            // The image of a mapping may be unusable, or not there.
            (
                "sci: {data: 0}\nsky: {filter: B, data: !<tag:stsci.edu:asdf/core/ndarray-1.0.0> {source: 9}}",
                &[("sci/data", "", "")],
            ),
            (
                "sci: {data: 0}\nsky: {meta: {filter: B, exposure: {exposure_time: 2}}}",
                &[("sci/data", "", "")],
            ),
            // Aliases and merge keys.
            (
                "sci: {meta: &m {filter: A}, data: 0}\nerr: {meta: *m, data: 0}\nsky: {<<: *m, exptime: 2, data: 0}",
                &[("sci/data", "A", ""), ("err/data", "A", ""), ("sky/data", "A", "2")],
            ),
        ] {
            let paths: Vec<&str> = images.iter().map(|(path, ..)| *path).collect();
            let or_none = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let expected: Vec<_> =
                images.iter().map(|(_, filter, exposure)| (or_none(filter), or_none(exposure))).collect();
            assert_eq!(facts(tree, &paths), expected, "{tree}");
        }
    }

    #[test]
    fn images_have_no_facts_if_there_are_too_many() {
        let many: String = (0..20_000).map(|n| format!("a{n}: {{filter: F{n}, data: 0}}\n")).collect();
        assert_eq!(
            facts(&format!("filter: A\n{many}"), &["a7/data", "a19000/data"]),
            [(None, None), (None, None)]
        );
    }
}
