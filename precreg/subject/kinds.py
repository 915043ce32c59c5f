"""Which kinds of subject exist?

precreg has two, and installed packages add others as entry points. A name must have exactly one provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class EntryPointGroup(NamedTuple):
    """Describe a group of entry points: its name, the word for a member, the key in suites, and the error's slug."""

    name: str
    word: str
    key: str
    slug: str


def find_entry_point(group: EntryPointGroup, name: str, ours: Iterable[str] = ()) -> EntryPoint:
    """Return the one entry point of that name. `ours` are precreg's own names, for the suggestion in the message.

    Raises:
        UserError: the group's slug, if no package or more than one provides the name.
    """
    # Reads the metadata of every installed package, which takes about 17 ms, so only names that are not ours get here.
    from importlib.metadata import entry_points

    installed = entry_points(group=group.name)
    found = [point for point in installed if point.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        values = " and ".join(sorted(point.value for point in found))
        raise UserError(group.slug, f"expected one {group.word} named {name} but got {values}")
    near = nearest(name, {*ours, *installed.names})
    raise UserError(group.slug, f"expected an installed {group.word} but got {group.key}={name}{near}")


SUBJECTS = EntryPointGroup("precreg.subjects", "kind of subject", "kind", "unknown-subject-kind")
# precreg's own kinds and their functions. The names are reserved, and need no look at the installed packages.
BUILT_IN_SUBJECTS = {"python": "run_python", "files": "run_files"}


def subject_entry_point(kind: str) -> EntryPoint:
    """Return the entry point of a kind of subject from the one package that provides it.

    Raises:
        UserError: unknown-subject-kind.
    """
    return find_entry_point(SUBJECTS, kind, BUILT_IN_SUBJECTS)
