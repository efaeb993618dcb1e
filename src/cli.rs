//! The command line: parses the arguments and runs the requested action.

mod action;
mod catalog;
mod compare;
mod complete;
mod cutout;
mod diff;
mod dry_run;
mod help;
mod history;
mod info;
mod jobs;
mod list;
mod look;
mod man;
mod many;
mod place;
mod position;
mod refs;
mod remake;
mod repack;
mod repair;
mod revise;
mod search;
mod terminal;
mod texts;
mod version;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use action::{ACTION, Action};
use asdf_access::files::Found;
use asdf_access::named;
use asdf_access::options::{self, Options};
use asdf_file::container::{Container, Context};
use asdf_file::edit::context::Validation;
use asdf_views::format;
use clap::builder::styling::Styles;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, FromArgMatches, Id, Parser, ValueEnum};
use help::HelpExtent;
use seekable::cache::Cache;
use seekable::cache::store::Store;
use seekable::error::{Error, Kind, Result, in_shell};
use seekable::source::BufferedSource;
use texts::{ABOUT, USAGE, sections};

use crate::daemon::{self, MountPlan};
use crate::{check, exit, log};

const PROGRAM: &str = "asdf-mount";
/// The beginning of the names of the variables with arguments that the command line shows without a login.
const TYPED: &str = "ASDF_MOUNT_TYPED_";

/// The groups of options in `--help`, beside those of [`look`].
const MOUNT: &str = "Mount";
const EDIT: &str = "Edit, without mounting";
const DESCRIBE: &str = "Describe, without mounting";
const CHECK: &str = "Check and repair, without mounting";

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    version,
    disable_help_flag = true,
    disable_version_flag = true,
    about = "Mount an ASDF file as a directory",
    long_about = ABOUT,
    override_usage = USAGE,
    styles = Styles::plain(),
    args_override_self = true
)]
struct Arguments {
    /// The files or directories to mount, then the directory to mount them on
    #[arg(value_name = "SOURCE… [MOUNTPOINT]", hide = true, value_parser = any_path())]
    paths: Vec<PathBuf>,

    /// Stay in the foreground; log to stderr
    #[arg(short, long, help_heading = MOUNT)]
    foreground: bool,

    /// Mount read-only; same as -o ro
    #[arg(short = 'r', long, help_heading = MOUNT)]
    read_only: bool,

    /// Mount options, separated by commas; --help=all lists them
    #[arg(short, value_name = "OPT,…", help_heading = MOUNT, action = ArgAction::Append)]
    options: Vec<OsString>,

    /// Unmount each MOUNTPOINT and wait for its daemon to end; also removes a dead mount
    ///
    /// A FILE or directory that is mounted stands for its mounts. Without MOUNTPOINT, your only mount is unmounted.
    #[arg(short, long, help_heading = MOUNT, group = ACTION)]
    unmount: bool,

    /// List your mounts with source, process, mode and start; root sees all
    #[arg(short, long, help_heading = MOUNT, group = ACTION)]
    list: bool,

    #[command(flatten)]
    info: info::InfoArguments,

    #[command(flatten)]
    look: look::LookArguments,

    #[command(flatten)]
    cutout: cutout::CutoutArguments,

    /// Write references to the chunks of the arrays of each FILE, a line of JSON for zarr, xarray and Dask
    #[arg(long, help_heading = DESCRIBE, group = ACTION)]
    refs: bool,

    #[command(flatten)]
    catalog: catalog::Catalog,

    #[command(flatten)]
    search: search::SearchArguments,

    #[command(flatten)]
    near: position::Near,

    /// Edit the tree of FILE with $VISUAL or $EDITOR, without mounting; saves are checked as in a mount
    #[arg(long, help_heading = EDIT, group = ACTION)]
    edit: bool,

    /// Replace the tree of FILE with the text of TREE ('-' for standard input), without mounting
    #[arg(long, help_heading = EDIT, value_name = "TREE", value_parser = any_path(), group = ACTION)]
    set_tree: Option<PathBuf>,

    #[command(flatten)]
    many: many::ManyArguments,

    /// With --set-tree: save a text that would be refused, with a warning; same as -o validate=warn.
    /// With --extract: overwrite existing files. With --set: replace a mapping, a sequence or an array
    #[arg(long, help_heading = EDIT)]
    force: bool,

    /// With --set-tree, --edit, --set, --unset or --filter: save nothing; print the changes, and how they would be saved
    ///
    /// The exit status is 0 if the text would be saved or is the saved one, and 3 if it would be refused.
    #[arg(long, help_heading = EDIT)]
    dry_run: bool,

    /// List the saves of FILE, the last one first
    ///
    /// A line for each: its number, its time, the size of the replaced text, lines removed and added, and the
    /// program. If another program has changed the tree since, earlier saves are marked "(of another text)".
    #[arg(long, help_heading = EDIT, group = ACTION)]
    log: bool,

    /// Show the last save of FILE as a unified diff, or the N-th last one; or compare two files or directories, A and B
    ///
    /// Two files are compared by their trees, and by their arrays: type, shape, MD5, how many elements differ and by
    /// how much. Of two directories, the files of the same names are compared. The exit status is then that of diff: 0
    /// if they are equal, 1 if they differ, 2 after an error. A file whose name is a number is written as ./1.
    #[arg(long, help_heading = EDIT, group = ACTION)]
    diff: bool,

    /// Take back the last save of each FILE, or the last N saves; a second --undo takes back the first --undo
    #[arg(long, help_heading = EDIT, group = ACTION)]
    undo: bool,

    /// Read each FILE completely, or each file of a known format in a directory, and report damage, without mounting
    ///
    /// With --schemas, nodes of the tree that do not fit their schemas are damage, too.
    #[arg(long, help_heading = CHECK, group = ACTION)]
    check: bool,

    /// With --check: the directories with schemas and manifests, such as those of Python packages; as -o schemas=
    #[arg(long, value_name = "DIR:...", help_heading = CHECK, value_parser = any_path())]
    schemas: Option<PathBuf>,

    #[command(flatten)]
    remake: repack::RemakeArguments,

    /// With --check, --repair, --repack, --list, --log, --ls, --search, --get, --set, --unset or --filter: report in JSON, one object per line
    ///
    /// With --check one for each FILE: file, status (sound, damaged, unreadable), blocks (how many),
    /// defects (a list of objects: severity (note, unread, damage), offset in bytes, block or null, what), and
    /// error if the file can't be read.
    /// With --repair one: file, status (sound, repaired, incomplete, failed), fixed (unless nothing is written), findings (a
    /// list of objects: block or null, outcome, what), and error if it failed.
    /// With --repack one: file, status (repacked, failed), new (file, blocks, size and old_size in bytes), changes (a list
    /// of objects: block, what), and error if it failed.
    /// With --ls one for each file, directory or link: path in FILE, kind (file, directory, link, …), mode
    /// (octal, as text), links, uid, gid, owner, group, size in bytes, mtime (UTC), and target of a link;
    /// only path and error if it can't be examined.
    /// With --set, --unset or --filter one for each FILE: file, status (saved, unchanged, would be saved, refused, failed), error,
    /// and diff with --dry-run. With --search one for each match: file, path, value; with --get
    /// one for each FILE and KEY.
    /// With --log one for each save: n, time, file (the text in .asdf-mount/history/), size of that text, removed
    /// and added (lines), program or null, and own (false if another program has changed the tree since).
    /// With --list one for each mount: mountpoint, source, pid, mode (ro, rw, dead, or gone if a source is not
    /// there), since (RFC 3339, UTC); unknown values are null.
    #[arg(long, help_heading = CHECK)]
    json: bool,

    /// Build the seek tables of the zlib, bzip2 and zstd blocks of each FILE ahead of the first read
    #[arg(long, help_heading = CHECK, group = ACTION)]
    index: bool,

    /// Complete or undo a save of each FILE that a crash interrupted
    #[arg(long, help_heading = CHECK, group = ACTION)]
    recover: bool,

    /// Log more; -vv and -vvv log still more
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,

    /// Log errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Append the log to this file instead of stderr or syslog
    #[arg(long, value_name = "FILE", value_parser = any_path())]
    log_file: Option<PathBuf>,

    /// Print version; with -v everything that a bug report needs
    #[arg(short = 'V', long, group = ACTION)]
    version: bool,

    /// Print help: one screen, or with =all everything
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "brief", value_name = "all", group = ACTION)]
    help: Option<help::HelpExtent>,

    /// Write the man page or the completions for a shell to stdout
    ///
    /// The Debian package and scripts/install put them in place. They belong in these directories below
    /// /usr/local/share: man/man1/asdf-mount.1, bash-completion/completions/asdf-mount,
    /// zsh/site-functions/_asdf-mount, fish/vendor_completions.d/asdf-mount.fish.
    #[arg(long, hide_short_help = true, value_name = "WHAT", group = ACTION)]
    generate: Option<Generated>,
}

impl Arguments {
    /// Refuses an empty path, such as one from an unset variable in a script.
    fn have_names(&self) -> Result<()> {
        let is_empty = |path: &Path| path.as_os_str().is_empty();
        let options = [
            ("--set-tree", &self.set_tree),
            ("--log-file", &self.log_file),
            self.look.directory(),
            ("--files-from", &self.catalog.files_from),
            ("--since", &self.catalog.since),
            ("--output", &self.remake.output),
            ("--schemas", &self.schemas),
        ];
        let option = options.iter().find(|(_, path)| path.as_deref().is_some_and(is_empty));
        if let Some((option, _)) = option {
            return Err(usage(format!("{option} got an empty name (''); give a file")));
        }
        match self.paths.iter().position(|path| is_empty(path)) {
            Some(n) => {
                Err(usage(format!("argument {} is an empty name (''); give a file or directory", n + 1)))
            }
            None => Ok(()),
        }
    }
}

/// Accepts any path, also as `file:///…`, and even an empty one, which [`Arguments::have_names`] refuses with a clearer
/// error than clap.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text| named::without_file_scheme(PathBuf::from(text)))
}

/// A file that `--generate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Generated {
    Man,
    Bash,
    Zsh,
    Fish,
}

/// Runs the requested action and returns the exit status. An error is one line on stderr.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // A write beyond the file size limit must fail, not end the process. A handler for the signal achieves
    // that. Ignoring the signal would achieve it, too, but editors and fusermount3 would inherit that.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, std::sync::Arc::default());
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let asked = arguments.get(1).is_some_and(|argument| argument == complete::ASKED_BY);
    if asked && let Some(words) = arguments.get(2..) {
        let _ = print(&complete::answer(command(), words));
        return exit::OK;
    }
    let result = match parse(as_typed(arguments)) {
        Ok((action, arguments)) => act(action, arguments),
        Err(error) if !error.use_stderr() => print(error.to_string().as_bytes()).map(|()| exit::OK),
        Err(error) => Err(usage(plain(&error))),
    };
    result.unwrap_or_else(|error| {
        complain(&error.to_string());
        exit::of(&error)
    })
}

/// Returns the arguments as the user typed them. If an address has a login, starts the program again with the address as
/// messages show it, because the list of processes shows a command line to all users.
fn as_typed(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut hidden = Vec::new();
    let mut shown = Vec::new();
    for (n, argument) in arguments.iter_mut().enumerate().skip(1) {
        let variable = format!("{TYPED}{n}");
        let typed = std::env::var_os(&variable).filter(|typed| named::shown(Path::new(typed)) == *argument);
        shown.push(named::shown(Path::new(argument)));
        if let Some(typed) = typed {
            *argument = typed;
        } else if named::shown(Path::new(argument)) != *argument {
            hidden.push((variable, argument.clone()));
        }
    }
    if !hidden.is_empty()
        && let Ok(program) = std::env::current_exe()
    {
        let name = arguments.first().map_or(OsStr::new(PROGRAM), OsString::as_os_str);
        // If it can't be started again, it goes on as it is.
        let _ = std::process::Command::new(program).arg0(name).args(shown).envs(hidden).exec();
    }
    arguments
}

/// Parses the arguments, the first of which is the program's name.
fn parse(mut words: Vec<OsString>) -> std::result::Result<(Action, Arguments), clap::Error> {
    // As grep's: --search -i PATTERN.
    if let Some(at) = words.windows(2).position(|pair| pair == ["--search", "-i"]) {
        words.swap(at, at + 1);
    }
    let mut command = command();
    // Whatever options follow, such as ls -l, they are those of the action that is meant.
    let first = complete::first_path(&command, words.get(1..).unwrap_or_default());
    if let Some((options, [word, ..])) = first.and_then(|n| words.split_at_checked(n + 1))
        && let Some(advice) = Action::advice(word)
        && let Ok(before) = command.clone().try_get_matches_from(options)
        && before.get_one::<Id>(ACTION).is_none()
    {
        return Err(command.error(ErrorKind::InvalidSubcommand, advice));
    }
    let matches = command.try_get_matches_from_mut(words)?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    Ok((Action::of(&mut command, &matches)?, arguments))
}

/// Runs an action.
fn act(action: Action, mut arguments: Arguments) -> Result<u8> {
    arguments.have_names()?;
    if !matches!(action, Action::Version | Action::Help | Action::Generate) {
        log::check_environment()?;
    }
    let mut options = action.options(&arguments.options)?;
    let log =
        log::Settings { verbose: arguments.verbose, quiet: arguments.quiet, file: arguments.log_file.take() };
    if action != Action::Mount && log.is_wanted() {
        log::start(&log, log::LogTarget::Stderr)?;
    }
    let paths = &arguments.paths;
    match action {
        Action::Mount => {
            options.read_only |= arguments.read_only;
            if options.remount {
                return place::remount(arguments.paths, &arguments.options, options.read_only);
            }
            let place::MountPlaces { sources, mountpoint, beside } = place::of(arguments.paths)?;
            let foreground = arguments.foreground;
            let plan = MountPlan { sources, mountpoint, beside, options, foreground, log };
            daemon::mount(plan)?;
            Ok(exit::OK)
        }
        Action::Unmount => unmount(paths),
        Action::List => list::mounts(arguments.json),
        Action::Info => arguments.info.run(paths, &options, arguments.look.all, arguments.near),
        Action::Ls => arguments.look.list(paths, &options, arguments.json),
        Action::Cat => arguments.look.cat(paths, &options),
        Action::Extract => arguments.look.extract(paths, &options, arguments.force, arguments.quiet),
        Action::Cutout => {
            let output = arguments.remake.output.as_deref();
            arguments.cutout.run(paths, output, &options, arguments.many.jobs, arguments.quiet)
        }
        Action::Refs => {
            let files = at_least_one(paths, "--refs needs at least one FILE")?;
            refs::run(files, &options, arguments.quiet)
        }
        Action::Catalog => {
            let near = arguments.near;
            arguments.catalog.run(arguments.paths, options, near, arguments.many.jobs, arguments.quiet)
        }
        Action::Edit => revise::edit(only(paths)?, &revise::context(&options)?, arguments.dry_run),
        Action::SetTree => {
            if arguments.force {
                options.edit.validation = Validation::Warn;
            }
            let Some(tree) = &arguments.set_tree else { return Err(usage("--set-tree needs a TREE")) };
            revise::set_tree(tree, only(paths)?, &revise::context(&options)?, arguments.dry_run)
        }
        Action::Search => {
            arguments.search.run(paths, &options, arguments.near, arguments.many.jobs, arguments.json)
        }
        Action::Get => arguments.search.get(paths, &options, arguments.many.jobs, arguments.json),
        Action::Set => arguments.many.set(paths, &options, arguments.force, report_form(&arguments)),
        Action::Unset => arguments.many.unset(paths, &options, report_form(&arguments)),
        Action::Filter => arguments.many.filter(paths, &options, report_form(&arguments)),
        Action::Thumbnail => arguments.look.thumbnail(paths, &options),
        Action::Log => history::log(only(paths)?, arguments.json),
        Action::Diff => match &paths[..] {
            [file, number] if is_number(number) => {
                revise::refuse_address(file)?;
                history::diff(file, Some(number))
            }
            [one, other] => Ok(compare::run(one, other, &options)),
            paths => history::diff(only(paths)?, None),
        },
        Action::Undo => {
            let (files, number) = match paths.split_last() {
                Some((number, files)) if !files.is_empty() && is_number(number) => (files, Some(number)),
                _ => (at_least_one(paths, "--undo needs at least one FILE")?, None),
            };
            history::undo(files, number, &options, arguments.quiet)
        }
        Action::Check => {
            let files = at_least_one(paths, "--check needs at least one FILE")?;
            check_files(files, &arguments, options)
        }
        Action::Repair => {
            repair::run(paths, arguments.remake.output.as_deref(), &options, arguments.json, arguments.quiet)
        }
        Action::Repack => arguments.remake.repack(paths, &options, arguments.json, arguments.quiet),
        Action::Index => {
            index_files(at_least_one(paths, "--index needs at least one FILE")?, arguments.quiet)
        }
        Action::Recover => {
            revise::recover(at_least_one(paths, "--recover needs at least one FILE")?, arguments.quiet)
        }
        Action::Version => print(version::text(arguments.verbose > 0).as_bytes()).map(|()| exit::OK),
        Action::Help => {
            let text = match arguments.help {
                Some(HelpExtent::All) => full_help(),
                _ => help::brief(),
            };
            print(text.as_bytes()).map(|()| exit::OK)
        }
        Action::Generate => {
            let what = arguments.generate.unwrap_or(Generated::Man);
            print(&generate(what)?).map(|()| exit::OK)
        }
    }
}

/// Returns the form of the report on many files.
fn report_form(arguments: &Arguments) -> many::ReportForm {
    many::ReportForm { dry_run: arguments.dry_run, json: arguments.json, quiet: arguments.quiet }
}

/// True if an argument is the number of a save.
fn is_number(argument: &Path) -> bool {
    let bytes = argument.as_os_str().as_encoded_bytes();
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// Returns the paths, or a usage error if there are none.
fn at_least_one<'a>(paths: &'a [PathBuf], otherwise: &str) -> Result<&'a [PathBuf]> {
    if paths.is_empty() { Err(usage(otherwise)) } else { Ok(paths) }
}

/// Opens a file with this many bytes of cache.
fn open(file: &Found, cache: u64) -> Result<Arc<dyn Container>> {
    let context = Context::new(Arc::new(Cache::with_threads(cache, 1)));
    format::open(Arc::new(BufferedSource::new(file.open()?)), &context)
}

/// Returns the path of an action on a single local file.
fn only(paths: &[PathBuf]) -> Result<&Path> {
    match paths {
        [file] => {
            revise::refuse_address(file)?;
            Ok(file)
        }
        _ => Err(usage("give one FILE")),
    }
}

/// Checks each file and prints its defects; the worst verdict is the exit status.
fn check_files(files: &[PathBuf], arguments: &Arguments, mut options: Options) -> Result<u8> {
    if let Some(list) = &arguments.schemas {
        options.schemas = options::directories(list.as_os_str());
    }
    // Status 1 would mean that a file is damaged.
    let unreadable = |message: &str| {
        complain(message);
        Ok(exit::UNREADABLE)
    };
    let schemas = match options.read_schemas() {
        Ok(schemas) => schemas,
        Err(error) => return unreadable(&error.to_string()),
    };
    let how = check::How {
        json: arguments.json,
        quiet: arguments.quiet,
        remote: &options.remote,
        schemas: schemas.as_ref(),
    };
    check::run(files, how, &mut std::io::stdout().lock())
        .map(status_of)
        .or_else(|error| unreadable(&format!("can't write the report: {}", Error::from(error))))
}

/// Builds the seek tables of each file; the worst verdict is the exit status.
fn index_files(files: &[PathBuf], quiet: bool) -> Result<u8> {
    let store = Store::of_user()?;
    Ok(status_of(check::tables::run(files, store, quiet, &mut log::Complaints)?))
}

fn status_of(verdict: check::Status) -> u8 {
    match verdict {
        check::Status::Sound => exit::SOUND,
        check::Status::Damaged => exit::DAMAGED,
        check::Status::Unreadable => exit::UNREADABLE,
    }
}

/// Unmounts each mountpoint, or the mounts of each source, continuing after errors. Without a path, unmounts the only
/// mount.
fn unmount(paths: &[PathBuf]) -> Result<u8> {
    let mut status = exit::OK;
    let wanted = if paths.is_empty() { vec![only_mount()?] } else { paths.to_vec() };
    for path in wanted {
        if let Err(error) = unmount_one(&path) {
            complain(&error.to_string());
            status = exit::of(&error);
        }
    }
    Ok(status)
}

/// Unmounts a mountpoint; or what a file, or a directory that is no mountpoint, is mounted on.
fn unmount_one(path: &Path) -> Result<()> {
    let Err(error) = daemon::unmount(path) else { return Ok(()) };
    if !matches!(error.errno(), libc::EINVAL | libc::ENOTDIR) {
        return Err(error);
    }
    let mountpoints = mounts_of(path).unwrap_or_default();
    if mountpoints.is_empty() {
        return Err(error);
    }
    mountpoints.iter().try_for_each(|mountpoint| daemon::unmount(mountpoint))
}

/// Returns the mountpoint of the user's only mount.
fn only_mount() -> Result<PathBuf> {
    let mut mounts = daemon::list()?;
    match (mounts.pop(), mounts.is_empty()) {
        (Some(mount), true) => Ok(mount.mountpoint),
        (Some(mount), false) => {
            mounts.push(mount);
            let commands: Vec<String> =
                mounts.iter().map(|mount| format!("asdf-mount -u {}", in_shell(&mount.mountpoint))).collect();
            Err(usage(format!(
                "-u alone unmounts a single mount, and there are several; name one: {}",
                commands.join(", ")
            )))
        }
        (None, _) => Err(usage("-u needs a MOUNTPOINT: nothing is mounted")),
    }
}

/// Returns the mountpoints of the mounts of a regular file, or of a directory that is no mountpoint itself.
fn mounts_of(path: &Path) -> Result<Vec<PathBuf>> {
    // A mountpoint is not examined: its daemon may not answer.
    let mounts = daemon::list()?;
    let absolute = std::path::absolute(path)?;
    if mounts.iter().any(|mount| mount.mountpoint == absolute) {
        return Ok(Vec::new());
    }
    let source = path.canonicalize()?;
    let is_of_source = |mount: &&daemon::ListedMount| Path::new(&mount.source) == source;
    Ok(mounts.iter().filter(is_of_source).map(|mount| mount.mountpoint.clone()).collect())
}

fn command() -> clap::Command {
    let afterword: Vec<String> =
        sections().into_iter().map(|(title, text)| format!("{title}:\n{text}")).collect();
    Arguments::command().after_long_help(afterword.join("\n\n"))
}

/// Returns the help with all options, as wide as the terminal.
fn full_help() -> String {
    let mut command = command();
    if let Some((width, _)) = terminal::size() {
        command = command.term_width(width);
    }
    command.render_long_help().to_string()
}

fn generate(what: Generated) -> Result<Vec<u8>> {
    // Only --help hides the argument of the paths, because its usage lines describe the paths better.
    let command = command().mut_arg("paths", |paths| paths.hide(false));
    Ok(match what {
        Generated::Man => man::page(command, &sections())?,
        shell => complete::script(shell).as_bytes().to_vec(),
    })
}

/// Writes to stdout. A closed pipe is no error: the reader needs no more.
fn print(text: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes an error to stderr as one line.
fn complain(what: &str) {
    log::complain(format_args!("{PROGRAM}: {}", seekable::error::one_line(what)));
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(Kind::Usage, message)
}

/// Returns the first paragraph of clap's error as one line, with its suggestion.
fn plain(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    match meant(error) {
        Some(meant) => format!("{line}; did you mean {meant}?"),
        None => format!("{line}; see asdf-mount --help"),
    }
}

/// Returns the option or value that clap suggests.
fn meant(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    match kinds.iter().find_map(|kind| error.get(*kind))? {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => Some(names.join(" or ")).filter(|names| !names.is_empty()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> std::result::Result<(Action, Arguments), String> {
        let words = arguments.split(' ').map(OsString::from).collect();
        super::parse(words).map_err(|error| plain(&error))
    }

    /// Returns the words that give an option, with a value if it takes one.
    fn given(argument: &clap::Arg) -> String {
        let name = argument.get_long().map_or_else(
            || argument.get_short().map_or_else(String::new, |short| format!("-{short}")),
            |long| format!("--{long}"),
        );
        match argument.get_id().as_str() {
            "paths" => "a.asdf".to_owned(),
            "generate" => format!("{name} man"),
            "help" => name,
            "range" => format!("{name} 0-9"),
            "cutout" => format!("{name} 1,2,3px"),
            "near" => format!("{name} 1,2"),
            "codec" => format!("{name} zlib"),
            "size" => format!("{name} 128"),
            "jobs" => format!("{name} 2"),
            "depth" => format!("{name} 3"),
            // --null needs --files-from.
            "null" => format!("--files-from list {name}"),
            _ if argument.get_action().takes_values() => format!("{name} x"),
            _ => name,
        }
    }

    fn actions() -> Vec<String> {
        let mut command = command();
        command.build();
        let is_action = |argument: &&clap::Arg| {
            command
                .get_groups()
                .any(|group| group.get_id() == ACTION && group.get_args().any(|id| id == argument.get_id()))
        };
        command.get_arguments().filter(is_action).map(given).collect()
    }

    #[test]
    fn each_action_is_an_option_of_the_group() {
        let variants: Vec<Action> = Action::value_variants().to_vec();
        let mut found = vec![Action::Mount];
        for line in actions() {
            let (action, _) = parse(&format!("asdf-mount {line}")).unwrap();
            assert!(line.starts_with(&action.to_string()), "{line}: {action}");
            found.push(action);
        }
        assert_eq!(found.len(), variants.len());
        assert!(variants.iter().all(|action| found.contains(action)));
    }

    #[test]
    fn two_actions_are_refused_with_both_names() {
        let actions = actions();
        for one in &actions {
            for other in actions.iter().filter(|other| *other != one) {
                for line in [format!("asdf-mount {one} {other}"), format!("asdf-mount {one} {other} a.asdf")]
                {
                    let error = parse(&line).expect_err(&line);
                    for name in [one, other] {
                        let name = name.split(' ').next().unwrap();
                        assert!(error.contains(name), "{line}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_option_that_changes_nothing_is_refused_with_both_names() {
        let command = command();
        let actions = actions();
        let lines: Vec<String> = std::iter::once(String::new()).chain(actions.iter().cloned()).collect();
        let mut refused = 0;
        for action in &lines {
            for option in command.get_arguments().map(given).filter(|option| !actions.contains(option)) {
                let line = format!("asdf-mount {action} {option}").replace("  ", " ");
                let option = option.split(' ').next().unwrap();
                let Err(error) = parse(&line) else { continue };
                refused += 1;
                assert!(error.contains(action.split(' ').next().unwrap()), "{line}: {error}");
                assert!(error.contains(option) || option == "a.asdf", "{line}: {error}");
            }
        }
        assert!(refused > 200, "{refused}");
    }

    #[test]
    fn options_go_with_the_actions_that_they_change() {
        for line in [
            "asdf-mount -v --ls a.asdf",
            "asdf-mount -vv --check a.asdf",
            "asdf-mount -q --undo a.asdf",
            "asdf-mount -v -u mnt",
            "asdf-mount -V -v",
            "asdf-mount --json -l",
            "asdf-mount --log --json a.asdf",
            "asdf-mount --undo --undo a.asdf",
            "asdf-mount --edit --dry-run -o validate=off a.asdf",
            "asdf-mount --set-tree t --force a.asdf",
            "asdf-mount --extract --force -C d a.asdf",
        ] {
            parse(line).expect(line);
        }
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn options_can_stand_anywhere() {
        for line in [
            "asdf-mount -o ro,uid=1 -o sync -v a.asdf b.asdf /mnt",
            "asdf-mount a.asdf -o ro,uid=1 b.asdf -v /mnt -o sync",
            "asdf-mount a.asdf b.asdf /mnt -o ro,uid=1 -vosync",
            "asdf-mount -oro,uid=1 -osync -v -- a.asdf b.asdf /mnt",
        ] {
            let (_, arguments) = parse(line).unwrap();
            assert_eq!(arguments.paths, ["a.asdf", "b.asdf", "/mnt"].map(PathBuf::from), "{line}");
            assert_eq!(arguments.options, ["ro,uid=1", "sync"], "{line}");
            assert_eq!(arguments.verbose, 1, "{line}");
        }
        assert_eq!(parse("asdf-mount -- -f -u").unwrap().1.paths, ["-f", "-u"].map(PathBuf::from));
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "asdf-mount -u -f /mnt",
            "asdf-mount -u -o ro /mnt",
            "asdf-mount --check -u /mnt",
            "asdf-mount --index --check a",
            "asdf-mount --index -o ro a",
            "asdf-mount -q -v a /mnt",
            "asdf-mount --generate man a",
            "asdf-mount --nonsense a /mnt",
            "asdf-mount a /mnt -o",
        ] {
            let error = parse(line).expect_err(line);
            assert!(!error.contains('\n'), "{line}");
        }
    }

    #[test]
    fn man_page_and_completions_can_be_generated() {
        for (what, has) in [
            (Generated::Man, ".SH \"EXIT STATUS\""),
            (Generated::Bash, "complete -o"),
            (Generated::Zsh, "#compdef asdf-mount"),
            (Generated::Fish, "complete -c asdf-mount"),
        ] {
            let text = String::from_utf8(generate(what).unwrap()).unwrap();
            assert!(text.contains(has), "{text}");
        }
    }
}
