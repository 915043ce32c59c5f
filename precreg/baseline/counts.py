"""How many entries does each baseline file have, and how many of them have earlier accepted values?

Every run needs these numbers of all files, also a run of one case. The files of a large project have 100 MB, so the
numbers are noted with the size and times of each file, and a file that stays is not read again. Damaged notes, and
those of another version of precreg, count as missing. A project that cannot be written has none.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import NamedTuple
from zlib import crc32

from precreg import __version__
from precreg.baseline.suite_file import baseline_files, read_project_bytes, resolve_project_file
from precreg.storage import SETTLED_NS, WORKING_FOLDER, make_scratch_folder, read_regular_file, replace_file

COUNTS_FILE = f"{WORKING_FOLDER}/baseline_counts.index"
# Smaller projects read all files: that takes less than 10 ms.
LARGE_BYTES = 1 << 20
# Each entry begins with this, and nothing else in a file contains it, as baseline/text.py writes it.
CASE_MARKER = b'\n      "definition": '
# Only entries with earlier accepted values contain this.
ACCEPTED_MARKER = b'\n      "accepted": ['

_Signature = list[int] | None


class EntryCounts(NamedTuple):
    """Hold the number of a file's entries, and of those with earlier accepted values."""

    entries: int
    accepted: int


class _Note(NamedTuple):
    signature: _Signature
    counts: EntryCounts


def count_entries(project: Path, chain: tuple[str, ...]) -> dict[str, EntryCounts]:
    """Return the counts of all baseline files of a chain of environments, in the order of the chain.

    Raises UserError as `read_project_bytes`.
    """
    files = [file for environment in dict.fromkeys(chain) for file in baseline_files(project, environment)]
    settled = time_ns() - SETTLED_NS
    # Before reading: a file that changes meanwhile has another signature afterwards.
    signatures = {file: _signature(project, file) for file in files}
    is_large = sum(each[0] for each in signatures.values() if each) >= LARGE_BYTES
    noted = _read_notes(project) if is_large else {}
    found = {file: _counts(project, file, signature, noted.get(file)) for file, signature in signatures.items()}
    if is_large and any(_Note(signatures[file], counts) != noted.get(file) for file, counts in found.items()):
        # A file that changed just now may change again without another time.
        kept = {file: each for file, each in signatures.items() if each and max(each[-2:]) < settled}
        kept = {file: each for file, each in kept.items() if each == _signature(project, file)}
        _write_notes(project, noted | {file: _Note(each, found[file]) for file, each in kept.items()})
    return found


def _counts(project: Path, file: str, signature: _Signature, noted: _Note | None) -> EntryCounts:
    if noted is not None and signature is not None and noted.signature == signature:
        return noted.counts
    # Counting bytes is much faster than decoding all entries.
    data = read_project_bytes(project, file) or b""
    return EntryCounts(data.count(CASE_MARKER), data.count(ACCEPTED_MARKER))


def _signature(project: Path, file: str) -> _Signature:
    """Return numbers that change if a file changes; None for a file that `read_project_bytes` may refuse."""
    try:
        facts = os.stat(resolve_project_file(project, file))
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return [facts.st_size, facts.st_dev, facts.st_ino, facts.st_mode, facts.st_mtime_ns, facts.st_ctime_ns]


def _read_notes(project: Path) -> dict[str, _Note]:
    """Return the notes of this version by file; a file of notes that is damaged has none."""
    try:
        header, _, body = read_regular_file(project / COUNTS_FILE).partition(b"\n")
        if header != _header(body):
            return {}
        return {file: _Note(signature, EntryCounts(*counts)) for file, (signature, counts) in json.loads(body).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _write_notes(project: Path, notes: dict[str, _Note]) -> None:
    """Replace the notes in one step; leave out files that are gone."""
    body = json.dumps({file: note for file, note in notes.items() if (project / file).exists()}).encode()
    with suppress(OSError):
        make_scratch_folder((project / COUNTS_FILE).parent)
        replace_file(project / COUNTS_FILE, _header(body) + b"\n" + body)


def _header(body: bytes) -> bytes:
    """Return the first line of the notes: the version, and a checksum that no truncated or damaged file fits."""
    return b"precreg-counts %s %d %08x" % (__version__.encode(), len(body), crc32(body))
