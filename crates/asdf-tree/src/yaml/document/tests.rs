use super::*;
use crate::limits::MAX_NODES;
use crate::yaml::event::{Event, What};
use crate::yaml::parser::Events;
use crate::yaml::read::each_event_in;
use seekable::content::Text;

/// The events of a text in short form, with the target of each alias, and the error at the end.
#[derive(Default)]
struct Short {
    events: Vec<String>,
    open: Vec<&'static str>,
    anchors: std::collections::HashMap<String, u64>,
    documents: usize,
}

impl Short {
    fn on_event(&mut self, event: &Event<'_>) -> bool {
        let at = event.start.offset;
        match event.what {
            What::Scalar { value, style, tag, anchor } => {
                self.events.push(format!("{value:?} {style:?} {}", tag.unwrap_or("-")));
                self.note(anchor, at);
            }
            What::Alias(name) => self.events.push(format!("*{name} {:?}", self.anchors.get(name))),
            What::SequenceStart { tag, anchor, .. } => self.begin("]", tag, anchor, at),
            What::MappingStart { tag, anchor, .. } => self.begin("}", tag, anchor, at),
            What::SequenceEnd | What::MappingEnd => self.end(),
            What::DocumentStart { .. } => {
                self.documents += 1;
                return self.documents < 2;
            }
            _ => {}
        }
        true
    }

    fn note(&mut self, anchor: Option<&str>, at: u64) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor.to_owned(), at);
        }
    }

    fn begin(&mut self, end: &'static str, tag: Option<&str>, anchor: Option<&str>, at: u64) {
        self.events.push(format!("begin{end} {}", tag.unwrap_or("-")));
        self.open.push(end);
        self.note(anchor, at);
    }

    fn end(&mut self) {
        let end = self.open.pop().unwrap();
        self.events.push(end.to_owned());
    }

    /// Ends the collections that a fault has left open, as a document does.
    fn finish(mut self) -> Vec<String> {
        while !self.open.is_empty() {
            self.end();
        }
        self.events
    }
}

fn of_events(text: &[u8]) -> (Vec<String>, Option<String>) {
    let mut short = Short::default();
    let read = each_event_in(text, |event| Ok::<_, Error>(short.on_event(event)));
    (short.finish(), read.err().map(|error| error.message()))
}

/// The nodes of a document as events.
fn of_document(document: &Document) -> Vec<String> {
    let mut events = Vec::new();
    if let Some(root) = document.root() {
        add(document, root, &mut events);
    }
    events
}

fn add(document: &Document, id: Id, events: &mut Vec<String>) {
    let tag = document.tag(id).unwrap_or("-");
    match document.kind(id) {
        Kind::Scalar(style) => events.push(format!("{:?} {style:?} {tag}", document.text(id))),
        Kind::Alias => {
            let target = document.target(id).map(|id| document.mark(id).offset);
            events.push(format!("*{} {target:?}", document.text(id)));
        }
        Kind::ScalarRun => {
            let mut items = 0;
            let mut depth = 0;
            for piece in 0..document.piece_count(id) {
                let before = events.len();
                let read = document.read_piece(id, piece, |event| {
                    match event {
                        RunEvent::Scalar(text) => events.push(format!("{text:?} Plain -")),
                        RunEvent::SequenceStart => events.push("begin] -".to_owned()),
                        RunEvent::SequenceEnd => events.push("]".to_owned()),
                    }
                    depth += i32::from(event == RunEvent::SequenceStart);
                    depth -= i32::from(event == RunEvent::SequenceEnd);
                    items += u32::from(depth == 0);
                    Ok(())
                });
                assert!(read.is_ok(), "{}", document.text);
                let own = document.piece(id, piece).unwrap();
                let mut of_piece = Vec::new();
                for item in own.children(own.root().unwrap()) {
                    add(&own, item, &mut of_piece);
                }
                assert_eq!(of_piece, events[before..]);
            }
            assert_eq!(items, document.node(id).text.1);
        }
        kind => {
            let end = if kind == Kind::Mapping { "}" } else { "]" };
            events.push(format!("begin{end} {tag}"));
            let mut count = 0;
            let mut key = None;
            for child in document.children(id) {
                assert_eq!(document.parent(child), Some(id));
                match document.place(child) {
                    NodePlace::Item(index) => assert_eq!(index, count),
                    NodePlace::Key => key = Some(child),
                    place => assert_eq!(place, NodePlace::Value(key.unwrap())),
                }
                count +=
                    if document.kind(child) == Kind::ScalarRun { document.node(child).text.1 } else { 1 };
                add(document, child, events);
            }
            events.push(end.to_owned());
        }
    }
}

/// Compares the document of a text with the events of both parsers. Returns the document.
fn compare(text: &[u8]) -> Document {
    let (expected, error) = of_events(text);
    let document = Document::read(&Text::new(text)).unwrap();
    assert_eq!(of_document(&document), expected, "{}", text.escape_ascii());
    let fault = document.fault().map(Error::message);
    match error {
        Some(error) => assert_eq!(fault, Some(error)),
        None => assert!(fault.is_none_or(|fault| fault.starts_with("a second document begins"))),
    }
    // libyaml alone gives the same nodes.
    let mut builder = Builder::new(MAX_NODES);
    let mut events = Events::new(text);
    let valid = valid_part(text);
    while let Ok(Some(event)) = events.next_event() {
        if !builder.on_event(valid, &event) {
            break;
        }
    }
    let other = builder.finish(valid.to_owned());
    assert_eq!(of_document(&other), expected, "{}", text.escape_ascii());
    assert_eq!(other.nodes.len(), document.nodes.len());
    document
}

fn runs(text: &str) -> usize {
    let document = compare(text.as_bytes());
    document.all().filter(|id| document.kind(*id) == Kind::ScalarRun).count()
}

#[test]
fn many_numbers_are_few_nodes() {
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let flow = format!("a: [{}]\n", numbers(100_000).join(", "));
    let document = compare(flow.as_bytes());
    assert_eq!((document.nodes.len(), document.runs.len()), (4, 1));
    let rows = |row: &str| vec![row; 5000].join("\n");
    for text in [
        format!("- {}\n", numbers(1000).join("\n- ")),
        format!("a: !t\n- {}\n", numbers(1000).join("\n- ")),
        format!("a: &x !t\n  -   {}\n", numbers(1000).join("\n  -   ")),
        format!("a: &x\n  - {}\nb: *x\n", numbers(1000).join("\n  -\n    \n     ")),
        format!("ä: {{ß: [{}], é: [ü]}}\n", numbers(1000).join(" ,\n# c\nü,")),
        rows("- [1.5, 2, x]"),
        rows("- - 1.5\n  - a b\n     c\n  -\n  - z"),
        rows("- [[1, 2], [], [3, [4]]]"),
        rows("-\n# comment\n  # more\n\n  - 1\n  -\n   - 2"),
        format!("- 'x'\n{}\n- {{a: 1}}\n- 5\n", rows("- several\n  words")),
        format!("a:\n- - x\n  -   - y\n{}\n", rows("      - z")),
        format!("? [{}]\n: [{}]\n", numbers(40).join(","), numbers(40).join(",")),
        rows("-\t1\n- 2").replace('\t', " "),
        rows("- 1").replace('\n', "\r\n"),
        rows("- 1 # a\tb\n-\n- 2"),
        format!("\u{feff}- [{}]", numbers(40).join("\u{85}  ,")),
    ] {
        let found = runs(&text);
        assert!(found > 0 && found < 3, "{found} runs in {text:.200}");
    }
    // No run: few items, tags, anchors, quotes.
    for text in ["[1, 2, 3]", "- [1, 2]\n- [3]"] {
        assert_eq!(runs(text), 0, "{text}");
    }
    for item in ["!t 1", "&a 1", "'1'", "{a: 1}", "!t [1]", "&a [1]", "['1']", "*x"] {
        assert_eq!(runs(&format!("- &x 0\n{}", rows(&format!("- {item}")))), 0, "{item}");
    }
}

#[test]
fn runs_begin_and_end_within_sequences() {
    let many = |item: &str| vec![item; 30].join(", ");
    let text = format!("[{}, 'x', {}, [{}], 1, {{a: [{}]}}]", many("1"), many("[2]"), many("3"), many("4"));
    let document = compare(text.as_bytes());
    let root = document.root().unwrap();
    let places: Vec<_> = document.children(root).map(|id| (document.kind(id), document.place(id))).collect();
    let item = |kind, index| (kind, NodePlace::Item(index));
    let expected = [
        item(Kind::ScalarRun, 0),
        item(Kind::Scalar(Style::SingleQuoted), 30),
        // The sequence of 30 numbers is an item of the run, too.
        item(Kind::ScalarRun, 31),
        item(Kind::Mapping, 63),
    ];
    assert_eq!(places, expected);
}

#[test]
fn long_items_are_no_part_of_a_run() {
    let long = "x".repeat(70_000);
    let row = format!("[{}]", vec!["1234567"; 10_000].join(", "));
    let document = compare(format!("[{}]", vec![long; 20].join(", ")).as_bytes());
    assert_eq!((document.nodes.len(), document.runs.len()), (21, 0));
    let document = compare(format!("[{}]", vec![row; 20].join(", ")).as_bytes());
    assert_eq!((document.nodes.len(), document.runs.len()), (41, 20));
}

#[test]
fn a_text_that_breaks_off_gives_what_was_read() {
    for (text, nodes, why) in [
        ("a: [1, 2\nb: 3\n", 5, "line 2, column 2: did not find expected ',' or ']'"),
        ("a: 1\n--- {b: 2}\n", 3, "a second document begins at line 2, column 1"),
        ("a: 1\nb: \u{7}\n", 0, "line 2, column 4: control characters are not allowed"),
        ("", 0, ""),
    ] {
        let document = compare(text.as_bytes());
        let fault = document.fault().map(Error::message).unwrap_or_default();
        assert_eq!((document.nodes.len(), fault.contains(why)), (nodes, true), "{text}: {fault}");
    }
    let document = compare(b"a: 1\nb: \xff\n");
    assert!(document.fault().unwrap().message().contains("invalid leading UTF-8 octet"));
}

#[test]
fn places_are_those_of_the_events() {
    let text = "ä: 1\r\nb:\n  'ß': [x,\u{85} y, *z,\u{2028}  &z w]\rc: d\n";
    let document = compare(text.as_bytes());
    let mut events = Events::new(text.as_bytes());
    let mut nodes = document.all();
    while let Ok(Some(event)) = events.next_event() {
        let is_node = !matches!(
            event.what,
            What::StreamStart
                | What::StreamEnd
                | What::DocumentStart { .. }
                | What::DocumentEnd { .. }
                | What::SequenceEnd
                | What::MappingEnd
        );
        if is_node {
            assert_eq!(document.mark(nodes.next().unwrap()), event.start);
        }
    }
    assert_eq!(nodes.next(), None);
}

#[test]
fn there_may_be_more_tags_than_two_bytes_can_number() {
    let items: Vec<String> = (0..70_000).map(|n| format!("- !t{n} x")).collect();
    let document = compare(items.join("\n").as_bytes());
    let last = document.all().last().unwrap();
    assert_eq!(document.tag(last), Some("!t69999"));
}

/// Texts from which further texts are derived.
const SEEDS: &[&str] = &[
    "a: &b !c [1, 'x', \"\\u00e4\\n\", 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]\nd: *b\n",
    "- 1\n- 2\n- 3\n- 4\n- 5\n- 6\n- 7\n- 8\n- 9\n- 10\n-\n- 12\n- 13\n- 14\n- 15\n- 16\n- 17\n- several\n   words\n- 19\n\
     - 20\n# comment\n- 21\n-\n   22\n- [1, 2]\n- - 3\n  - 4\n",
    "key:\n- - 1\n  - 2\n- - 3\n  - 4\n- - 5\n-\n - 6\n- [7, 8]\n- []\n- - - 9\n    - 10\n  - 11\n- - 1\n- - 2\n- - 3\n- - 4\n- - 5\n\
     - - 6\n- - 7\n- - 8\n- - 9\n- - 10\n  - 11\n- - 12\nother: {a: b}\n",
    "ä: [[1, 2], [3, 4], [5], [6], [7], [8], [9], [10, 11, [12]], [13], [14], [15], [16], [17],\n # é\n [18], [19], [ß ü\n ö], \
     [21]]\n",
    "x: |\n  1\ny: >-\n   f\n\n   g\n? z\n: [a, b: c, d]\n<<: {k: v}\n...\n",
];

#[test]
fn no_mutation_gives_another_document_than_its_events() {
    let tokens = b"[]{}&*!|>'\"#,:?-\n\n \n  x0.\t\r~\\";
    let rounds = std::env::var("QUICK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20_000);
    let mut state = 5_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut with_runs = 0;
    for _ in 0..rounds {
        let mut text = SEEDS[random(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..random(4) {
            let at = random(text.len() + 1);
            match random(6) {
                0 => text.truncate(at + text.len() / 2),
                1 | 2 => text.insert(at, tokens[random(tokens.len())]),
                3 if at < text.len() => drop(text.remove(at)),
                4 if at < text.len() => text[at] ^= 1 << random(8),
                _ => {
                    let other = SEEDS[random(SEEDS.len())].as_bytes();
                    let from = random(other.len() + 1);
                    let to = other.len().min(from + random(60));
                    text.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        with_runs += u32::from(!compare(&text).runs.is_empty());
    }
    assert!(with_runs > rounds / 4, "only {with_runs} of {rounds} have runs");
}

#[test]
fn a_document_has_a_maximum_of_nodes() {
    let mut builder = Builder::new(3);
    let mut events = Events::new(b"[a, b, c, d]");
    let mut count = 0;
    while let Ok(Some(event)) = events.next_event() {
        count += 1;
        if !builder.on_event("[a, b, c, d]", &event) {
            break;
        }
    }
    let document = builder.finish("[a, b, c, d]".to_owned());
    assert_eq!(document.fault().unwrap().message(), "the tree has more than 3 nodes");
    assert_eq!((count, of_document(&document).len()), (6, 5));
}
