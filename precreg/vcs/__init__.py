"""The only room that knows git: where the project stands, what changed since, and what a push brings."""

from precreg.vcs.checkout import checkout, leave_the_hook
from precreg.vcs.push import brought, commits, has, hooks_folder, independent, top
from precreg.vcs.repository import author, changed_files, differing, folder, state
from precreg.vcs.stored import files_at, named_commit

__all__ = [
    "author",
    "brought",
    "changed_files",
    "checkout",
    "commits",
    "differing",
    "files_at",
    "folder",
    "has",
    "hooks_folder",
    "independent",
    "leave_the_hook",
    "named_commit",
    "state",
    "top",
]
