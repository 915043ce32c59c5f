"""How is one entry of a large baseline file read without the others?

A file that was read as a whole, without a mistake, is noted with the signatures of its two files. While these stay, the
text of one entry is found by its name, in the layout in which precreg writes it, and is read as a file of one entry.
Any doubt leads back to reading the whole file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from precreg.baseline.file_notes import LARGE_BYTES, Signature, baseline_signature, read_file_notes, write_file_notes
from precreg.baseline.suite_file import baseline_file, baseline_header, parse_entries, read_project_bytes, sums_file
from precreg.baseline.text import CHECKSUM
from precreg.storage import WORKING_FOLDER
from precreg.types import BaselineEntry

CHECKED_FILES = f"{WORKING_FOLDER}/baselines.index"
_TAIL = b"\n  }\n}\n"
_END = b"\n    }"


class FoundEntry(NamedTuple):
    """Hold the entry of a case; None where the file has none."""

    entry: BaselineEntry | None


def find_entry(project: Path, environment: str, suite: str, name: str) -> FoundEntry | None:
    """Return the entry of one case of a large file; None if the whole file must be read.

    Raises UserError as `read_baseline_file` for a file that changes meanwhile.
    """
    file = baseline_file(environment, suite)
    signatures = _signatures(project, file)
    if signatures is None or signatures[0][0] < LARGE_BYTES:
        return None
    if read_file_notes(project / CHECKED_FILES).get(file) != signatures:
        return None
    data = read_project_bytes(project, file) or b""
    entry = _text_of_entry(data, environment, suite, name)
    if not entry:
        return None if entry is None else FoundEntry(None)
    one = b"".join((_head(environment, suite), entry, _TAIL))
    sums = _sums_of_entry(read_project_bytes(project, sums_file(file)) or b"", entry)
    if sums is None or _signatures(project, file) != signatures:
        return None
    return FoundEntry(parse_entries(one, environment, suite, lambda _: sums).get(name))


def note_checked(project: Path, environment: str, suite: str, signatures: list[Signature] | None) -> None:
    """Note that a file was read without a mistake; `signatures` are those from before reading."""
    file = baseline_file(environment, suite)
    if signatures is None or signatures[0][0] < LARGE_BYTES or signatures != _signatures(project, file):
        return
    known = read_file_notes(project / CHECKED_FILES)
    if known.get(file) != signatures:
        write_file_notes(project / CHECKED_FILES, {**known, file: signatures})


def signatures_of_file(project: Path, environment: str, suite: str) -> list[Signature] | None:
    """Return the signatures of a file and of its sums; None if one has none."""
    return _signatures(project, baseline_file(environment, suite))


def _signatures(project: Path, file: str) -> list[Signature] | None:
    found, of_sums = baseline_signature(project, file), baseline_signature(project, sums_file(file))
    return [found, of_sums] if found and of_sums else None


def _head(environment: str, suite: str) -> bytes:
    """Return the first bytes of a file, as baseline/text.py writes them."""
    header = baseline_header(environment, suite).items()
    lines = "".join(f"\n  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in header)
    return f'{{{lines}\n  "cases": {{'.encode(errors="backslashreplace")


def _text_of_entry(data: bytes, environment: str, suite: str, name: str) -> bytes | None:
    """Return the line of a name and the lines of its entry; b"" without one, and None for another layout."""
    key = json.dumps(name, ensure_ascii=False).encode(errors="backslashreplace") + b":"
    if not data.startswith(_head(environment, suite)) or not data.endswith(_TAIL):
        return None
    # A text in JSON has no line break, so a line that begins so is the key of an entry.
    begin = data.find(b"\n    " + key + b" {\n")
    if begin < 0:
        return b"" if key not in data else None
    end = data.find(_END, begin)
    return None if end < 0 else data[begin : end + len(_END)]


def _sums_of_entry(data: bytes, entry: bytes) -> bytes | None:
    """Return the header of a file of sums and the line of the entry's checksum; None without one."""
    _, marker, rest = entry.partition(f'\n      "{CHECKSUM}": "'.encode())
    checksum = rest[: rest.find(b'"')]
    place = data.find(b'","of":"' + checksum + b'","sums":') if marker else -1
    if place < 0:
        return None
    begin, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
    return data[: data.find(b"\n") + 1] + data[begin : end + 1]
