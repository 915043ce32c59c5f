"""Write a drift record for a terminal and as summary.md, and the sentences that all of its reports share.

The judge stores facts only. The first half of this module writes their sentences, labels, counts and tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from click import style

from precreg.history.drift import (
    DriftChange,
    DriftRecord,
    DriftReference,
    DriftState,
    MetricDrift,
    OutputDrift,
    Worsening,
)
from precreg.measure import METRICS
from precreg.report.describe import count_cases, list_some, strip_controls
from precreg.report.layout import format_columns, wrap_lines
from precreg.report.summaries import escape_markdown, markdown_code
from precreg.types import format_distinct, format_number

# One place for these words: the terminal, JUnit and the page finish different sentences with them.
# Independent noise reaches correlations and ratios up to about these, over 60 runs.
MIN_TOLD_CORRELATION = 0.25
MIN_TOLD_GROWTH = 1.5
_THAN: dict[DriftReference, str] = {
    "baseline": "than the baseline",
    "anchor": "than at the anchor",
    "recent runs": "than before",
}


def drift_sentences(found: OutputDrift) -> list[str]:
    """Write the finding of an output: the change of the first metric, where it began, other metrics that changed."""
    if found.state is DriftState.ABSENT:
        return [f"not run since run {found.last_run}"]
    first = found.metrics[0] if found.metrics else None
    if first is None or found.state is DriftState.STEADY:
        return []
    if found.state is not DriftState.DRIFT:
        place = [] if first.improved is None else _change_sentences(first.improved)
        return [describe_metric_drift(first), *place]
    # Metrics of one output are correlated, so one sentence covers the change and the others are named only.
    others = [metric.metric for metric in found.metrics[1:] if metric.state is DriftState.DRIFT]
    return [*_worsening_sentences(first), *([f"also {', '.join(others)}"] if others else [])]


def describe_drift(found: OutputDrift) -> str:
    """Write the finding of an output in one line; empty if it is steady."""
    return "; ".join(drift_sentences(found))


def describe_metric_drift(metric: MetricDrift) -> str:
    """Write the finding of one metric; empty if it is steady."""
    match metric.state:
        case DriftState.DRIFT:
            return describe_worsening(metric.metric, metric.worsenings[0])
        case DriftState.UNMEASURED:
            return f"{metric.metric} is not measured since run {metric.since}"
        case DriftState.TOO_FEW:
            few = "is too few" if metric.runs == 1 else "are too few"
            return f"{_count_runs(metric.runs)} {few} to judge {metric.metric}"
        case DriftState.IMPROVED:
            return _gain_sentence(metric)
        case DriftState.TOO_NOISY:
            return _noise_sentence(metric)
    return ""


def _gain_sentence(metric: MetricDrift) -> str:
    since = "" if metric.improved is None else f" since run {metric.improved.first_bad}"
    return f"{metric.metric} improved against the baseline{since}: {metric.now:.6g} against {metric.accepted:.6g}"


def _noise_sentence(metric: MetricDrift) -> str:
    """Write why noise hides whether a metric rises. A record without the fact has no reason."""
    reasons = []
    if metric.noise is not None and metric.noise.correlation >= MIN_TOLD_CORRELATION:
        reasons.append(f"neighbouring runs correlate by {metric.noise.correlation:.2g}")
    if metric.noise is not None and metric.noise.growth >= MIN_TOLD_GROWTH:
        reasons.append(f"the latest noise is {metric.noise.growth:.2g} times the noise of all runs")
    if not reasons:
        reasons.append(f"{_count_runs(metric.runs)} do not separate a slope from correlated noise")
    return f"{metric.metric} is too noisy to judge: {', and '.join(reasons)}"


def _worsening_sentences(metric: MetricDrift) -> list[str]:
    """Write the change among the recent runs first, if any, then the other references, then the place."""
    worsenings = metric.worsenings
    # Only a comparison with recent runs shows how the metric changed, so it comes first.
    first = next((worse for worse in worsenings if worse.against == "recent runs"), worsenings[0])
    others = " and ".join(_THAN[worse.against] for worse in worsenings if worse is not first)
    also = [f"worse {others}, too"] if others else []
    return [describe_worsening(metric.metric, first), *also, *_change_sentences(first.change)]


def describe_worsening(metric: str, worse: Worsening) -> str:
    """Write which metric regressed, by how much, against which reference, and since which run."""
    numbers = f"{worse.now:.6g} against {worse.before:.6g}"
    since = worse.change.first_bad
    if worse.kind == "step":
        return f"{metric} {_describe_size(metric, worse)} with a step at run {since}: {numbers}"
    if worse.kind in ("slope", "creep"):
        pace = "" if worse.a_run is None else f" of {_format_percent(worse.a_run)} a run"
        return f"{metric} {_describe_size(metric, worse)} on a slope{pace} since run {since}: {numbers}"
    times = "" if worse.ratio is None else f", {worse.ratio:.4g} times"
    return f"{metric} is worse {_THAN[worse.against]}, since run {since}: {numbers}{times}"


def _describe_size(metric: str, worse: Worsening) -> str:
    """Write the change in the direction of the metric itself: a match ratio falls while its loss grows."""
    known = METRICS.get(metric)
    # A drift record has no description of an analyzer's metric, but one that is worse and smaller is better higher.
    if worse.now < worse.before if known is None else known.better == "higher":
        return "fell"
    if worse.ratio is None:
        return "rose from 0"
    # Up to a factor of 2 percents are easier to read, beyond it factors.
    return f"rose to {worse.ratio:.4g} times" if worse.ratio >= 2 else f"rose by {_format_percent(worse.ratio - 1)}"


def _change_sentences(change: DriftChange) -> list[str]:
    """Write the runs and commits between which it happened, and the changes of the environment there."""
    last_good, first_bad = change.last_good, change.first_bad
    if last_good is None:
        # Without a good run in the window no range of commits can be searched.
        parts = [f"from run {first_bad} on, the first of the window"]
    else:
        parts = [f"between runs {last_good} and {first_bad}"]
    if change.commits:
        # A range is text to paste into `git log`. One commit means that the environment changed, and no code.
        parts.append(f"commits {change.commits}" if ".." in change.commits else f"commit {change.commits}")
    if change.environment:
        parts.append(f"environment: {', '.join(change.environment)}")
    return parts


def drift_warnings(record: DriftRecord) -> list[str]:
    """Write the warnings about the whole call."""
    others = ", ".join(record.other_environments)
    environments = f"runs of other environments were not judged: {others}; name one with --environment"
    return [*([environments] if others else []), *_missing_points(record)]


def _missing_points(record: DriftRecord) -> list[str]:
    """Count the outputs with a finding whose values drift.json lacks, with a command that writes those of one case."""
    # report.html counts the steady outputs that it does not draw, and most records have too many for points.
    counts = {state: count for state, count in record.without_points.items() if state != DriftState.STEADY}
    if not counts:
        return []
    missing = sum(counts.values())
    by_state = ", ".join(f"{counts[state]} {state}" for state in DRIFT_LABELS if state in counts)
    # The findings are sorted, worst first, and the first of them have points.
    found = [one.case for one in record.results if one.metrics and one.state is not DriftState.STEADY]
    command = f"precreg drift {quote(found[-missing])}"
    return [f"drift.json has no values at each run for {missing} outputs ({by_state}); for one case: {command}"]


def _count_runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _format_percent(growth: float) -> str:
    """Write 0.0123 as 1.2 %; from 99.5 % on, write no digits after the point."""
    return f"{100 * growth:.2g} %" if 100 * growth < 99.5 else f"{100 * growth:.0f} %"


# In the order of urgency; capitals mark the states that need a person.
DRIFT_LABELS: dict[DriftState, str] = {
    DriftState.DRIFT: "DRIFT",
    DriftState.UNMEASURED: "UNMEASURED",
    DriftState.ABSENT: "absent",
    DriftState.IMPROVED: "improved",
    DriftState.TOO_NOISY: "too noisy",
    DriftState.TOO_FEW: "too few",
    DriftState.STEADY: "steady",
}
_RANK = {state: rank for rank, state in enumerate(DRIFT_LABELS)}


class DriftEvidence(NamedTuple):
    """Hold one comparison that a metric failed, as text; an empty field has nothing to show.

    Comparisons with the same numbers share a row.
    """

    metric: str
    before: str
    now: str
    ratio: str
    kind: str
    since: str
    judged: str
    against: str


def describe_drift_evidence(found: OutputDrift) -> list[DriftEvidence]:
    """Describe every comparison that an output's metrics failed."""
    return [row for metric in found.metrics for row in _rows(metric)]


def _rows(metric: MetricDrift) -> list[DriftEvidence]:
    # Baseline, anchor and recent runs often give the same numbers; one row lists all three.
    rows: dict[tuple[str, ...], DriftEvidence] = {}
    for worse in metric.worsenings:
        before, now = format_distinct([worse.before, worse.now])
        ratio = "" if worse.ratio is None else format_number(worse.ratio, 4)
        since = f"run {worse.change.first_bad}"
        same = rows.get((before, since))
        against = worse.against if same is None else f"{same.against}, {worse.against}"
        judged = f"{metric.mode}, {metric.runs} runs"
        rows[before, since] = DriftEvidence(metric.metric, before, now, ratio, worse.kind, since, judged, against)
    return list(rows.values())


def drift_table(rows: Sequence[DriftEvidence], max_rows: int = 12, width: int | None = None) -> list[str]:
    """Arrange rows in columns under their names; count rows beyond `max_rows`."""
    return format_columns(DriftEvidence._fields, rows, max_rows, width, spare=("judged",)) if rows else []


def group_drift_by_case(record: DriftRecord) -> dict[str, list[OutputDrift]]:
    """Return the outputs of each case, the worst first; cases are sorted."""
    # groupby joins neighbours only. The rank makes the first output of each case the one that JUnit reports.
    ordered = sorted(record.results, key=lambda found: (found.case, _RANK[found.state], found.output))
    return {case: list(group) for case, group in groupby(ordered, key=lambda found: found.case)}


def describe_drift_counts(record: DriftRecord) -> str:
    """Count the outputs of each state, worst first."""
    tally = Counter(found.state for found in record.results)
    return ", ".join(f"{tally[state]} {state}" for state in DRIFT_LABELS if tally[state]) or "nothing"


def describe_drift_scope(record: DriftRecord) -> str:
    """Write the range of runs and commits that was judged."""
    if not record.runs:
        return "no run"
    first, last = record.runs[0], record.runs[-1]
    if first is last:
        return f"run {first.number}{f', commit {first.commit[:8]}' if first.commit else ''}"
    commits = f", commits {first.commit[:8]} to {last.commit[:8]}" if first.commit and last.commit else ""
    return f"{len(record.runs)} runs, {first.number} to {last.number}{commits}"


def describe_anchor(record: DriftRecord) -> str:
    """Write the anchor with its commit and its runs; empty without one."""
    if record.anchor is None:
        return ""
    commit = f", commit {record.anchor.commit[:8]}" if record.anchor.commit else ""
    runs = ", ".join(map(str, record.anchor.runs))
    return f"{record.anchor.name}{commit} (run {runs})"


def drift_exit_sentence(record: DriftRecord) -> str:
    """Write one sentence that explains the exit code."""
    states = [found.state for found in record.results]
    drifting = len({found.case for found in record.results if found.state is DriftState.DRIFT})
    if drifting:
        return f"{count_cases(drifting)} {'drifts' if drifting == 1 else 'drift'}"
    unmeasured = len({found.case for found in record.results if found.state is DriftState.UNMEASURED})
    if unmeasured:
        return f"{count_cases(unmeasured)} could not be judged: no longer measured"
    # The order of these sentences is the order of exit codes in drift_exit_code: the sentence must name the cause of
    # the code.
    if not {DriftState.STEADY, DriftState.IMPROVED} & set(states):
        return f"nothing could be judged: {describe_drift_counts(record)} in {describe_drift_scope(record)}"
    ways = ", ".join(f"{number} {mode}" for mode, number in record.modes.items())
    return f"nothing drifts; metrics judged: {ways}"


# A comment on a merge request is read at a glance; report.html has every row.
MAX_DRIFT_MARKDOWN_ROWS = 50
MAX_DRIFT_MARKDOWN_IDS = 10
# States that fail no job, and that a person may want to look at.
_COUNTED = (DriftState.IMPROVED, DriftState.ABSENT, DriftState.TOO_NOISY)
_HEADINGS = ("state", "case", "output", "finding")


def render_drift_markdown(record: DriftRecord) -> str:
    """Summarize in GitHub's and GitLab's Markdown; steady outputs are counted, not listed."""
    # Only states that fail the job have rows: a comment must show a reviewer what to act on.
    listed = [found for found in record.results if found.state in (DriftState.DRIFT, DriftState.UNMEASURED)]
    anchor = describe_anchor(record)
    against = f" Anchor: {escape_markdown(anchor)}." if anchor else ""
    place = f"Environment {escape_markdown(record.environment)}, {escape_markdown(describe_drift_scope(record))}"
    parts = [f"# precreg drift: {drift_exit_sentence(record)}", f"{place}: {describe_drift_counts(record)}.{against}"]
    if listed:
        parts.append(
            "\n".join([_line(_HEADINGS), "|" + "---|" * len(_HEADINGS), *map(_row, listed[:MAX_DRIFT_MARKDOWN_ROWS])])
        )
    if len(listed) > MAX_DRIFT_MARKDOWN_ROWS:
        parts.append(f"And {len(listed) - MAX_DRIFT_MARKDOWN_ROWS} more in the report.")
    for state in _COUNTED:
        if cases := _cases(record, state):
            named = [f"{markdown_code(id)}{_beginning(found)}" for id, found in cases.items()]
            parts.append(f"{state.capitalize()}: {list_some(named, MAX_DRIFT_MARKDOWN_IDS)}.")
    if warnings := drift_warnings(record):
        parts.append("\n".join(f"- Warning: {escape_markdown(text)}" for text in warnings))
    return "\n\n".join(parts) + "\n"


def _cases(record: DriftRecord, state: DriftState) -> dict[str, OutputDrift]:
    """Return the cases with an output in a state, each with its first such output."""
    # Sorted, because groupby joins neighbours only; the sort keeps the worst output of a case first.
    found = sorted((one for one in record.results if one.state is state), key=lambda one: one.case)
    return {case: next(group) for case, group in groupby(found, key=lambda one: one.case)}


def _beginning(found: OutputDrift) -> str:
    """Write where a gain began; empty for every other state."""
    improved = found.metrics[0].improved if found.metrics else None
    return "" if improved is None else f" since run {improved.first_bad}"


def _row(found: OutputDrift) -> str:
    return _line(
        [
            str(found.state),
            markdown_code(found.case),
            escape_markdown(found.output),
            escape_markdown(describe_drift(found)),
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" for cell in cells)


# A log stays readable with 20 outputs in full.
MAX_OUTPUTS = 20
MAX_DRIFT_TERMINAL_IDS = 5
# The width of the longest label, so that details begin below the case.
DRIFT_INDENT = " " * 11
_COLOURS = {
    DriftState.DRIFT: "red",
    DriftState.UNMEASURED: "red",
    DriftState.ABSENT: "yellow",
    DriftState.IMPROVED: "green",
}
_LISTED = frozenset({DriftState.DRIFT, DriftState.UNMEASURED})


def render_drift_terminal(
    record: DriftRecord, *, colour: bool, reports: Sequence[Path] = (), width: int | None = None
) -> str:
    """Summarize as plain text, or with colours for a terminal; `reports` are the files to point to.

    Lines fit `width`; None means that nothing wraps.
    """
    found = [one for one in record.results if one.state in _LISTED]
    listed = [line for one in found[:MAX_OUTPUTS] for line in _output(one, width)]
    if len(found) > MAX_OUTPUTS:
        listed.append(f"... and {len(found) - MAX_OUTPUTS} more in the report")
    paragraphs = [[_heading(record)], listed, _ending(record, reports)]
    # Controls go before colours are added, which are controls themselves.
    text = strip_controls("\n\n".join("\n".join(lines) for lines in paragraphs if lines))
    shown = [
        part for line in text.splitlines() for part in (_painted(line, width) if colour else wrap_lines([line], width))
    ]
    return "\n".join(shown) + "\n"


def _heading(record: DriftRecord) -> str:
    anchor = describe_anchor(record)
    against = f", anchor {anchor}" if anchor else ""
    return f"precreg {record.precreg}: environment {record.environment}, {describe_drift_scope(record)}{against}"


def _output(found: OutputDrift, width: int | None) -> list[str]:
    first = f"{DRIFT_LABELS[found.state]:10} {found.case}   {found.output}"
    inner = None if width is None else width - len(DRIFT_INDENT)
    lines = [*drift_sentences(found), *drift_table(describe_drift_evidence(found), width=inner)]
    return [first, *(DRIFT_INDENT + line for line in lines)]


def _ending(record: DriftRecord, reports: Sequence[Path]) -> list[str]:
    lines = [f"outputs   {describe_drift_counts(record)}"]
    for state in _COUNTED:
        if cases := _cases(record, state):
            listed = list(cases.items())[:MAX_DRIFT_TERMINAL_IDS]
            lines += [f"{DRIFT_LABELS[state]:9} {id}: {describe_drift(found)}" for id, found in listed]
            if len(cases) > len(listed):
                lines.append(f"{DRIFT_LABELS[state]:9} and {len(cases) - len(listed)} more")
    lines += [f"warning   {text}" for text in drift_warnings(record)]
    if reports:
        lines.append(f"reports   {'  '.join(path.as_posix() for path in reports)}")
    return [*lines, f"exit {record.exit_code}: {drift_exit_sentence(record)}"]


def _painted(line: str, width: int | None) -> list[str]:
    """Wrap a line, and colour its label, or all of it if it explains the exit code."""
    first, *others = parts = wrap_lines([line], width)
    if line.startswith("exit "):
        fg = "green" if line.startswith("exit 0") else "red"
        return [style(part, fg=fg, bold=True) for part in parts]
    for state, fg in _COLOURS.items():
        if line.startswith(f"{DRIFT_LABELS[state]:10} "):
            return [style(first[:10], fg=fg, bold=True) + first[10:], *others]
    return parts
