"""The reports of a run as files in one folder."""

from __future__ import annotations

from pathlib import Path

from precreg.report import atomic, html, junit, markdown, record
from precreg.types import RunRecord


def write_reports(run: RunRecord, folder: Path, junit_dialect: junit.Dialect) -> list[Path]:
    """Write record.json, junit.xml, report.html and summary.md, each in one step; return their paths.

    The folder is made where it is not there, as one that git does not see.

    Raises:
        UserError: not-writable.
    """
    texts = {
        "junit.xml": junit.render(run, junit_dialect),
        "report.html": html.render(run),
        "summary.md": markdown.render(run),
    }
    record.write(run, folder / "record.json")
    for name, text in texts.items():
        atomic.write(folder / name, text)
    return [folder / name for name in ("record.json", *texts)]
