//! Files that `--repair` writes, opened by Python asdf: each array that the library reads has the same elements there, and
//! each checksum is right.

use std::fs;
use std::sync::Arc;

use asdf_file::container::Context;
use asdf_file::edit::repair::Repair;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::source::MemorySource;

use common::damaged;
use common::dice::Dice;
use common::encode::Encoding;
use common::mount::fresh_folder;
use common::python;

#[test]
fn python_opens_what_is_repaired() {
    let folder = fresh_folder();
    let mut dice = Dice(49);
    let known: Vec<_> = Encoding::all().into_iter().filter(Encoding::is_known_to_python).collect();
    let mut files: Vec<(Vec<u8>, bool)> =
        damaged::each_kind().into_iter().map(|(_, bytes, _)| (bytes, false)).collect();
    for _ in 0..300 {
        let built = damaged::random_file(&mut dice, &known);
        let bytes = damaged::at_random(&built, &mut dice).1;
        // A damaged tag may be unknown to Python.
        let is_compared = bytes.starts_with(built.tree());
        files.push((bytes, is_compared));
    }
    let mut count = 0;
    for (n, (bytes, is_compared)) in files.into_iter().enumerate() {
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let Ok(container) = format::open(Arc::new(MemorySource(bytes)), &context) else { continue };
        let Ok(repair) = Repair::plan(&*container, &|_| {}) else { continue };
        let mut fixed = Vec::new();
        repair.write(&mut fixed, &|_| {}).unwrap();
        fs::write(folder.path().join(format!("{n}.asdf")), &fixed).unwrap();
        let blocks = folder.path().join(format!("{n}.blocks"));
        fs::create_dir(&blocks).unwrap();
        let file = asdf_access::File::from_bytes(fixed).unwrap();
        for array in file.arrays().unwrap().iter().filter(|_| is_compared) {
            // A label may be damaged.
            let Ok(found) = file.array(&array.path) else { continue };
            let elements = found.to_vec::<u8>().unwrap();
            let name = array.path.strip_prefix("block").unwrap();
            fs::write(blocks.join(format!("{name}.bin")), elements).unwrap();
            count += 1;
        }
    }
    assert!(count > 400, "{count}");
    let compared = python::run(&python::python(), "check_built.py", [folder.path()]);
    assert_eq!(compared.trim(), count.to_string());
}
