//! The node `fits/fits` of the 2014 standard: a FITS file described by the tree.
//!
//! Each header/data unit (HDU) has a `header`, a list of cards `[keyword, value, comment]`, and `data`: an array or
//! a table. Cards that describe the layout of the data are generated from the data, whatever the tree says.
//! All other cards are copied from the tree, in their order.

use std::sync::Arc;

use asdf_file::asdf::arrays::{ArrayPart, Masked, MaskedBy};
use asdf_file::asdf::ndarray::{self, Datatype, Mask, Ndarray, Source};
use asdf_file::asdf::units;
use asdf_tree::limits::{MAX_CHAIN, MAX_MADE, MAX_SEARCHED};
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::scalar::{self, Type};
use asdf_tree::yaml::survey::leaves::is_complex;
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use super::card::{self, Cards};
use super::required::{Must, Reading};
use super::table::{ArrayColumn, Table};
use super::{blank, image, sliced};

/// Prefixes of the node's tag: the standard's, and asdf-astropy's.
const TAGS: [&str; 2] = ["tag:stsci.edu:asdf/fits/fits-", "tag:astropy.org:astropy/fits/fits-"];
/// Prefix of the tag of time differences.
const TIME_DELTA: &str = "tag:astropy.org:astropy/time/timedelta-1.";
const OLD_TAG: &str = "tag:stsci.edu:asdf/0.1.0/fits/fits";

/// True for the resolved tag of a FITS file in the tree.
pub(super) fn is_tag(tag: &str) -> bool {
    tag == OLD_TAG || TAGS.iter().any(|known| tag.starts_with(known))
}

/// Prefixes of the tags of tables.
const TABLES: [&str; 3] = [
    "tag:astropy.org:astropy/table/table-1.",
    "tag:stsci.edu:asdf/core/table-1.",
    "tag:stsci.edu:asdf/table/table-1.",
];

/// True for the resolved tag of a table.
pub(super) fn is_table_tag(tag: &str) -> bool {
    TABLES.iter().any(|known| tag.starts_with(known))
}

/// A FITS file described by the tree.
#[derive(Debug)]
pub(crate) struct Document {
    pub(super) hdus: Vec<Hdu>,
    /// Approximate size in memory, in bytes.
    pub(super) size: usize,
}

/// A header/data unit (HDU).
#[derive(Debug)]
pub(super) struct Hdu {
    /// Keywords of cards that are generated from the data, and the comments of these cards.
    pub(super) comments: Vec<(String, String)>,
    /// The cards after the generated ones.
    pub(super) cards: Cards,
    /// The `BITPIX` of a header without data.
    pub(super) bitpix: i128,
    /// The value of `EXTEND` in the tree.
    pub(super) extend: Option<bool>,
    /// The value of `BLANK` in the tree.
    pub(super) blank: Option<i128>,
    pub(super) data: Data,
    /// Place of `data` if the keys of the array stand beside it, as in the example of the 2014 standard.
    bare: Option<Mark>,
}

/// The data of an HDU.
#[derive(Debug)]
pub(super) enum Data {
    None,
    Image(Box<Ndarray>, Option<Box<Masked>>),
    Table(Table),
}

impl Document {
    /// Reads a node.
    ///
    /// # Errors
    /// The reason why the node is no FITS file.
    pub(super) fn read(node: &TreeNode) -> Reading<Self> {
        let hdus = match &node.target().node {
            NodeContent::Sequence(hdus, _) if !hdus.is_empty() => hdus,
            NodeContent::Sequence(..) => return Err("it has no header".to_owned()),
            NodeContent::LargeSequence(_) | NodeContent::Unknown => return Err(TOO_LARGE.to_owned()),
            _ => return Err("it is not a list of headers and data".to_owned()),
        };
        // Aliases can turn a short text into a large file.
        let mut read = Vec::new();
        let mut size = 0;
        for (n, hdu) in hdus.iter().enumerate() {
            let hdu = Hdu::read(hdu).map_err(|why| format!("in its header {n}, {why}"))?;
            size += hdu.size();
            if size > MAX_MADE {
                return Err(TOO_LARGE.to_owned());
            }
            read.push(hdu);
        }
        Ok(Self { hdus: read, size })
    }

    /// Describes a table of the tree as a FITS file.
    pub(super) fn of_table(table: Table) -> Reading<Self> {
        let data = Data::Table(table);
        let mut cards = Cards::default();
        for (keyword, value) in Fixed::of(&data).0 {
            if let Some(value) = value.as_card() {
                cards.add(&keyword, value, "")?;
            }
        }
        let hdu = Hdu { comments: Vec::new(), cards, bitpix: 8, extend: None, blank: None, data, bare: None };
        let size = hdu.size();
        Ok(Self { hdus: vec![hdu], size })
    }

    /// True if the file is a table of the tree, not one that the tree describes card by card.
    pub(super) fn is_table(&self) -> bool {
        matches!(&self.hdus[..], [Hdu { data: Data::Table(_), .. }])
    }

    /// Returns the arrays of all HDUs, in the order of the data.
    pub(super) fn arrays(&self) -> Vec<&Ndarray> {
        self.hdus.iter().flat_map(|hdu| hdu.data.arrays()).collect()
    }

    /// Returns the arrays and masks of all HDUs, in the order of the data.
    pub(super) fn parts(&self) -> Vec<ArrayPart<'_>> {
        let mut parts = Vec::new();
        for hdu in &self.hdus {
            match &hdu.data {
                Data::None => {}
                Data::Image(array, masked) => {
                    parts.push(ArrayPart::Elements(array));
                    parts.extend(masked.as_deref().map(ArrayPart::Mask));
                }
                Data::Table(table) => parts.extend(table.parts()),
            }
        }
        parts
    }

    /// Returns the arrays whose keys stand beside a `data` that is only a tag, each with the place of
    /// the tag.
    pub(super) fn bare(&self) -> Vec<(Mark, Ndarray)> {
        let bare = self.hdus.iter().filter_map(|hdu| Some((hdu.bare?, hdu.data.arrays())));
        bare.filter_map(|(place, arrays)| Some((place, (*arrays.first()?).clone()))).collect()
    }
}

const TOO_LARGE: &str = "it is too large: it has more nodes, or longer headers, than are read";

impl Hdu {
    /// Returns a header without data. If the image of the header is elsewhere, the header has no cards.
    pub(super) fn without_data(&self) -> Self {
        let has_data = !matches!(self.data, Data::None);
        let cards = if has_data { Cards::default() } else { self.cards.clone() };
        let comments = if has_data { Vec::new() } else { self.comments.clone() };
        Self { comments, cards, bitpix: 8, extend: Some(true), blank: None, data: Data::None, bare: None }
    }

    /// Returns the HDU of a part of the image, whose first pixel is `corner`.
    pub(super) fn part(&self, corner: &[u64]) -> Self {
        let data = match &self.data {
            Data::Image(array, masked) => Data::Image(array.clone(), masked.clone()),
            Data::None | Data::Table(_) => Data::None,
        };
        let cards = sliced::of_part(&self.cards, corner);
        let Self { bitpix, extend, blank, .. } = *self;
        Self { comments: self.comments.clone(), cards, bitpix, extend, blank, data, bare: None }
    }

    fn read(hdu: &TreeNode) -> Reading<Self> {
        if !hdu.is_whole() {
            return Err(TOO_LARGE.to_owned());
        }
        let data = Data::read(hdu)?;
        let bare = Data::is_bare(hdu);
        let fixed = Fixed::of(&data);
        let comments = Vec::new();
        let cards = Cards::default();
        let mut read = Self { comments, cards, bitpix: 8, extend: None, blank: None, data, bare };
        let header = hdu.get("header").ok_or("there is no \"header\"")?;
        let NodeContent::Sequence(listed, _) = &header.target().node else {
            return Err(if header.is_whole() {
                "the \"header\" is not a list of cards".to_owned()
            } else {
                TOO_LARGE.to_owned()
            });
        };
        let mut written = vec![false; fixed.0.len()];
        for card in listed {
            read.take(card, &fixed, &mut written)?;
            if read.cards.0.len() > MAX_MADE {
                return Err(TOO_LARGE.to_owned());
            }
        }
        for ((keyword, value), is_written) in fixed.0.iter().zip(written) {
            if !is_written && let Some(value) = value.as_card() {
                read.cards.add(keyword, value, "")?;
            }
        }
        Ok(read)
    }

    /// Adds a card of the tree. `written` marks the cards in `fixed` that the tree has contained so far.
    fn take(&mut self, card: &TreeNode, fixed: &Fixed, written: &mut [bool]) -> Reading<()> {
        if !card.is_whole() {
            return Err(TOO_LARGE.to_owned());
        }
        let parts = card.items().filter(|parts| parts.len() <= 3);
        let parts = parts.ok_or("a card is not a list of keyword, value and comment")?;
        let text_of = |n: usize| match parts.get(n).map(|part| (part.text(), part.scalar_type())) {
            None | Some((_, Some(Type::Null))) => Ok(String::new()),
            Some((Some(text), _)) => Ok(text.to_owned()),
            // A keyword or comment that looks like a number or a date is taken as it is written.
            Some((None, Some(_))) => Ok(parts.get(n).and_then(plain_text).unwrap_or_default()),
            Some((None, None)) => Err("a keyword or a comment is not a text".to_owned()),
        };
        let keyword = text_of(0)?;
        let comment = text_of(2)?;
        let upper = keyword.trim_end().to_ascii_uppercase();
        if upper == "BITPIX" {
            let bitpix = parts.get(1).and_then(TreeNode::integer);
            self.bitpix = bitpix.filter(|bits| [8, 16, 32, 64, -32, -64].contains(bits)).unwrap_or(8);
        }
        if upper == "EXTEND" {
            let spelled = parts.get(1).and_then(plain_text);
            self.extend = spelled.and_then(|text| scalar::boolean(&text)).or(self.extend);
        }
        if upper == "BLANK" {
            let blank = parts.get(1).and_then(TreeNode::integer);
            self.blank = blank.filter(|blank| self.data.can_have(*blank)).or(self.blank);
        }
        if is_made(&upper) {
            self.take_made(upper, parts.get(1), comment);
            return Ok(());
        }
        if let Some(at) = fixed.0.iter().position(|(known, _)| *known == upper) {
            if !std::mem::replace(&mut written[at], true) {
                let value = parts.get(1).map_or(card::Value::Undefined, |part| part_value(part));
                if let Some(value) = fixed.0[at].1.kept_or_own(value).as_card() {
                    self.cards.add(&upper, value, &comment)?;
                }
            }
            return Ok(());
        }
        if fixed.drops(&upper, &self.data) {
            return Ok(());
        }
        let value = parts.get(1).map(|value| readable(value, &upper)).transpose()?;
        self.cards.add(&keyword, value.unwrap_or(card::Value::Undefined), &comment)
    }

    /// Keeps the comment of the first card with this keyword. The card itself is generated from the data.
    fn take_made(&mut self, keyword: String, value: Option<&TreeNode>, comment: String) {
        let is_first = !self.comments.iter().any(|(known, _)| *known == keyword);
        if !is_first || self.comments.len() >= MAX_COMMENTS {
            return;
        }
        let extension = self.data.extension();
        let is_other =
            keyword == "XTENSION" && value.and_then(TreeNode::text).map(str::trim_end) != Some(extension);
        let mut comment = match card::is_printable(&comment) {
            _ if is_other => image::usual_comment(extension).to_owned(),
            true => comment,
            false => String::new(),
        };
        // A card has 80 characters.
        comment.truncate(80);
        self.comments.push((keyword, comment));
    }

    /// Returns the approximate size in memory, in bytes.
    fn size(&self) -> usize {
        let columns = match &self.data {
            Data::Table(table) => table.size().columns,
            _ => 1,
        };
        self.cards.0.len() + self.comments.len() * 128 + columns * 512 + 1024
    }

    /// Returns the comment of a card that is generated from the data.
    pub(super) fn comment(&self, keyword: &str) -> String {
        match self.comments.iter().find(|(known, _)| known == keyword) {
            Some((_, comment)) => comment.clone(),
            None if keyword == "XTENSION" => image::usual_comment(self.data.extension()).to_owned(),
            None => image::usual_comment(keyword).to_owned(),
        }
    }
}

/// Maximum number of comments that are kept. No header has as many generated cards.
const MAX_COMMENTS: usize = 1024;

/// Returns the text of a scalar as it is written.
fn plain_text(value: &TreeNode) -> Option<String> {
    match &value.target().node {
        NodeContent::Scalar { text, .. } => Some(text.to_string()),
        _ => None,
    }
}

fn part_value(part: &TreeNode) -> card::Value<'_> {
    match (&part.target().node, part.scalar_type()) {
        (NodeContent::Scalar { text, .. }, Some(kind)) => {
            value_of(kind, text).unwrap_or(card::Value::Undefined)
        }
        _ => card::Value::Undefined,
    }
}

/// Returns the value of the card with this keyword, or the reason why no card can hold it.
pub(super) fn readable<'v>(value: &'v TreeNode, keyword: &str) -> Reading<card::Value<'v>> {
    let keyword = keyword.escape_debug();
    let target = value.target();
    let (NodeContent::Scalar { text, .. }, Some(kind)) = (&target.node, value.scalar_type()) else {
        return Err(format!("the value of {keyword} is too large, or not a scalar"));
    };
    let found = match kind {
        Type::Timestamp => Some(card::Value::Text(text)),
        Type::Other if is_complex(target.tag.as_deref()) => {
            ndarray::complex(&ndarray::with_j(text)).map(|(re, im)| card::Value::Complex(re, im))
        }
        Type::Other | Type::Binary => {
            return Err(format!("the value of {keyword} is of a type that no card can hold"));
        }
        kind => value_of(kind, text),
    };
    found.ok_or_else(|| format!("the value of {keyword} can't be read"))
}

/// Converts a scalar of this type to the value of a card.
fn value_of(kind: Type, text: &str) -> Option<card::Value<'_>> {
    Some(match kind {
        Type::Null => card::Value::Undefined,
        Type::Bool => card::Value::Bool(scalar::boolean(text)?),
        Type::Int => card::Value::Int(scalar::integer(text)?),
        Type::Float => card::Value::Float(scalar::float(text)?),
        _ => card::Value::Text(text),
    })
}

/// True for cards that describe how the data of an image are stored.
pub(super) fn is_generated(keyword: &str) -> bool {
    is_made(keyword)
        || matches!(
            keyword,
            "BSCALE" | "BZERO" | "BLANK" | "CHECKSUM" | "DATASUM" | "GROUPS" | "END" | "CONTINUE" | "INHERIT"
        )
}

/// True for cards at the start of a header that are generated from the data.
fn is_made(keyword: &str) -> bool {
    let is_axis = keyword.strip_prefix("NAXIS").is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
    is_axis
        || matches!(keyword, "SIMPLE" | "XTENSION" | "BITPIX" | "PCOUNT" | "GCOUNT" | "TFIELDS" | "EXTEND")
}

/// Cards that are determined by the data and may stand anywhere in the header.
struct Fixed(Vec<(String, Must)>);

impl Fixed {
    fn of(data: &Data) -> Self {
        match data {
            Data::None => Self(Vec::new()),
            Data::Image(array, _) => {
                let zero = match array.datatype {
                    Some(Datatype::Scalar(scalar)) => image::stored(scalar).and_then(|stored| stored.zero),
                    _ => None,
                };
                let cards =
                    |zero| vec![("BSCALE".to_owned(), Must::Int(1)), ("BZERO".to_owned(), Must::Int(zero))];
                Self(zero.map_or_else(Vec::new, cards))
            }
            Data::Table(table) => Self(table.cards()),
        }
    }

    /// True if a card of the tree must be left out because it may be wrong for the data.
    fn drops(&self, keyword: &str, data: &Data) -> bool {
        let is_numbered = |prefix: &str| {
            let number = keyword.strip_prefix(prefix);
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let of_columns = ["TFORM", "TTYPE", "TDIM", "TZERO", "TSCAL", "TBCOL"].into_iter().any(is_numbered);
        match keyword {
            // Checksums would require all data to be read before the header.
            "CHECKSUM" | "DATASUM" | "GROUPS" | "THEAP" | "END" => true,
            // The arrays of the tree hold physical values, which need no scaling.
            "BSCALE" | "BZERO" => true,
            "BLANK" => match data {
                Data::Image(array, masked) => {
                    masked.is_some()
                        || !self.0.is_empty()
                        || !matches!(array.datatype, Some(Datatype::Scalar(scalar)) if image::is_integer(scalar))
                }
                _ => true,
            },
            _ => of_columns,
        }
    }
}

impl Data {
    /// Returns the arrays of the HDU, in their order.
    fn arrays(&self) -> Vec<&Ndarray> {
        match self {
            Self::None => Vec::new(),
            Self::Image(array, _) => vec![array],
            Self::Table(table) => table.arrays(),
        }
    }

    /// True if an integer can be the `BLANK` of an image.
    fn can_have(&self, blank: i128) -> bool {
        let Self::Image(array, _) = self else { return false };
        let Some(Datatype::Scalar(scalar)) = array.datatype else { return false };
        let range = scalar.range().filter(|_| image::is_integer(scalar));
        range.is_some_and(|(least, greatest)| (least..=greatest).contains(&blank))
    }

    /// Returns the `XTENSION` of the HDU if it is not the first.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::None | Self::Image(..) => "IMAGE",
            Self::Table(_) => "BINTABLE",
        }
    }

    fn read(hdu: &TreeNode) -> Reading<Self> {
        let Some(data) = hdu.get("data") else { return Ok(Self::None) };
        let tag = data.target().tag.as_deref();
        if let (None, Some(Type::Null)) = (tag, data.scalar_type()) {
            return Ok(Self::None);
        }
        if !data.is_whole() && tag.is_none_or(|tag| !ndarray::is_tag(tag)) {
            return Err(TOO_LARGE.to_owned());
        }
        match tag {
            Some(tag) if ndarray::is_tag(tag) => match Self::is_bare(hdu) {
                Some(_) => Self::of_array(tag, &without_data(hdu)),
                None => Self::of_array(tag, data),
            },
            _ => Ok(Self::Table(Table::read(data)?)),
        }
    }

    /// Returns the place of `data` if it is only a tag. The example printed in the 2014 standard has the keys
    /// of the array beside `data` instead of in it.
    fn is_bare(hdu: &TreeNode) -> Option<Mark> {
        let data = hdu.get("data")?;
        matches!(&data.target().node, NodeContent::Scalar { text, .. } if text.is_empty())
            .then_some(data.place)
    }

    fn of_array(tag: &str, node: &TreeNode) -> Reading<Self> {
        let array = read_array(tag, node)?;
        let by = mask_of(node, &array);
        match &array.datatype {
            Some(Datatype::Structured(_)) => Ok(Self::Table(Table::of_records(array, by)?)),
            Some(Datatype::Unknown) => Err("its array has too many fields".to_owned()),
            Some(Datatype::Scalar(scalar)) if image::stored(*scalar).is_none() => {
                Err("its array has a type that FITS images do not support".to_owned())
            }
            _ if array.shape.as_ref().is_some_and(|shape| image::dimensions(shape) == 0) => {
                Err("its array has no dimensions".to_owned())
            }
            _ => {
                let by = by.or(match array.mask {
                    Mask::Value(_, number) => number.map(MaskedBy::Number),
                    _ => None,
                });
                let masked = by.map(|by| Box::new(Masked { of: Arc::new(array.clone()), by }));
                Ok(Self::Image(Box::new(array), masked))
            }
        }
    }
}

/// Returns the mapping with the keys of the array alone, without `header` and `data`.
fn without_data(hdu: &TreeNode) -> TreeNode {
    let NodeContent::Mapping(entries) = &hdu.target().node else { return hdu.clone() };
    let is_of_array =
        |(key, _): &&(TreeNode, TreeNode)| key.text().is_some_and(|key| key != "data" && key != "header");
    let entries = entries.iter().filter(is_of_array).cloned().collect();
    TreeNode { place: hdu.place, tag: None, node: NodeContent::Mapping(entries), leaves: None }
}

/// Reads an array and completes its type and shape.
fn read_array(tag: &str, node: &TreeNode) -> Reading<Ndarray> {
    let read = Ndarray::read(tag, node).map_err(|fault| fault.what);
    let mut array = read.or_else(|why| with_masked_fields(tag, node).ok_or(why))?;
    match &array.source {
        Source::Block(_)
        | Source::External(_)
        | Source::Hdu(_)
        | Source::Elsewhere(_)
        | Source::Chunked(_) => {}
        Source::Inline(inline) if inline.has_aliases() => {
            return Err("an array in the tree contains aliases".to_owned());
        }
        Source::Inline(_) => array.infer_inline()?,
    }
    Ok(array)
}

/// Reads a structured array with a mask for each of its fields. The schema of asdf has no such masks, its reader has.
fn with_masked_fields(tag: &str, node: &TreeNode) -> Option<Ndarray> {
    let (array, None) = Ndarray::read_leniently(tag, node).ok()? else { return None };
    let is_structured = matches!(array.datatype, Some(Datatype::Structured(_)));
    (is_structured && mask_of(node, &array).is_some()).then_some(array)
}

impl ArrayColumn {
    /// Reads a column of a table: its name, unit and array. A column without a name of its own, such as a
    /// quantity, gets `name`, which is from the table's list of names. A node with several arrays, such as
    /// coordinates, is several columns, with the keys of the arrays after the name.
    pub(super) fn read(column: &TreeNode, name: Option<&str>) -> Reading<Vec<Self>> {
        let name = column.get("name").and_then(TreeNode::text).or(name).unwrap_or_default();
        let mut search = ColumnSearch::default();
        search.look_at(column, None);
        let is_one = search.arrays.len() == 1;
        let mut columns = Vec::with_capacity(search.arrays.len());
        for (below, unit, tag, node) in search.arrays {
            let name = if is_one || below.is_empty() { name.to_owned() } else { format!("{name}.{below}") };
            let array = read_array(tag, node)?;
            let by = mask_of(node, &array);
            columns.push(Self::new(&name, unit, array, by)?);
        }
        if columns.is_empty() { Err("a column has no array".to_owned()) } else { Ok(columns) }
    }
}

/// A search for the arrays of a column.
#[derive(Default)]
struct ColumnSearch<'n> {
    /// The keys that lead to the current node.
    keys: Vec<&'n str>,
    /// The arrays: their keys, joined by dots, their units, their tags and their nodes.
    arrays: Vec<(String, Option<String>, &'n str, &'n TreeNode)>,
    /// Number of nodes visited. Aliases can make it far larger than the number of nodes in the text.
    visited: usize,
}

impl<'n> ColumnSearch<'n> {
    /// `unit` is that of the nodes around a node.
    fn look_at(&mut self, node: &'n TreeNode, unit: Option<&str>) {
        self.visited += 1;
        let target = node.target();
        let tag = target.tag.as_deref().unwrap_or_default();
        if ndarray::is_tag(tag) {
            // The array of a quantity or of a column is named by the node around it.
            let telling: Vec<&str> =
                self.keys.iter().copied().filter(|key| !matches!(*key, "value" | "data")).collect();
            self.arrays.push((telling.join("."), unit.map(str::to_owned), tag, node));
            return;
        }
        let NodeContent::Mapping(entries) = &target.node else { return };
        // A time difference is written as days.
        let own = if tag.starts_with(TIME_DELTA) { Some("d".to_owned()) } else { units::of(target) };
        let unit = own.as_deref().or(unit);
        for (key, below) in entries {
            if self.keys.len() >= MAX_CHAIN || self.visited >= MAX_SEARCHED {
                break;
            }
            if let Some(key) = key.text() {
                self.keys.push(key);
                self.look_at(below, unit);
                self.keys.pop();
            }
        }
    }
}

/// Returns the mask of a column that is an array, or that its nulls are.
fn mask_of(data: &TreeNode, array: &Ndarray) -> Option<MaskedBy> {
    if let Source::Inline(inline) = &array.source
        && array.mask == Mask::None
        && inline.seen.as_deref().is_some_and(|seen| seen.nulls)
    {
        return Some(MaskedBy::Null);
    }
    let mask = data.get("mask").filter(|_| matches!(array.mask, Mask::Ndarray(_)))?;
    let tag = mask.target().tag.as_deref().filter(|tag| ndarray::is_tag(tag))?;
    let mask = read_array(tag, mask).ok()?;
    let (Some(of), Some(of_mask)) = (&array.datatype, &mask.datatype) else { return None };
    let is_fit = blank::has_values(of_mask, of) && blank::fits(array, &mask);
    is_fit.then(|| MaskedBy::Array(Arc::new(mask)))
}
