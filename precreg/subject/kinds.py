"""Names of the kinds of subject: our own two, and those that installed packages bring as entry points.

What installed packages bring by entry points: one of a name, or a mistake that says what there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class EntryPointGroup(NamedTuple):
    """A group of entry points: its name, the word for what they are, the key they are asked for by, and the slug."""

    name: str
    word: str
    key: str
    slug: str


def find_entry_point(group: EntryPointGroup, name: str, ours: Iterable[str] = ()) -> EntryPoint:
    """Return what an installed package brings by that name. `ours` are names that need no package.

    Reads what is said of every installed package, which takes some 17 ms. Raises UserError, with the group's slug, when
    no package brings it, or two do.
    """
    from importlib.metadata import entry_points

    brought = entry_points(group=group.name)
    found = [point for point in brought if point.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        values = " and ".join(sorted(point.value for point in found))
        raise UserError(group.slug, f"expected one {group.word} named {name} but got {values}")
    near = nearest(name, {*ours, *brought.names})
    raise UserError(group.slug, f"expected an installed {group.word} but got {group.key}={name}{near}")


SUBJECTS = EntryPointGroup("precreg.subjects", "kind of subject", "kind", "unknown-subject-kind")


BUILT_IN_SUBJECTS = {"python": "run_python", "files": "run_files"}
"""Our own kinds and their modules. Reserved: they are found without reading every installed package."""


def subject_entry_point(kind: str) -> EntryPoint:
    """Return what an installed package brings by that name.

    Raises UserError (unknown-subject-kind) when no package brings it, or two do.
    """
    return find_entry_point(SUBJECTS, kind, BUILT_IN_SUBJECTS)
