"""summary.md: the run as one table, for a merge request's comment or a job's page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from precreg.report import findings
from precreg.report import report_describe as describe
from precreg.report.report_describe import FindingRow
from precreg.report.told import Told, told
from precreg.types.numbers import duration
from precreg.types.records import CaseResult, RunFinding, RunRecord
from precreg.types.types import Reason, Status, Verdict

MOST_ROWS = 50

MOST_IDS = 10


_FIGURES = ("output", "metric", "current", "baseline", "ratio", "allowed")

_HEADINGS = ("status", "case", "reason", *_FIGURES)


def render(record: RunRecord) -> str:
    """Summarize a run in GitHub's and GitLab's Markdown; passed cases are counted, not listed."""
    listed = [r for r in describe.worst_first(record.results) if r.verdict.status is not Status.PASSED]
    git = f"commit {code(describe.commit(record.git))}" if record.git else "no commit"
    against = f", against {code(record.against[:8])}" if record.against else ""
    pair = f", paired with {code(record.pair[:8])}" if record.pair else ""
    place = f"Environment {escaped(record.environment.label)}, {git}{against}{pair}, {duration(record.duration_s)}."
    parts = [f"# precreg: {describe.counts(record)}", place]
    if asked := describe.selection(record):
        parts.append(f"Not the whole project, but {escaped(asked)}.")
    if listed:
        parts.append("\n".join([_line(_HEADINGS), "|" + "---|" * len(_HEADINGS), *map(_case, listed[:MOST_ROWS])]))
    if len(listed) > MOST_ROWS:
        parts.append(f"And {len(listed) - MOST_ROWS} more in the report.")
    parts += _found(record)
    if better := describe.improved(record):
        parts.append(f"Improved: {_ids(better)}.")
    if record.orphans:
        parts.append(f"Baselines without a case: {_ids(record.orphans)}.")
    if record.warnings:
        parts.append("\n".join(f"- Warning: {escaped(text)}" for text in record.warnings[:MOST_IDS]))
    parts += [_study(study) for study in told(record)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Keep text from being read as Markdown or HTML, and on one line."""
    return re.sub(r"([\\`*\[\]<>|~&])", r"\\\1", " ".join(describe.plain(text).split()))


def code(text: str) -> str:
    """Set text as code, in a table too: the fence is longer than any run of backticks in it."""
    text = " ".join(describe.plain(text).split()).replace("|", r"\|")
    longest = max(map(len, re.findall("`+", text)), default=0)
    if longest == 0:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def _found(record: RunRecord) -> list[str]:
    """Tell what was found about the run as a whole, in a table of its own."""
    every = findings.ordered(record.findings)
    if not every:
        return []
    headings = ("finding", "about", "kind", "times", "what")
    rows = [_line(headings), "|" + "---|" * len(headings), *map(_finding, every[:MOST_ROWS])]
    more = [f"And {findings.counts(every[MOST_ROWS:])} more in the report."] if len(every) > MOST_ROWS else []
    return [f"## On the run: {findings.counts(every)}", "\n".join(rows), *more]


def _finding(finding: RunFinding) -> str:
    times = findings.times(finding).removesuffix(" times")
    at = f" ({finding.source})" if finding.source else ""
    what = f"{finding.message}{at}" + (f"; allowed: {finding.allowed}" if finding.allowed is not None else "")
    return _line([findings.standing(finding), code(finding.about), finding.kind, times, escaped(what)])


def _study(study: Told) -> str:
    rows = [_line([escaped(cell) for cell in row]) for row in study.rows[:MOST_ROWS]]
    table = "\n".join([_line([*map(escaped, study.columns)]), "|" + "---|" * len(study.columns), *rows])
    heading = f"## {escaped(study.title[0].upper() + study.title[1:])}: {code(study.suite)}"
    more = [f"And {len(study.rows) - MOST_ROWS} more."] if len(study.rows) > MOST_ROWS else []
    return "\n\n".join([heading, table, *more, f"{escaped(study.remark[0].upper() + study.remark[1:])}."])


def _case(result: CaseResult) -> str:
    rows = describe.rows(result.verdict)
    figures = [escaped(text) for text in _figures(rows[0])] if rows else [""] * len(_FIGURES)
    return _line([result.verdict.status, code(result.id), _reason(result.verdict), *figures])


def _figures(row: FindingRow) -> list[str]:
    """Return the cells of the headings; the interval of a ratio, and what noise explains, stand beside it."""
    known = ", ".join(filter(None, (row.interval, row.noise and f"noise {row.noise}")))
    ratio = f"{row.ratio} ({known})" if known else row.ratio
    return [row.output, row.metric, row.current, row.baseline, ratio, row.allowed]


def _reason(verdict: Verdict) -> str:
    """Give the reason with the rule that binds, and where no metric has figures for it, but the place, the place."""
    rule = verdict.findings[0].rule if verdict.findings else ""
    reason = f"{verdict.reason} ({rule})" if rule else verdict.reason
    return f"{reason}: {escaped(verdict.message)}" if verdict.reason is Reason.NONDETERMINISTIC else reason


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _ids(ids: Sequence[str]) -> str:
    return describe.some([code(id) for id in ids], MOST_IDS)
