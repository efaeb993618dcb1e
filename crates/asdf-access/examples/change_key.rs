//! Changes a key in the tree of an ASDF file: `cargo run --example change_key FILE KEY VALUE`.
//!
//! KEY is a path such as meta.filter, VALUE is YAML. All other lines stay as they are.

use asdf_access::{Allowed, File, Result};

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, key, value] = &arguments[..] else {
        eprintln!("usage: change_key FILE KEY VALUE");
        return 2.into();
    };
    match change(file, key, value) {
        Ok(()) => 0.into(),
        Err(error) => {
            eprintln!("change_key: {error}");
            1.into()
        }
    }
}

fn change(file: &str, key: &str, value: &str) -> Result<()> {
    let report = File::open(file)?.set(&[(key, value)], Allowed::default())?;
    for warning in report.warnings {
        eprintln!("change_key: {warning}");
    }
    Ok(())
}
