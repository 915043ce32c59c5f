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
from precreg.vcs.dependency import case_dependencies, dependencies_key

# Hashing a larger file may take longer than the run of its case.
_LARGE_FILE = 64 << 20


def code_digests(cases: Iterable[Case], project: Path) -> dict[str, str]:
    """Return, by the id of each case, a digest of the files that it depends on, apart from its suite and tolerances.

    The digest of a case's definition represents its suite.
    """
    known: dict[str, str] = {}
    # Rows of a matrix mostly depend on the same files. `cases` live as long as the keys, which have ids of objects.
    cases, digests = [*cases], dict[object, str]()
    for case in cases:
        key = dependencies_key(case)
        if key not in digests:
            digests[key] = _files_digest(case, project, known)
    return {case.id: digests[dependencies_key(case)] for case in cases}


def _files_digest(case: Case, project: Path, known: dict[str, str]) -> str:
    digest = sha256()
    for path in sorted(case_dependencies(case, project) - {case.source.file, TOLERANCES_FILE}):
        if path not in known:
            known[path] = _content_digest(project / path)
        digest.update(f"{path}\0{known[path]}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


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
