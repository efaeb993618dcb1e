//! The actions of the command line, and the options that each of them takes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use asdf_access::options;
use asdf_access::options::Options;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Id, ValueEnum};
use seekable::error::{Result, one_of};

/// The group of the options that are actions; clap refuses two of them.
pub(super) const ACTION: &str = "action";

/// Options that every action takes.
const EVERYWHERE: [&str; 2] = ["verbose", "quiet"];

/// The options after `-o` that change what `--ls`, `--cat` and `--extract` show, besides those for servers.
const READING: [&str; 5] = ["views", "verify", "external", "cache", "index-cache"];
/// The options after `-o` that change a save.
const SAVING: [&str; 4] = ["validate", "schemas", "padding", "history"];

/// The requested action. Each one except [`Action::Mount`] is the option of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Action {
    Mount,
    Unmount,
    List,
    Info,
    Ls,
    Cat,
    Extract,
    Thumbnail,
    Cutout,
    Refs,
    Catalog,
    Search,
    Get,
    Edit,
    SetTree,
    Set,
    Unset,
    Filter,
    Log,
    Diff,
    Undo,
    Check,
    Repair,
    Repack,
    Index,
    Recover,
    Version,
    Help,
    Generate,
}

impl Action {
    /// Returns the name of the action's option in [`super::Arguments`].
    fn id(self) -> String {
        self.name().replace('-', "_")
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the names of the options that change this action, as in [`super::Arguments`].
    fn takes(self) -> &'static [&'static str] {
        match self {
            Self::Mount => &["paths", "options", "foreground", "read_only", "log_file"],
            Self::Unmount | Self::Index | Self::Recover => &["paths"],
            Self::Diff => &["paths", "options"],
            Self::Thumbnail => &["paths", "options", "size"],
            Self::List => &["json"],
            Self::Info => &["paths", "options", "all", "depth", "near"],
            Self::Ls => &["paths", "options", "json", "recursive", "all"],
            Self::Cat => &["paths", "options", "range"],
            Self::Extract => &["paths", "options", "directory", "force"],
            Self::Cutout => &["paths", "options", "output", "key", "jobs"],
            Self::Refs | Self::Undo => &["paths", "options"],
            Self::Catalog => &["paths", "options", "files_from", "null", "since", "jobs", "near"],
            Self::Search => &["paths", "options", "jobs", "json", "ignore_case", "near"],
            Self::Get => &["paths", "options", "jobs", "json"],
            Self::Set => &["paths", "options", "create", "force", "jobs", "dry_run", "json"],
            Self::Unset | Self::Filter => &["paths", "options", "jobs", "dry_run", "json"],
            Self::Edit => &["paths", "options", "dry_run"],
            Self::SetTree => &["paths", "options", "dry_run", "force"],
            Self::Log => &["paths", "json"],
            Self::Check => &["paths", "options", "schemas", "json"],
            Self::Repair => &["paths", "options", "output", "json"],
            Self::Repack => &["paths", "options", "output", "codec", "json"],
            Self::Version | Self::Help | Self::Generate => &[],
        }
    }

    /// Parses the lists given after each `-o`.
    ///
    /// # Errors
    /// An option is unknown, or does not change this action.
    pub(super) fn options(self, lists: &[OsString]) -> Result<Options> {
        let accepted = match self {
            Self::Ls | Self::Cat | Self::Extract | Self::Diff | Self::Thumbnail => {
                [&READING[..], &options::REMOTE].concat()
            }
            Self::Info
            | Self::Cutout
            | Self::Refs
            | Self::Catalog
            | Self::Search
            | Self::Get
            | Self::Repair => options::REMOTE.to_vec(),
            Self::Check => [&["schemas"], &options::REMOTE[..]].concat(),
            Self::Repack => [&["padding"][..], &options::REMOTE].concat(),
            Self::Edit | Self::SetTree | Self::Set | Self::Unset | Self::Filter | Self::Undo => {
                SAVING.to_vec()
            }
            // `takes` has no `-o` for all others except a mount, which takes all options.
            Self::Mount => return Options::parse(options::of_environment(None)?.iter().chain(lists)),
            _ => return Options::parse(lists),
        };
        options::refuse_others(lists, &accepted, &self.to_string())?;
        Options::parse(options::of_environment(Some(&accepted))?.iter().chain(lists))
    }

    /// Returns the action that a word means, such as `info`.
    fn meant_by(word: &str) -> Option<Self> {
        let synonym = match word {
            "umount" => "unmount",
            "history" => "log",
            "show" => "info",
            word => word,
        };
        <Self as ValueEnum>::from_str(synonym, false).ok()
    }

    /// Returns the advice for a first word that is no file but the name of an action.
    pub(super) fn advice(word: &OsStr) -> Option<String> {
        let is_file = Path::new(word).symlink_metadata().is_ok();
        let word = word.to_str()?;
        let action = Self::meant_by(word).filter(|_| !is_file)?;
        Some(match action {
            Self::Mount => format!("{word}: no such file; leave the word out: asdf-mount SOURCE MOUNTPOINT"),
            action => format!("{word}: no such file; actions are options: asdf-mount {action}"),
        })
    }

    /// Returns the requested action.
    ///
    /// # Errors
    /// An option does not change that action.
    pub(super) fn of(command: &mut Command, matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let named = matches.get_one::<Id>(ACTION);
        let action = named.and_then(|id| Self::value_variants().iter().find(|action| action.id() == *id));
        let action = *action.unwrap_or(&Self::Mount);
        let unused = command.get_arguments().find(|argument| {
            let id = argument.get_id().as_str();
            let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
            let is_taken = action.id() == id || EVERYWHERE.contains(&id) || action.takes().contains(&id);
            is_given && !is_taken
        });
        let Some(unused) = unused else { return Ok(action) };
        let option = match (unused.get_long(), unused.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => "a file".to_owned(),
        };
        let takers = takers(unused.get_id().as_str());
        let message = match action {
            Self::Mount => format!("{option} needs {takers}"),
            action => format!("{option} can't be used with {action}; it goes with {takers}"),
        };
        Err(command.error(ErrorKind::ArgumentConflict, message))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount => out.write_str("a mount"),
            action => write!(out, "--{}", action.name()),
        }
    }
}

/// Returns the actions that an option changes, as a text.
fn takers(option: &str) -> String {
    let takers = Action::value_variants().iter().filter(|action| action.takes().contains(&option));
    one_of(&takers.map(ToString::to_string).collect::<Vec<_>>())
}
