//! `--help`: one screen. `--help=all` has all options, as the man page.

use clap::ValueEnum;

use super::terminal;

/// The extent of `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HelpExtent {
    /// One screen.
    #[value(hide = true)]
    Brief,
    /// All options, the content of a mount, exit statuses, signals.
    All,
}

/// Width of the left column, and the greatest width of a line.
const LEFT: usize = 33;
const WIDEST: usize = 120;

/// The sections of the one screen: for each line its left column and its text.
const BRIEF: &[(&str, &[(&str, &str)])] = &[
    (
        "Mount",
        &[
            ("SOURCE… [MOUNTPOINT]", "mount files, directories or URLs"),
            ("-r, --read-only", "mount read-only; -f stays in the foreground"),
            ("-o OPT,…", "allow_other, timeout=SECS, views=, cache= …"),
            ("-u, --unmount [MOUNTPOINT…]", "unmount; also by the FILE, or the only one"),
            ("-l, --list", "list the mounts"),
        ],
    ),
    (
        "Look, without mounting",
        &[
            ("--info [-a] [-L DEPTH] FILE…", "what is in it; for DIR a line a file"),
            ("--ls [-aR] FILE [PATH…]", "list what a mount would show"),
            ("--cat FILE PATH…", "write files of the mount to stdout"),
            ("--extract FILE [PATH…]", "copy them to -C DIR; --force overwrites"),
            ("--search PATTERN [-i] PATH…", "keys and values that match, as grep"),
            ("--get KEY FILE…", "one value of each tree"),
            ("--diff A B", "compare files or directories: trees and arrays"),
            ("--thumbnail FILE OUT.png", "its picture; -s PIXELS"),
            ("--cutout RA,DEC,SIZE FILE…", "a part of the sky as FITS; -O OUT"),
            ("--catalog PATH…", "a line of JSON for each file"),
            ("--refs FILE…", "references for zarr, xarray and Dask"),
        ],
    ),
    (
        "Edit, without mounting",
        &[
            ("--edit FILE", "the tree, with $VISUAL or $EDITOR"),
            ("--set KEY=VALUE FILE…", "one value; --create adds a key"),
            ("--unset KEY FILE…", "remove a key with its value"),
            ("--filter COMMAND FILE…", "each tree through a program"),
            ("--set-tree TREE FILE", "the whole tree; - is standard input"),
            ("--log FILE", "list the saves"),
            ("--diff FILE [N]", "show the last save, or the N-th last"),
            ("--undo FILE… [N]", "take back the last save, or the last N"),
            ("--dry-run, --json, -j N", "preview; for scripts; N files at once"),
        ],
    ),
    (
        "Check and repair",
        &[
            ("--check PATH…", "report damage; by schemas: --schemas DIR"),
            ("--repair FILE -O FIXED", "write what can be kept to a sound file"),
            ("--repack FILE -O NEW", "tidy copy: no unused blocks; --codec CODEC"),
            ("--index FILE…", "build seek tables of compressed blocks"),
            ("--recover FILE…", "finish or undo an interrupted save"),
        ],
    ),
    (
        "Other",
        &[
            ("-v, -q, --log-file FILE", "log more, errors only, to a file"),
            ("-V, --version", "version; with -v all that a bug report needs"),
            ("--generate WHAT", "man page, or completions for a shell"),
            ("--help=all, man asdf-mount", "all options, exit statuses, examples"),
        ],
    ),
];

/// Returns the help on one screen, as wide as the terminal.
pub(super) fn brief() -> String {
    in_width(terminal::size().map_or(80, |(width, _)| width))
}

fn in_width(width: usize) -> String {
    let width = width.min(WIDEST);
    let mut text = String::from(
        "Usage: asdf-mount [OPTION…] SOURCE… [MOUNTPOINT]\n       asdf-mount ACTION [OPTION…] FILE…\n\n\
         Mount ASDF, GSD, Bloscpack and Blosc2 files as directories.\nFILE may be a URL.\n",
    );
    for (title, lines) in BRIEF {
        text += &format!("\n{title}:\n");
        for (left, what) in *lines {
            let mut line = format!("  {left:LEFT$}");
            let start = line.chars().count();
            for word in what.split(' ') {
                if line.chars().count() + word.chars().count() > width
                    && line.trim_end().chars().count() > start
                {
                    text += line.trim_end();
                    text.push('\n');
                    line = " ".repeat(start);
                }
                line += word;
                line.push(' ');
            }
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_on_a_screen() {
        for width in [80, 100, 200] {
            let text = in_width(width);
            assert!(text.lines().count() <= 50, "{width}: {}", text.lines().count());
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        let narrow = in_width(60);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }
}
