//! `--repack`: writes a tidy file from a sound one, without a mount.

use std::fs::File;
use std::path::{Path, PathBuf};

use asdf_access::named;
use asdf_access::options::Options;
use asdf_file::edit::repack::{BlockChange, NewCodec, Repack};
use clap::{Args, ValueEnum};
use seekable::codec::Codec;
use seekable::error::{Error, Kind, Result, in_json, in_shell, one_line};
use serde::Serialize;

use super::remake::{Remaking, check_free};
use super::{ACTION, CHECK, any_path, complain, exit, print, usage};
use crate::log;
use crate::look::write_new;

/// The arguments of `--repair` and `--repack`, except the files.
#[derive(Debug, Args)]
pub(super) struct RemakeArguments {
    /// Write all that can be read of a damaged FILE to a sound file, FIXED (-O)
    ///
    /// A line is printed for each block, and for each other damage: kept, mended, doubtful (nothing proves the data), cut
    /// or lost. FILE is not changed. If it is sound, nothing is written. The exit status is 1 if data are doubtful, cut
    /// or lost.
    #[arg(long, help_heading = CHECK, group = ACTION)]
    pub(super) repair: bool,

    /// Write the tree and the arrays of a sound FILE to a tidy file, NEW (-O)
    ///
    /// Blocks that no array is in are left out, an array that takes a part of a block gets a block of its own size, and
    /// LZ4 is cut into whole rows, as references need it. Comments and all else in the tree stay. FILE is not changed.
    /// -o padding=SIZE is the room for edits after the tree, by default that of FILE.
    #[arg(long, help_heading = CHECK, group = ACTION)]
    pub(super) repack: bool,

    /// With --repair, --repack and --cutout: the file to write, which must not exist. With --cutout also a directory, for
    /// files NAME_cutout.fits; without OUT, a single cut-out goes to stdout
    #[arg(short = 'O', long, value_name = "OUT", help_heading = CHECK, value_parser = any_path())]
    pub(super) output: Option<PathBuf>,

    /// With --repack: compress all blocks by CODEC; without it, each keeps its codec
    #[arg(long, value_name = "CODEC", help_heading = CHECK)]
    codec: Option<BlockCodec>,
}

/// The codecs of `--codec`, by the names in ASDF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BlockCodec {
    Zlib,
    Zstd,
    Lz4,
    Bzp2,
    None,
}

/// The report in JSON.
#[derive(Serialize)]
struct Report {
    file: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<NewFile>,
    changes: Vec<BlockChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The new file.
#[derive(Serialize)]
struct NewFile {
    file: String,
    blocks: usize,
    /// Sizes in bytes: of the new file, and of the old one.
    size: u64,
    old_size: u64,
}

impl RemakeArguments {
    /// Writes a tidy file, and tells what became of the blocks.
    pub(super) fn repack(&self, paths: &[PathBuf], options: &Options, json: bool, quiet: bool) -> Result<u8> {
        let ([file], Some(new)) = (paths, &self.output) else {
            return Err(usage("give one FILE, and the name of the file to write: --repack FILE -O NEW"));
        };
        let name = named::shown(file).display().to_string();
        let repacked = self.write(file, new, options, quiet);
        if json {
            let (status, code) =
                if repacked.is_ok() { ("repacked", exit::OK) } else { ("failed", exit::FAILED) };
            let error = repacked.as_ref().err().map(Error::to_string);
            let (new, changes) = repacked.ok().unzip();
            let report = Report { file: name, status, new, changes: changes.unwrap_or_default(), error };
            let line = serde_json::to_string(&report).map_err(std::io::Error::from)?;
            print(format!("{}\n", in_json(&line)).as_bytes())?;
            return Ok(code);
        }
        let (new, changes) = match repacked {
            Ok(repacked) => repacked,
            Err(error) => {
                complain(&error.to_string());
                return Ok(exit::of(&error));
            }
        };
        let line = |BlockChange { block, what }: &BlockChange| {
            format!("{}: block {block}: {what}\n", one_line(&name))
        };
        print(changes.iter().map(line).collect::<String>().as_bytes())?;
        if !quiet {
            let NewFile { file, blocks, size, old_size } = new;
            log::complain(format_args!(
                "{}: {blocks} blocks, {size} bytes in place of {old_size}",
                one_line(&file)
            ));
        }
        Ok(exit::OK)
    }

    fn write(
        &self,
        file: &Path,
        new: &Path,
        options: &Options,
        quiet: bool,
    ) -> Result<(NewFile, Vec<BlockChange>)> {
        check_free(new)?;
        let remaking = Remaking::new(options, quiet);
        let codec = match self.codec {
            None => NewCodec::Kept,
            Some(BlockCodec::None) => NewCodec::None,
            Some(BlockCodec::Zlib) => NewCodec::Of(Codec::Zlib),
            Some(BlockCodec::Zstd) => NewCodec::Of(Codec::Zstd),
            Some(BlockCodec::Lz4) => NewCodec::Of(Codec::Lz4),
            Some(BlockCodec::Bzp2) => NewCodec::Of(Codec::Bzip2),
        };
        let plan = || {
            let old = remaking.open(file)?;
            let repack = Repack::plan(&*old.container, codec, options.edit.padding)?;
            if repack.refers_beside && !is_beside(file, new) {
                let what = "the tree names other files by relative paths: write the new file into the same directory";
                return Err(Error::new(Kind::Refused, what));
            }
            if let Some(defect) = remaking.damage_of(old.container.source().clone())?.into_iter().next() {
                let error = Error::damaged(defect.what).at(defect.offset);
                let error = defect.block.map_or(error.clone(), |block| error.in_block(block as u64));
                return Err(
                    error.advise(format!("repair it first: asdf-mount --repair {} -O FIXED", in_shell(file)))
                );
            }
            Ok((repack, old))
        };
        let (repack, old) = plan().map_err(|error: Error| error.of(named::shown(file)))?;
        let stat = old.container.source_stat();
        let write = |out: &File| {
            remaking.write(new, out, repack.size(), |out, count| repack.write(out, count))?;
            if old.container.source().stat()?.version != stat.version {
                let what = "another program changed it meanwhile: try again";
                return Err(Error::new(Kind::Changed, what).of(named::shown(file)));
            }
            match remaking.damage_in(new, out)?.into_iter().next() {
                Some(defect) => Err(Error::damaged(defect.what).at(defect.offset)),
                None => Ok(()),
            }
        };
        write_new(new, old.mode, write).map_err(|error| error.of(new))?;
        let size = new.symlink_metadata()?.len();
        let blocks = repack.block_count();
        let new = NewFile { file: new.display().to_string(), blocks, size, old_size: stat.size };
        Ok((new, repack.changes))
    }
}

/// True if a new file will be in the directory of an old one.
fn is_beside(file: &Path, new: &Path) -> bool {
    let dir = |file: &Path| {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).canonicalize().ok()
    };
    dir(file).is_some_and(|dir_of_file| Some(dir_of_file) == dir(new))
}
