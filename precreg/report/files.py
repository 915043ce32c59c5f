"""Where do the reports of a run go, and which functions write them?

Every caller of a run, the command and the pytest plugin, hands RUN_OUTPUTS to the session.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from precreg.report.codequality import render_codequality
from precreg.report.context import add_context
from precreg.report.findings import add_messages
from precreg.report.html import render_run_html
from precreg.report.junit import JunitDialect, render_run_junit
from precreg.report.page_words import DEFAULT_LANGUAGE, Language
from precreg.report.record import write_run_record
from precreg.report.summaries import render_run_markdown
from precreg.run import RunOutputs
from precreg.storage import make_scratch_folder, pause_gc, replace_file, report_write_errors
from precreg.types import Case, Diagnosis, RunRecord


def reports_folder(project: Path) -> Path:
    """Return the default folder of the reports, relative to the current folder."""
    return Path(os.path.relpath(project / "reports"))


def make_reports_folder(folder: Path) -> None:
    """Make a folder of reports, unless it exists, with a .gitignore for its content.

    Raises:
        UserError: not-writable.
    """
    with report_write_errors(str(folder)):
        # Reports of every run would otherwise show up in git status and in commits.
        make_scratch_folder(folder)


# Reports of 100,000 cases make millions of objects without cycles: the search for garbage took a third of the time.
@pause_gc()
def write_reports(
    run: RunRecord, folder: Path, junit_dialect: JunitDialect, language: Language = DEFAULT_LANGUAGE
) -> list[Path]:
    """Write the record and the reports that are made of it, each file in one step; return their paths in this order.

    The page opens in `language`.

    Raises:
        UserError: not-writable.
    """
    # All reports are rendered before the first is written: an error leaves the former reports complete.
    texts = {
        "junit.xml": render_run_junit(run, junit_dialect),
        "codequality.json": render_codequality(run),
        "report.html": render_run_html(run, language),
        "summary.md": render_run_markdown(run),
    }
    make_reports_folder(folder)
    # The record first: `precreg report` can make every other file from it again.
    record = write_run_record(run, folder)
    for name, text in texts.items():
        with report_write_errors(str(folder / name)):
            replace_file(folder / name, text.encode())
    return [record, *(folder / name for name in texts)]


def explain_case(
    case: Case,
    project: Path,
    *,
    seed: int,
    chain: tuple[str, ...],
    seconds: float,
    accepted: str | None,
    units: Sequence[Case],
) -> Diagnosis:
    """Diagnose a failed case, as `diagnose_case` does."""
    # Late, because it brings numpy and the shadows, and most runs have no failed case.
    from precreg.diagnose import diagnose_case

    return diagnose_case(case, project, seed=seed, chain=chain, seconds=seconds, accepted=accepted, units=units)


RUN_OUTPUTS = RunOutputs(
    explain=explain_case,
    add_messages=add_messages,
    make_folder=make_reports_folder,
    write=write_reports,
    add_context=add_context,
)
