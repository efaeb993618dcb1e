"""Lets asdf ignore the plugins of asdf-astropy and gwcs, which take two seconds to import."""

from asdf import _entry_points

found = _entry_points.entry_points


def entry_points(group):
    return [point for point in found(group=group) if point.module.split(".")[0] not in ("asdf_astropy", "gwcs")]


_entry_points.entry_points = entry_points
