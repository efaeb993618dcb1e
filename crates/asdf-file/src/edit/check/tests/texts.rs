//! The refusals and notes of a save in full.

use super::*;

/// Checks that each text is refused with its message and the advice.
fn assert_refused<T: AsRef<[u8]>>(advice: &str, texts: impl IntoIterator<Item = (T, &'static str)>) {
    for (text, message) in texts {
        let refusal = checked(text.as_ref(), &base(), Validation::Strict).expect_err(message);
        assert_eq!((refusal.first.to_string().as_str(), refusal.first.to_do.as_str()), (message, advice));
    }
}

/// Returns the base text with a line added to the tree.
fn with(line: &str) -> String {
    edited("meta:", &format!("{line}\nmeta:"))
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn refusals_of_the_layout() {
    let base = base();
    assert_refused(
        "save it as UTF-8, and write \\0 in double quotes for a zero byte",
        [(
            edited("kept", "\0"),
            "line 13, column 19: the text contains a zero byte, which would end the tree",
        )],
    );
    assert_refused(
        "save it as UTF-8 without a byte order mark",
        [(format!("\u{feff}{base}"), "line 1, column 1: the text begins with a byte order mark")],
    );
    assert_refused(
        "move the new lines above the line '...', or indent the line, in a text in quotes",
        [
            (
                with("..."),
                "line 13, column 1: the tree would end at this line '...', and the text after it would be \
                 lost",
            ),
            (
                with("note: 'a\n...\nb'"),
                "line 14, column 1: the tree would end at this line '...', and the text after it would be \
                 lost",
            ),
            (
                format!("{base}more: 1\n"),
                "line 14, column 1: the tree would end at this line '...', and the text after it would be \
                 lost",
            ),
        ],
    );
    let indented = with("note: 'a\n  ...\n  b'");
    assert_eq!(accepted(&indented, &base).0, indented);
    assert_refused(
        "restore the first line: it gives the version of the file's layout",
        [
            (
                edited("#ASDF 1.0.0", "#ASDF 1.1.0"),
                "line 1, column 1: the header line was changed; it was \"#ASDF 1.0.0\"",
            ),
            (
                edited("#ASDF 1.0.0", "#asdf 1.0.0"),
                "line 1, column 1: the header line was changed; it was \"#ASDF 1.0.0\"",
            ),
            (
                edited("#ASDF 1.0.0", "#ASDF1.0.0"),
                "line 1, column 1: the header line was changed; it was \"#ASDF 1.0.0\"",
            ),
        ],
    );
    assert_refused(
        "begin the tree with the line '%YAML 1.1', right after the comments that follow the header line",
        [
            (
                edited("# a comment", ""),
                "line 3, column 1: only lines that begin with '#' may stand between the header line and \
                 '%YAML'",
            ),
            (
                edited("# a comment", "# a %YAML comment"),
                "line 3, column 5: a comment before the tree contains '%YAML', which readers take for the \
                 start of the tree",
            ),
        ],
    );
    assert_refused(
        "reword this comment",
        [(
            edited("# a comment", "#ASDF BLOCK INDEX"),
            "line 3, column 1: a line begins like the block index, with \"#ASDF BLOCK INDEX\"",
        )],
    );
    assert_refused(
        "remove them",
        [(
            [base.as_bytes(), b"x\xd3BLK"].concat(),
            "line 15, column 2: the text contains the magic bytes of a block",
        )],
    );
    assert_refused(
        "save it as UTF-8 without a byte order mark",
        [(b"\xff\xfe#\0A\0".to_vec(), "line 1, column 1: the text is in UTF-16")],
    );
    let latin1 = base.replace("kept", "k\u{e9}pt").chars().map(|c| c as u8).collect::<Vec<_>>();
    assert_refused("save it as UTF-8", [(latin1, "line 13, column 20: the text is not in UTF-8")]);
    assert_refused("write the tree's text", [(String::new(), "line 1, column 1: the text is empty")]);
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn refusals_of_the_whole_tree() {
    assert_refused(
        "correct the text here, or shortly before",
        [(
            edited("kept", "\u{1}"),
            "line 13, column 19: this is not valid YAML: control characters are not allowed",
        )],
    );
    assert_refused(
        "close the { in the line 'meta: {name: x # kept', or correct the text here",
        [(
            edited("{name: x}", "{name: x"),
            "line 14, column 1: this is not valid YAML: did not find expected ',' or '}' while parsing a flow mapping",
        )],
    );
    assert_refused(
        "replace the tab by blanks: YAML allows no tabs in the indentation",
        [(
            edited("meta:", "\tmeta:"),
            "line 13, column 1: this is not valid YAML: found a tab character that violates indentation while \
             scanning a plain scalar",
        )],
    );
    assert_refused(
        "replace the tab by blanks: YAML allows none here",
        [(
            edited("meta:", "note:\n- a: 1\n-\tb: 1\nmeta:"),
            "line 15, column 2: this is not valid YAML: found character that cannot start any token while \
             scanning for the next token",
        )],
    );
    assert_refused(
        "put the value in quotes: a colon and a blank in it would begin another key",
        ["note: a: b\nmeta:", "note:\ta: b\nmeta:"].map(|line| {
            let what =
                "line 13, column 8: this is not valid YAML: mapping values are not allowed in this context";
            (edited("meta:", line), what)
        }),
    );
    assert_refused(
        "a tree is one document: remove the second one",
        [(with("---"), "line 13, column 1: a second document begins here")],
    );
    assert_refused(
        "restore the line: another version gives the tree another meaning",
        [
            (
                edited("STANDARD 1.5.0", "STANDARD 1.6.0"),
                "line 2, column 1: the version in the line #ASDF_STANDARD was changed; it was \
                 \"#ASDF_STANDARD 1.5.0\"",
            ),
            (
                edited("%YAML 1.1", "%YAML 1.2"),
                "line 4, column 1: the version in the line %YAML was changed; it was \"%YAML 1.1\"",
            ),
        ],
    );
    assert_refused(
        "restore it: without this tag, readers do not recognise the file as ASDF",
        [
            (
                edited("--- !core/asdf-1.1.0", "---"),
                "line 7, column 1: the root of the tree has lost its tag, tag:stsci.edu:asdf/core/asdf-1.1.0",
            ),
            (
                edited("!core/asdf-1.1.0", "!core/other-1.1.0"),
                "line 6, column 5: the tag of the root was changed from tag:stsci.edu:asdf/core/asdf-1.1.0 \
                 to tag:stsci.edu:asdf/core/other-1.1.0",
            ),
            (
                PROLOGUE.to_owned() + "---\n...\n",
                "line 7, column 1: the root of the tree has lost its tag, tag:stsci.edu:asdf/core/asdf-1.1.0",
            ),
        ],
    );
    assert_refused(
        "reduce the nesting",
        [(
            edited("name: x", &format!("x: {}{}", "[".repeat(250), "]".repeat(250))),
            "line 13, column 260: the tree is 252 levels deep; Python asdf reads at most 247",
        )],
    );
    assert_refused(
        "restore at least one, or mount with -o validate=off",
        [
            (
                PROLOGUE.to_owned() + "--- !core/asdf-1.1.0\nmeta: 1\n...\n",
                "all 2 ndarrays of the tree are gone",
            ),
            (PROLOGUE.to_owned() + "--- !core/asdf-1.1.0\nb: 1\n", "all 2 ndarrays of the tree are gone"),
        ],
    );
    assert_refused(
        "restore it",
        [(PROLOGUE.lines().take(3).map(|line| format!("{line}\n")).collect::<String>(), "the tree is gone")],
    );
    assert_refused(
        "restore the keys and their values",
        [(
            PROLOGUE.to_owned() + "--- !core/asdf-1.1.0\n- 1\n...\n",
            "line 6, column 5: the root of the tree is no longer a mapping",
        )],
    );
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn refusals_of_arrays() {
    assert_refused(
        "restore the tag, as in '!core/ndarray-1.1.0'; a tool that drops tags can't be used here",
        [(edited("a: !core/ndarray-1.0.0", "a:"), "line 7, column 4: the array a has lost its ndarray tag")],
    );
    assert_refused(
        "name a block that exists",
        [
            (
                edited("source: 0", "source: 2"),
                "line 7, column 4: a: its source is block 2, and the file has blocks 0 to 1",
            ),
            (
                edited("source: 0", "source: -3"),
                "line 7, column 4: a: its source is block -3, and the file has blocks 0 to 1",
            ),
        ],
    );
    assert_refused(
        "write the number of the block",
        [(
            edited("source: 0", "source: x.asdf"),
            "line 7, column 4: a: it was in a block of this file, but its source is now another file",
        )],
    );
    assert_refused(
        "correct it",
        [
            (
                edited("source: 0", "source: '0'"),
                "line 7, column 33: a: the \"source\" of an ndarray is the number of a block in quotes",
            ),
            (
                edited("[2, 2]", "[2, 2.5]"),
                "line 10, column 14: b: a dimension of an ndarray is not a number from 0 on",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [1, 300], datatype: int8}"),
                "line 13, column 35: c: an element is beyond the datatype, which goes from -128 to 127",
            ),
            (
                with("c: !core/ndarray-1.0.0 {datatype: uint8, data: [[1], [-1]]}"),
                "line 13, column 55: c: an element is beyond the datatype, which goes from 0 to 255",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [a, b], datatype: int64}"),
                "line 13, column 32: c: the datatype is an integer, but an element is not",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [.nan], datatype: int64}"),
                "line 13, column 32: c: the datatype is an integer, but an element is not",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [x1], datatype: float64}"),
                "line 13, column 32: c: the datatype is a float, but an element is not",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [ä], datatype: [ascii, 3]}"),
                "line 13, column 32: c: the datatype is ascii, but an element is not",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [2001-01-01]}"),
                "line 13, column 32: c: an array in the tree contains a date or binary data",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [a], datatype: complex64}"),
                "line 13, column 32: c: the datatype is a complex number, but an element is not",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [1], mask: !core/ndarray-1.0.0 [1]}"),
                "line 13, column 42: c: the \"mask\" of an ndarray has other elements than true and false",
            ),
            (
                with(
                    "c: !core/ndarray-1.0.0 {data: [1, 2], datatype: int8, mask: !core/ndarray-1.0.0 {data: \
                     [1, 0, 1], datatype: bool8}}",
                ),
                "line 13, column 61: c: the \"mask\" has 3 elements, but its ndarray has 2",
            ),
            (
                with("c: !core/ndarray-1.0.0 {data: [1, 2], datatype: int8, mask: 300}"),
                "line 13, column 61: c: the \"mask\" of an ndarray is not a value of its datatype",
            ),
        ],
    );
    assert_refused(
        "correct its shape, datatype, offset or strides",
        [(
            edited("[10]", "[11]"),
            "line 7, column 4: a: it does not fit in block 0, which has 10 bytes: it takes 11 bytes",
        )],
    );
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn refusals_of_nodes() {
    assert_refused(
        "correct it: Python asdf can't read such a node",
        [
            (
                edited("name: x", "history: []").replace("meta", "history").replace("{history: []}", "3"),
                "line 13, column 10: history: the history is neither a list nor a mapping",
            ),
            (
                with("asdf_library: {name: x}"),
                "line 13, column 15: asdf_library: a node of type software has no \"version\"",
            ),
            (
                with("c: !core/ndarray-1.1.0 {data: [1]}"),
                "line 13, column 4: c: readers don't recognise tag:stsci.edu:asdf/core/ndarray-1.1.0 in \
                 this file: its version of the standard has 1.0.0",
            ),
            (
                with("c: !core/ndarray-1.2.0 {data: [1]}"),
                "line 13, column 4: c: readers don't recognise tag:stsci.edu:asdf/core/ndarray-1.2.0 in \
                 this file: its version of the standard has 1.0.0",
            ),
            (
                with("c: !core/ndarray {data: [1]}"),
                "line 13, column 4: c: readers don't recognise tag:stsci.edu:asdf/core/ndarray in this \
                 file: its version of the standard has 1.0.0",
            ),
            (
                with("c: !core/complex-1.1.0 1+1j"),
                "line 13, column 4: c: readers don't recognise tag:stsci.edu:asdf/core/complex-1.1.0 in \
                 this file: its version of the standard has 1.0.0",
            ),
            (
                edited("{name: x}", "!core/history_entry-1.0.0 3"),
                "line 13, column 7: meta: a node of type history_entry is not a mapping",
            ),
            (with("c: !core/complex-1.0.0 x"), "line 13, column 4: c: this is not a complex number"),
            (
                with("c: !core/software-1.0.0 [x]"),
                "line 13, column 4: c: a node of type software is not a mapping",
            ),
            (
                with("c: !core/software-1.0.0 {name: x, version: 1}"),
                "line 13, column 44: c: the \"version\" of a node of type software is not a text",
            ),
            (
                with("c: !core/integer-1.0.0 {words: 5, sign: +}"),
                "line 13, column 32: c: the \"words\" of an integer are not a list",
            ),
            (
                with("c: !core/integer-1.0.0 {words: [5], sign: 5}"),
                "line 13, column 43: c: the \"sign\" of an integer is neither + nor -",
            ),
            (
                with("history: {entries: 3}"),
                "line 13, column 20: history: the \"entries\" of the history are not a list",
            ),
            (
                with("history: {extensions: [{extension_class: x}]}"),
                "line 13, column 24: history: an extension in the history has lost its tag, \
                 extension_metadata-1.0.0",
            ),
            (
                with(
                    "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: x, software: \
                     {name: x, version: y}}]}",
                ),
                "line 13, column 105: history: the version of an extension's software is not one that \
                 Python reads",
            ),
            (
                with("history: {entries: [{description: x, software: y}]}"),
                "line 13, column 48: history: the \"software\" of a node of type history_entry is not a \
                 mapping",
            ),
        ],
    );
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn refusals_of_keys_and_scalars() {
    assert_refused(
        "remove one of the two: readers see only the last",
        [(with("b: 1"), "line 13, column 1: the key \"b\" is repeated in the same mapping")],
    );
    assert_refused(
        "define the anchor (&name) before its alias (*name)",
        [(edited("name: x", "name: *x"), "line 13, column 14: the alias \"*x\" has no anchor before it")],
    );
    assert_refused(
        "give one of the two anchors another name",
        [(edited("{name: x}", "[&x 1, &x 2]"), "line 13, column 14: the anchor \"x\" is already defined")],
    );
    assert_refused(
        "correct it, or put it in quotes (and remove its tag) if it is meant as text",
        [
            (
                edited("name: x", "näme: 2001-99-99"),
                "line 13, column 14: \"2001-99-99\" can't be read: it is an invalid date",
            ),
            (
                edited("name: x", "name: 0b_"),
                "line 13, column 14: \"0b_\" can't be read: it looks like an integer but has no digits",
            ),
            (
                edited("name: x", "name: !!int abc"),
                "line 13, column 14: \"abc\" can't be read: it is tagged !!int but is not an integer",
            ),
            (
                with("c: !!bool maybe"),
                "line 13, column 4: \"maybe\" can't be read: it is tagged !!bool but is not a boolean",
            ),
            (
                with("c: !!seq {}"),
                "line 13, column 4: a collection can't be read: it is tagged as a sequence but is not one",
            ),
            (
                with("c: !!map []"),
                "line 13, column 4: a collection can't be read: it is tagged as a mapping but is not one",
            ),
            (
                with("c: !!str {}"),
                "line 13, column 4: a collection can't be read: it is tagged as a scalar but is a collection",
            ),
            (
                with("c: !!seq text"),
                "line 13, column 4: \"text\" can't be read: it is tagged as a sequence but is not one",
            ),
            (
                with("c: !!map text"),
                "line 13, column 4: \"text\" can't be read: it is tagged as a mapping but is not one",
            ),
            (
                with("c: !!binary ä"),
                "line 13, column 4: \"ä\" can't be read: it is tagged !!binary but is not ASCII",
            ),
            (
                with("c: !!binary abc"),
                "line 13, column 4: \"abc\" can't be read: it is tagged !!binary and its base64 text is cut \
                 off",
            ),
            (
                with("c: !!float x"),
                "line 13, column 4: \"x\" can't be read: it is tagged !!float but is not a number",
            ),
            (
                with("c: !!timestamp x"),
                "line 13, column 4: \"x\" can't be read: it is tagged !!timestamp but is not a timestamp",
            ),
            (with("c: 2001-02-30"), "line 13, column 4: \"2001-02-30\" can't be read: it is an invalid date"),
            (
                with("c: 2001-01-01 25:00:00"),
                "line 13, column 4: \"2001-01-01 25:00:00\" can't be read: it is an invalid time of day",
            ),
            (
                with("c: !!omap [1]"),
                "line 13, column 12: an item of an ordered mapping is not a mapping with one key",
            ),
            (
                with("c: !!omap [{a: 1, b: 2}]"),
                "line 13, column 12: an item of an ordered mapping is not a mapping with one key",
            ),
        ],
    );
    assert_refused(
        "give a mapping to merge, or quote the key if it is meant as text",
        [
            (
                edited("name: x", "<<: x"),
                "line 13, column 12: the value of \"<<\" is neither a mapping nor a list of mappings",
            ),
            (
                edited("name: x", "? !!merge [n] : x"),
                "line 13, column 24: the value of \"<<\" is neither a mapping nor a list of mappings",
            ),
        ],
    );
    assert_refused(
        "write the key as a text or a number; quotes make a text",
        [
            (
                edited("name: x", "[n]: x"),
                "line 13, column 8: a key is a sequence or a mapping, which Python can't hash",
            ),
            (
                edited("name: x", "!t n: x"),
                "line 13, column 8: a key has a custom tag, which Python can't hash",
            ),
        ],
    );
}
