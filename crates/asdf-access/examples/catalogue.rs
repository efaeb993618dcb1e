//! Prints a line for each array of each file in a directory: `cargo run --example catalogue DIRECTORY`.

use std::path::Path;

use asdf_access::{File, Kind, Result};

fn main() -> std::process::ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: catalogue DIRECTORY");
        return 2.into();
    };
    let mut failures = 0;
    catalogue(Path::new(&directory), &mut failures);
    u8::from(failures > 0).into()
}

fn catalogue(directory: &Path, failures: &mut u32) {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            eprintln!("catalogue: {}: {error}", directory.display());
            *failures += 1;
            return;
        }
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => catalogue(&path, failures),
            Ok(kind) if kind.is_file() => match describe(&path) {
                // Any other file.
                Err(error) if error.kind() == Kind::Unrecognised => {}
                Err(error) => {
                    eprintln!("catalogue: {error}");
                    *failures += 1;
                }
                Ok(()) => {}
            },
            _ => {}
        }
    }
}

fn describe(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    for array in file.arrays()? {
        println!("{}\t{}\t{}\t{:?}", path.display(), array.path, array.datatype, array.shape);
    }
    Ok(())
}
