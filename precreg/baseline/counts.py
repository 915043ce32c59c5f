"""How many entries does each baseline file have, and how many of them have earlier accepted values?

Every run needs these numbers of all files, also a run of one case. The files of a large project have 100 MB, so the
numbers are noted with the signature of each file, and a file that stays is not read again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from precreg.baseline.file_notes import LARGE_BYTES, Signature, baseline_signature, read_file_notes, write_file_notes
from precreg.baseline.suite_file import baseline_files, read_project_bytes
from precreg.storage import WORKING_FOLDER

COUNTS_FILE = f"{WORKING_FOLDER}/baseline_counts.index"
# Each entry begins with this, and nothing else in a file contains it, as baseline/text.py writes it.
CASE_MARKER = b'\n      "definition": '
# Only entries with earlier accepted values contain this.
ACCEPTED_MARKER = b'\n      "accepted": ['


class EntryCounts(NamedTuple):
    """Hold the number of a file's entries, and of those with earlier accepted values."""

    entries: int
    accepted: int


class _Note(NamedTuple):
    signature: Signature | None
    counts: EntryCounts


def count_entries(project: Path, chain: tuple[str, ...]) -> dict[str, EntryCounts]:
    """Return the counts of all baseline files of a chain of environments, in the order of the chain.

    Raises UserError as `read_project_bytes`.
    """
    files = [file for environment in dict.fromkeys(chain) for file in baseline_files(project, environment)]
    # Before reading: a file that changes meanwhile has another signature afterwards.
    signatures = {file: baseline_signature(project, file) for file in files}
    is_large = sum(each[0] for each in signatures.values() if each) >= LARGE_BYTES
    noted = _read_notes(project) if is_large else {}
    found = {file: _counts(project, file, signature, noted.get(file)) for file, signature in signatures.items()}
    if is_large and any(_Note(signatures[file], counts) != noted.get(file) for file, counts in found.items()):
        kept = {file: each for file, each in signatures.items() if each and each == baseline_signature(project, file)}
        _write_notes(project, noted | {file: _Note(each, found[file]) for file, each in kept.items()})
    return found


def _counts(project: Path, file: str, signature: Signature | None, noted: _Note | None) -> EntryCounts:
    if noted is not None and signature is not None and noted.signature == signature:
        return noted.counts
    # Counting bytes is much faster than decoding all entries.
    data = read_project_bytes(project, file) or b""
    return EntryCounts(data.count(CASE_MARKER), data.count(ACCEPTED_MARKER))


def _read_notes(project: Path) -> dict[str, _Note]:
    found = read_file_notes(project / COUNTS_FILE)
    return {file: _Note(signature, EntryCounts(*counts)) for file, (signature, counts) in found.items()}


def _write_notes(project: Path, notes: dict[str, _Note]) -> None:
    """Write the notes; leave out files that are gone."""
    write_file_notes(project / COUNTS_FILE, {file: note for file, note in notes.items() if (project / file).exists()})
