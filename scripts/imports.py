#!/usr/bin/env python3
"""Checks which module of a crate imports which, and finds circles of imports among modules and among files.

    scripts/imports.py          exit status 1 if a rule is broken
    scripts/imports.py --list   prints the files that each file imports

An import is a path that starts with crate, self or super, in `use` or in code. A name that a module
re-exports counts as an import of the file that defines it. Tests are left out. A circle between a module and
the modules within it does not count, because they are part of it. A large module has a table of its own: there
the modules within it are in layers, and none of them imports the module that assembles them.
"""

import re
import sys
from pathlib import Path

# The modules of each crate, in layers: a module imports those after it, and none before it. The crate of the servers is
# one subject: only circles are forbidden.
LAYERS = {
    "src": "cli look daemon check fuse vfs overlay mounted view progress log exit text_diff",
    "python/src": "array block catalog decode file arguments waiting ending process",
    "crates/asdf-access/src": "catalog library files local named options search",
    "crates/asdf-remote/src": None,
    "crates/asdf-views/src": "info format views parquet picture",
    "crates/asdf-file/src": "edit asdf container generated array folder history time",
    "crates/asdf-tree/src": "product schema yaml limits",
    "crates/seekable/src": "codec decode cache content source user_dirs workers sync per_process error",
}

# The modules within a module, in layers, too. The module itself, in whose file they are listed, may import all of them,
# and none of them imports it. Those that are not named here import only those that are.
LAYERS_WITHIN = {
    ("crates/asdf-views/src", "views"): "json same_paths",
    ("crates/asdf-file/src", "asdf"): "container image_facts sources arrays view in_fits check external stored block growth "
    "head chain checksum facts kept_document computed defect header index ndarray quantize units",
}


def read(path):
    """Returns the code of a file, without comments, strings, and the tests at its end."""
    text = path.read_text()
    text = re.sub(r"\bpub\(in [a-z_:]+\)", "pub", text)
    text = re.sub(r'r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\])\'|//[^\n]*|/\*.*?\*/',
                  lambda found: '""' if found[0][0] not in "/" else "", text, flags=re.S)
    return re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{", text)[0]


def is_test(path):
    return path.stem in ("tests", "fake") or "tests" in path.parts


def module_of(path, src):
    """Returns the module of a file: ("a", "b") for a/b.rs in src, () for lib.rs."""
    parts = path.relative_to(src).with_suffix("").parts
    return () if parts in (("lib",), ("main",)) else parts


def leaves(text):
    """Yields the paths of a use tree, each as (names, local name)."""
    text = text.strip()
    brace = text.find("{")
    if brace < 0:
        path, _, name = text.partition(" as ")
        names = tuple(part.strip() for part in path.split("::"))
        yield names, (name or names[-1]).strip()
        return
    prefix = tuple(part.strip() for part in text[:brace].split("::") if part.strip())
    depth, start, inner = 0, 0, text[brace + 1 : text.rfind("}")]
    for at, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if inner[start:at].strip():
                for names, name in leaves(inner[start:at]):
                    yield prefix + names, prefix[-1] if names == ("self",) else name
            start = at + 1


class Crate:
    def __init__(self, src):
        self.files = {module_of(path, src): path for path in sorted(Path(src).rglob("*.rs"))
                      if path.name != "main.rs" and not is_test(path)}
        self.code = {module: read(path) for module, path in self.files.items()}
        self.uses, self.imported, self.exports = {}, {}, {}
        for module, code in self.code.items():
            self.uses[module], self.imported[module], self.exports[module] = [], [], {}
            for found in re.finditer(r"\b(pub(?:\([a-z: ]+\))? )?use ([^;]+);", code):
                for names, name in leaves(found[2]):
                    self.uses[module].append(names)
                    self.imported[module].append((names, name))
                    if found[1]:
                        self.exports[module][name] = names
            rest = re.sub(r"\buse [^;]+;", "", code)
            self.uses[module] += [tuple(path.split("::")) for path in
                                  re.findall(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+", rest)]
            local = {name: names for names, name in ((n, n[-1]) for n in self.uses[module])}
            for first, more in re.findall(r"(?<![\w:])([a-z_]\w*)((?:::\w+)+)", rest):
                if first in local or module + (first,) in self.files:
                    self.uses[module].append(local.get(first, ("self", first)) + tuple(more[2:].split("::")))

    def absolute(self, module, names):
        """Returns a path from the crate's root, or None if it leads out of the crate."""
        if names[0] == "crate":
            return names[1:]
        at, names = list(module), list(names)
        if names[0] not in ("self", "super"):
            return module + tuple(names) if module + (names[0],) in self.files else None
        while names and names[0] in ("self", "super"):
            if names.pop(0) == "super":
                at = at[:-1]
        return tuple(at + names)

    def defining(self, path, seen=()):
        """Returns the module that defines the item at a path from the root."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.files:
                break
        module, rest = path[:length], path[length:]
        if rest and rest[0] in self.exports[module] and (module, rest[0]) not in seen:
            inner = self.absolute(module, self.exports[module][rest[0]])
            if inner is not None:
                return self.defining(inner + rest[1:], seen + ((module, rest[0]),))
        return module

    def imports(self):
        """Returns for each module the modules that it imports, and the names imported from each."""
        arrows = {}
        for module, uses in self.uses.items():
            for names in uses:
                path = self.absolute(module, names)
                if path is None:
                    continue
                target = self.defining(path)
                if target != module:
                    arrows.setdefault(module, {}).setdefault(target, set()).add(names[-1])
        return arrows


def within(one, other):
    """True if one module lies within the other."""
    return one[: len(other)] == other or other[: len(one)] == one


def circles(arrows):
    """Returns the strongly connected components of more than one module (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in arrows.get(node, ()):
            if within(node, other):
                continue
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def among_siblings(arrows):
    """Returns the imports as imports among the modules of one directory: a::b -> a::c for a::b::x -> a::c::y.

    Without this, an import of a module within another module would hide a circle of the two outer ones.
    """
    lifted = {}
    for module, targets in arrows.items():
        for target, names in targets.items():
            depth = 0
            while module[: depth + 1] == target[: depth + 1]:
                depth += 1
                if depth in (len(module), len(target)):
                    break
            else:
                outer = lifted.setdefault(module[: depth + 1], {})
                outer.setdefault(target[: depth + 1], set()).update(names)
    return lifted


def wrong_within(outer, layers, arrows):
    """Returns the forbidden imports among the modules within a module."""
    depth, name, layers = len(outer), "::".join, layers.split()
    for module, targets in sorted(arrows.items()):
        for target in sorted(targets):
            if not module or not target or module[:depth] != outer or target[:depth] != outer or module == outer:
                continue
            if target == outer:
                yield f"{name(module)} may not import {name(outer)}, which assembles it"
            elif module[depth] != target[depth]:
                later = layers[layers.index(module[depth]) + 1:] if module[depth] in layers else layers
                if target[depth] not in later:
                    yield f"{name(module)} may not import {name(target)}"


def check(src):
    """Yields what is wrong in a crate; with --list, prints the imports of its files."""
    arrows = Crate(src).imports()
    name = "::".join
    if "--list" in sys.argv:
        for module, targets in sorted(arrows.items()):
            for target, names in sorted(targets.items()):
                print(f"{name(module)} -> {name(target)}: {', '.join(sorted(names))}")
        return
    tables = {(): LAYERS[src]} if LAYERS[src] else {}
    tables.update({(outer,): layers for (crate, outer), layers in LAYERS_WITHIN.items() if crate == src})
    for outer, layers in tables.items():
        yield from dict.fromkeys(wrong_within(outer, layers, arrows))
    for imported in (arrows, among_siblings(arrows)):
        for circle in circles(imported):
            yield "a circle of imports:"
            yield from (f"  {name(module)} -> {name(target)}: {', '.join(sorted(names))}" for module in circle
                        for target, names in sorted(imported[module].items())
                        if target in circle and not within(module, target))


def main():
    wrong = [line for src in LAYERS for line in check(src)]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    sys.exit(main())
