//! The facts of an observation, and where the trees of known products have them.
//!
//! The products are those of Roman and JWST (`meta.instrument.name`), of DKIST (its inventory) and sunpy (keywords of
//! FITS in lower case), and trees made by hand.

mod nearest;
mod summary;

use std::collections::HashSet;
use std::sync::LazyLock;

pub(crate) use nearest::ImageFacts;
pub(crate) use summary::FileSummary;

/// A fact of an observation.
#[derive(Debug)]
pub(crate) struct ProductFact {
    /// The name of the fact: `filter`.
    pub name: &'static str,
    /// The ends of the paths under which trees have the fact, without indices; earlier ones are preferred.
    pub paths: &'static [&'static str],
}

const fn fact(name: &'static str, paths: &'static [&'static str]) -> ProductFact {
    ProductFact { name, paths }
}

/// All facts.
pub(crate) const FACTS: &[ProductFact] = &[
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

/// The last keys of the paths of all facts.
static KEYS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let paths = FACTS.iter().flat_map(|fact| fact.paths);
    paths.map(|path| path.rsplit('.').next().unwrap_or(path)).collect()
});

/// True if the value of a key may be a fact.
fn is_key(key: &str) -> bool {
    KEYS.contains(key)
}

/// Returns the position of the fact with this name.
pub(crate) fn position(name: &str) -> Option<usize> {
    FACTS.iter().position(|fact| fact.name == name)
}

impl ProductFact {
    /// Returns the rank of a path among those of the fact, 0 for the likeliest; `None` if the fact is not at this
    /// path. The path has the keys from the root on.
    pub(crate) fn rank(&self, path: &[String]) -> Option<usize> {
        self.paths.iter().position(|end| is_end(end, path))
    }

    /// False if the value at this path is something else: the number of an exposure, that of an HDU, or that of a day.
    pub(crate) fn may_be(&self, path: &[String], value: &str) -> bool {
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
fn is_end(end: &str, path: &[String]) -> bool {
    end.rsplit('.').zip(path.iter().rev()).all(|(one, other)| one == other)
        && end.split('.').count() <= path.len()
}

/// True if the text of a scalar says that the fact is not known.
pub(crate) fn is_unknown(text: &str) -> bool {
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
pub(crate) fn flag_name(telescope: &str, bit: usize) -> Option<&'static str> {
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
        let filter = &FACTS[position("filter").unwrap()];
        let rank = |path: &str| filter.rank(&path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(rank("roman.meta.instrument.optical_element"), Some(0));
        assert_eq!(rank("meta.instrument.filter"), Some(1));
        assert_eq!((rank("filter"), rank("map.meta.wavelnth")), (Some(3), Some(7)));
        assert_eq!(rank("filter.name"), None);
        assert_eq!(flag_name("Roman", 7), Some("OUTLIER"));
        assert_eq!((flag_name("JWST", 31), flag_name("JWST", 32)), (Some("REFERENCE_PIXEL"), None));
        assert_eq!((flag_name("", 0), flag_name("ROMAN", 14)), (None, None));
        assert!(is_unknown("-999999") && !is_unknown("F158"));
        let may_be = |name: &str, path: &str, value: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
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
