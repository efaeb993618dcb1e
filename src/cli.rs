//! The arguments, and what each asks for.

mod complete;
mod man;
mod revise;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::styling::Styles;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, CommandFactory, Parser, ValueEnum};

use crate::cache::store::Store;
use crate::daemon::{self, Plan};
use crate::error::{Error, Kind, Result};
use crate::format::editor::Validation;
use crate::options::{self, Options};
use crate::{check, exit, log};

const PROGRAM: &str = "asdf-mount";

const USAGE: &str = "asdf-mount [OPTIONS] SOURCE… MOUNTPOINT
       asdf-mount -u MOUNTPOINT…
       asdf-mount --check [--json] FILE…
       asdf-mount --index FILE…
       asdf-mount --edit FILE
       asdf-mount --set-tree TREE [--force] FILE
       asdf-mount --recover FILE…";

const ABOUT: &str = "\
Mounts ASDF files as folders: tree.yaml is the text of the tree, blocks/0.bin, blocks/1.bin … are the \
data of the blocks, decoded. A SOURCE that is a folder is mirrored, each ASDF file in it a folder of the \
same name.

tree.yaml can be changed with any editor: each save is checked, and written into the file whole or not at \
all. What is refused, and why, is then found in tree.yaml.rejected and tree.yaml.error beside it. All else \
can only be read. A file is locked while it is mounted: a second mount of it has to be read-only.

The command returns when the mount answers, and a daemon serves it until it is unmounted. A missing \
MOUNTPOINT is created, and removed again at the end.";

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    version,
    about = "Mounts ASDF files as folders",
    long_about = ABOUT,
    override_usage = USAGE,
    styles = Styles::plain(),
    args_override_self = true
)]
struct Arguments {
    /// What to mount, then the folder to mount it on
    #[arg(value_name = "SOURCE… MOUNTPOINT", hide = true, value_parser = any_path())]
    paths: Vec<PathBuf>,

    /// Stay in the foreground; log to stderr
    #[arg(short, long)]
    foreground: bool,

    /// Mount for reading alone; the same as -o ro
    #[arg(short = 'r', long)]
    read_only: bool,

    /// Mount options, separated by commas; see below
    #[arg(short, value_name = "OPT,…", action = ArgAction::Append)]
    options: Vec<OsString>,

    /// Unmount each MOUNTPOINT and wait until its daemon has ended; also cleans up a dead mount
    #[arg(short, long, conflicts_with_all = ["foreground", "read_only", "options", "log_file", "check"])]
    unmount: bool,

    /// Read each FILE completely, or each ASDF file in a folder, and report what is damaged, without mounting
    #[arg(long, conflicts_with_all = ["foreground", "read_only", "options", "log_file"])]
    check: bool,

    /// With --check: report as JSON
    ///
    /// One line for each FILE, an object: file, status (sound, damaged, unreadable), blocks (how many),
    /// defects (a list of objects: severity (note, damage), offset in bytes, block or null, what), and
    /// error if the file can't be read.
    #[arg(long, requires = "check")]
    json: bool,

    /// Make the seek tables of each FILE's zlib, bzip2 and zstd blocks, so that the first read at their end need not
    #[arg(long, conflicts_with_all = ["foreground", "read_only", "unmount", "check", "options", "log_file"])]
    index: bool,

    /// Edit the tree of FILE with $VISUAL or $EDITOR, without mounting; checked and saved as in the mount
    #[arg(long, conflicts_with_all = ["foreground", "unmount", "check", "index", "log_file"])]
    edit: bool,

    /// Make the text of TREE ('-' for standard input) the tree of FILE, without mounting
    #[arg(long, value_name = "TREE", value_parser = any_path(), conflicts_with_all = ["foreground", "unmount", "check", "index", "edit", "log_file"])]
    set_tree: Option<PathBuf>,

    /// With --set-tree: save also what would be refused, and only warn; the same as -o validate=warn
    #[arg(long, requires = "set_tree", conflicts_with_all = ["foreground", "unmount", "check", "index", "edit", "recover"])]
    force: bool,

    /// Finish or undo a save of each FILE that a crash interrupted
    #[arg(long, conflicts_with_all = ["foreground", "unmount", "check", "index", "edit", "set_tree", "options", "log_file"])]
    recover: bool,

    /// Log more; -vv and -vvv still more
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,

    /// Log errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Log to this file (appended to) instead of stderr or syslog
    #[arg(long, value_name = "FILE", value_parser = any_path())]
    log_file: Option<PathBuf>,

    /// Write the man page or the completions of a shell to stdout
    #[arg(long, hide_short_help = true, value_name = "WHAT", exclusive = true)]
    generate: Option<Generated>,
}

impl Arguments {
    /// Refuses a path that is empty, as an unset variable in a script leaves it.
    fn have_names(&self) -> Result<()> {
        let is_empty = |path: &Path| path.as_os_str().is_empty();
        let options = [("--set-tree", &self.set_tree), ("--log-file", &self.log_file)];
        let option = options.iter().find(|(_, path)| path.as_deref().is_some_and(is_empty));
        if let Some((option, _)) = option {
            return Err(usage(format!("{option} is given an empty name (''); name a file")));
        }
        match self.paths.iter().position(|path| is_empty(path)) {
            Some(n) => Err(usage(format!("argument {} is an empty name (''); name a file or folder", n + 1))),
            None => Ok(()),
        }
    }
}

/// Takes any path, also an empty one: [`Arguments::have_names`] has better words for that than clap.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// What `--generate` can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Generated {
    Man,
    Bash,
    Zsh,
    Fish,
}

/// Does what the arguments ask for and returns the exit status; complains on stderr, in one line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // Beyond a limit of file sizes a write is to fail, and not to be the end. With a handler, and not
    // ignored: that the programs we start would inherit.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, std::sync::Arc::default());
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let asked = arguments.get(1).is_some_and(|argument| argument == complete::ASKED_BY);
    if let Some(words) = arguments.get(2..).filter(|_| asked) {
        let _ = print(&complete::answer(command(), words));
        return exit::OK;
    }
    let parsed = command().try_get_matches_from(arguments).and_then(|matches| {
        use clap::FromArgMatches;
        Arguments::from_arg_matches(&matches)
    });
    let result = match parsed {
        Ok(arguments) => act(arguments),
        Err(error) if !error.use_stderr() => print(error.to_string().as_bytes()).map(|()| exit::OK),
        Err(error) => Err(usage(plain(&error))),
    };
    result.unwrap_or_else(|error| {
        complain(&error.to_string());
        exit::of(&error)
    })
}

fn act(arguments: Arguments) -> Result<u8> {
    if let Some(what) = arguments.generate {
        return print(&generate(what)?).map(|()| exit::OK);
    }
    arguments.have_names()?;
    if arguments.check {
        if arguments.paths.is_empty() {
            return Err(usage("--check needs at least one FILE"));
        }
        return check_files(&arguments.paths, arguments.json, arguments.quiet);
    }
    if arguments.index {
        if arguments.paths.is_empty() {
            return Err(usage("--index needs at least one FILE"));
        }
        return index_files(&arguments.paths, arguments.quiet);
    }
    if arguments.unmount {
        return unmount(&arguments.paths);
    }
    if arguments.recover {
        return revise::recover(&arguments.paths, arguments.quiet);
    }
    let mut options = Options::parse(&arguments.options)?;
    if arguments.edit || arguments.set_tree.is_some() {
        let [file] = &arguments.paths[..] else { return Err(usage("one FILE is needed")) };
        if arguments.force {
            options.edit.validation = Validation::Warn;
        }
        return match &arguments.set_tree {
            Some(tree) => revise::set_tree(tree, file, options.edit),
            None => revise::edit(file, options.edit),
        };
    }
    options.read_only |= arguments.read_only;
    let mut sources = arguments.paths;
    let mountpoint = sources.pop();
    let Some(mountpoint) = mountpoint.filter(|_| !sources.is_empty()) else {
        return Err(usage("SOURCE and MOUNTPOINT are needed; asdf-mount --help shows examples"));
    };
    let log = log::Settings { verbose: arguments.verbose, quiet: arguments.quiet, file: arguments.log_file };
    let plan = Plan { sources, mountpoint, options, foreground: arguments.foreground, log };
    daemon::mount(plan, daemon::open_tree)?;
    Ok(exit::OK)
}

/// Checks each and prints what is wrong; the worst verdict is the exit status.
fn check_files(files: &[PathBuf], json: bool, quiet: bool) -> Result<u8> {
    check::run(files, json, quiet, &mut std::io::stdout().lock()).map(status_of).or_else(|error| {
        // No other status would do: 1 says that a file is damaged.
        complain(&format!("the report can't be written: {}", Error::from(error)));
        Ok(exit::UNREADABLE)
    })
}

/// Makes the seek tables of each; the worst verdict is the exit status.
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

/// Unmounts each, also after one that can't be.
fn unmount(mountpoints: &[PathBuf]) -> Result<u8> {
    if mountpoints.is_empty() {
        return Err(usage("-u needs at least one MOUNTPOINT"));
    }
    let mut status = exit::OK;
    for mountpoint in mountpoints {
        if let Err(error) = daemon::unmount(mountpoint) {
            complain(&error.to_string());
            status = exit::of(&error);
        }
    }
    Ok(status)
}

fn command() -> clap::Command {
    let afterword: Vec<String> =
        sections().into_iter().map(|(title, text)| format!("{title}:\n{text}")).collect();
    Arguments::command()
        .after_help("--help shows the mount options and examples.")
        .after_long_help(afterword.join("\n\n"))
}

/// What `--help` and the man page say after the options: titles and texts of fixed lines.
fn sections() -> Vec<(&'static str, String)> {
    let mut mount_options = String::new();
    for options::Row { shown, what, .. } in options::TABLE {
        mount_options += &format!("  {shown}\n          {what}\n");
    }
    mount_options += "  Any other option is refused. A comma in a value is written '\\,'.";
    vec![
        ("Mount options (-o)", mount_options),
        (
            "Examples",
            "  asdf-mount galaxy.asdf /mnt/x              one file
  asdf-mount -r galaxy.asdf /mnt/x           the same, for reading alone
  asdf-mount -o allow_other data/ /mnt/x     a folder of files, for all users
  asdf-mount -u /mnt/x                       unmount; 'umount' and 'fusermount3 -u' do as well
  mount -t fuse.asdf-mount galaxy.asdf /mnt/x
  /data/galaxy.asdf /mnt/x fuse.asdf-mount noauto,user 0 0     a line in /etc/fstab"
                .to_owned(),
        ),
        (
            "Signals",
            "  SIGINT, SIGTERM and SIGHUP unmount; files that are open then are
  served for two more seconds. A second signal ends the daemon at once.
  Where the mount can't be taken away (no fusermount3, a copy in another
  mount namespace) the daemon ends all the same; the log says what is
  left: a dead mount, which asdf-mount -u or, as root, umount -l takes
  away."
                .to_owned(),
        ),
        (
            "Exit status",
            format!(
                "  {}  done: the mount answers, or is gone; with --check or --index: all
     files are sound
  {}  failed, and one line on stderr says why; with --check or --index:
     a file is damaged
  {}  the arguments make no sense; with --check or --index: a file can't
     be read, or what was found can't be written to stdout",
                exit::OK,
                exit::FAILED,
                exit::USAGE
            ),
        ),
        (
            "Environment",
            format!(
                "  {}   a filter for the log, such as asdf_mount::daemon=debug; overrules -v
  FUSERMOUNT_PATH  the fusermount3 to use; looked for in PATH and /usr/bin otherwise
  XDG_CACHE_HOME   where seek tables are kept, in the folder asdf-mount; ~/.cache otherwise",
                log::FILTER_VARIABLE
            ),
        ),
        (
            "Files",
            "  /dev/fuse        FUSE device
  /dev/log         syslog, where a daemon logs to without --log-file
  $XDG_CACHE_HOME/asdf-mount, else ~/.cache/asdf-mount
                   seek tables of blocks that were once read to their end; may be removed at any time
  /etc/fuse.conf   'user_allow_other' in it lets ordinary users mount with allow_other
  $XDG_STATE_HOME/asdf-mount, else ~/.local/state/asdf-mount
                   texts that were refused or left unsaved, files that editors make beside tree.yaml;
                   256 MiB at most, for 90 days"
                .to_owned(),
        ),
        (
            "Bugs",
            "  Only the tree can be changed: blocks are read-only.
  A zlib or bzip2 block is decoded once from its start before it can be read at random.
  With allow_other a user to whom an ACL gives more than to others is refused."
                .to_owned(),
        ),
        (
            "See also",
            "  fusermount3(1), getfattr(1), mount(8), umount(8), https://www.asdf-format.org".to_owned(),
        ),
    ]
}

fn generate(what: Generated) -> Result<Vec<u8>> {
    // The paths are hidden from --help's list, where the usage says it better.
    let command = command().mut_arg("paths", |paths| paths.hide(false));
    Ok(match what {
        Generated::Man => man::page(command, &sections())?,
        shell => complete::script(shell).as_bytes().to_vec(),
    })
}

/// Writes to stdout; a reader that has seen enough is no failure.
fn print(text: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Complains on stderr, in one line.
fn complain(what: &str) {
    log::complain(format_args!("{PROGRAM}: {}", log::one_line(what)));
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(Kind::Usage, message)
}

/// Takes the first paragraph of a complaint of clap's, as one line, and what was meant.
fn plain(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    match meant(error) {
        Some(meant) => format!("{line}; did you mean {meant}?"),
        None => format!("{line}; see asdf-mount --help"),
    }
}

/// The option, or the value of one, that is nearest to what was given.
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

    fn parse(arguments: &str) -> std::result::Result<Arguments, clap::Error> {
        Arguments::try_parse_from(arguments.split(' '))
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn options_stand_anywhere() {
        for line in [
            "asdf-mount -o ro,uid=1 -o sync -v a.asdf b.asdf /mnt",
            "asdf-mount a.asdf -o ro,uid=1 b.asdf -v /mnt -o sync",
            "asdf-mount a.asdf b.asdf /mnt -o ro,uid=1 -vosync",
            "asdf-mount -oro,uid=1 -osync -v -- a.asdf b.asdf /mnt",
        ] {
            let arguments = parse(line).unwrap();
            assert_eq!(arguments.paths, ["a.asdf", "b.asdf", "/mnt"].map(PathBuf::from), "{line}");
            assert_eq!(arguments.options, ["ro,uid=1", "sync"], "{line}");
            assert_eq!(arguments.verbose, 1, "{line}");
        }
        assert_eq!(parse("asdf-mount -- -f -u").unwrap().paths, ["-f", "-u"].map(PathBuf::from));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "asdf-mount -u -f /mnt",
            "asdf-mount -u -o ro /mnt",
            "asdf-mount --check -u /mnt",
            "asdf-mount --index --check a",
            "asdf-mount --index -o ro a",
            "asdf-mount --json a /mnt",
            "asdf-mount -q -v a /mnt",
            "asdf-mount --generate man a",
            "asdf-mount --nonsense a /mnt",
            "asdf-mount a /mnt -o",
        ] {
            let error = parse(line).expect_err(line);
            assert!(!plain(&error).contains('\n'), "{line}");
        }
    }

    #[test]
    fn every_kind_of_text_can_be_generated() {
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
