"""The only room that knows git: where the project stands, what changed since, and what a push brings."""

from precreg.vcs.repository import author, changed_files, state

__all__ = ["author", "changed_files", "state"]
