"""Which content do the files behind a case have?

A proposal keeps a digest of them, so that a later change of the code shows.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case
from precreg.vcs.dependency import case_dependencies

# Hashing a larger file may take longer than the run of its case.
_LARGE_FILE = 64 << 20


def code_digests(cases: Iterable[Case], project: Path) -> dict[str, str]:
    """Return, by the id of each case, a digest of the files that it depends on, apart from its suite and tolerances.

    The digest of a case's definition represents its suite.
    """
    found: dict[str, str] = {}
    known: dict[str, str] = {}
    for case in cases:
        digest = sha256()
        for path in sorted(case_dependencies(case, project) - {case.source.file, TOLERANCES_FILE}):
            if path not in known:
                known[path] = _content_digest(project / path)
            digest.update(f"{path}\0{known[path]}\n".encode(errors="surrogateescape"))
        found[case.id] = digest.hexdigest()[:16]
    return found


def _content_digest(path: Path) -> str:
    """Return a digest of a file's content; of a very large file, its size and time; empty without a regular file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return ""
        if status.st_size > _LARGE_FILE:
            return f"{status.st_size} {status.st_mtime_ns}"
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
