"""Compares tree.json and tree.tagged.json of each file in FOLDER, mounted on MOUNT, with what PyYAML reads."""

import base64
import datetime
import json
import math
import re
import sys
from pathlib import Path

import yaml


class Loader(yaml.CSafeLoader):
    """Python asdf's loader, ignoring unknown tags."""


def untagged(loader, _, node):
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


Loader.add_multi_constructor("tag:stsci.edu:asdf/", untagged)


def name(key):
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    return key.isoformat() if isinstance(key, datetime.date) else str(key)


def as_json(value):
    """Returns a Python value as JSON, by the documented rules."""
    match value:
        case dict():
            return {name(key): as_json(item) for key, item in value.items()}
        case set():
            return {name(key): None for key in value}
        case list():
            return [as_json(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return None
    return value


def resolve(value, root):
    """Replaces references within the tree by their target nodes."""
    match value:
        case {"$ref": pointer}:
            found = root
            for step in pointer.removeprefix("#/").split("/"):
                step = step.replace("~1", "/").replace("~0", "~")
                found = found[int(step)] if isinstance(found, list) else found[step]
            return resolve(found, root)
        case dict():
            return {key: resolve(item, root) for key, item in value.items()}
        case list():
            return [resolve(item, root) for item in value]
    return value


def exact(value):
    """Returns a text for comparisons: in Python 1 == 1.0 == True, and the order of a set differs between processes."""
    return json.dumps(value, sort_keys=True)


def own(key):
    """Adds a dollar sign to keys of the tree that have a meaning in the tagged form."""
    return key[1:] if re.fullmatch(r"\$\$+(ref|tag|value)", key) else key


def without_tags(value):
    match value:
        case {"$tag": tag, "$value": inner}:
            return None if tag == "tag:yaml.org,2002:float" and isinstance(inner, str) else without_tags(inner)
        case dict():
            return {own(key): without_tags(item) for key, item in value.items()}
        case list():
            return [without_tags(item) for item in value]
    return value


def invalid(constant):
    raise SystemExit(f"{constant} is no JSON")


compared = 0
for source in sorted(Path(sys.argv[1]).glob("*.asdf")):
    mounted = Path(sys.argv[2]) / source.name
    tree = as_json(yaml.load(source.read_text().split("\n", 1)[1], Loader))
    for file in ("tree.json", "tree.tagged.json"):
        text = (mounted / file).read_bytes()
        assert len(text) == (mounted / file).stat().st_size, mounted
        found = json.loads(text, parse_constant=invalid)
        # References are paths in the tree without tags.
        found = found if file == "tree.json" else without_tags(found)
        found = resolve(found, found)
        for key in tree | found:
            assert exact(found.get(key)) == exact(tree.get(key)), (source, file, key, found.get(key), tree.get(key))
        compared += 1
print(compared)
