"""Names of the kinds of subject: our own two, and those that installed packages bring as entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "precreg.subjects"

BUILT_IN = {"python": "precreg.subject.python", "files": "precreg.subject.files"}
"""Our own kinds and their modules. Reserved: they are found without reading every installed package (17 ms)."""


def entry_point(kind: str) -> EntryPoint:
    """Return what an installed package brings by that name.

    Raises UserError (unknown-subject-kind) when no package brings it, or two do.
    """
    from importlib.metadata import entry_points

    installed = entry_points(group=ENTRY_POINT_GROUP)
    found = [point for point in installed if point.name == kind]
    if len(found) == 1:
        return found[0]
    if found:
        brought = " and ".join(sorted(point.value for point in found))
        raise UserError("unknown-subject-kind", f"expected one kind of subject named {kind} but got {brought}")
    near = nearest(kind, {*BUILT_IN, *installed.names})
    raise UserError("unknown-subject-kind", f"expected an installed kind of subject but got kind={kind}{near}")
