"""Which notes about baseline files did an earlier run write, and do they still apply?

A note stays valid while the signature of its file stays. Damaged notes, and those of another version of precreg, count
as missing. A project that cannot be written has none.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any
from zlib import crc32

from precreg import __version__
from precreg.baseline.suite_file import resolve_project_file
from precreg.errors import UserError
from precreg.storage import has_settled, make_scratch_folder, read_regular_file, replace_file

# Less is read each time: that takes less than 10 ms for counts, and less than 0.1 s for entries.
LARGE_BYTES = 1 << 20

# The size of the file comes first.
Signature = list[int]


def baseline_signature(project: Path, file: str) -> Signature | None:
    """Return numbers that change if a file changes.

    Returns None for a file that `read_project_bytes` may refuse, and for one that changed just now: it may change
    again without another time, so its signature may belong to two contents. Call this before reading the file.
    """
    began = time_ns()
    try:
        facts = os.stat(resolve_project_file(project, file))
    except (OSError, UserError):
        return None
    if not stat.S_ISREG(facts.st_mode) or not has_settled(max(facts.st_mtime_ns, facts.st_ctime_ns), began):
        return None
    return [facts.st_size, facts.st_dev, facts.st_ino, facts.st_mode, facts.st_mtime_ns, facts.st_ctime_ns]


def read_file_notes(path: Path) -> dict[str, Any]:
    """Return the notes of this version, by baseline file."""
    try:
        header, _, body = read_regular_file(path).partition(b"\n")
        return dict(json.loads(body)) if header == _header(path, body) else {}
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def write_file_notes(path: Path, notes: Mapping[str, object]) -> None:
    """Replace the notes in one step."""
    body = json.dumps(notes).encode()
    with suppress(OSError):
        make_scratch_folder(path.parent)
        replace_file(path, _header(path, body) + b"\n" + body)


def _header(path: Path, body: bytes) -> bytes:
    """Return the first line of the notes: their kind, the version, and a checksum that no damaged file fits."""
    return f"{path.name} {__version__} {len(body)} {crc32(body):08x}".encode()
