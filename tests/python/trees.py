"""Reads the tree of an ASDF file, of any version, without the asdf package."""

import yaml


class Loader(yaml.SafeLoader):
    """Ignores tags and returns the plain values."""


def _plain(loader, _suffix, node):
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


Loader.add_multi_constructor("", _plain)


def load(text):
    """Returns the tree in the text of a file's head."""
    return yaml.load(text, Loader)


def arrays(value, path=()):
    """Yields every ndarray in a tree, as (path, mapping)."""
    if isinstance(value, dict):
        if "shape" in value and ("source" in value or "data" in value):
            yield path, value
            return
        if "data" in value and ("datatype" in value or "dtype" in value):
            yield path, value
            return
        for key, item in value.items():
            yield from arrays(item, (*path, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from arrays(item, (*path, n))
