"""How do tasks and items name the folders of a project that lie at another place on each machine?

A pickle for a cluster has a path below a tree as the tree's digest and the rest of the path. Each worker puts its own
folder of that tree in its place. So no task needs to know where it runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any


class _TreePickler(pickle.Pickler):
    def __init__(self, stream: BytesIO, roots: Mapping[Path, str]) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        # The longest first: a checkout may lie below another tree.
        self._roots = sorted(roots.items(), key=lambda each: len(each[0].parts), reverse=True)

    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        """Return the place of a path in a tree; None for anything else."""
        if isinstance(value, PurePath):
            for root, digest in self._roots:
                if value.is_relative_to(root):
                    return digest, value.relative_to(root).as_posix()
        return None


class _TreeUnpickler(pickle.Unpickler):
    def __init__(self, stream: BytesIO, folders: Mapping[str, Path]) -> None:
        super().__init__(stream)
        self._folders = folders

    def persistent_load(self, place: tuple[str, str]) -> Path:
        """Return the path in this machine's folder of the tree. Raises KeyError for a tree that is not here."""
        digest, rest = place
        return self._folders[digest] / rest


def pickle_for_cluster(value: Any, roots: Mapping[Path, str]) -> bytes:
    """Return the pickle of a value, with the digests of trees by their folders here."""
    stream = BytesIO()
    _TreePickler(stream, roots).dump(value)
    return stream.getvalue()


def unpickle_on_worker(content: bytes, folders: Mapping[str, Path]) -> Any:
    """Return the value of a pickle, with the folders of this machine by digest."""
    return _TreeUnpickler(BytesIO(content), folders).load()
