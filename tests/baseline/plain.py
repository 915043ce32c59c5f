"""Files of baselines as plain JSON, for tests that edit them as one who knows how checksums are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from precreg.baseline.suite_file import SINGLE_FILE_SCHEMA, sums_header
from precreg.baseline.sums import join_entry, render_sums_header, render_sums_line, split_entry
from precreg.baseline.text import entry_checksum


def sibling(path: Path) -> Path:
    """Return the file of the sums."""
    return path.with_suffix(".sums")


def sums_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the sums of a baseline file."""
    return [*map(json.loads, sibling(path).read_text().splitlines()[1:])]


def document_of(path: Path) -> dict[str, Any]:
    """Return a baseline file with whole entries, in plain JSON values."""
    document = json.loads(path.read_text())
    if document["schema"] != SINGLE_FILE_SCHEMA:
        sums = {line["of"]: line["sums"] for line in sums_lines(path)}
        document["cases"] = {name: join_entry(case, sums[case["checksum"]]) for name, case in document["cases"].items()}
    return document


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write whole entries into the two files of a suite, with checksums that fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cases, sums = {}, {}
    for name, case in document["cases"].items():
        checksum = entry_checksum(case)
        shown, hidden = split_entry(case | {"checksum": checksum})
        cases[name], sums[name] = shown, {checksum: hidden}
    path.write_text(json.dumps(document | {"cases": cases}, indent=2))
    sibling(path).write_text(render_sums(sums_header(document["environment"], document["suite"]), sums))


def former_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return a file of whole entries in the form of an earlier version, without checksums."""
    cases = {name: dict(case) for name, case in document["cases"].items()}
    for case in cases.values():
        case.pop("checksum", None)
    return document | {"schema": SINGLE_FILE_SCHEMA, "cases": cases}


def write_former(path: Path, document: dict[str, Any]) -> None:
    """Write whole entries into one file, as an earlier version without checksums wrote them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(former_document(document), indent=2))
    sibling(path).unlink(missing_ok=True)


def render_sums(header, cases):
    """Return the text of a file of sums: `cases` has the sums of each case by the checksum of their entry."""
    lines = (render_sums_line(name, of, cases[name][of]) for name in sorted(cases) for of in sorted(cases[name]))
    return "".join((render_sums_header(header), *lines))
