//! The facts of an observation, and where the trees of known products have them.
//!
//! The products are those of Roman and JWST (`meta.instrument.name`), of DKIST (its inventory) and sunpy (keywords of
//! FITS in lower case), and trees made by hand.

mod nearest;
mod shown;
mod summary;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use nearest::ImageFacts;
pub use shown::kind_of_tag;
use summary::FactStep;
pub use summary::FileSummary;

/// A fact of an observation.
#[derive(Debug)]
pub struct ProductFact {
    /// The name of the fact: `filter`.
    pub name: &'static str,
    /// The ends of the paths under which trees have the fact, without indices; earlier ones are preferred.
    pub paths: &'static [&'static str],
}

const fn fact(name: &'static str, paths: &'static [&'static str]) -> ProductFact {
    ProductFact { name, paths }
}

/// All facts.
pub const FACTS: &[ProductFact] = &[
    fact("product", &["meta.product_type", "meta.model_type", "model_type", "schema", "DATATYPE"]),
    fact("telescope", &["meta.telescope", "telescope", "TELESCOP", "telescop", "observatory"]),
    fact(
        "instrument",
        &[
            "meta.instrument.name",
            "instrument.name",
            "instrument",
            "INSTRUME",
            "instrume",
            "inventory.instrumentName",
        ],
    ),
    fact("detector", &["instrument.detector", "detector", "DETECTOR"]),
    fact(
        "filter",
        &[
            "instrument.optical_element",
            "instrument.filter",
            "optical_element",
            "filter",
            "FILTER",
            "FILTER1",
            "WAVELNTH",
            "wavelnth",
            "LINEWAV",
            "inventory.wavelengthMin",
        ],
    ),
    fact(
        "exposure",
        &[
            "exposure.exposure_time",
            "exposure_time",
            "exposure.effective_exposure_time",
            "EXPTIME",
            "exptime",
            "XPOSURE",
            "xposure",
            "exposure",
        ],
    ),
    fact(
        "date",
        &[
            "exposure.start_time",
            "observation.date_beg",
            "date_beg",
            "DATE-OBS",
            "DATE-BEG",
            "date-beg",
            "inventory.startTime",
            "date_obs",
            "date-obs",
            "observation.date",
            "file_date",
            "meta.date",
            "date",
        ],
    ),
    fact(
        "target",
        &[
            "target.catalog_name",
            "target.proposer_name",
            "target.name",
            "targname",
            "TARGNAME",
            "OBJECT",
            "object.name",
            "target",
            "object",
        ],
    ),
    fact("ra", &["wcsinfo.ra_ref", "pointing.ra_v1", "target.ra", "ra"]),
    fact("dec", &["wcsinfo.dec_ref", "pointing.dec_v1", "target.dec", "dec"]),
    fact("region", &["wcsinfo.s_region", "s_region"]),
    fact("software", &["application", "meta.calibration_software_version"]),
    fact("writer", &["asdf_library.name"]),
    fact("version", &["asdf_library.version"]),
    fact(
        "pipeline",
        &[
            "meta.calibration_software_name",
            "calibration_software_name",
            "CALVERS",
            "CAL_VER",
            "meta.sdf_software_version",
        ],
    ),
    fact(
        "pipeline_version",
        &["meta.calibration_software_version", "calibration_software_version", "CAL_VER", "CALVERS"],
    ),
    fact("reference_context", &["ref_file.crds.context", "ref_file.crds.context_used", "CRDS_CTX"]),
];

/// The paths of all facts by their last keys: the positions in [`FACTS`] and in the list of paths there.
static BY_KEY: LazyLock<HashMap<&str, Vec<(usize, usize)>>> = LazyLock::new(|| {
    let mut by_key: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    for (number, fact) in FACTS.iter().enumerate() {
        for (rank, path) in fact.paths.iter().enumerate() {
            by_key.entry(path.rsplit('.').next().unwrap_or(path)).or_default().push((number, rank));
        }
    }
    by_key
});

/// Returns the facts that may be at a path, by their positions in [`FACTS`], each with its rank among the paths of the
/// fact, 0 for the likeliest. The path begins at the root.
fn ranks(path: &[FactStep]) -> impl Iterator<Item = (usize, usize)> {
    let ends = path.last().and_then(|step| BY_KEY.get(step.key())).map_or(&[][..], Vec::as_slice);
    let mut last = None;
    ends.iter().copied().filter(move |(number, rank)| {
        // The first of several paths of a fact counts.
        let is_found = last != Some(*number) && is_end(FACTS[*number].paths[*rank], path);
        if is_found {
            last = Some(*number);
        }
        is_found
    })
}

/// Returns the position of the fact with this name.
pub fn position(name: &str) -> Option<usize> {
    FACTS.iter().position(|fact| fact.name == name)
}

impl ProductFact {
    /// False if the value at this path is something else: the number of an exposure, that of an HDU, or that of a day.
    fn may_be(&self, path: &[FactStep], value: &str) -> bool {
        let is_number = value.parse::<u64>().is_ok();
        match self.name {
            "exposure" => !(is_number && is_end("observation.exposure", path)),
            "target" => !(is_number && (is_end("target", path) || is_end("object", path))),
            // A modified Julian date, such as JWST's start of the exposure, beside which there is a date.
            "date" => is_number || value.parse::<f64>().is_err(),
            _ => true,
        }
    }
}

/// True if a dotted path is the end of `path`.
fn is_end(end: &str, path: &[FactStep]) -> bool {
    end.rsplit('.').zip(path.iter().rev()).all(|(one, other)| one == other.key())
        && end.split('.').count() <= path.len()
}

/// True if the text of a scalar says that the fact is not known.
pub fn is_unknown(text: &str) -> bool {
    matches!(text, "" | "null" | "~" | "None" | "?" | "UNKNOWN" | "-999999" | "-999999.0")
}

/// The names of the flags of Roman's and JWST's data quality, by their bits; empty for bits without a name.
const FLAGS: [&str; 32] = [
    "DO_NOT_USE",
    "SATURATED",
    "JUMP_DET",
    "DROPOUT",
    "",
    "PERSISTENCE",
    "AD_FLOOR",
    "",
    "UNRELIABLE_ERROR",
    "NON_SCIENCE",
    "DEAD",
    "HOT",
    "WARM",
    "LOW_QE",
    "",
    "TELEGRAPH",
    "NONLINEAR",
    "BAD_REF_PIXEL",
    "NO_FLAT_FIELD",
    "NO_GAIN_VALUE",
    "NO_LIN_CORR",
    "NO_SAT_CHECK",
    "UNRELIABLE_BIAS",
    "UNRELIABLE_DARK",
    "UNRELIABLE_SLOPE",
    "UNRELIABLE_FLAT",
    "",
    "",
    "",
    "",
    "OTHER_BAD_PIXEL",
    "REFERENCE_PIXEL",
];
/// The flags that only one of the two has.
const FLAGS_OF_ROMAN: [(usize, &str); 3] =
    [(4, "GW_AFFECTED_DATA"), (7, "OUTLIER"), (28, "UNRELIABLE_RESET")];
const FLAGS_OF_JWST: [(usize, &str); 7] = [
    (4, "OUTLIER"),
    (7, "CHARGELOSS"),
    (14, "RC"),
    (26, "OPEN"),
    (27, "ADJ_OPEN"),
    (28, "FLUX_ESTIMATED"),
    (29, "MSA_FAILED_OPEN"),
];

/// Returns the name of a flag in the data quality of a telescope; `None` if it is not known.
pub fn flag_name(telescope: &str, bit: usize) -> Option<&'static str> {
    let own: &[(usize, &str)] = match telescope.to_ascii_uppercase().as_str() {
        "ROMAN" => &FLAGS_OF_ROMAN,
        "JWST" => &FLAGS_OF_JWST,
        _ => return None,
    };
    let special = own.iter().find(|(number, _)| *number == bit).map(|(_, name)| *name);
    special.or_else(|| FLAGS.get(bit).copied()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_rank_of_its_end() {
        let rank_of = |name: &str, path: &str| {
            let path: Vec<_> = path.split('.').map(|key| FactStep::Key(key.to_owned())).collect();
            ranks(&path).find(|(number, _)| Some(*number) == position(name)).map(|(_, rank)| rank)
        };
        let rank = |path: &str| rank_of("filter", path);
        assert_eq!((rank_of("date", "roman.meta.date"), rank_of("date", "date")), (Some(11), Some(12)));
        assert_eq!(rank("roman.meta.instrument.optical_element"), Some(0));
        assert_eq!(rank("meta.instrument.filter"), Some(1));
        assert_eq!((rank("filter"), rank("map.meta.wavelnth")), (Some(3), Some(7)));
        assert_eq!(rank("filter.name"), None);
        assert_eq!(flag_name("Roman", 7), Some("OUTLIER"));
        assert_eq!((flag_name("JWST", 31), flag_name("JWST", 32)), (Some("REFERENCE_PIXEL"), None));
        assert_eq!((flag_name("", 0), flag_name("ROMAN", 14)), (None, None));
        assert!(is_unknown("-999999") && !is_unknown("F158"));
        let may_be = |name: &str, path: &str, value: &str| {
            let path: Vec<_> = path.split('.').map(|key| FactStep::Key(key.to_owned())).collect();
            FACTS[position(name).unwrap()].may_be(&path, value)
        };
        // The number of an exposure, and that of an HDU.
        assert!(
            !may_be("exposure", "meta.observation.exposure", "1") && !may_be("target", "data.target", "0")
        );
        assert!(may_be("exposure", "exposure", "1200.0") && may_be("target", "object", "M 51"));
        assert!(!may_be("date", "meta.exposure.start_time", "60000.5"));
        assert!(may_be("date", "meta.observation.date", "2023-02-25") && may_be("date", "date", "20230225"));
    }
}
