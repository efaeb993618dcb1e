//! Arrays in other files, to which the tree refers.

use asdf_file::array::{self, Datatype, Scalar};
use seekable::error::{Kind, Result};

use super::Slot;
use super::arrays::{ArrayRow, Views, shape_of};
use super::html::{cut, escape};
use super::sample::{self, Budget};

/// Returns the cells of an array in another file, which is opened, unless it may be on a server.
pub(super) fn cells(views: &Views, row: &ArrayRow, budget: &mut Budget) -> Result<String> {
    let no_array = || {
        let mut row = row.clone();
        row.has_npy = false;
        row.reference("<td colspan=\"2\">no array</td>", "")
    };
    let unknown =
        |why: &str| row.reference(&format!("<td colspan=\"2\">{}</td>", escape(&cut(why, 100))), "");
    if !views.may_be_listed {
        return Ok(unknown(""));
    }
    let content = match views.content("arrays", &format!("{}.npy", row.path)) {
        Ok(Some(content)) => content,
        Ok(None) => return Ok(no_array()),
        Err(error) if error.kind() == Kind::Changed => return Err(error),
        Err(error) => return Ok(unknown(&error.message())),
    };
    let Some(array) = array::Array::of(&*content) else { return Ok(no_array()) };
    let datatype = match &array.datatype {
        Datatype::Record(fields) => format!("{} fields", fields.len()),
        Datatype::Scalar(Scalar::Ascii(_) | Scalar::Ucs4(_)) | Datatype::Other(_) => {
            cut(&array.datatype.descr(array.byteorder), 40)
        }
        number => number.to_string(),
    };
    let fits = views.content("fits", &format!("{}.fits", row.path));
    let mut row = row.clone();
    row.has_fits = matches!(fits, Ok(Some(_)));
    let shape = cut(&shape_of(&array.shape), 100);
    let type_and_shape = format!("<td>{}</td><td class=\"whole\">{}</td>", escape(&datatype), escape(&shape));
    let numbers = match sample::statistics(views, &row, budget) {
        Ok(numbers) => numbers,
        Err(error) => Slot::Statistics(row.clone()).unreadable(&error),
    };
    Ok(row.reference(&type_and_shape, &numbers))
}
