"""Names of the kinds of subject: our own two, and those that installed packages bring as entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precreg.subject.plugins import Group, installed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


SUBJECTS = Group("precreg.subjects", "kind of subject", "kind", "unknown-subject-kind")


BUILT_IN = {"python": "precreg.subject.python", "files": "precreg.subject.files"}
"""Our own kinds and their modules. Reserved: they are found without reading every installed package."""


def entry_point(kind: str) -> EntryPoint:
    """Return what an installed package brings by that name.

    Raises UserError (unknown-subject-kind) when no package brings it, or two do.
    """
    return installed(SUBJECTS, kind, BUILT_IN)
