//! Changes a key at the top of the tree of an ASDF file: `cargo run --example change_key FILE KEY VALUE`.
//!
//! VALUE is YAML. The text is saved as an editor in a mount would save it: all other lines stay as they are.

use asdf_access::{Error, File, Kind, Result};

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
    let mut file = File::open(file)?;
    let tree = file.tree()?;
    let start = format!("{key}:");
    let mut text = String::with_capacity(tree.len() + value.len());
    let mut is_replaced = false;
    let mut is_within = false;
    for line in tree.split_inclusive('\n') {
        // Lines that are indented belong to the key before them, and so do the items of its list.
        is_within &= line.starts_with([' ', '-']) && !line.starts_with("---");
        if line.starts_with(&start) && !is_replaced {
            text += &format!("{key}: {value}\n");
            is_replaced = true;
            is_within = true;
        } else if !is_within {
            text += line;
        }
    }
    if !is_replaced {
        return Err(Error::new(Kind::NotFound, format!("the tree has no key \"{key}\"")));
    }
    let report = file.set_tree(&text)?;
    for warning in report.warnings {
        eprintln!("change_key: {warning}");
    }
    Ok(())
}
