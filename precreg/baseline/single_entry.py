"""How is one entry of a large baseline file read without the others?

A file that was read as a whole, without a mistake, is noted with the signatures of its two files. While these stay, the
text of one entry is found by its name, in the layout in which precreg writes it, and is read as a file of one entry.
Any doubt leads back to reading the whole file.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from precreg import __version__
from precreg.baseline.suite_file import (
    baseline_file,
    baseline_header,
    parse_entries,
    read_project_bytes,
    resolve_project_file,
    sums_file,
)
from precreg.baseline.text import CHECKSUM
from precreg.errors import UserError
from precreg.storage import SETTLED_NS, WORKING_FOLDER, make_scratch_folder, read_regular_file, replace_file
from precreg.types import BaselineEntry

CHECKED_FILES = f"{WORKING_FOLDER}/baselines.index"
# Smaller files are read as a whole: that takes less than 0.1 s.
LARGE_BYTES = 1 << 20
_TAIL = b"\n  }\n}\n"
_END = b"\n    }"

_Signature = list[int]


class FoundEntry(NamedTuple):
    """Hold the entry of a case; None where the file has none."""

    entry: BaselineEntry | None


def find_entry(project: Path, environment: str, suite: str, name: str) -> FoundEntry | None:
    """Return the entry of one case of a large file; None if the whole file must be read.

    Raises UserError as `read_baseline_file` for a file that changes meanwhile.
    """
    file = baseline_file(environment, suite)
    signatures = _signatures(project, file)
    if signatures is None or signatures[0][0] < LARGE_BYTES or _checked(project).get(file) != signatures:
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


def note_checked(project: Path, environment: str, suite: str, signatures: list[_Signature] | None) -> None:
    """Note that a file was read without a mistake; `signatures` are those from before reading.

    A file that changed just now is not noted: its signature may belong to two contents. A project that cannot be
    written has no notes.
    """
    file = baseline_file(environment, suite)
    if signatures is None or signatures[0][0] < LARGE_BYTES or signatures != _signatures(project, file):
        return
    if max(max(each[-2:]) for each in signatures) >= time_ns() - SETTLED_NS:
        return
    known = _checked(project)
    if known.get(file) != signatures:
        content = {"precreg": __version__, "files": {**known, file: signatures}}
        with suppress(OSError):
            make_scratch_folder((project / CHECKED_FILES).parent)
            replace_file(project / CHECKED_FILES, json.dumps(content).encode())


def signatures_of_file(project: Path, environment: str, suite: str) -> list[_Signature] | None:
    """Return numbers that change if a file or its sums change; None without them."""
    return _signatures(project, baseline_file(environment, suite))


def _signatures(project: Path, file: str) -> list[_Signature] | None:
    try:
        found = [os.stat(resolve_project_file(project, each)) for each in (file, sums_file(file))]
    except (OSError, UserError):
        return None
    return [[each.st_size, each.st_dev, each.st_ino, each.st_mtime_ns, each.st_ctime_ns] for each in found]


def _checked(project: Path) -> dict[str, list[_Signature]]:
    """Return the signatures of files that were read without a mistake by this version, by file."""
    try:
        content = json.loads(read_regular_file(project / CHECKED_FILES))
        return dict(content["files"]) if content["precreg"] == __version__ else {}
    # No notes, damaged ones, or another version's.
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}


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
