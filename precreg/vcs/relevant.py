"""Which files can matter to a case, told by their names: most pushes need not read a suite to be let go."""

from __future__ import annotations

from pathlib import PurePosixPath

DOCUMENTS = frozenset({".md", ".rst", ".adoc"})


def can_matter(path: str) -> bool:
    """Tell whether any case could depend on a file of the project: documents and what begins with a dot never do."""
    return not path.startswith(".") and PurePosixPath(path).suffix.lower() not in DOCUMENTS
