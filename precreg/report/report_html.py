"""report.html: one file that opens without a network. The page is laid out here; what one opens is in `detail`.

Nothing in a record can become markup or code: the template escapes, data stands in JSON without <, > and &, the
script sets text only, and the page's own policy runs no script but the one whose digest it names.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from precreg.measure.metrics import COUNTS, METRICS
from precreg.report import findings
from precreg.report import report_describe as describe
from precreg.report.detail import detail, times
from precreg.report.report_studies_html import shown
from precreg.types.numbers import apart, duration, figure
from precreg.types.records import CaseResult, RunFinding, RunRecord
from precreg.types.types import TIERS, Reason, Status
from precreg.verdict.growth import means

MOST_DETAIL_BYTES = 12_000_000
"""Details are kept worst first up to this size; a case beyond it is a row in the table alone."""


MOST_PASSED_IN_DETAIL = 100
"""Cases that passed without change for the better, of which details are kept."""


MOST_FINDINGS = 500
"""Findings on the run that are shown, the worst; record.json has all."""


HEADLINE = "mean_abs_error"
"""The metric that the table shows of a case that passed without a finding on another."""


_TEMPLATES = Path(__file__).parent / "templates"

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(record: RunRecord) -> str:
    """Lay out the whole report as one HTML document."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("report.html.j2").render(_page(record))
    return describe.plain(page)


def _page(record: RunRecord) -> dict[str, Any]:
    from markupsafe import Markup

    results = describe.worst_first(record.results)
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    data = {"rows": list(map(_row, results)), "glossary": _glossary(results)}
    found, on_run = shown(record), findings.ordered(record.findings)
    return {
        "record": record,
        "counts": describe.counts(record),
        "sentence": describe.exit_sentence(record),
        "duration": duration(record.duration_s),
        "commit": describe.commit(record.git),
        "selected": describe.selection(record),
        "matrix": _matrix(results),
        "statuses": [status for status in describe.LABELS if any(r.verdict.status is status for r in results)],
        "tiers": [tier for tier in TIERS if any(r.tier == tier for r in results)],
        "improved": describe.improved(record),
        "found": found,
        "on_run": _findings(on_run[:MOST_FINDINGS], results),
        "standings": [one for one in findings.Standing if any(findings.standing(each) is one for each in on_run)],
        "on_run_counts": findings.counts(on_run),
        "on_run_left_out": max(0, len(on_run) - MOST_FINDINGS),
        "style": Markup(_style("report.css", *(["studies.css"] if found else []))),
        "script": Markup(script),
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "data": Markup(json_for_script(data)),
        "details": Markup(json_for_script(_details(results))),
    }


def _findings(found: Iterable[RunFinding], results: Iterable[CaseResult]) -> list[dict[str, Any]]:
    """Describe findings on the run; what one is about is a link where that is a case of the page."""
    ids = {result.id for result in results}
    return [_finding(finding, is_case=finding.about in ids) for finding in found]


def _finding(finding: RunFinding, *, is_case: bool) -> dict[str, Any]:
    return {
        "standing": findings.standing(finding),
        "kind": finding.kind,
        "about": finding.about,
        "is_case": is_case,
        "message": finding.message,
        "allowed": finding.allowed,
        "times": findings.times(finding).removesuffix(" times"),
        "source": str(finding.source or ""),
    }


def _style(*names: str) -> str:
    return "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names)


def json_for_script(value: Any) -> str:
    """Encode as JSON that cannot end the script element it stands in, nor be taken for markup."""
    text = msgspec.json.encode(value).decode()
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _row(result: CaseResult) -> list[Any]:
    """Describe a case in a line: id, tier, status, reason, metric, current, baseline, ratio, seconds, its text."""
    seconds = result.outcome.execution.duration_s
    verdict = result.verdict
    time = [float(figure(seconds, 3)), duration(seconds) if seconds else ""]
    return [result.id, result.tier, verdict.status, verdict.reason, *_headline(result), *time]


def _headline(result: CaseResult) -> list[str]:
    rows = describe.rows(result.verdict)
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
            current, baseline = means(seeds[: len(accepted.digests)], accepted, HEADLINE)
            yield [HEADLINE, *apart([current, baseline]), times(HEADLINE, current, baseline)]


def _matrix(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    tally = Counter((str(result.tier), str(result.verdict.status)) for result in results)
    return {tier: {str(status): tally[tier, status] for status in Status} for tier in TIERS}


def _glossary(results: Iterable[CaseResult]) -> dict[str, str]:
    comparisons = (comparison for result in results for comparison in result.outcome.comparisons)
    of_analyzers = dict.fromkeys(metric for comparison in comparisons for metric in comparison.described)
    metrics = (*METRICS.values(), *of_analyzers)
    return {metric.name: f"{metric.formula} (unit: {metric.unit})" for metric in metrics} | COUNTS


def _details(results: Iterable[CaseResult]) -> dict[str, msgspec.Raw]:
    kept: dict[str, msgspec.Raw] = {}
    size = passed = 0
    for result in results:
        if result.verdict.status is Status.PASSED and result.verdict.reason is not Reason.IMPROVED:
            passed += 1
            if passed > MOST_PASSED_IN_DETAIL:
                continue
        encoded = msgspec.json.encode(detail(result))
        size += len(encoded)
        if size > MOST_DETAIL_BYTES:
            break
        kept[result.id] = msgspec.Raw(encoded)
    return kept
