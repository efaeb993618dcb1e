//! The texts of `--help` and the man page, except those of the arguments.

use std::collections::BTreeSet;

use asdf_access::options;
use asdf_views::format::view_names;

use crate::{exit, log};

pub(super) const USAGE: &str = "asdf-mount [OPTIONS] SOURCE… [MOUNTPOINT]
       asdf-mount -u [MOUNTPOINT|FILE…]
       asdf-mount -l [--json]
       asdf-mount --info [-a] [-L DEPTH] [--near RA,DEC[,RADIUS]] FILE…
       asdf-mount --ls [-aR] [--json] FILE [PATH…]
       asdf-mount --cat [--range FROM-TO] FILE PATH…
       asdf-mount --extract [-C DIR] [--force] FILE [PATH…]
       asdf-mount --thumbnail [-s PIXELS] FILE OUT.png
       asdf-mount --cutout RA,DEC,SIZE [--key KEY] [-O OUT] [-j N] FILE…
       asdf-mount --check [--schemas DIR:...] [--json] FILE…
       asdf-mount --repair FILE -O FIXED [--json]
       asdf-mount --repack FILE -O NEW [--codec CODEC] [--json]
       asdf-mount --index FILE…
       asdf-mount --refs FILE…
       asdf-mount --catalog [--files-from LIST] [--since CATALOG] [--near RA,DEC[,RADIUS]] FILE…
       asdf-mount --search PATTERN [-i] [--near RA,DEC[,RADIUS]] [--json] [-j N] FILE…
       asdf-mount --get KEY [--json] [-j N] FILE…
       asdf-mount --set KEY=VALUE [--create] [--force] [--dry-run] [--json] [-j N] FILE…
       asdf-mount --unset KEY [--dry-run] [--json] [-j N] FILE…
       asdf-mount --filter COMMAND [--dry-run] [--json] [-j N] FILE…
       asdf-mount --edit [--dry-run] FILE
       asdf-mount --set-tree TREE [--force] [--dry-run] FILE
       asdf-mount --log [--json] FILE
       asdf-mount --diff FILE [N]
       asdf-mount --diff A B
       asdf-mount --undo FILE… [N]
       asdf-mount --recover FILE…";

pub(super) const ABOUT: &str = "\
Mount an ASDF file as a directory: edit its YAML tree with any editor, read its arrays as .npy files and its \
decompressed blocks as plain files. The tree is tree.yaml; the arrays are in arrays/, at the paths of their \
keys; the blocks are blocks/0.bin, blocks/1.bin and so on. GSD, Bloscpack and Blosc2 files are mounted read-only. If \
SOURCE is a directory, the mount mirrors it and shows each of these files in it as a directory of the same \
name. SOURCE and FILE may be URLs of files on servers (https, http, s3), which are read-only.

Each save of tree.yaml is checked, then written into the file completely or not at all. A refused text is \
kept in tree.yaml.rejected, and tree.yaml.error gives the reason. Blocks are read-only. A writable mount \
locks its file; a second mount of the file must be read-only.

The command returns once the mount is ready; a daemon keeps running in the background until it is unmounted. A missing \
MOUNTPOINT is created, and removed after unmounting. Without MOUNTPOINT, a file is mounted on the directory \
beside it that has its name without the extension: galaxy.asdf on galaxy/.";

const EXAMPLES: &str = "  asdf-mount galaxy.asdf                     on galaxy/ beside the file
  asdf-mount galaxy.asdf /mnt/x              one file
  asdf-mount -r galaxy.asdf /mnt/x           one file, read-only
  asdf-mount -o allow_other data/ /mnt/x     a directory of files, for all users
  asdf-mount -o timeout=600 galaxy.asdf      unmount after ten minutes without use
  asdf-mount https://host/x.asdf /mnt/x      a file on a web server; s3://bucket/prefix/ works, too
  asdf-mount -u /mnt/x                       unmount; so do 'umount' and 'fusermount3 -u'
  asdf-mount --info galaxy.asdf              what is in it, on one screen
  asdf-mount --info data/                    a line for each file in a directory
  asdf-mount --ls galaxy.asdf arrays         without a mount, as ls -l in one
  asdf-mount --cat galaxy.asdf arrays/image.npy >image.npy
  asdf-mount --search F158 data/             the files with a value or key that matches
  asdf-mount --get object.filter *.asdf      a value in each file
  asdf-mount --set object.filter=F158 *.asdf
                                             a value in many files
  asdf-mount --extract galaxy.asdf arrays fits -C /tmp
  asdf-mount --info --near 150.1,2.2 data/   the files with an image of this position
  asdf-mount --cutout 150.1,2.2,30arcsec data/ -O cuts
  mount -t fuse.asdf-mount galaxy.asdf /mnt/x
  /data/galaxy.asdf /mnt/x fuse.asdf-mount noauto,user 0 0     a line in /etc/fstab";

const CONTENT: &str = "  tree.yaml        the exact text of the tree; edit it with any editor
  tree.yaml.error  why the last text was refused; the text is in tree.yaml.rejected
  blocks/          the uncompressed bytes of each block: 0.bin, 1.bin ...
  arrays/          each array as a .npy file, at the path of its keys
  fits/, tables/, preview/, preview.png
                   arrays as FITS files, tables as Parquet files, pictures
  index.html       a page for a browser: picture, facts, arrays
  tree.json, tree.tagged.json
                   the tree for jq
  exploded/, imploded.asdf
                   copies without external blocks, or without external files
  refs.json        the places of the arrays' chunks, for zarr, xarray and Dask
  .asdf-mount/status.yaml
                   format, damage, and the last refusal
  .asdf-mount/info.txt
                   the tree on one screen, as --info prints it
  .asdf-mount/blocks.yaml
                   offset, sizes, compression and checksum of each block
                   (also getfattr -d blocks/0.bin)
  index.html of a directory
                   a gallery of the files in it, which ls leaves out
  GSD files have arrays/, tables/ and refs.json; Bloscpack files have
  arrays/, data.bin, meta.json and refs.json, Blosc2 files all but refs.json;
  meta.json is there if the file has metadata.

  All but tree.yaml are views of the same data: a copy of the whole mount
  is several times as large as the file. Use -o views=none for backups
  and grep -r, or copy arrays/ alone. Everything but tree.yaml and new
  files and directories beside it is read-only.

  A program sees a refusal as the error of write, close, fsync or
  rename. Some ignore it: echo in sh and bash, Python without close. In
  scripts use --set-tree, which fails if the text is refused.";

const SIGNALS: &str = "  SIGINT and SIGTERM unmount, and so does SIGHUP in the foreground of
  a terminal; otherwise SIGHUP opens the file of --log-file again (for
  logrotate). SIGUSR1 makes the mount read-only, and SIGUSR2 writable
  again, as -o remount does. After a signal that unmounts, open files
  are served for two more seconds. A second signal ends the daemon at
  once. If the mount can't be removed (no fusermount3, a copy in
  another mount namespace), the daemon ends anyway and logs what is
  left: a dead mount. It is removed by asdf-mount -u or, as root,
  umount -l.";

const FILES: &str = "  /dev/fuse        FUSE device
  /dev/log         syslog, where a daemon logs without --log-file
  $XDG_CACHE_HOME/asdf-mount, else ~/.cache/asdf-mount
                   seek tables of blocks that were read to their end; may be deleted at any time
  /etc/fuse.conf   the line 'user_allow_other' lets ordinary users mount with allow_other
  $XDG_STATE_HOME/asdf-mount, else ~/.local/state/asdf-mount
                   refused, unsaved and replaced texts, and files that editors create beside tree.yaml; at most \
256 MiB, for 90 days";

const BUGS: &str = "  Only the tree can be edited; blocks are read-only.
  Random access to a zlib or bzip2 block first decodes it once from its start.
  With allow_other, a user whom only an ACL lets read or write is refused.";

const SEE_ALSO: &str = "  fusermount3(1), getfattr(1), mount(8), umount(8), https://www.asdf-format.org";

/// Returns the sections after the options: titles, and texts of fixed lines.
pub(super) fn sections() -> Vec<(&'static str, String)> {
    vec![
        ("Mount options (-o)", mount_options()),
        ("In the mount", content()),
        ("Examples", EXAMPLES.to_owned()),
        ("Signals", SIGNALS.to_owned()),
        ("Exit status", exit_status()),
        ("Environment", environment()),
        ("Files", FILES.to_owned()),
        ("Bugs", BUGS.to_owned()),
        ("See also", SEE_ALSO.to_owned()),
    ]
}

fn mount_options() -> String {
    let mut text = String::new();
    for options::Row { shown, what, .. } in options::TABLE {
        text += &format!("  {shown}\n          {what}\n");
    }
    text + "  Any other option is an error. Write a comma in a value as '\\,'."
}

/// Returns the content of a mount, and the names of `views=`.
fn content() -> String {
    let names: Vec<_> = view_names().collect::<BTreeSet<_>>().into_iter().collect();
    format!("{CONTENT}\n\n  Names for -o views=: {}, all, none.", names.join(", "))
}

fn exit_status() -> String {
    format!(
        "  {}  success: the mount is ready, or removed; with --check or
     --index: all files are sound; with --dry-run: the text would be
     saved, or is the saved one
  {}  failure, with one line on stderr that gives the reason; with
     --check, --index or --info: a file is damaged
  {}  invalid arguments; with --check, --index or --catalog: a file
     can't be read; with --check: the report can't be written
  {}  with --dry-run: the text would be refused
  --ls and --cat have the statuses of ls and cat: with --ls 1 if part
     of a directory can't be shown, 2 if FILE or a PATH can't; with
     --cat 1 if a PATH can't be read to its end
  --search and --cutout have those of grep: 0 if something is found or
     cut out, 1 if nothing is, 2 after an error
  --repair has 1 if FIXED lacks data of FILE, or has data that nothing
     proves; and if it is not written, with the reason on stderr
  --extract has 1 if a file is not extracted; it is named on stderr.
     A signal, or a full disk, ends it. No half file is left under the
     file's name; one named .asdf-mount-*.part, left by a kill or a
     crash, may be deleted",
        exit::OK,
        exit::FAILED,
        exit::USAGE,
        exit::REFUSED
    )
}

fn environment() -> String {
    format!(
        "  {}
                   options for each mount, and for each action that accepts them, before those of -o
  {}   a log filter such as asdf_mount::daemon=debug; overrides -v
  FUSERMOUNT_PATH  the fusermount3 to run [searched in PATH and /usr/bin]
  XDG_CACHE_HOME   parent of the directory asdf-mount with seek tables [~/.cache]
  XDG_STATE_HOME   parent of the directory asdf-mount with refused texts [~/.local/state]",
        options::VARIABLE,
        log::FILTER_VARIABLE
    )
}
