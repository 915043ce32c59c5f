"""Folders of what is made again at any time: reports, journals, proposals. git does not see what is in them."""

from __future__ import annotations

from pathlib import Path


def make_scratch_folder(folder: Path) -> None:
    """Make a folder, and those above it, with a .gitignore for all it will hold; one that is there stays as it is.

    A run that leaves files behind would otherwise make its own tree dirty, and say so of the next run.
    Raises OSError.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True)
        (folder / ".gitignore").write_text("*\n")
