"""Lay out a run as report.html, one file that opens without a network.

Nothing in a record can become markup or code. The template escapes, data is JSON without <, > and &, and the script
sets text only. The page's own policy runs only the script whose digest it names.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from precreg.measure import COUNT_DESCRIPTIONS, METRICS
from precreg.report.case_context import CaseContext, context_of
from precreg.report.case_detail import describe_case, format_metric_ratio
from precreg.report.causes import describe_run_diagnoses, diagnoses_of
from precreg.report.describe import (
    STATUS_LABELS,
    describe_chosen_commit,
    describe_commit,
    describe_run_selection,
    describe_status_counts,
    describe_unseen,
    finding_rows,
    improved_cases,
    known_bad_cases,
    run_exit_sentence,
    sort_results,
    strip_controls,
)
from precreg.report.processes import count_process_changes, describe_process_changes
from precreg.report.sections import (
    Standing,
    describe_accelerators,
    describe_finding_counts,
    describe_orphan,
    describe_warning,
    finding_standing,
    format_finding_factor,
    sort_run_findings,
)
from precreg.report.studies import studies_for_html
from precreg.types import (
    TIERS,
    CaseResult,
    Diagnosis,
    Reason,
    RunFinding,
    RunRecord,
    Status,
    described_metric,
    format_distinct,
    format_duration,
    format_number,
)
from precreg.verdict import seed_means

# Limits the size of the page. Details are kept worst first; a case beyond the limit is a row only.
MAX_DETAIL_BYTES = 12_000_000
# Details of passed cases are seldom opened, and would fill the page first.
MAX_PASSED_IN_DETAIL = 100
# The worst findings on the run; record.json has all of them.
MAX_HTML_FINDINGS = 500
# The table shows this metric of a passed case without findings, because every case has it.
HEADLINE = "mean_abs_error"
_TEMPLATES = Path(__file__).parent / "templates"
# <, > and & could end the script element; the two separators end a line of JavaScript before ES2019.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_run_html(record: RunRecord) -> str:
    """Lay out the whole report as one HTML document."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # StrictUndefined: a misspelled name in the template fails a test, and does not leave a gap in the page.
    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("report.html.j2").render(_page(record))
    return strip_controls(page)


def _page(record: RunRecord) -> dict[str, Any]:
    from markupsafe import Markup

    results = sort_results(record.results)
    data = {"rows": list(map(_row, results)), "glossary": _glossary(results)}
    found, on_run = studies_for_html(record), sort_run_findings(record.findings)
    return {
        "record": record,
        "describe_warning": describe_warning,
        "describe_orphan": describe_orphan,
        "counts": describe_status_counts(record),
        "sentence": run_exit_sentence(record),
        "duration": format_duration(record.duration_s),
        "commit": describe_commit(record.git),
        "against": describe_chosen_commit(record.against, record.against_revision),
        "paired_with": describe_chosen_commit(record.pair, record.pair_revision),
        "selected": describe_run_selection(record),
        "diagnosed": "" if record.diagnosed is None else describe_run_diagnoses(record.diagnosed),
        "accelerators": describe_accelerators(record),
        "matrix": _matrix(results),
        "statuses": [status for status in STATUS_LABELS if any(r.verdict.status is status for r in results)],
        "tiers": [tier for tier in TIERS if any(r.tier == tier for r in results)],
        "unseen": describe_unseen(record),
        "processes": describe_process_changes(results),
        "process_count": count_process_changes(results),
        "improved": improved_cases(record),
        "known_bad": known_bad_cases(record),
        "found": found,
        "on_run": _run_findings(on_run[:MAX_HTML_FINDINGS], results),
        "standings": [one for one in Standing if any(finding_standing(each) is one for each in on_run)],
        "on_run_counts": describe_finding_counts(on_run),
        "on_run_left_out": max(0, len(on_run) - MAX_HTML_FINDINGS),
        "style": Markup(_joined("report.css", "case.css", *(["studies.css"] if found else []))),
        **page_script("case.js", "report.js"),
        "data": Markup(json_for_script(data)),
        "details": Markup(json_for_script(_details(results, diagnoses_of(record), context_of(record)))),
    }


def _run_findings(found: Iterable[RunFinding], results: Iterable[CaseResult]) -> list[dict[str, Any]]:
    """Describe findings on the run; the subject of a finding is a link if it is a case of the page."""
    ids = {result.id for result in results}
    return [_finding(finding, is_case=finding.about in ids) for finding in found]


def _finding(finding: RunFinding, *, is_case: bool) -> dict[str, Any]:
    return {
        "standing": finding_standing(finding),
        "kind": finding.kind,
        "about": finding.about,
        "is_case": is_case,
        "message": finding.message,
        "allowed": finding.allowed,
        "times": format_finding_factor(finding).removesuffix(" times"),
        "source": str(finding.source or ""),
    }


def _joined(*names: str) -> str:
    return "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def page_script(*names: str) -> dict[str, str]:
    """Return the scripts of a page, after the functions of all pages, and the digest for the page's policy."""
    from markupsafe import Markup

    script = _joined("elements.js", *names)
    # The page opens from file://, where no server sends a policy. So its meta element names the only script that may
    # run.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": Markup(script), "script_digest": digest}


def json_for_script(value: Any) -> str:
    """Encode as JSON that cannot end the surrounding script element, and contains no markup."""
    text = msgspec.json.encode(value).decode()
    # JSON allows these escapes inside strings, and outside of strings these characters do not occur.
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _row(result: CaseResult) -> list[Any]:
    """Describe a case in one row: id, tier, status, reason, metric, current, baseline, ratio, seconds, their text."""
    seconds = result.outcome.execution.duration_s
    verdict = result.verdict
    # The number sorts the column, and the text is shown. Three digits keep the page small.
    time = [float(format_number(seconds, 3)), format_duration(seconds) if seconds else ""]
    return [result.id, result.tier, verdict.status, verdict.reason, *_headline(result), *time]


def _headline(result: CaseResult) -> list[str]:
    rows = finding_rows(result.verdict, result.outcome.described)
    if rows:
        return [rows[0].metric, rows[0].current, rows[0].baseline, rows[0].ratio]
    unchanged = _headlines_of_outputs(result) if result.verdict.status is Status.PASSED else iter(())
    return next(unchanged, ["", "", "", ""])


def _headlines_of_outputs(result: CaseResult) -> Iterator[list[str]]:
    entries = result.baseline.entry.outputs if result.baseline else {}
    for comparison in result.outcome.comparisons:
        if comparison.output in entries and HEADLINE in comparison.metrics:
            seeds = [c for c in result.outcome.comparisons if c.output == comparison.output]
            accepted = entries[comparison.output]
            current, baseline = seed_means(seeds[: len(accepted.digests)], accepted, HEADLINE)
            yield [
                HEADLINE,
                *format_distinct([current, baseline]),
                format_metric_ratio(METRICS[HEADLINE], current, baseline),
            ]


def _matrix(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    # All statuses of all tiers, also zeros: the template then needs no test for missing keys.
    tally = Counter((str(result.tier), str(result.verdict.status)) for result in results)
    return {tier: {str(status): tally[tier, status] for status in Status} for tier in TIERS}


def _glossary(results: Iterable[CaseResult]) -> dict[str, str]:
    of_analyzers = dict.fromkeys(each for result in results for each in result.outcome.described)
    metrics = (*METRICS.values(), *map(described_metric, of_analyzers))
    return {metric.name: f"{metric.formula} (unit: {metric.unit})" for metric in metrics} | COUNT_DESCRIPTIONS


def _details(
    results: Iterable[CaseResult], known: Mapping[str, Diagnosis], context: CaseContext
) -> dict[str, msgspec.Raw]:
    kept: dict[str, msgspec.Raw] = {}
    size = passed = 0
    for result in results:
        if result.verdict.status is Status.PASSED and result.verdict.reason is not Reason.IMPROVED:
            passed += 1
            if passed > MAX_PASSED_IN_DETAIL:
                continue
        # Encoded once here: its size decides, and the same bytes go into the page.
        encoded = msgspec.json.encode(describe_case(result, known, context))
        size += len(encoded)
        # Browsers crash on reports of 100 MB. Results are sorted worst first, so the limit cuts the least important
        # ones.
        if size > MAX_DETAIL_BYTES:
            break
        kept[result.id] = msgspec.Raw(encoded)
    return kept
