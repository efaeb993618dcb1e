//! Compares the events with libyaml's, which are taken as correct.

use super::*;
use crate::yaml::parser::Events;

/// Texts with every construct, from which further texts are derived.
const SEEDS: &[&str] = &[
    "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
     asdf_library: !core/software-1.0.0 {author: The ASDF Developers, name: asdf, version: 5.0.0}\nhistory:\n  \
     extensions:\n  - !core/extension_metadata-1.0.0\n    extension_class: asdf.extension._manifest\n    \
     software: !core/software-1.0.0 {name: asdf, version: 5.0.0}\ndata: !core/ndarray-1.1.0\n  source: 0\n  \
     datatype: float64\n  byteorder: little\n  shape: [1024, 1024]\n...\n",
    "a: &b !c [1, 'x', \"\\u00e4\\n\"]\nd: |\n  text\n   more\n\n  ä\n? x\ne: >-\n   f\n   g\n\n   h\nk: *b\n...\n",
    "- - 1\n  - 2\n-\n  - 'it''s'\n  - \"a\\\n    b\"\n- a: 1\n  b:\n  - x\n  - y\n  c: {d: e, f: [g, h: i]}\n# end\n",
    "plain: several words\n  on two lines\n\n  and a third # comment\n'quoted key': 'one\n  two\n\n  three'\n\"k\": \"a  \n  b\\\n  \\  c\"\n",
    "a:\nb: ~\nc: &x\nd: !t\ne: !<tag:x,y> z\nf: !!str 1\ng: ! h\n<<: *x\nurl: http://x.y:80/#z\nk: -1\n-x: :y\n?z: 1\n",
    "{a: 1, b: [x, {c: }], d, 'e': \"f\", g: [h, i, ], \"j\":k, l: m:n}\n",
    "a: |+\n  x\n\n\nb: |2-\n   y\n  z\nc: >+1\n  w\n v\n\n u\nd: >\n\n  t\n\n   s\n  r\n  q\n",
    "[a, [b, c], {d: e\n, f: g},\n h\n  i, ? ]",
    "--- # c\n- ä: ö\n- \"ß\": 'é'\n- 漢字: [漢, 字]\n...\n# after\n",
    "a:   \n    b:  \n      - c\n      -   d\n    e: f\n",
    "just one scalar",
    "",
    "---\n...\n",
    "x: 1\n---\ny: 2\n",
];

/// Compares the events of both parsers until one of them fails. Returns the number of equal events, and true
/// if these were all.
fn compare(text: &[u8]) -> (usize, bool) {
    let Some(mut fast) = FastParser::new(text) else { return (0, false) };
    let mut events = Events::new(text);
    let mut same = 0;
    loop {
        let Ok(ours) = fast.next_event() else { return (same, false) };
        let theirs = events.next_event();
        assert_eq!(theirs.as_ref().ok(), Some(&ours), "{theirs:?}\n{}", text.escape_ascii());
        if ours.is_none() {
            return (same, true);
        }
        same += 1;
    }
}

#[test]
fn deep_brackets_are_read_to_their_end() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("[{b: 1, c: ", "}]"), ("[0, ", ", x: y]"), ("[\n", "]")]
    {
        let deep = 900 / open.matches(['[', '{']).count();
        let text = [&open.repeat(deep), "z", &close.repeat(deep), "\n"].concat();
        assert!(compare(text.as_bytes()).1, "{open}");
    }
}

#[test]
fn the_usual_is_read_to_its_end() {
    for seed in SEEDS {
        let usual = !seed.contains("? ") && !seed.contains("---\ny");
        assert_eq!(compare(seed.as_bytes()).1, usual, "{seed}");
    }
    // Trees written by Python asdf.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/asdf");
    let mut trees = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let end = memchr::memmem::find(&bytes, b"\n...\n").map(|end| end + 5);
        let Some(text) = end.map(|end| &bytes[..end]).filter(|text| text.starts_with(b"#ASDF")) else {
            continue;
        };
        assert!(compare(text).1, "{}", String::from_utf8_lossy(text));
        trees += 1;
    }
    assert!(trees > 3);
}

/// A key is limited to one line, and to 1024 bytes before its colon.
#[test]
fn long_keys_and_words_are_read_as_libyaml_reads_them() {
    let mut refused = 0;
    for len in (1015..1035).chain([40_000]) {
        let word = "x".repeat(len);
        let words = "ä ".repeat(len / 3) + &"y".repeat(len % 3);
        for key in [&word, &words] {
            for text in [
                format!("a:\n  {key}: 1\n  b: 2\n"),
                format!("{key}: 1\n"),
                format!("'{key}': 1\n"),
                format!("k: {{\"{key}\": 1, &a {key}: 2}}\n"),
                format!("[a{}: b, {key}: c]\n", " ".repeat(len)),
                format!("- {key} {key}\n- '{key}'\n- >\n  {key}\n  {key}\n"),
                format!("[{key}]: 1\n"),
                format!("!t {key}: 1\n"),
            ] {
                refused += u32::from(!compare(text.as_bytes()).1);
            }
        }
    }
    assert!(refused > 20 && refused < 300, "{refused}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    for text in [
        "a:\tb",
        "a: b\r\n",
        "\u{feff}a",
        "a\0",
        "a\u{85}b",
        "a\u{2028}",
        "a: \u{7}",
        "%X 1\n---\n",
        "? a\n: b\n",
    ] {
        assert!(!compare(text.as_bytes()).1, "{text:?}");
    }
    assert!(!compare(b"a: \xff").1);
    assert!(!compare("[".repeat(200).as_bytes()).1);
    assert!(!compare("- ".repeat(2000).as_bytes()).1);
}

#[test]
fn no_mutation_is_told_otherwise_than_by_libyaml() {
    let tokens = b"[]{}&*!|>'\"%@`#,:?-+\n\n \n  x0.~\\<=u1b/";
    let rounds = std::env::var("QUICK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40_000);
    let mut state = 11_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut whole = 0;
    for _ in 0..rounds {
        let mut text = SEEDS[random(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..=random(6) {
            let at = random(text.len() + 1);
            match random(5) {
                0 => text.truncate(at + text.len() / 2),
                1 | 2 => text.insert(at, tokens[random(tokens.len())]),
                3 if at < text.len() => drop(text.remove(at)),
                _ => {
                    let other = SEEDS[random(SEEDS.len())].as_bytes();
                    let from = random(other.len() + 1);
                    let to = other.len().min(from + random(20));
                    text.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        whole += u32::from(compare(&text).1);
    }
    assert!(whole > rounds / 10, "only {whole} of {rounds} were read to their ends");
}
