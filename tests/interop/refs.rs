//! `refs.json` and `--refs`: zarr, xarray and Dask read the arrays from the file itself, as Python asdf does.

use std::path::Path;

use common::bloscpack_builder::Pack;
use common::mount::{Mounted, fresh_folder};
use common::python::{python, run};
use common::site::Site;

#[test]
fn references_lead_to_the_arrays_of_python() {
    let folder = fresh_folder();
    run(&python(), "write_refs.py", [folder.path()]);
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(project.join("examples/trajectory.gsd"), folder.path().join("run.gsd")).unwrap();
    for entry in std::fs::read_dir(project.join("tests/fixtures/bloscpack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "blp") {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let data: Vec<u8> = (0..6000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, chunk, shape) in
        [("line", 4000, "[6000]"), ("plane", 1200, "[20,300]"), ("part", 400, "[20,300]")]
    {
        let metadata = format!(r#"{{"dtype":"'<u4'","shape":{shape},"order":"C","container":"numpy"}}"#);
        let pack = Pack::new(chunk, &data).described(metadata.as_bytes());
        std::fs::write(folder.path().join(name).with_extension("blp"), pack.build()).unwrap();
    }
    let mounted = Mounted::file(folder.path());
    let program = Path::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let compared = run(&python(), "read_refs.py", [folder.path(), mounted.root(), program]);
    assert!(compared.trim().parse::<usize>().unwrap() > 90, "{compared}");
    mounted.unmount();
}

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn references_of_an_address_lead_to_the_server() {
        let (folder, site) = (fresh_folder(), Site::web(|_, reply| reply));
        run(&python(), "write_refs.py", [folder.path()]);
        let cube = folder.path().join("cube.asdf");
        site.put("data/cube.asdf", std::fs::read(&cube).unwrap());
        let url = site.server.url("/data/cube.asdf");
        let arguments = [cube.to_str().unwrap(), &url, env!("CARGO_BIN_EXE_asdf-mount")];
        assert_eq!(run(&python(), "read_refs_of_url.py", arguments).trim(), "2");
        // Each chunk of 1 MiB is a request of its own.
        let chunks = site.asked().into_iter().filter(|(_, range)| !range.starts_with("bytes=0-")).count();
        assert!(chunks >= 36, "{:?}", site.asked());
    }
}
