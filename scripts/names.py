#!/usr/bin/env python3
"""Checks that the name of a type says enough where it stands.

    scripts/names.py          exit status 1 if a rule is broken
    scripts/names.py --list   prints where each name with three or more definitions is defined, and imported bare

At most four types have the same name, except for terms of the field. If three or more have it, other modules at the
top of the crate write `module::Name`, unless the module owns the word. Tests are left out, and so is `library`: its
names are the public ones, which no module imports.
"""

import re
import sys

from imports import LAYERS, Crate

# Terms of the field that more than four modules define. The module says of what.
TERMS = ("Block", "Header")

# The modules that own a word: the others import it bare from there.
OWNERS = {"Block": "container", "Result": "error", "Source": "source"}

# These modules are one subject, and use each other's names bare.
FORMATS = ("asdf", "container", "edit", "format", "views")

TYPE = re.compile(r"^(?:pub(?:\([a-z: ]+\))? )?(?:struct|enum|union|trait|type) (\w+)", re.M)


def definitions(crate):
    """Returns the modules that define each type name."""
    found = {}
    for module, code in crate.code.items():
        if module[:1] == ("library",):
            continue
        for name in set(TYPE.findall(code)):
            found.setdefault(name, []).append(module)
    return found


def imported(crate):
    """Yields each type that a module imports by its own name, as (importing module, defining module, name)."""
    for module, uses in crate.imported.items():
        for names, local in uses:
            path = crate.absolute(module, names)
            if path and local == names[-1] and local[:1].isupper():
                yield module, crate.defining(path), local


def check(src):
    """Yields what is wrong in a crate; with --list, prints its names."""
    crate, name = Crate(src), "::".join
    defined = definitions(crate)
    bare = [(user, owner, word) for user, owner, word in imported(crate)
            if len(defined.get(word, ())) > 2 and owner in defined[word] and user[:1] not in (owner[:1], ("internals",))
            and not {user[0] if user else "", owner[0]} <= set(FORMATS)]
    if "--list" in sys.argv:
        for word, modules in sorted(defined.items(), key=lambda entry: -len(entry[1])):
            if len(modules) > 2:
                print(f"{word} ({len(modules)})")
                for module in modules:
                    users = " ".join(name(user) for user, owner, other in bare if (owner, other) == (module, word))
                    print(f"    {name(module)}{' <- ' + users if users else ''}")
        return
    yield from (f"{len(modules)} types are called {word}: say of what ({' '.join(map(name, modules))})"
                for word, modules in sorted(defined.items()) if len(modules) > 4 and word not in TERMS)
    yield from (f"{name(user)} imports {word} bare, one of {len(defined[word])} types of that name: "
                f"write {owner[-1]}::{word}"
                for user, owner, word in sorted(bare) if OWNERS.get(word) != name(owner))


def main():
    wrong = [line for src in LAYERS for line in check(src)]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
