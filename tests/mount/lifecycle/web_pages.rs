//! `index.html` of files, and the galleries of directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::daemon::{Bench, SAMPLE, failed, succeeded};
use common::names;
use common::site::Site;

fn printed(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_of_a_file_is_that_of_its_mount() {
    let bench = Bench::of_sample();
    let source = bench.source();
    let here = printed(&bench, &["--cat", source.to_str().unwrap(), "index.html"]);
    let name = source.file_name().unwrap().to_str().unwrap();
    for part in [
        &format!("<h1>{name}</h1>")[..],
        "data:image/png;base64,",
        "<dt>Filter</dt><dd>V</dd>",
        "Sample Galaxy",
    ] {
        assert!(here.contains(part), "{part}: {here}");
    }
    let daemon = bench.mount(&bench.mountpoint());
    let page = bench.mountpoint().join("index.html");
    assert_eq!(fs::metadata(&page).unwrap().len(), here.len() as u64);
    assert_eq!(fs::read_to_string(&page).unwrap(), here);
    // Each link leads to a file or directory.
    for link in here.match_indices("href=\"./").map(|(at, _)| &here[at + 8..]) {
        let path = link.split('"').next().unwrap();
        assert!(bench.mountpoint().join(path).exists(), "{path}");
    }
    assert!(fs::write(&page, "x").is_err());
    succeeded(&bench.run(["-u".as_ref(), bench.mountpoint().as_os_str()]));
    daemon.ends();
    let source = source.to_str().unwrap();
    failed(&bench.run(["--cat", "-o", "views=arrays", source, "index.html"]), 1);
    let alone = printed(&bench, &["--cat", "-o", "views=index.html", source, "index.html"]);
    assert!(!alone.contains(".npy\"") && !alone.contains("base64"), "{alone}");
}

#[test]
fn arrays_in_other_files_have_rows() {
    let bench = Bench::new();
    fs::copy(SAMPLE, bench.path("other.asdf")).unwrap();
    let source = bench.source();
    let tree = "own: !core/ndarray-1.1.0 {data: [1, 2, 3], datatype: int8, shape: [3]}\ndata: {$ref: 'other.asdf#/image'}\n\
                name: {$ref: 'other.asdf#/object'}\ngone: {$ref: 'missing.asdf#/<b>'}\n";
    let head = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";
    fs::write(&source, format!("{head}{tree}...\n")).unwrap();
    let daemon = bench.mount(&bench.mountpoint());
    let page = bench.mountpoint().join("index.html");
    let text = fs::read_to_string(&page).unwrap();
    let row = "<th scope=\"row\">data</th><td>int16</td><td class=\"whole\">160 × 160</td><td></td><td>in \
               other.asdf#/image</td>";
    assert!(text.contains(row) && text.contains("<a href=\"./fits/data.fits\""), "{text}");
    assert!(text.contains("<th scope=\"row\">name</th><td colspan=\"2\">no array</td>"), "{text}");
    assert!(text.contains("missing.asdf#/&lt;b&gt;"), "{text}");
    succeeded(&bench.run(["-u".as_ref(), bench.mountpoint().as_os_str()]));
    daemon.ends();
}

#[test]
fn a_page_follows_a_save() {
    let bench = Bench::of_sample();
    let daemon = bench.mount(&bench.mountpoint());
    let page = bench.mountpoint().join("index.html");
    let before = fs::read_to_string(&page).unwrap();
    assert!(before.contains("<dt>Filter</dt><dd>V</dd>"));
    let tree = bench.mountpoint().join("tree.yaml");
    let text = fs::read_to_string(&tree).unwrap();
    fs::write(&tree, text.replace("filter: V", "filter: Bessell")).unwrap();
    let after = fs::read_to_string(&page).unwrap();
    assert!(after.contains("<dt>Filter</dt><dd>Bessell</dd>"), "{after}");
    assert_eq!(fs::metadata(&page).unwrap().len(), after.len() as u64);
    succeeded(&bench.run(["-u".as_ref(), bench.mountpoint().as_os_str()]));
    daemon.ends();
}

#[test]
fn a_directory_has_a_gallery_that_listings_leave_out() {
    let bench = Bench::new();
    let data = bench.path("data");
    fs::create_dir_all(data.join("below/deep")).unwrap();
    fs::create_dir(data.join("own")).unwrap();
    fs::create_dir(data.join("own/.asdf-mount")).unwrap();
    fs::write(data.join("own/.asdf-mount/mine"), "").unwrap();
    fs::write(data.join("own/index.html"), "mine").unwrap();
    let sample = fs::read(SAMPLE).unwrap();
    for name in ["b.asdf", "a & <b>.asdf"] {
        fs::write(data.join(name), &sample).unwrap();
    }
    fs::write(data.join("notes.txt"), "text").unwrap();
    // The filter beside a picture is not that of another image.
    let image = "data: !core/ndarray-1.0.0 [[1, 2], [3, 4]]";
    let tree = format!("sky: {{filter: OTHER, {image}}}\nmeta: {{filter: A}}\n{image}\n");
    let text =
        format!("#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{tree}...\n");
    fs::write(data.join("b.asdf"), text).unwrap();
    let private = data.join("private.asdf");
    fs::write(&private, "#ASDF 1.0.0\n%YAML 1.1\n---\nmeta: {filter: SECRET}\n...\n").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    succeeded(&bench.run(["-o", "allow_other", "data", "mnt"]));
    let mnt = bench.mountpoint();
    assert_eq!(names(&mnt), ["a & <b>.asdf", "b.asdf", "below", "notes.txt", "own", "private.asdf"]);
    let gallery = mnt.join(".asdf-mount");
    assert_eq!(names(&gallery), ["date.html", "filter.html", "index.html", "product.html", "target.html"]);
    let page = fs::read_to_string(gallery.join("index.html")).unwrap();
    assert_eq!(fs::metadata(gallery.join("index.html")).unwrap().len(), page.len() as u64);
    assert!(page.contains("3 files") && !page.contains("notes.txt") && !page.contains("SECRET"), "{page}");
    assert!(page.contains("<a href=\"../a%20%26%20%3Cb%3E.asdf/index.html\">"), "{page}");
    assert!(page.contains("<b>a &amp; &lt;b&gt;.asdf</b></a>") && page.contains("<span>V</span>"), "{page}");
    assert!(page.contains("<span>A</span>") && !page.contains("OTHER"), "{page}");
    let by_filter = fs::read_to_string(gallery.join("filter.html")).unwrap();
    assert!(by_filter.find("<b>b.asdf") < by_filter.find("<b>a &amp;"), "{by_filter}");
    assert!(fs::read_to_string(mnt.join("below/.asdf-mount/index.html")).unwrap().contains("no files"));
    for missing in ["index-2.html", "size.html", ".asdf-mount"] {
        assert!(fs::metadata(gallery.join(missing)).is_err(), "{missing}");
    }
    assert!(fs::write(gallery.join("x"), "").is_err() && fs::create_dir(gallery.join("x")).is_err());
    // The directory itself has the page, too, and listings leave it out. Each link and picture in it exists.
    fs::write(data.join("cut.asdf"), &sample[..5000]).unwrap();
    let header = sample.windows(4).position(|four| four == b"\xd3BLK").unwrap();
    fs::write(data.join("header.asdf"), &sample[..header + 20]).unwrap();
    fs::write(data.join("below/d.asdf"), &sample).unwrap();
    fs::write(data.join("empty.asdf"), "").unwrap();
    fs::write(data.join("few.asdf"), "#AS").unwrap();
    let frame = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/blosc2/cube.b2nd");
    fs::write(data.join("cut.b2nd"), &fs::read(frame).unwrap()[..40]).unwrap();
    for directory in ["", "below", "below/deep", ".asdf-mount", "below/.asdf-mount"] {
        let page = fs::read_to_string(mnt.join(directory).join("index.html")).unwrap();
        assert_eq!(fs::metadata(mnt.join(directory).join("index.html")).unwrap().len(), page.len() as u64);
        let links = page.match_indices("href=\"").chain(page.match_indices("src=\""));
        let links: Vec<String> =
            links.map(|(at, found)| page[at + found.len()..].split('"').next().unwrap().to_owned()).collect();
        assert!(links.len() >= 5, "{page}");
        for link in links {
            let path = link.replace("%20", " ").replace("%26", "&").replace("%3C", "<").replace("%3E", ">");
            assert!(fs::metadata(mnt.join(directory).join(&path)).is_ok(), "{directory}: {path}");
        }
    }
    let page = fs::read_to_string(mnt.join("index.html")).unwrap();
    assert_eq!(page.matches("<img").count(), 2, "{page}");
    for damage in ["the file is cut off: ", "the file is cut off within a block&#39;s header"] {
        assert!(page.contains(&format!("<span class=\"bad\">damaged: block 0: {damage}")), "{page}");
    }
    for (name, reason) in [("empty.asdf", "is empty"), ("few.asdf", "is cut off"), ("cut.b2nd", "")] {
        let at = page.find(&format!("<a href=\"./{name}\">")).unwrap_or_else(|| panic!("{name}: {page}"));
        let item = page[at..].split("</li>").next().unwrap();
        assert!(item.contains(&format!("can&#39;t be read: {reason}")) && !item.contains("<img"), "{item}");
    }
    assert_eq!(page.matches("<span>Sample Galaxy</span>").count(), 3, "{page}");
    assert!(
        page.contains(" <a href=\"./below/index.html\">below/</a>") && !page.contains(">..</a>"),
        "{page}"
    );
    let below = fs::read_to_string(mnt.join("below/index.html")).unwrap();
    assert!(below.contains(" <a href=\"./../index.html\">..</a>"), "{below}");
    assert!(!names(&mnt).contains(&"index.html".to_owned()));
    for name in ["cut.asdf", "header.asdf", "below/d.asdf", "empty.asdf", "few.asdf", "cut.b2nd"] {
        fs::remove_file(data.join(name)).unwrap();
    }
    // A directory's own page is shown.
    assert_eq!(fs::read_to_string(mnt.join("own/index.html")).unwrap(), "mine");
    // A directory's own `.asdf-mount` is shown.
    assert_eq!(names(&mnt.join("own/.asdf-mount")), ["mine"]);
    // A new file is on the page.
    fs::write(data.join("c.asdf"), &sample).unwrap();
    let page = fs::read_to_string(gallery.join("index.html")).unwrap();
    assert!(page.contains("4 files") && page.contains("../c.asdf/index.html"), "{page}");
    succeeded(&bench.run(["-u", "mnt"]));
    // Without a mount for others, the mounting user sees the facts of all files.
    let own = printed(&bench, &["--cat", "data", ".asdf-mount/index.html"]);
    assert!(own.contains("SECRET"), "{own}");
}

#[test]
fn a_page_reads_little_from_a_server() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let site = Site::web(move |_, reply| {
        count.fetch_add(reply.body.len(), Ordering::Relaxed);
        reply
    });
    let size: u64 = 48 << 20;
    let mut file = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\ndata: !core/ndarray-1.0.0 {source: 0, \
         datatype: uint8, byteorder: big, shape: [8192, 6144]}\n...\n"
        .as_bytes()
        .to_vec();
    file.extend(b"\xd3BLK\0\x30\0\0\0\0\0\0\0\0");
    for _ in 0..3 {
        file.extend(size.to_be_bytes());
    }
    file.extend([0; 16]);
    file.resize(file.len() + size as usize, 7);
    site.put("big.asdf", file);
    let bench = Bench::new();
    let page = printed(&bench, &["--cat", &site.server.url("/big.asdf"), "index.html"]);
    assert!(page.contains("7 … 7, mean 7 <small>(a sample of"), "{page}");
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < 12 << 20, "{sent}");
}
