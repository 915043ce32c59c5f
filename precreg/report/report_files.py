"""The reports of a run as files in one folder."""

from __future__ import annotations

from pathlib import Path

from precreg.report import codequality, record
from precreg.report import report_html as html
from precreg.report import report_junit as junit
from precreg.report import report_markdown as markdown
from precreg.storage.writing import make_scratch_folder, replace_file, writing
from precreg.types.records import RunRecord


def make_folder(folder: Path) -> None:
    """Make a folder of reports, if it is not there, as one that git does not see.

    Raises:
        UserError: not-writable.
    """
    with writing(str(folder)):
        make_scratch_folder(folder)


def write_reports(run: RunRecord, folder: Path, junit_dialect: junit.Dialect) -> list[Path]:
    """Write record.json, junit.xml, codequality.json, report.html and summary.md, each in one step; return their paths.

    Raises:
        UserError: not-writable.
    """
    texts = {
        "junit.xml": junit.render(run, junit_dialect),
        "codequality.json": codequality.render(run),
        "report.html": html.render(run),
        "summary.md": markdown.render(run),
    }
    make_folder(folder)
    record.write(run, folder / "record.json")
    for name, text in texts.items():
        with writing(str(folder / name)):
            replace_file(folder / name, text.encode())
    return [folder / name for name in ("record.json", *texts)]
