//! The frames of a gwcs: the meaning and the units of its world coordinates.

use asdf_file::asdf::units;
use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::TreeNode;

use super::card::{Cards, Value as Card};
use super::keywords;
use super::unit::{self, Quantity, Unit};
use super::values::{has_tag, written};

const FRAME: &str = "tag:stsci.edu:gwcs/";

/// Maximum number of axes of an image.
pub(super) const MAX_AXES: usize = 4;

/// A world coordinate.
#[derive(Clone, Debug)]
pub(super) enum Axis {
    Longitude,
    Latitude,
    Spectral(Spectral),
    /// FITS gets no cards for it. Has the name of the frame.
    Other(String),
}

/// A spectral coordinate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spectral {
    /// `CTYPE`.
    pub(super) kind: &'static str,
    pub(super) unit: Unit,
    /// The unit as FITS writes it.
    pub(super) text: String,
}

/// The sky coordinates of a gwcs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sky {
    pub(super) system: ReferenceSystem,
    pub(super) unit: Unit,
    /// The unit as FITS writes it.
    pub(super) text: &'static str,
}

/// A reference system.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReferenceSystem {
    Icrs,
    /// FK5 with its equinox, a Julian year.
    Fk5(f64),
    /// FK4 with its equinox, a Besselian year, which is the time of the observation, too. `has_e_terms` is false if the
    /// E-terms of aberration are removed.
    Fk4 {
        equinox: f64,
        has_e_terms: bool,
    },
    Galactic,
    Solar(Box<Solar>),
}

/// Coordinates that are relative to the Sun.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solar {
    /// Longitude and latitude in `CTYPE`.
    names: [&'static str; 2],
    /// Date and time of the observation, in UTC.
    date: Option<String>,
    /// The place of the observer, and the radius of the Sun.
    cards: Vec<(&'static str, f64, &'static str)>,
}

/// The world coordinates of a gwcs.
#[derive(Debug)]
pub(super) struct World {
    pub(super) axes: Vec<Axis>,
    pub(super) sky: Option<Sky>,
}

impl World {
    /// Reads the output frame.
    ///
    /// # Errors
    /// The reason why FITS can't express it.
    pub(super) fn read(frame: &TreeNode) -> Result<Self, String> {
        let composed = if kind(frame) == Some("composite_frame") {
            frame.get("frames").and_then(TreeNode::items).ok_or("its output has no frames")?
        } else {
            std::slice::from_ref(frame)
        };
        let mut world = Self { axes: Vec::new(), sky: None };
        let mut places: Vec<Option<Axis>> = Vec::new();
        for one in composed {
            let axes = world.axes_of(one)?;
            let order = match one.get("axes_order") {
                Some(order) => indices(order).ok_or("the order of its axes is not a list of numbers")?,
                None => (0..axes.len()).collect(),
            };
            if order.len() != axes.len() {
                return Err("the order of its axes is not one number for each".to_owned());
            }
            for (axis, place) in axes.into_iter().zip(order) {
                if place >= MAX_AXES {
                    return Err(format!("it has more than {MAX_AXES} axes"));
                }
                if places.len() <= place {
                    places.resize(place + 1, None);
                }
                if places[place].replace(axis).is_some() {
                    return Err("two axes of its output have one number".to_owned());
                }
            }
        }
        world.axes = places.into_iter().collect::<Option<_>>().ok_or("an axis of its output has no frame")?;
        Ok(world)
    }

    /// Returns the axes of a frame.
    fn axes_of(&mut self, frame: &TreeNode) -> Result<Vec<Axis>, String> {
        match kind(frame) {
            Some("celestial_frame") => {
                if self.sky.is_some() {
                    return Err("it has two frames of the sky".to_owned());
                }
                self.sky = Some(Sky::read(frame).ok_or(
                    "its output is not an angle in ICRS, FK5, galactic, helioprojective or heliographic coordinates, or in \
                     FK4 with the equinox as time of the observation",
                )?);
                Ok(vec![Axis::Longitude, Axis::Latitude])
            }
            Some("spectral_frame") => match Spectral::read(frame) {
                Some(spectral) => Ok(vec![Axis::Spectral(spectral)]),
                None => Ok(vec![Axis::Other("spectral frame of an unknown kind".to_owned())]),
            },
            Some("temporal_frame") => Ok(vec![Axis::Other("temporal frame".to_owned())]),
            Some("stokes_frame") => Ok(vec![Axis::Other("frame of Stokes parameters".to_owned())]),
            Some("frame2d") => Ok(vec![Axis::Other("frame without a meaning".to_owned()); 2]),
            Some("frame") => {
                let count = frame.get("naxes").and_then(TreeNode::integer);
                let count = count.and_then(|count| usize::try_from(count).ok()).filter(|n| *n <= MAX_AXES);
                let count = count.ok_or("a frame of its output has an unknown number of axes")?;
                Ok(vec![Axis::Other("frame without a meaning".to_owned()); count])
            }
            _ => Err("a frame of its output is unknown".to_owned()),
        }
    }
}

/// Returns the kind of a frame from its tag, such as `celestial_frame`.
fn kind(frame: &TreeNode) -> Option<&str> {
    let (name, _) = frame.target().tag.as_deref()?.strip_prefix(FRAME)?.rsplit_once('-')?;
    Some(name)
}

/// Reads a list of indices.
fn indices(list: &TreeNode) -> Option<Vec<usize>> {
    list.items()?.iter().map(|item| usize::try_from(item.integer()?).ok()).collect()
}

/// Returns the unit of the pixels, if the axes of the input frame are pixels in the default order.
pub(super) fn pixel_unit(frame: &TreeNode) -> Option<Unit> {
    if let Some(order) = frame.get("axes_order") {
        let order = indices(order)?;
        order.iter().copied().eq(0..order.len()).then_some(())?;
    }
    let Some(list) = frame.get("unit").and_then(TreeNode::items) else { return Some(Unit::PIXEL) };
    let mut units = list.iter().map(|unit| written(unit).and_then(Unit::parse));
    let first = units.next().flatten().unwrap_or(Unit::PIXEL);
    units.all(|unit| unit.is_none_or(|unit| unit == first)).then_some(first)
}

impl Sky {
    fn read(frame: &TreeNode) -> Option<Self> {
        let [one, other] = frame.get("unit")?.items()? else { return None };
        let text = written(one).filter(|text| written(other) == Some(*text))?;
        let text = ["deg", "arcsec", "arcmin", "rad"].into_iter().find(|known| *known == text)?;
        let system = ReferenceSystem::read(frame.get("reference_frame")?)?;
        Some(Self { system, unit: Unit::parse(text)?, text })
    }
}

impl ReferenceSystem {
    fn read(system: &TreeNode) -> Option<Self> {
        let tag = system.target().tag.as_deref()?;
        let (_, name) = tag.rsplit_once('/')?;
        let (name, _) = name.rsplit_once('-')?;
        match name {
            "icrs" => Some(Self::Icrs),
            "galactic" => Some(Self::Galactic),
            "fk5" => {
                let equinox = system.get("frame_attributes").and_then(|attributes| attributes.get("equinox"));
                Some(Self::Fk5(equinox.map_or(Some(2000.0), |time| epoch(time, 'J'))?))
            }
            "fk4" | "fk4noeterms" => {
                let attributes = system.get("frame_attributes");
                let attribute = |key: &str| attributes?.get(key);
                let equinox = attribute("equinox").map_or(Some(1950.0), |time| epoch(time, 'B'))?;
                // FITS readers take the equinox for the time of the observation.
                let is_usual = attribute("obstime").is_none_or(|time| epoch(time, 'B') == Some(equinox));
                is_usual.then_some(Self::Fk4 { equinox, has_e_terms: name == "fk4" })
            }
            "helioprojective" => Some(Self::solar(["HPLN", "HPLT"], system)),
            "heliographic_stonyhurst" => Some(Self::solar(["HGLN", "HGLT"], system)),
            "heliographic_carrington" => Some(Self::solar(["CRLN", "CRLT"], system)),
            _ => None,
        }
    }

    fn solar(names: [&'static str; 2], system: &TreeNode) -> Self {
        let attributes = system.get("frame_attributes");
        let attribute = |key: &str| attributes?.get(key);
        let date = attribute("obstime").and_then(utc);
        let mut cards = Vec::new();
        let radius = attribute("rsun").and_then(metres);
        if let Some(observer) = attribute("observer").and_then(|observer| place(observer, date.as_deref())) {
            cards.extend(observer);
        }
        cards.extend(radius.map(|radius| ("RSUN_REF", radius, "[m] radius of the Sun")));
        Self::Solar(Box::new(Solar { names, date, cards }))
    }

    /// Returns the names of longitude and latitude in `CTYPE`.
    pub(super) fn names(&self) -> [&'static str; 2] {
        match self {
            Self::Icrs | Self::Fk5(_) | Self::Fk4 { .. } => ["RA--", "DEC-"],
            Self::Galactic => ["GLON", "GLAT"],
            Self::Solar(solar) => solar.names,
        }
    }

    /// Adds the cards of the system.
    pub(super) fn describe(&self, cards: &mut Cards) {
        match self {
            Self::Icrs => cards.set("RADESYS", Card::Text("ICRS"), ""),
            Self::Fk5(equinox) => {
                cards.set("EQUINOX", Card::Float(*equinox), "[yr] equinox of the coordinates");
                cards.set("RADESYS", Card::Text("FK5"), "");
            }
            Self::Fk4 { equinox, has_e_terms } => {
                cards.set("EQUINOX", Card::Float(*equinox), "[yr] equinox of the coordinates");
                cards.set("RADESYS", Card::Text(if *has_e_terms { "FK4" } else { "FK4-NO-E" }), "");
            }
            Self::Galactic => {}
            Self::Solar(solar) => {
                if let Some(date) = &solar.date {
                    cards.set("DATE-OBS", Card::Text(date), "[UTC] time of the coordinates");
                }
                for (keyword, value, comment) in &solar.cards {
                    cards.set(keyword, Card::Float(*value), comment);
                }
            }
        }
    }
}

/// Reads a time in UTC.
fn utc(time: &TreeNode) -> Option<String> {
    let scale = time.get("scale").and_then(written);
    let text = written(time).or_else(|| written(time.get("value")?))?;
    keywords::date(text).filter(|_| scale.is_none_or(|scale| scale == "utc"))
}

fn metres(length: &TreeNode) -> Option<f64> {
    let value = Quantity::read(length)?.in_units_of(Some(Unit::METRE))?;
    value.is_finite().then_some(value)
}

/// Returns the cards of the place of an observer at the time of the frame.
fn place(observer: &TreeNode, date: Option<&str>) -> Option<Vec<(&'static str, f64, &'static str)>> {
    let tag = observer.target().tag.as_deref()?;
    let (keyword, comment) = if tag.contains("/heliographic_stonyhurst-") {
        ("HGLN_OBS", "[deg] Stonyhurst longitude of the observer")
    } else if tag.contains("/heliographic_carrington-") {
        ("CRLN_OBS", "[deg] Carrington longitude of the observer")
    } else {
        return None;
    };
    let own = observer.get("frame_attributes").and_then(|attributes| attributes.get("obstime"));
    if own.is_some_and(|own| own.scalar_type() != Some(Type::Null) && utc(own).as_deref() != date) {
        return None;
    }
    let components = observer.get("data")?.get("components")?;
    let angle = |key: &str| {
        let value = Quantity::read(components.get(key)?)?.in_units_of(Some(Unit::DEGREE))?;
        value.is_finite().then_some(value)
    };
    let longitude = angle("lon")?;
    let latitude = angle("lat")?;
    let distance = metres(components.get("distance")?)?;
    Some(vec![
        ("DSUN_OBS", distance, "[m] distance of the observer from the Sun"),
        (keyword, longitude, comment),
        ("HGLT_OBS", latitude, "[deg] heliographic latitude of the observer"),
    ])
}

/// Parses a Julian (`J`) or Besselian (`B`) epoch as asdf-astropy writes it: `J2000.000`, as the node itself or as its
/// `value`.
fn epoch(time: &TreeNode, kind: char) -> Option<f64> {
    let text = written(time).or_else(|| written(time.get("value")?))?;
    text.strip_prefix(kind)?.parse().ok().filter(|year: &f64| (1800.0..2200.0).contains(year))
}

impl Spectral {
    /// The physical types of spectral axes, with the kinds of their units and the names that FITS has for them.
    const TYPES: [(&str, [i8; 5], &str); 11] = [
        ("em.wl", unit::LENGTH, "WAVE"),
        ("em.wl;obs.atmos", unit::LENGTH, "AWAV"),
        ("em.freq", unit::FREQUENCY, "FREQ"),
        ("em.energy", unit::ENERGY, "ENER"),
        ("em.wavenumber", unit::WAVENUMBER, "WAVN"),
        ("wavenumber", unit::WAVENUMBER, "WAVN"),
        ("spect.dopplerVeloc", unit::SPEED, "VELO"),
        ("spect.dopplerVeloc.opt", unit::SPEED, "VOPT"),
        ("spect.dopplerVeloc.optical", unit::SPEED, "VOPT"),
        ("spect.dopplerVeloc.radio", unit::SPEED, "VRAD"),
        ("src.redshift", unit::NONE, "ZOPT"),
    ];

    fn read(frame: &TreeNode) -> Option<Self> {
        has_tag(frame, FRAME)?;
        let [own] = frame.get("unit")?.items()? else { return None };
        let text = written(own)?.trim();
        let unit = Unit::parse(text)?;
        let of_unit = |(_, powers, _): &&(&str, [i8; 5], &str)| unit.is_of(*powers);
        let (.., kind) = match frame.get("axis_physical_types") {
            Some(types) => {
                let [name] = types.items()? else { return None };
                let name = name.text()?;
                let name = name.strip_prefix("custom:").unwrap_or(name);
                Self::TYPES.iter().find(|(known, ..)| *known == name).filter(of_unit)?
            }
            // As gwcs does.
            None => Self::TYPES.iter().find(of_unit).filter(|_| !unit.is_of(unit::NONE))?,
        };
        let text = if unit.is_of(unit::NONE) { String::new() } else { units::in_fits(text)? };
        Some(Self { kind, unit, text })
    }
}
