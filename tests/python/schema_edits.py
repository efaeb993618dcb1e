"""Makes random edits of trees, and compares what `--check -o schemas=` finds in them with Python asdf's validator.

    schema_edits.py FOLDER PROGRAM SCHEMAS COUNT SEED FILE...

SCHEMAS are directories with schemas and manifests, or names of installed packages, separated by colons; the validators
of the packages are not used. Each file is edited COUNT times. Prints how many edited trees are valid, invalid, and can't
be checked. SHOW_PATHS=1 prints the paths that differ.
"""

import copy
import io
import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import asdf
import without_plugins  # noqa: F401
import yaml
from asdf import AsdfFile, schema, tagged, yamlutil
from asdf._jsonschema.exceptions import RefResolutionError

warnings.simplefilter("ignore")
FOLDER, PROGRAM, SCHEMAS, COUNT, SEED = sys.argv[1:6]
RANDOM = random.Random(int(SEED))
SCHEMAS = ":".join(
    name if "/" in name else find_spec(name).submodule_search_locations[0] for name in SCHEMAS.split(":"))
# Without these, most of the time goes into reading the same schemas again.
yaml.SafeLoader = yaml.CSafeLoader
LOADER = lru_cache(None)(schema._make_schema_loader())
schema._make_schema_loader = lambda: LOADER


def register():
    """Registers the schemas and manifests, as the code of the packages would."""
    contents, manifests = {}, []
    for directory in SCHEMAS.split(":"):
        for path in sorted(Path(directory).rglob("*.yaml")):
            if {"schemas", "manifests"} & set(path.parts):
                content = path.read_bytes()
                found = re.search(rb"^id: *['\"]?([^'\"\n]+?)#?['\"]?$", content, re.M)
                if found and contents.setdefault(found[1].decode(), content) is content:
                    is_manifest = re.search(rb"^tags:", content, re.M) and b"tag_uri" in content
                    manifests += [found[1].decode()] * bool(is_manifest)
    config = asdf.get_config()
    known = config.resource_manager
    config.add_resource_mapping({uri: content for uri, content in contents.items() if uri not in known})
    number = lambda uri: [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", uri)]
    for uri in sorted(manifests, key=number):
        config.add_extension(asdf.extension.ManifestExtension.from_uri(uri))


def nodes(tree):
    """Yields the containers and keys of all nodes below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from nodes(value)


def scalar(tree):
    texts = ["", "x", "F158", "WFI_IMAGE", "2026-01-01T00:00:00", "x" * 300, "deg", "m", "ucs4", "float32"]
    values = [None, True, False, 0, 1, -1, 2.5, 1e300, float("inf"), [], {}, [1, 2, 3], list(range(20)), {"a": 1}]
    return RANDOM.choice([RANDOM.choice(texts), RANDOM.choice(values), RANDOM.choice(values), some(tree)])


def some(tree):
    container, key = RANDOM.choice(list(nodes(tree)))
    return copy.deepcopy(container[key])


def edit(tree):
    """Makes one change somewhere in a tree."""
    everything = list(nodes(tree))
    container, key = RANDOM.choice(everything)
    value = container[key]
    kind = RANDOM.randrange(9)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[f"{key}x"] = container.pop(key)
    elif kind == 2 and isinstance(container, dict):
        _, name = RANDOM.choice(everything)
        container[str(name)] = some(tree)
    elif kind == 3 and isinstance(value, list) and value:
        value.insert(RANDOM.randrange(len(value)), copy.deepcopy(RANDOM.choice(value)))
    elif kind == 4 and isinstance(value, tagged.Tagged):
        container[key] = copy.deepcopy(value.base if hasattr(value, "base") else value.data)
    elif kind == 5:
        tags = [holder[name]._tag for holder, name in everything if hasattr(holder[name], "_tag")]
        if tags and isinstance(value, (dict, list, str)):
            base = value.data if isinstance(value, tagged.Tagged) else value
            container[key] = tagged.tag_object(RANDOM.choice(tags), base)
    elif kind == 6 and isinstance(value, (int, float)) and not isinstance(value, bool):
        container[key] = RANDOM.choice([-value, float(value), value + 1, 10 * value, str(value)])
    elif kind == 7 and isinstance(value, str) and not isinstance(value, tagged.Tagged):
        container[key] = RANDOM.choice([value.lower(), value + "1", value[:-1], [value], value * 20])
    else:
        container[key] = scalar(tree)


def text_of(tree, version):
    out = io.BytesIO()
    yaml.dump_all([tree], out, yamlutil.AsdfDumper, explicit_start=True, explicit_end=True, version=(1, 1),
                  allow_unicode=True, encoding="utf-8", tags={"!": "tag:stsci.edu:asdf/"})
    return f"#ASDF 1.0.0\n#ASDF_STANDARD {version}\n".encode() + out.getvalue()


def by_asdf(text, context):
    """Returns the paths of the nodes that Python asdf finds invalid, or None if it can't check the tree."""
    tree = yamlutil.load_tree(io.BytesIO(text))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            errors = list(schema.get_validator({}, context).iter_errors(tree))
        if any("Unable to locate" in str(warning.message) for warning in caught):
            return None
    except RefResolutionError:
        return None
    return {"/".join(map(str, error.absolute_path)) for error in errors}


def by_program(folder):
    """Returns the same as `by_asdf` for each file in a folder."""
    command = [PROGRAM, "--check", "--json", "-q", "-o", f"schemas={SCHEMAS}", folder]
    output = subprocess.run(command, capture_output=True, text=True)
    for line in output.stdout.splitlines():
        report = json.loads(line)
        found, unchecked = set(), False
        for defect in report["defects"]:
            what = re.fullmatch(r"line \d+, column \d+: (.*?): (.*)", defect["what"], re.S)
            if what and "(schema " in what[2]:
                # Python asdf names the mapping that has a key that is not allowed.
                is_key = what[2].startswith("additionalProperties allows no key")
                found.add(what[1].rpartition("/")[0] if is_key else what[1])
            unchecked |= defect["severity"] == "unread"
        yield os.path.basename(report["file"]), None if unchecked else found, report["defects"]


def same_paths(wanted, found):
    """True if the paths are the same, except those above others: they only follow."""
    ends = lambda long, short: not short or f"/{long}".endswith(f"/{short}")
    within = lambda long, short: not short or f"/{short}/" in f"/{long}/"
    return all(any(within(path, some) for path in found) for some in wanted) and all(
        any(ends(path, some) for some in wanted) for path in found)


def main():
    register()
    counts, wrong, expected = Counter(), [], {}
    for number, file in enumerate(sys.argv[6:]):
        content = Path(file).read_bytes()
        whole = content[: content.index(b"\n...") + 5]
        tree = yamlutil.load_tree(io.BytesIO(whole))
        # Python asdf has the schemas of the tags of this version only.
        version = re.search(rb"^#ASDF_STANDARD (.*)$", whole, re.M)[1].decode()
        context = AsdfFile(version=version)
        for n in range(int(COUNT)):
            edited = copy.deepcopy(tree)
            for _ in range(RANDOM.choice([0, 1, 1, 1, 2, 3])):
                edit(edited)
            text = text_of(edited, version)
            name = f"{number}-{n}.asdf"
            try:
                expected[name] = by_asdf(text, context)
            except Exception as error:  # noqa: BLE001, such as a key that is no text where a pattern is matched
                counts[f"not checked by asdf: {type(error).__name__}"] += 1
                continue
            Path(FOLDER, name).write_bytes(text)
    for name, found, defects in by_program(FOLDER):
        wanted = expected.pop(name)
        if wanted is None or found is None:
            counts["unchecked"] += 1
            same = (wanted is None) == (found is None)
        else:
            counts["invalid" if wanted else "valid"] += 1
            same = bool(wanted) == bool(found)
            # Python asdf's paths begin at the node whose tag has the schema.
            counts["same paths"] += bool(wanted) and same_paths(wanted, found)
            if os.environ.get("SHOW_PATHS") and same and not same_paths(wanted, found):
                print(name, wanted, found, file=sys.stderr)
        if not same:
            wrong.append((name, wanted, found, [defect["what"] for defect in defects if "arrays" not in defect["what"] and "block" not in defect["what"]][:5]))
    assert not expected, f"no report on {list(expected)[:5]}"
    for case in wrong[:10]:
        print(*case, sep="\n    ", file=sys.stderr)
    assert not wrong, f"{len(wrong)} differ"
    print(json.dumps(counts))


main()
