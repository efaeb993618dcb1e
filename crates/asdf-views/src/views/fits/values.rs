//! Reads parts of world coordinates: numbers, tags, keys.

use asdf_file::asdf::ndarray;
use asdf_file::asdf::ndarray::{Datatype, Ndarray, Scalar};
use asdf_tree::yaml::scalar::{self, Type};
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

/// Maximum number of numbers in a grid.
const MAX_GRID: usize = 1024;

/// The tag prefix of models.
const MODEL: &str = "tag:stsci.edu:asdf/transform/";
const QUANTITY: &str = "tag:stsci.edu:asdf/unit/quantity-1.";

/// Keys of any model that do not change its mapping.
const OF_ANY_MODEL: [&str; 8] =
    ["direction", "name", "inputs", "outputs", "inverse", "bounding_box", "fixed", "bounds"];

/// Returns the name of a model from its tag, such as `gnomonic`.
pub(super) fn model(value: &TreeNode) -> Option<&str> {
    let (name, _) = value.target().tag.as_deref()?.strip_prefix(MODEL)?.rsplit_once('-')?;
    Some(name)
}

/// True if a model has only the keys `own` and keys that do not change its mapping.
pub(super) fn has_only(value: &TreeNode, own: &[&str]) -> bool {
    let NodeContent::Mapping(entries) = &value.target().node else { return false };
    let is_known = |key: &str| OF_ANY_MODEL.contains(&key) || own.contains(&key);
    entries.iter().all(|(key, _)| key.text().is_some_and(is_known))
}

/// Returns a parameter of a model: the value itself, or the value of a quantity in one of these units.
pub(super) fn parameter<'v>(value: &'v TreeNode, units: &[&str]) -> Option<&'v TreeNode> {
    if has_tag(value, QUANTITY).is_none() {
        return Some(value);
    }
    let unit = written(value.get("unit")?)?;
    value.get("value").filter(|_| units.contains(&unit))
}

/// Numbers in the tree or in a block.
#[derive(Debug)]
pub(super) enum Numbers {
    Written(Vec<f64>),
    InBlock(Box<Ndarray>),
}

/// Returns `Some` if the tag begins with `start`.
pub(super) fn has_tag(value: &TreeNode, start: &str) -> Option<()> {
    value.target().tag.as_deref().filter(|tag| tag.starts_with(start)).map(|_| ())
}

impl Numbers {
    /// Reads `count` numbers from a list, a list of lists, or an array of numbers of 64 bits.
    pub(super) fn read(value: &TreeNode, count: usize) -> Option<Self> {
        let tag = value.target().tag.as_deref();
        let data = match tag.filter(|tag| ndarray::is_tag(tag)) {
            Some(tag) => match Ndarray::read(tag, value).ok()? {
                array @ Ndarray { source: ndarray::Source::Block(_), .. } => {
                    let size =
                        array.shape.as_ref()?.dimensions.iter().try_fold(1_u64, |n, len| n.checked_mul(*len));
                    return (size == Some(count as u64)).then(|| Self::InBlock(Box::new(array)));
                }
                // A type of lower precision would round the written numbers.
                Ndarray {
                    source: ndarray::Source::Inline(_),
                    datatype: None | Some(Datatype::Scalar(Scalar::Float64 | Scalar::Int64)),
                    ..
                } => value.get(ndarray::INLINE_KEY).unwrap_or(value),
                _ => return None,
            },
            None => value,
        };
        let mut numbers = Vec::new();
        for item in data.items()? {
            match item.items() {
                Some(row) => numbers.extend(row.iter().map(number).collect::<Option<Vec<_>>>()?),
                None => numbers.push(number(item)?),
            }
        }
        (numbers.len() == count).then_some(Self::Written(numbers))
    }

    /// Returns zeros in place of the numbers.
    pub(super) fn placeholder(&self) -> Vec<f64> {
        let count = match self {
            Self::Written(numbers) => numbers.len(),
            Self::InBlock(array) => {
                let lens = array.shape.iter().flat_map(|shape| &shape.dimensions);
                lens.product::<u64>().min(MAX_GRID as u64) as usize
            }
        };
        vec![0.0; count]
    }

    /// Reads the numbers of a list or of a matrix, with the lengths of its axes.
    pub(super) fn read_grid(value: &TreeNode) -> Option<(Self, Vec<usize>)> {
        let written = value.get(ndarray::INLINE_KEY).unwrap_or(value);
        let lengths: Vec<usize> = match written.items() {
            Some(rows) => match rows.first()?.items() {
                Some(row) => vec![rows.len(), row.len()],
                None => vec![rows.len()],
            },
            None => {
                let tag = value.target().tag.as_deref().filter(|tag| ndarray::is_tag(tag))?;
                let shape = Ndarray::read(tag, value).ok()?.shape?;
                shape.dimensions.iter().map(|len| usize::try_from(*len).ok()).collect::<Option<_>>()?
            }
        };
        let count = lengths.iter().try_fold(1_usize, |count, len| count.checked_mul(*len))?;
        let is_grid = matches!(lengths.len(), 1 | 2) && (1..=MAX_GRID).contains(&count);
        is_grid.then_some(())?;
        Some((Self::read(value, count)?, lengths))
    }
}

/// Returns the number of a scalar.
pub(super) fn number(value: &TreeNode) -> Option<f64> {
    let NodeContent::Scalar { text, .. } = &value.target().node else { return None };
    match value.scalar_type()? {
        Type::Int => scalar::integer(text).map(|integer| integer as f64),
        Type::Float => scalar::float(text),
        _ => None,
    }
}

/// Returns the text of a scalar, whatever its tag.
pub(super) fn written(value: &TreeNode) -> Option<&str> {
    match &value.target().node {
        NodeContent::Scalar { text, .. } => Some(text),
        _ => None,
    }
}
