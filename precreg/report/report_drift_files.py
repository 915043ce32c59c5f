"""The reports of a drift monitor as files in one folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from precreg.history.drift.record import DriftRecord
from precreg.report import report_drift_html as html
from precreg.report import report_drift_junit as junit
from precreg.report import report_drift_markdown as markdown
from precreg.report.report_files import make_folder
from precreg.storage.writing import replace_file, writing


def write_drift_reports(record: DriftRecord, folder: Path) -> list[Path]:
    """Write drift.json, junit.xml, report.html and summary.md, each in one step; return their paths.

    Raises:
        UserError: not-writable.
    """
    contents = {
        "drift.json": msgspec.json.encode(record) + b"\n",
        "junit.xml": junit.render(record).encode(),
        "report.html": html.render(record).encode(),
        "summary.md": markdown.render(record).encode(),
    }
    make_folder(folder)
    for name, content in contents.items():
        with writing(str(folder / name)):
            replace_file(folder / name, content)
    return [folder / name for name in contents]
