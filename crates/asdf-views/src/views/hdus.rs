//! `hdus/`: the header/data units of a FITS file with an ASDF file in it. Each has its header as a text
//! `NAME.hdr`, with a line for each card; an image and a binary table also have their data as `NAME.npy`, and
//! `NAME.mask.npy` if numbers of them mean no value.

use std::sync::Arc;

use asdf_file::asdf::arrays::{Masked, file_of, file_of_mask, npy_content, own_mask};
use asdf_file::asdf::in_fits::FitsFile;
use asdf_file::asdf::view::{AsdfFile, Directory, View};
use asdf_file::container::{Defect, Severity};
use asdf_file::folder::path_dir::{Item, Items, PathDir};
use asdf_file::folder::shared_path::SharedPath;
use asdf_file::folder::{File, Node};
use seekable::error::{Error, Result};

/// The directory `hdus/`.
#[derive(Debug)]
pub(crate) struct Hdus;

/// A file of the directory, of the HDU with this number.
#[derive(Clone, Copy, Debug)]
enum HduEntry {
    Header(usize),
    Array(usize),
    Mask(usize),
}

/// The files of the directory.
struct Entries(Items<HduEntry>);

impl View for Hdus {
    fn name(&self) -> &'static str {
        "hdus"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        file.fits.as_ref()?;
        // A header is read when its file is looked up.
        Some(Directory { file: file.clone(), find: dir, is_slow: |file| file.source.is_slow() }.node())
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        let hdus = file.fits.iter().flat_map(|fits| fits.hdus.iter().enumerate().map(move |hdu| (fits, hdu)));
        let mut notes = Vec::new();
        for (fits, (number, hdu)) in hdus {
            let what = match &hdu.array {
                Err(why) => format!("hdus/ leaves out the data of {}: {why}", fits.file_name(number)),
                Ok(Some(array)) if !array.left_out.is_empty() => format!(
                    "hdus/ leaves out columns of {} that are of variable length, or empty: {}",
                    fits.file_name(number),
                    array.left_out.join(", ")
                ),
                Ok(_) => continue,
            };
            notes.push(Defect { severity: Severity::Note, offset: 0, block: None, what });
        }
        notes
    }
}

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<HduEntry>> {
    let Entries(items) =
        file.computed.get_or_compute(|| Entries(file.fits.as_ref().map(entries).unwrap_or_default()));
    let file = file.clone();
    Ok(PathDir::new(items, move |entry| Ok(Node::File(file_of_entry(&file, *entry)?))))
}

fn entries(fits: &FitsFile) -> Items<HduEntry> {
    let mut items = Vec::new();
    let root = SharedPath::default();
    for (number, hdu) in fits.hdus.iter().enumerate() {
        let name = fits.file_name(number);
        items.push(Item { dir: root.clone(), file: format!("{name}.hdr"), what: HduEntry::Header(number) });
        if matches!(hdu.array, Ok(Some(_))) && !fits.is_asdf(number) {
            items.push(Item {
                dir: root.clone(),
                file: format!("{name}.npy"),
                what: HduEntry::Array(number),
            });
            if fits.as_ndarray(number).as_ref().and_then(own_mask).is_some() {
                let file = format!("{name}.mask.npy");
                items.push(Item { dir: root.clone(), file, what: HduEntry::Mask(number) });
            }
        }
    }
    Items::new(items)
}

fn file_of_entry(file: &Arc<AsdfFile>, entry: HduEntry) -> Result<File> {
    let missing = || Error::damaged("the FITS file has no such extension");
    let fits = file.fits.as_ref().ok_or_else(missing)?;
    Ok(match entry {
        HduEntry::Header(number) => File::of(fits.header_text(number)),
        HduEntry::Array(number) => match fits.as_ndarray(number) {
            Some(array) => file_of(file, &array, npy_content),
            None => File::unreadable(missing()),
        },
        HduEntry::Mask(number) => {
            let array = fits.as_ndarray(number).ok_or_else(missing)?;
            let by = own_mask(&array).ok_or_else(missing)?;
            file_of_mask(file, &Masked { of: Arc::new(array), by }, npy_content)
        }
    })
}
