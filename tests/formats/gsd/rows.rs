//! Series of logs with one row per frame, compared with a model, and in damaged files.

use std::collections::BTreeMap;
use std::sync::Arc;

use asdf_file::container::Container;

use super::walked::{at, bytes, file, folder, npy, open, walk};
use crate::open::read;
use common::dice::Dice;
use common::gsd_builder::{GsdBuilder, LOCATION};

const FILES: u64 = 60;

fn hoomd(version: u32) -> GsdBuilder {
    GsdBuilder::new().version(version).schema("hoomd", 0x1_0004)
}

/// The rows of each name, by frame.
type Model = BTreeMap<&'static str, BTreeMap<u64, Vec<u8>>>;

/// Adds frames with a number and a pair that frame 0 has, a number that it lacks, and steps.
fn add_frames(
    mut builder: GsdBuilder,
    model: &mut Model,
    dice: &mut Dice,
    frames: std::ops::Range<u64>,
) -> GsdBuilder {
    for frame in frames {
        for (name, shape, kind, size) in
            [("log/a", [1, 1], 9, 4), ("log/b/c", [2, 3], 2, 12), ("log/late", [1, 1], 4, 8)]
        {
            let is_there = if frame == 0 { name != "log/late" } else { dice.below(3) == 0 };
            for _ in 0..if is_there { 1 + dice.below(8) / 7 } else { 0 } {
                let data: Vec<u8> = (0..size).map(|_| dice.below(256) as u8).collect();
                builder = builder.chunk(frame, name, shape, kind, &data);
                model.entry(name).or_default().insert(frame, data);
            }
        }
        if frame > 0 {
            let step = (1000 * frame).to_le_bytes();
            builder = builder.chunk(frame, "configuration/step", [1, 1], 4, &step);
            model.entry("step").or_default().insert(frame, step.to_vec());
        }
        // A chunk that has no resolved series.
        builder = builder.bytes(frame, "other", &[1; 5]);
    }
    builder
}

/// Returns the expected files of `arrays/resolved/series`.
fn wanted(model: &Model, frames: u64) -> BTreeMap<String, Vec<u8>> {
    let rows = |name: &str, default: Vec<u8>| -> Vec<u8> {
        let of_name = model.get(name).cloned().unwrap_or_default();
        let base = of_name.get(&0).cloned().unwrap_or(default);
        (0..frames).flat_map(|frame| of_name.get(&frame).unwrap_or(&base).clone()).collect()
    };
    BTreeMap::from([
        ("configuration/step.npy".to_owned(), npy("'<u8'", &[frames], &rows("step", vec![0; 8]))),
        ("log/a.npy".to_owned(), npy("'<f4'", &[frames], &rows("log/a", Vec::new()))),
        ("log/b/c.npy".to_owned(), npy("'<u2'", &[frames, 2, 3], &rows("log/b/c", Vec::new()))),
    ])
}

/// Returns the step and the logs.
fn shown(container: &Arc<dyn Container>) -> BTreeMap<String, Vec<u8>> {
    let files = walk(&*folder(container, "arrays/resolved/series")).into_iter();
    let is_row = |path: &str| path.starts_with("log/") || path == "configuration/step.npy";
    files
        .filter(|(path, _)| is_row(path))
        .map(|(path, file)| (path, read(&*file.content.unwrap()).unwrap()))
        .collect()
}

#[test]
fn frames_without_a_log_have_that_of_frame_0_also_when_the_file_has_grown() {
    let mut dice = Dice(31);
    for number in 0..FILES {
        let version = [0x1_0000, 0x2_0001][dice.below(2) as usize];
        let (mut model, frames) = (Model::new(), 1 + dice.below(30));
        let builder = add_frames(hoomd(version), &mut model, &mut dice, 0..frames);
        let older = open(&builder.build().bytes).unwrap();
        let whole = wanted(&model, frames);
        assert_eq!(shown(&older), whole, "file {number}");
        for (path, whole) in &whole {
            let content = file(&older, &format!("arrays/resolved/series/{path}")).content.unwrap();
            for _ in 0..20 {
                let from = dice.below(whole.len() as u64 + 1) as usize;
                let mut buf = vec![0; dice.below(300) as usize];
                let read = content.read_at(from as u64, &mut buf).unwrap();
                assert_eq!(buf[..read], whole[from..whole.len().min(from + buf.len())], "{path} at {from}");
            }
        }
        let all = frames + 1 + dice.below(9);
        let longer = add_frames(builder, &mut model, &mut dice, frames..all).build();
        let newer = open(&longer.bytes).unwrap();
        newer.carry_over_from(&*older);
        assert_eq!(shown(&newer), wanted(&model, all), "file {number}");
        assert_eq!(shown(&older), whole, "file {number}");
    }
}

#[test]
fn a_row_that_cannot_be_had_is_an_error_and_the_others_are_read() {
    let mut builder = hoomd(0x2_0001);
    for frame in 0..9_u8 {
        let text: &[u8] = if frame == 2 { b"\xff\xfe" } else { "grö".as_bytes() };
        builder = builder
            .chunk(frame.into(), "log/cut", [1, 1], 4, &[frame; 8])
            .chunk(frame.into(), "log/text", [text.len() as u64, 1], 11, text)
            .chunk(
                frame.into(),
                "log/range",
                [1, 1],
                if frame == 5 { 2 } else { 1 },
                &[frame; 2][..1 + usize::from(frame == 5)],
            );
    }
    let built = builder.build();
    let cut = built.clone().set(3 * 6, LOCATION, built.bytes.len() as u64 - 4);
    let container = open(&cut.bytes).unwrap();
    for (name, wrong, unit) in [("cut", 6, 8), ("text", 2, 16), ("range", 5, 1)] {
        let content = file(&container, &format!("arrays/resolved/series/log/{name}.npy")).content.unwrap();
        assert_eq!(content.len(), 128 + 9 * unit, "{name}");
        for frame in 0..9 {
            let mut row = vec![0; unit as usize];
            let read = content.read_at(128 + frame * unit, &mut row);
            if frame == wrong {
                assert!(read.unwrap_err().message().contains(&format!("frame {frame}")), "{name}")
            } else {
                assert_eq!(read.unwrap() as u64, unit, "{name}")
            }
        }
        let mut all = vec![0; content.len() as usize];
        assert_eq!(content.read_at(0, &mut all).unwrap() as u64, 128 + wrong * unit, "{name}");
    }
    let table = file(&container, "tables/log.parquet").content.unwrap();
    assert!(read(&*table).is_err());
}

#[test]
fn what_makes_no_rows_is_left_out_and_told() {
    let text = |frame, name: &str, len: usize| (frame, name.to_owned(), [len as u64, 1], 11, vec![b'x'; len]);
    let number = |frame, name: &str, kind, size| (frame, name.to_owned(), [1, 1], kind, vec![1; size]);
    let vector = |frame, name: &str, len: u64| (frame, name.to_owned(), [len, 1], 1, vec![1; len as usize]);
    let chunks = [
        vector(0, "log/shape", 3),
        vector(1, "log/shape", 2),
        vector(0, "log/text", 1),
        text(1, "log/text", 1),
        text(0, "log/long", (1 << 16) + 1),
        number(0, "log/type", 8, 8),
        number(1, "log/type", 10, 8),
        vector(1, "log/late", 2),
        number(0, "log/fits", 8, 8),
        number(1, "configuration/step", 3, 4),
    ];
    let built = chunks.into_iter().fold(hoomd(0x2_0001), |builder, (frame, name, shape, kind, data)| {
        builder.chunk(frame, name, shape, kind, &data)
    });
    let container = open(&built.build().bytes).unwrap();
    let shown = shown(&container);
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["configuration/step.npy", "log/fits.npy", "log/type.npy"]);
    let step = bytes(&container, "arrays/resolved/series/configuration/step.npy");
    assert_eq!(step, npy("'<u8'", &[2], &[0_u64, 0x0101_0101].map(u64::to_le_bytes).concat()));
    let told: Vec<String> = container.defects().into_iter().map(|defect| defect.what).collect();
    for (name, why) in [
        ("log/shape", "is not in arrays/resolved/series"),
        ("log/text", "is not in arrays/resolved/series"),
        ("log/long", "which do not form one row"),
        ("log/type", "is converted"),
    ] {
        let is_told = |text: &&String| text.starts_with(name) && text.contains(why);
        assert_eq!(told.iter().filter(is_told).count(), 1, "{name}: {told:?}");
    }
    // Without frames and logs there is still a step.
    let empty = open(&hoomd(0x2_0001).build().bytes).unwrap();
    assert_eq!(bytes(&empty, "arrays/resolved/series/configuration/step.npy"), npy("'<u8'", &[0], &[]));
    assert!(!bytes(&empty, "tables/log.parquet").is_empty());
    assert!(at(&open(&GsdBuilder::new().build().bytes).unwrap(), "tables").is_none());
}

#[test]
fn quantities_of_the_schema_have_a_row_for_each_frame() {
    let floats =
        |numbers: &[f32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let first = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let third = floats(&[7.0; 6]);
    let count = |frame, value: u32| (frame, "particles/N", [1, 1], 3, value.to_le_bytes().to_vec());
    let chunks = vec![
        count(0, 2),
        (0, "particles/position", [2, 3], 9, first.clone()),
        (0, "bonds/N", [1, 1], 3, vec![1, 0, 0, 0]),
        (1, "bonds/N", [1, 1], 3, vec![0, 0, 0, 0]),
        count(2, 2),
        (2, "particles/position", [2, 3], 9, third.clone()),
        (2, "particles/charge", [2, 1], 9, floats(&[8.0, 9.0])),
        (2, "particles/mass", [2, 1], 10, vec![0; 16]),
    ];
    let built = chunks.into_iter().fold(hoomd(0x2_0001), |builder, (frame, name, shape, kind, data)| {
        builder.chunk(frame, name, shape, kind, &data)
    });
    let container = open(&built.build().bytes).unwrap();
    let series = |name: &str| bytes(&container, &format!("arrays/resolved/series/{name}.npy"));
    let positions = [first.clone(), first, third].concat();
    assert_eq!(series("particles/position"), npy("'<f4'", &[3, 2, 3], &positions));
    assert_eq!(series("particles/charge"), npy("'<f4'", &[3, 2], &floats(&[0.0, 0.0, 0.0, 0.0, 8.0, 9.0])));
    assert_eq!(series("particles/diameter"), npy("'<f4'", &[3, 2], &floats(&[1.0; 6])));
    assert_eq!(series("particles/N"), npy("'<u4'", &[3], &[2, 0, 0, 0].repeat(3)));
    assert_eq!(series("angles/group"), npy("'<u4'", &[3, 0, 3], &[]));
    // The default has another type; the number of bonds changes.
    for missing in ["particles/mass", "particles/types", "bonds/typeid", "bonds/group"] {
        assert!(at(&container, &format!("arrays/resolved/series/{missing}.npy")).is_none(), "{missing}");
    }
}
