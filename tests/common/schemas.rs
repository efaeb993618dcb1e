//! Schemas and a manifest, as a Python package has them.

use std::fs;
use std::path::{Path, PathBuf};

/// Writes the package `package` with a schema for a tag, and returns its directory.
pub fn package(folder: &Path, tag: &str, schema: &str) -> PathBuf {
    let package = folder.join("package");
    let resources = package.join("resources");
    for (directory, name, text) in [
        ("schemas/x.org", "product-1.0.0", format!("id: asdf://x.org/schemas/product-1.0.0\n{schema}")),
        (
            "manifests",
            "x-1.0.0",
            format!(
                "id: asdf://x.org/manifests/x-1.0.0\nextension_uri: asdf://x.org/extensions/x-1.0.0\ntags:\n\
                 - tag_uri: {tag}\n  schema_uri: asdf://x.org/schemas/product-1.0.0\n"
            ),
        ),
    ] {
        fs::create_dir_all(resources.join(directory)).unwrap();
        fs::write(resources.join(directory).join(format!("{name}.yaml")), text).unwrap();
    }
    package
}
