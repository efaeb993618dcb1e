//! `--cutout` and `--near`. `interop` compares cut-outs with those of astropy.

use std::fs;
use std::process::Output;

use common::asdf::{AsdfBuilder, Block};
use common::daemon::{Bench, failed, succeeded};
use common::encode::Encoding;
use common::site::Site;

/// Returns a file with an image of integers `1000 * y + x`, in which the pixel (x, y) is at a position on the equator.
/// Pixels have sides of 0.36 arc seconds; the declination grows with y, the right ascension falls with x.
fn image(shape: [usize; 2], pixel: [usize; 2], ra: f64, encoding: Encoding) -> Vec<u8> {
    let [rows, columns] = shape;
    let numbers = (0..rows).flat_map(|y| (0..columns).map(move |x| (1000 * y + x) as i32));
    let data: Vec<u8> = numbers.flat_map(i32::to_le_bytes).collect();
    let [x, y] = pixel.map(|n| n + 1);
    let tree = format!(
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
         map: !<tag:sunpy.org:sunpy/map/generic_map-1.2.0>\n  \
           data: !core/ndarray-1.0.0 {{source: 0, datatype: int32, byteorder: little, shape: [{rows}, {columns}]}}\n  \
           meta: {{ctype1: RA---TAN, ctype2: DEC--TAN, crpix1: {x}, crpix2: {y}, crval1: {ra}, crval2: 0.0, \
                   cdelt1: -1.0e-4, cdelt2: 1.0e-4, object: M 31}}\n...\n"
    );
    AsdfBuilder::new().tree(tree).block(Block::new(data).encoding(encoding)).build().bytes
}

/// The pixels of the only image of a FITS file, row by row, and the reference pixel.
fn pixels(file: &[u8]) -> (Vec<Vec<i32>>, [f64; 2]) {
    let cards = |from: usize| {
        let header = &file[from..];
        let all = header.chunks_exact(80).map(|card| String::from_utf8(card.to_vec()).unwrap());
        all.take_while(|card| !card.starts_with("END ")).collect::<Vec<_>>()
    };
    let cards = cards(2880);
    let number = |keyword: &str| -> f64 {
        let card = cards.iter().find(|card| card.starts_with(&format!("{keyword:8}="))).unwrap();
        card[9..].split('/').next().unwrap().trim().parse().unwrap()
    };
    let columns = number("NAXIS1") as usize;
    let rows = number("NAXIS2") as usize;
    let start = 2880 + (cards.len() * 80 + 80).next_multiple_of(2880);
    let end = start + 4 * rows * columns;
    assert_eq!(file.len(), end.next_multiple_of(2880));
    let numbers: Vec<i32> =
        file[start..end].as_chunks().0.iter().map(|bytes| i32::from_be_bytes(*bytes)).collect();
    (numbers.chunks(columns).map(<[i32]>::to_vec).collect(), [number("CRPIX1"), number("CRPIX2")])
}

/// Returns the pixels of some rows and columns of the image.
fn part(rows: std::ops::Range<i32>, columns: std::ops::Range<i32>) -> Vec<Vec<i32>> {
    rows.map(|y| columns.clone().map(|x| 1000 * y + x).collect()).collect()
}

fn cutout(bench: &Bench, square: &str, others: &[&str]) -> Output {
    bench.run([&["--cutout", square], others].concat())
}

#[test]
fn pixels_and_reference_of_a_part_are_those_of_the_image() {
    let bench = Bench::new();
    // The pixel (30, 20) is at 0h.
    for (name, encoding) in [("plain.asdf", Encoding::Stored), ("zlib.asdf", Encoding::Zlib)] {
        fs::write(bench.path(name), image([60, 80], [30, 20], 0.0, encoding)).unwrap();
        for (square, expected, reference) in [
            ("0,0,5px", part(18..23, 28..33), [3.0, 3.0]),
            ("360,0,4px", part(18..22, 28..32), [3.0, 3.0]),
            ("-0.001,0.001,1px", part(30..31, 40..41), [-9.0, -9.0]),
            ("23h59m59.76s,+0d0m3.6s,1px", part(30..31, 40..41), [-9.0, -9.0]),
            ("0:0:0.24,-0:0:3.6,1.8arcsec", part(8..13, 18..23), [13.0, 13.0]),
            // Pixels beyond the edges are left out.
            ("0.003,-0.002,7px", part(0..4, 0..4), [31.0, 21.0]),
            ("359.9951,0.0039,6px", part(56..60, 76..80), [-45.0, -35.0]),
            ("0,0,0.5deg", part(0..60, 0..80), [31.0, 21.0]),
        ] {
            let output = cutout(&bench, square, &[name]);
            succeeded(&output);
            let (found, at) = pixels(&output.stdout);
            assert_eq!(found, expected, "{name} {square}");
            assert!((at[0] - reference[0]).abs() + (at[1] - reference[1]).abs() < 1e-9, "{square} {at:?}");
        }
        for beyond in ["0.0031,0,9px", "0,-0.0021,9px", "180,0,9px", "0,90,9px", "359.9949,0,9px"] {
            let said = failed(&cutout(&bench, beyond, &[name]), 1);
            assert!(said.contains(&format!("{name}: does not contain the position")), "{beyond} {said}");
        }
    }
    let said = failed(&cutout(&bench, "0,0,9px", &["--key", "map.other", "plain.asdf"]), 1);
    assert!(said.contains("plain.asdf: has no image map.other with world coordinates"), "{said}");
    succeeded(&cutout(&bench, "0,0,9px", &["--key", "map.data", "plain.asdf"]));
    let said = failed(&cutout(&bench, "0,0,9px", &[common::daemon::SAMPLE]), 1);
    assert!(said.contains("has no image with world coordinates on the sky"), "{said}");
    let mut car = fs::read(bench.path("plain.asdf")).unwrap();
    for at in 0..1000 {
        if car[at..].starts_with(b"-TAN") {
            car[at + 1..at + 4].copy_from_slice(b"CAR");
        }
    }
    fs::write(bench.path("car.asdf"), car).unwrap();
    let said = failed(&cutout(&bench, "0,0,9px", &["car.asdf"]), 2);
    assert!(
        said.contains("car.asdf: the world coordinates of map.data can't be used: its projection"),
        "{said}"
    );
}

#[test]
fn files_without_the_position_or_with_damage_do_not_hold_up_others() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    fs::create_dir(bench.path("out")).unwrap();
    let mut whole = image([60, 80], [30, 20], 10.0, Encoding::Zlib);
    fs::write(bench.path("data/a.asdf"), &whole).unwrap();
    fs::write(bench.path("data/far.asdf"), image([60, 80], [30, 20], 11.0, Encoding::Zlib)).unwrap();
    fs::write(bench.path("data/b.asdf"), image([60, 80], [0, 0], 10.0, Encoding::Stored)).unwrap();
    let block = whole.windows(4).position(|bytes| bytes == b"\xd3BLK").unwrap();
    let middle = block + 54 + 200;
    whole[middle..middle + 100].fill(0xff);
    fs::write(bench.path("data/damaged.asdf"), &whole).unwrap();
    fs::write(bench.path("data/notes.txt"), "text").unwrap();
    let output = cutout(&bench, "10,0,60px", &["data", "-O", "out"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("data/far.asdf: does not contain the position"), "{said}");
    assert!(said.contains("data/damaged.asdf: ") && said.lines().count() == 2, "{said}");
    let names = common::names(&bench.path("out"));
    assert_eq!(names, ["a_cutout.fits", "b_cutout.fits"]);
    let (found, _) = pixels(&fs::read(bench.path("out/a_cutout.fits")).unwrap());
    assert_eq!(found, part(0..50, 0..60));
    // Nothing is overwritten; others are written.
    fs::remove_file(bench.path("out/b_cutout.fits")).unwrap();
    fs::write(bench.path("out/a_cutout.fits"), "mine").unwrap();
    let said = failed(&cutout(&bench, "10,0,6px", &["-q", "data/a.asdf", "data/b.asdf", "-O", "out"]), 2);
    assert!(said.contains("out/a_cutout.fits: exists already: give a name that is free"), "{said}");
    assert_eq!(fs::read(bench.path("out/a_cutout.fits")).unwrap(), b"mine");
    assert_eq!(common::names(&bench.path("out")), names);
    std::os::unix::fs::symlink("nowhere", bench.path("link.fits")).unwrap();
    let said = failed(&cutout(&bench, "10,0,6px", &["data/a.asdf", "-O", "link.fits"]), 2);
    assert!(said.contains("link.fits: exists already") && !bench.path("nowhere").exists(), "{said}");
    succeeded(&cutout(&bench, "10,0,6px", &["data/a.asdf", "-O", "new.fits"]));
    assert_eq!(pixels(&fs::read(bench.path("new.fits")).unwrap()).0, part(17..23, 27..33));
}

#[test]
fn wrong_positions_and_outputs_are_refused() {
    let bench = Bench::new();
    fs::write(bench.path("b.asdf"), image([6, 8], [3, 2], 10.0, Encoding::Stored)).unwrap();
    for (arguments, said) in [
        (&["--cutout", "10", "b.asdf"][..], "write RA,DEC, as in 150.1,2.2"),
        (&["--cutout", "10,0", "b.asdf"], "a size is missing; write RA,DEC,SIZE"),
        (&["--cutout", "10,0,5", "b.asdf"], "5 is no size; write 30arcsec, 2arcmin, 0.1deg or 64px"),
        (&["--cutout", "10,91,5px", "b.asdf"], "the declination 91 is not within 90 degrees"),
        (&["--cutout", "x,1,5px", "b.asdf"], "x is no right ascension; write degrees"),
        (&["--cutout", "10,0,5px"], "--cutout needs at least one FILE"),
        (
            &["--cutout", "10,0,5px", "b.asdf", "b.asdf"],
            "give a directory for the cut-outs of several files: -O DIR",
        ),
        (&["--cutout", "10,0,5px", "."], "give a directory for the cut-outs of several files: -O DIR"),
        (&["--cutout", "10,0,5px", "b.asdf", ".", "-O", "c.fits"], "c.fits is no directory"),
        (&["--cutout", "10,0,5px", "--key", "a..b", "b.asdf"], "a key is empty"),
        (&["--near", "10,0,5px", "--info", "b.asdf"], "5px is no angle"),
        (&["--near", "10,0", "--get", "map", "b.asdf"], "--near can't be used with --get"),
        (&["--near", "10,0", "--catalog", "--since", "b.asdf", "."], "cannot be used with '--since"),
    ] {
        let printed = failed(&bench.run(arguments), 2);
        assert!(printed.contains(said) && printed.lines().count() == 1, "{arguments:?} {printed}");
    }
}

#[test]
fn a_part_of_an_image_on_a_server_takes_few_requests() {
    let bench = Bench::new();
    let site = Site::web(|_, reply| reply);
    site.put("large.asdf", image([1200, 1500], [700, 600], 10.0, Encoding::Stored));
    let url = site.server.url("/large.asdf");
    let output = cutout(&bench, "10,0,40px", &["-o", "anonymous", &url]);
    succeeded(&output);
    assert_eq!(pixels(&output.stdout).0, part(580..620, 680..720));
    // The file has 7.2 MB, the rows of the part 240 kB.
    let requests = site.asked();
    assert!(requests.len() <= 5 && site.server.sent() < 1_000_000, "{} {requests:?}", site.server.sent());
}

#[test]
fn files_are_selected_by_a_position() {
    let bench = Bench::new();
    fs::create_dir(bench.path("data")).unwrap();
    for (name, ra) in [("across.asdf", 0.0), ("east.asdf", 0.02), ("far.asdf", 180.0)] {
        fs::write(bench.path(format!("data/{name}")), image([60, 80], [40, 30], ra, Encoding::Stored))
            .unwrap();
    }
    fs::copy(common::daemon::SAMPLE, bench.path("data/none.asdf")).unwrap();
    let found = |position: &str| {
        let info = bench.run(["--near", position, "--info", "data"]);
        let info = String::from_utf8(info.stdout).unwrap();
        let files: Vec<String> =
            info.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        let search = bench.run(["--near", position, "--search", "object", "data"]);
        let search = String::from_utf8(search.stdout).unwrap();
        let of_search: Vec<&str> = search.lines().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(files, of_search, "{position}");
        let catalog = bench.run(["--near", position, "--catalog", "data"]);
        let catalog = String::from_utf8(catalog.stdout).unwrap();
        assert!(catalog.lines().zip(&files).all(|(line, file)| line.contains(file)), "{catalog}");
        assert_eq!(catalog.lines().count(), files.len());
        files
    };
    // Images reach 0.004 degrees east and west, and 0.003 north and south.
    assert_eq!(found("359.997,0.0029"), ["data/across.asdf"]);
    assert_eq!(found("0.0039,-0.0029"), ["data/across.asdf"]);
    assert_eq!(found("0.01,0,0.005deg"), Vec::<String>::new());
    assert_eq!(found("0.01,0,0.0061deg"), ["data/across.asdf", "data/east.asdf"]);
    assert_eq!(found("-0.01,0,22arcsec"), ["data/across.asdf"]);
    assert_eq!(found("12h0m0s,+0d0m1s"), ["data/far.asdf"]);
    assert_eq!(found("77,90"), Vec::<String>::new());
    let one = bench.run(["--near", "180,0", "--info", "data/far.asdf", "data/east.asdf"]);
    succeeded(&one);
    let text = String::from_utf8(one.stdout).unwrap();
    assert!(text.contains("data/far.asdf  asdf") && !text.contains("east"), "{text}");
    let said = failed(&bench.run(["--near", "77,0", "--info", "data"]), 1);
    assert!(said.contains("no image contains the position"), "{said}");
    let nothing = bench.run(["--near", "77,0", "--search", "object", "data"]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
}
