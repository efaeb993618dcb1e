"""Compares what the program makes of random trees with PyYAML, as Python asdf configures it.

    random_trees.py FOLDER PROGRAM [SEED]

Prints the number of trees. Three kinds are compared: trees with tags of YAML's own types (`--check` finds a fault if
Python asdf does), trees with repeated keys and aliases (`--catalog` has their values), and trees with references and
merge keys (`arrays/` has every array that Python finds).
"""

import datetime
import io
import json
import os
import random
import subprocess
import sys
import warnings
from collections import OrderedDict

import asdf
import without_plugins  # noqa: F401
import numpy as np
from asdf import yamlutil

warnings.simplefilter("ignore")
FOLDER, PROGRAM = sys.argv[1:3]
RANDOM = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 18)
HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
END = "\n...\n"


def lines(*args):
    output = subprocess.run([PROGRAM, *args], capture_output=True, text=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


def load(tree):
    return yamlutil.load_tree(io.BytesIO((HEAD + tree + END).encode()))


def write(folder, name, tree):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(HEAD + tree + END)
    return path


class Anchors:
    """The anchors of a tree so far."""

    def __init__(self, letter):
        self.letter, self.names = letter, []

    def new(self, chance):
        if RANDOM.random() > chance:
            return ""
        self.names.append(f"{self.letter}{len(self.names)}")
        return f"&{self.names[-1]} "

    def alias(self, chance):
        return f"*{RANDOM.choice(self.names)}" if self.names and RANDOM.random() < chance else None


def root(node):
    return "{" + ", ".join(f"r{n}: {node()}" for n in range(RANDOM.randrange(1, 5))) + "}"


# Trees with tags of YAML's own types.

SCALARS = ["1", "x", "~", "'s'", "!!int 5", "!!int x", "! '12'", "! yes", "!!omap y", "2001-01-01", "!foo z", "<<", "=",
           "!!str 5", "!!seq s", "! ''", "! '2001-01-02 03:04:05+00:00'"]
KEYS = ["<<", "<<", "=", "! '<<'", "!!value v", "!!int 3", "!foo k", "? [1, 2]", "? !!merge x", "? !!merge [q]"]
TAGS = ["!!omap ", "!!pairs ", "!!set ", "!!map ", "!!seq ", "!!str ", "!foo ", "! ", "!!omap ", "!!pairs "]


def tagged():
    anchors = Anchors("a")

    def key():
        return RANDOM.choice(KEYS) if RANDOM.random() < 0.3 else f"k{RANDOM.randrange(6)}"

    def pair(depth):
        tag = RANDOM.choice(["", "!!omap ", "!!pairs ", "!!str ", "!!map "])
        return f"{tag}{{{key()} : {node(depth + 1)}}}"

    def node(depth):
        alias = anchors.alias(0.18)
        if alias:
            return alias
        start = anchors.new(0.2)
        if depth > 4 or RANDOM.random() < 0.3:
            return start + RANDOM.choice(SCALARS)
        start += RANDOM.choice(TAGS) if RANDOM.random() < 0.5 else ""
        count = RANDOM.randrange(4)
        if RANDOM.random() < 0.6:
            return start + "{" + ", ".join(f"{key()} : {node(depth + 1)}" for _ in range(count)) + "}"
        items = [node(depth + 1) if RANDOM.random() < 0.5 else pair(depth) for _ in range(count)]
        return start + "[" + ", ".join(items) + "]"

    return root(lambda: node(1))


def judge(count):
    folder, expected = os.path.join(FOLDER, "tagged"), {}
    while len(expected) < count:
        tree = tagged()
        # A mapping that is tagged as a scalar and has the key `=` is that key's value to PyYAML.
        if "= :" in tree or "!!value v" in tree:
            if RANDOM.random() < 0.9:
                continue
        try:
            load(tree)
            fault = None
        except RecursionError:
            continue
        except Exception as error:
            fault = str(error)
        expected[write(folder, f"{len(expected)}.asdf", tree)] = fault
    reports = lines("--check", "--json", folder)
    assert len(reports) == count, len(reports)
    wrong = 0
    for report in reports:
        found = [defect["what"] for defect in report["defects"] if "not a valid tree" in defect["what"]]
        fault = expected[report["file"]]
        # A fault that PyYAML does not find is never allowed, as it keeps people from saving.
        assert fault is not None or not found, (open(report["file"]).read(), found)
        wrong += fault is not None and not found
    assert wrong <= count // 200, f"{wrong} of {count} faults were not found"
    assert 0 < list(expected.values()).count(None) < count


# Trees with repeated keys, aliases, and merge keys.

VALUES = ["1", "x", "~", "! '12'", "! yes", '! "0x10"', "2001-01-01", "! '2001-01-02 03:04:05+00:00'", "'12'", "! ''",
          "! '2020-01-02 03:04:05'", "1.5"]
NAMES = ["k1", "k2", "k3", "00000000", "0x10", "1_000", "yes", "! '7'", "'0'", "16", "k/~", "1:30", "1.50"]


def repeated():
    anchors, keys = Anchors("a"), Anchors("k")

    def key():
        return keys.alias(0.25) or keys.new(0.3) + RANDOM.choice(NAMES)

    def merged():
        """Returns a merge key with the mappings themselves as its value. Of these, only the members count."""
        def mapping():
            pairs = ", ".join(f"{RANDOM.choice(NAMES)} : {RANDOM.choice(VALUES)}" for _ in range(RANDOM.randrange(4)))
            return f"{{{pairs}}}"

        items = ", ".join(mapping() for _ in range(RANDOM.randrange(3)))
        return "<<: " + RANDOM.choice([mapping(), f"[{items}]", f"!!omap [{items}]"])

    def node(depth):
        alias = anchors.alias(0.25)
        if alias:
            return alias
        start = anchors.new(0.35)
        if depth > 4 or RANDOM.random() < 0.35:
            return start + RANDOM.choice(VALUES)
        kind, count = RANDOM.random(), RANDOM.randrange(5)
        if kind < 0.7:
            members = [f"{key()} : {node(depth + 1)}" for _ in range(count)]
            if RANDOM.random() < 0.3:
                members.insert(RANDOM.randrange(count + 1), merged())
            return start + "{" + ", ".join(members) + "}"
        if kind < 0.85:
            pairs = [f"!!omap {{k{n} : {node(depth + 1)}}}" for n in range(count)]
            return start + "!!omap [" + ", ".join(pairs) + "]"
        return start + "[" + ", ".join(node(depth + 1) for _ in range(count)) + "]"

    return root(lambda: node(1))


def name(key):
    return {None: "null", True: "true", False: "false"}.get(key, str(key)) if not isinstance(key, (int, float)) or \
        isinstance(key, bool) else str(key)


def in_json(value, above=()):
    """Returns a value of Python as JSON has it."""
    value = getattr(value, "data", value) if type(value).__name__.startswith("Tagged") else value
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if not isinstance(value, (dict, list)):
        return value
    if id(value) in above:
        return "circle"
    above += (id(value),)
    if isinstance(value, OrderedDict):
        return [{name(key): in_json(value, above)} for key, value in value.items()]
    if isinstance(value, list):
        return [in_json(item, above) for item in value]
    members = {name(key): in_json(item, above) for key, item in value.items()}
    if len(members) < len(value):
        raise KeyError("different keys of Python have one name")
    return members


def expanded(tree):
    """Follows the references of JSON."""
    def at(pointer):
        value = tree
        for part in pointer.split("/")[1:]:
            value = follow(value[int(part)] if isinstance(value, list) else value[part.replace("~1", "/").replace("~0", "~")])
        return value

    def follow(value):
        return at(value["$ref"][1:]) if isinstance(value, dict) and list(value) == ["$ref"] else value

    def expand(value, above):
        value = follow(value)
        if not isinstance(value, (dict, list)):
            return value
        if id(value) in above:
            return "circle"
        above += (id(value),)
        if isinstance(value, list):
            return [expand(item, above) for item in value]
        return {key: expand(item, above) for key, item in value.items()}

    return expand(tree, ())


def without(found, wanted):
    """Returns `wanted` with null where `found` has null."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {key: without(found.get(key, ""), value) for key, value in wanted.items()}
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [without(*items) for items in zip(found, wanted)]
    return None if found is None else wanted


def values(count):
    folder, expected = os.path.join(FOLDER, "repeated"), {}
    while len(expected) < count:
        tree = repeated()
        try:
            value = in_json(load(tree))
        except (RecursionError, KeyError):
            continue
        expected["file://" + write(folder, f"{len(expected)}.asdf", tree)] = value
    described = lines("--catalog", folder)
    assert len(described) == count, len(described)
    incomplete = 0
    for line in described:
        found, wanted = expanded(line["tree"]), expected[line["uri"]]
        if "tree_note" in line:
            assert "first value of a repeated key" in line["tree_note"], line
            wanted = without(found, wanted)
            incomplete += 1
        assert found == wanted, (line, wanted)
    assert 0 < incomplete < count // 5, incomplete


# Trees with references and merge keys.

def arrays():
    """Returns the trees of three files that refer to each other."""
    numbers = iter(range(1000))

    def array():
        return f"!core/ndarray-1.0.0 {{data: [{next(numbers)}], datatype: int64}}"

    def reference(below):
        return f"{{$ref: '{RANDOM.choice(['', '', 'b.asdf', 'c.asdf'][:below])}#/{RANDOM.choice(KEYS_OF_ARRAYS)}'}}"

    def tree(below):
        anchors, mappings = Anchors("a"), Anchors("m")
        nodes = {}
        for key in KEYS_OF_ARRAYS:
            kind = RANDOM.random()
            merged = mappings.alias(0.7)
            if kind < 0.3:
                nodes[key] = reference(below)
            elif kind < 0.4:
                nodes[key] = anchors.alias(1) or array()
            elif kind < 0.7:
                more = f"<<: {merged}, " if merged else ""
                more = f"<<: [{merged}, {mappings.alias(1)}], " if merged and RANDOM.random() < 0.3 else more
                start = mappings.new(0.6)
                keys = RANDOM.sample(["p", "q", "r", "s", "00"], RANDOM.randrange(1, 4))
                inner = [f"{k}: {RANDOM.choice([array, array, lambda: '5', lambda: reference(below)])()}" for k in keys]
                nodes[key] = start + "{" + more + ", ".join(inner) + "}"
            else:
                nodes[key] = anchors.new(0.5) + array()
        return "{" + ", ".join(f"{key}: {value}" for key, value in nodes.items()) + "}"

    # A file refers to later ones only, so that no chain is circular through several files.
    return [tree(4), "{}".format(tree(2)), tree(2)]


KEYS_OF_ARRAYS = ["a", "b", "c", "d", "e", "f", "g", "h"]


def find(tree, others, path):
    """Returns the node at a path, and the tree that has it, after all references are followed; None if there is none."""
    for _ in range(20):
        node = tree
        for n, part in enumerate(path):
            if not isinstance(node, dict) or "$ref" in node:
                break
            if part not in node:
                return None
            node = node[part]
        else:
            n = len(path)
        if not (isinstance(node, dict) and "$ref" in node):
            return (node, tree) if n == len(path) else None
        file, fragment = node["$ref"].split("#")
        rest = path[n:]
        path, tree = fragment.split("/")[1:] + rest, others[file] if file else tree
    return None


def all_arrays(tree, others, path, into, depth=0):
    found = find(tree, others, path)
    if found is None:
        return
    if depth > 5:
        raise RecursionError
    node = found[0]
    if getattr(node, "_tag", "").endswith("ndarray-1.0.0"):
        into["/".join(str(0) if part == 0 else part for part in path)] = node["data"][0]
    elif isinstance(node, dict):
        for key in node:
            all_arrays(tree, others, path + [key], into, depth + 1)


def references(count):
    shown, done = 0, 0
    while done < count:
        trees, expected = arrays(), {}
        others = {f"{file}.asdf": load(tree) for file, tree in zip("abc", trees)}
        try:
            all_arrays(others["a.asdf"], others, [], expected)
        except RecursionError:
            # A mapping that contains itself.
            continue
        done += 1
        folder = os.path.join(FOLDER, f"arrays{done}")
        for file, tree in zip("abc", trees):
            write(folder, f"{file}.asdf", tree)
        out = os.path.join(folder, "out")
        subprocess.run([PROGRAM, "--extract", os.path.join(folder, "a.asdf"), "arrays", "-C", out], check=True,
                       capture_output=True)
        found = {}
        for place, _, names in os.walk(os.path.join(out, "arrays"), followlinks=True):
            for file in names:
                path = os.path.join(place, file)
                key = os.path.relpath(path, os.path.join(out, "arrays"))[: -len(".npy")]
                found[key] = int(np.load(path)[0])
        assert found == expected, (trees, {k: (found.get(k), expected.get(k)) for k in {*found, *expected}
                                           if found.get(k) != expected.get(k)})
        shown += len(found)
    assert shown > 2 * count, shown


judge(1000)
values(1000)
references(40)
print(2040)
