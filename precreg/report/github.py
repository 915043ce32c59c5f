"""How does a run read in GitHub Actions? As annotations at lines of files, and as the summary of a step.

GitHub reads commands such as `::error file=F,line=N,title=T::TEXT` from the output of a step.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from precreg.report.codequality import codequality_entries
from precreg.report.summaries import render_run_markdown
from precreg.storage import report_write_errors
from precreg.types import RunRecord

# GitHub shows 10 errors, 10 warnings and 10 notices of a step. It drops further ones without a word.
MAX_ANNOTATIONS = 10
# GitHub truncates a longer message.
MAX_MESSAGE_CHARACTERS = 4000
# GitHub refuses a larger summary of a step: 1 MiB.
MAX_SUMMARY_BYTES = 2**20
_LEVELS = {"blocker": "error", "critical": "error", "major": "error", "minor": "warning", "info": "notice"}
_IN_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_MESSAGE, ":": "%3A", ",": "%2C"}


def render_github(record: RunRecord, summary: str) -> str:
    """Return the summary of a run for the log of a step, and annotations at the lines of its failures."""
    # A message of a subject may have a line that reads as a command. GitHub reads none until the line with this token,
    # which the subject cannot know.
    token = secrets.token_hex(16)
    quoted = f"::stop-commands::{token}\n{summary}{'' if summary.endswith(chr(10)) else chr(10)}::{token}::\n"
    return quoted + "".join(f"{line}\n" for line in _annotations(record))


def append_step_summary(record: RunRecord, environ: Mapping[str, str]) -> None:
    """Append summary.md to the file that GITHUB_STEP_SUMMARY names; without the variable do nothing.

    Raises:
        UserError: not-writable.
    """
    file = environ.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        return
    with report_write_errors(file):
        used = Path(file).stat().st_size if Path(file).exists() else 0
        text = _cut(render_run_markdown(record), MAX_SUMMARY_BYTES - used)
        # Other commands of the step write into the same file, so it is not replaced.
        with Path(file).open("ab") as stream:
            stream.write(text)


def _annotations(record: RunRecord) -> Iterator[str]:
    """Yield the worst entries of each level, then a notice that counts the others."""
    by_level: dict[str, list[dict[str, Any]]] = {}
    for entry in codequality_entries(record):
        by_level.setdefault(_LEVELS[entry["severity"]], []).append(entry)
    left_out = sum(max(len(entries) - MAX_ANNOTATIONS, 0) for entries in by_level.values())
    for level, entries in by_level.items():
        # The count of the others is a notice, too.
        most = MAX_ANNOTATIONS - 1 if level == "notice" and left_out else MAX_ANNOTATIONS
        left_out += min(len(entries), MAX_ANNOTATIONS) - min(len(entries), most)
        yield from (_annotation(level, entry) for entry in entries[:most])
    if left_out:
        yield f"::notice title=precreg::{left_out} more in codequality.json and report.html"


def _annotation(level: str, entry: Mapping[str, Any]) -> str:
    place = entry["location"]
    properties = {"file": place["path"], "line": str(place["lines"]["begin"]), "title": entry["check_name"]}
    written = ",".join(f"{name}={_escape(value, _IN_PROPERTY)}" for name, value in properties.items())
    return f"::{level} {written}::{_escape(entry['description'][:MAX_MESSAGE_CHARACTERS], _IN_MESSAGE)}"


def _escape(text: str, characters: Mapping[str, str]) -> str:
    return "".join(characters.get(one, one) for one in text)


def _cut(text: str, size: int) -> bytes:
    """Return the beginning of a text in so many bytes of UTF-8; its last line says that it was cut."""
    encoded = text.encode()
    if len(encoded) <= size:
        return encoded
    note = b"\n\nThe rest is in summary.md: GitHub shows 1 MiB of a step.\n"
    return encoded[: size - len(note)].decode(errors="ignore").encode() + note if size > len(note) else b""
