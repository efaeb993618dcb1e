//! The tests' builder, compared with Python asdf, because tests with a wrong model prove nothing.

use std::fs;

use common::asdf::{AsdfBuilder, Block, Index, index_text, sample};
use common::encode::Encoding;
use common::mount::fresh_folder;
use common::python;

#[test]
fn python_reads_what_the_builder_builds() {
    let folder = fresh_folder();
    let mut files = vec![
        ("plain", AsdfBuilder::new().block(Block::new(sample(1000, 1)))),
        (
            "padded",
            AsdfBuilder::new().padding([b' '; 4000]).block(Block::new(sample(1000, 2)).slack([0; 99])),
        ),
        ("crlf", AsdfBuilder::new().crlf().block(Block::new(sample(10, 3)))),
        ("flow-index", three_blocks().index(Index::Flow)),
        ("no-index", three_blocks().index(Index::Absent)),
        ("hidden-index", AsdfBuilder::new().block(Block::new(index_text(&[5, 7])))),
        ("streamed", three_blocks().block(Block::new(sample(777, 4)).streamed())),
    ];
    for encoding in Encoding::all().into_iter().filter(Encoding::is_known_to_python) {
        let name = format!("{encoding:?}").replace(['(', ')'], "-");
        let block = Block::new(sample(50_000, 5)).encoding(encoding);
        files.push((Box::leak(name.into_boxed_str()), AsdfBuilder::new().block(block)));
    }
    let mut blocks = 0;
    for (name, file) in &files {
        let built = file.build();
        built.save(folder.path(), &format!("{name}.asdf"));
        let truth = folder.path().join(format!("{name}.blocks"));
        fs::create_dir(&truth).unwrap();
        for (n, block) in built.blocks.iter().enumerate() {
            fs::write(truth.join(format!("{n}.bin")), &block.data).unwrap();
        }
        blocks += built.blocks.len();
    }
    let compared = python::run(&python::python(), "check_built.py", [folder.path()]);
    assert_eq!(compared.trim(), blocks.to_string());
}

fn three_blocks() -> AsdfBuilder {
    AsdfBuilder::new().blocks((0..3).map(|n| Block::new(sample(300 + n, n as u32))))
}
