"""How does a comparison of two runs read: on a terminal, in Markdown, as JSON?

A comparison has parts, worst first. Each part has groups of equal causes, or a line for each case. The page of a
comparison shows the same parts, so that no two formats differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Literal, NamedTuple

import msgspec
from click import style
from msgspec.structs import replace

from precreg.report.case_context import look_command
from precreg.report.describe import (
    count_cases,
    describe_commit,
    describe_run_selection,
    list_some,
    strip_controls,
)
from precreg.report.findings import add_finding_message, add_verdict_messages, describe_environment_difference
from precreg.report.groups import ResultGroup, group_results, loss_size, measure_loss
from precreg.report.layout import wrap_lines
from precreg.report.page_words import say
from precreg.report.story import describe_group_cause, describe_loss_size, short_message
from precreg.report.summaries import escape_html, escape_markdown, markdown_code
from precreg.report.two_runs import CasePair, Obstacle, PairKind, RunComparison, TimeChange, TimeComparison
from precreg.run import Disagreement
from precreg.types import (
    CaseResult,
    ChangedEnvironment,
    RunRecord,
    Verdict,
    format_distinct,
    format_duration,
    format_number,
)

COMPARISON_SCHEMA = "precreg-run-comparison/1"
# A terminal and a comment are read at a glance; JSON has every case.
MAX_TEXT_GROUPS = 10
MAX_TEXT_LINES = 10
MAX_OTHER_NAMES = 5
# Below the label of a line: "FAILED   ".
_INDENT = " " * 9

# The keys of page_words.py for the titles of parts.
PartKey = Literal[
    "newly_failing",
    "worse",
    "not_comparable",
    "missing",
    "fixed",
    "improved",
    "other_verdict",
    "bounds",
    "environment",
    "times",
    "unjudged",
    "added",
    "unselected",
]

_OBSTACLES: dict[Obstacle, str] = {
    "error": "could not be judged",
    "definition": "another definition",
    "inputs": "other inputs",
}


class ComparedPaths(NamedTuple):
    """The two records as the user named them."""

    current: str
    baseline: str


class ComparisonPart(NamedTuple):
    """A part of a comparison: the number of its cases or facts, and groups or lines; a note says what to do."""

    key: PartKey
    number: int
    groups: tuple[ResultGroup, ...] = ()
    lines: tuple[str, ...] = ()
    note: str = ""

    @property
    def title(self) -> str:
        """The title in English."""
        return say(f"part_{self.key}", {"number": self.number})


def describe_comparison(comparison: RunComparison) -> str:
    """Write one sentence that explains the exit code."""
    tally = Counter[str](pair.kind for pair in comparison.pairs)
    barred = _count_barred(comparison)
    if comparison.exit_code == 1:
        losses = (("newly_failing", "failed now and passed before"), ("worse", "significantly worse"))
        parts = [f"{count_cases(tally[kind])} {words}" for kind, words in losses if tally[kind]]
        return ", ".join([*parts, *([barred] if barred else [])])
    seen = [f"{tally[kind]} {words}" for kind, words in _HARMLESS if tally[kind]]
    return barred or f"no loss found in {count_cases(len(comparison.pairs))}: {', '.join(seen)}"


_HARMLESS: tuple[tuple[PairKind, str], ...] = (
    ("fixed", "passed now and failed before"),
    ("improved", "significantly better"),
    ("other_verdict", "with another verdict"),
    ("same", "with the same bits"),
    ("within_noise", "within noise"),
    ("unjudged", "with other bits and no statistic"),
)


def _count_barred(comparison: RunComparison) -> str:
    """Count the cases that could not be compared, by reason; empty without any."""
    reasons = Counter(_OBSTACLES[pair.obstacle] for pair in comparison.of_kind("not_comparable"))
    if comparison.missing:
        reasons["missing now"] = len(comparison.missing)
    if not reasons:
        return ""
    counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    return f"{count_cases(reasons.total())} could not be compared ({counted})"


def comparison_notices(comparison: RunComparison, paths: ComparedPaths) -> Iterator[str]:
    """Yield warnings: runs that may be swapped, or that belong to different projects."""
    if comparison.is_older:
        swapped = f"precreg report --compare {quote(paths.baseline)} {quote(paths.current)}"
        yield (
            f"the current run started {comparison.current.started}, before the baseline run"
            f" ({comparison.baseline.started}); the other way round: {swapped}"
        )
    projects = comparison.current.project, comparison.baseline.project
    if projects[0] != projects[1]:
        yield f"the runs belong to two projects: {projects[0]} and {projects[1]}"


def comparison_sides(comparison: RunComparison, paths: ComparedPaths) -> list[tuple[str, str]]:
    """Describe the two runs: path, commit, environment, time, number of cases."""
    records = comparison.current, comparison.baseline
    return [
        (label, _side(record, path))
        for label, record, path in zip(("current", "baseline"), records, paths, strict=True)
    ]


def _side(record: RunRecord, path: str) -> str:
    git = record.git
    branch = f" on {git.branch}" if git and git.branch else ""
    dirty = " with uncommitted changes" if git and git.dirty else ""
    selected = describe_run_selection(record)
    parts = [
        f"{path}: commit {describe_commit(git)}{branch}{dirty}",
        record.environment.label,
        record.started,
        count_cases(len(record.results)) + (f" ({selected})" if selected else ""),
    ]
    return ", ".join(parts)


def comparison_parts(comparison: RunComparison) -> list[ComparisonPart]:
    """Return the parts that have content, worst first."""
    parts = (
        *_parts_of_losses(comparison),
        *_parts_of_gains(comparison),
        *_parts_of_circumstances(comparison),
    )
    return [part for part in parts if part.groups or part.lines]


def _parts_of_losses(comparison: RunComparison) -> Iterator[ComparisonPart]:
    yield _of_groups("newly_failing", comparison)
    yield _of_groups("worse", comparison)
    barred = comparison.of_kind("not_comparable")
    lines = [f"{pair.id}: {_OBSTACLES[pair.obstacle]}{_problem(pair)}" for pair in barred]
    redefined = any(pair.obstacle != "error" for pair in barred)
    yield _of_lines("not_comparable", lines, _REDEFINED_HINT if redefined else "")
    yield _of_lines("missing", [result.id for result in comparison.missing])


_REDEFINED_HINT = "run the present suites on the earlier code, and compare again: precreg run --pair COMMIT"
_UNJUDGED_HINT = "compare both versions on fresh inputs (precreg run --pair COMMIT), or draw more: seeds: 5"


def _of_groups(kind: Literal["newly_failing", "worse", "improved"], comparison: RunComparison) -> ComparisonPart:
    pairs = comparison.of_kind(kind)
    return ComparisonPart(kind, len(pairs), group_results(named_result(pair.judged) for pair in pairs))


def _of_lines(key: PartKey, lines: Sequence[str], note: str = "") -> ComparisonPart:
    return ComparisonPart(key, len(lines), (), tuple(lines), note)


def _problem(pair: CasePair) -> str:
    return f": {short_message(pair.now)}" if pair.obstacle == "error" else ""


def _parts_of_gains(comparison: RunComparison) -> Iterator[ComparisonPart]:
    yield _of_lines("fixed", _verdicts(comparison.of_kind("fixed")))
    yield _of_groups("improved", comparison)


def _parts_of_circumstances(comparison: RunComparison) -> Iterator[ComparisonPart]:
    yield _of_lines("other_verdict", _verdicts(comparison.of_kind("other_verdict")))
    bounds = [f"{pair.id}: {line}" for pair in comparison.pairs for line in _bounds(pair)]
    yield ComparisonPart("bounds", sum(bool(pair.bounds) for pair in comparison.pairs), (), tuple(bounds))
    if comparison.environment is not None:
        facts = (ChangedEnvironment((fact,)) for fact in comparison.environment.facts)
        yield _of_lines("environment", [*map(describe_environment_difference, facts)])
    yield _of_times(comparison.times)
    yield _of_lines("unjudged", [pair.id for pair in comparison.of_kind("unjudged")], _UNJUDGED_HINT)
    yield _of_lines("added", [f"{result.id}: {_verdict(result.verdict)}" for result in comparison.added])
    yield _of_lines("unselected", [result.id for result in comparison.unselected])


def _of_times(times: TimeComparison) -> ComparisonPart:
    # Times of two processors differ in any case.
    if not times.same_processor or not times.changes:
        return ComparisonPart("times", 0)
    total = f"all cases: {_times(times.before, times.now)}"
    return ComparisonPart("times", len(times.changes), (), (total, *map(_time_line, times.changes)))


def _time_line(change: TimeChange) -> str:
    return f"{change.id}: {_times(change.before, change.now)}"


def _times(before: float, now: float) -> str:
    return f"{format_duration(before)} -> {format_duration(now)} ({format_number(now / before, 3)}x)"


def _verdicts(pairs: Iterable[CasePair]) -> list[str]:
    return [
        f"{pair.id}: {_verdict(pair.before.verdict)} -> {_verdict(pair.now.verdict)}"
        + ("; its tolerance changed, too" if pair.bounds else "")
        for pair in pairs
    ]


def _verdict(verdict: Verdict) -> str:
    return f"{verdict.status} ({verdict.reason})"


def _bounds(pair: CasePair) -> Iterator[str]:
    for change in pair.bounds:
        before, now = format_distinct([change.before, change.now])
        yield f"{change.output}: {change.name} {before or 'none'} -> {now or 'none'}"


def named_result(result: CaseResult) -> CaseResult:
    """Fill in the messages of a verdict of the comparison; those of a run have theirs."""
    verdict = result.verdict
    if verdict.message or not verdict.findings:
        return result
    findings = tuple(map(add_finding_message, verdict.findings))
    first = findings[0]
    message = f"{first.output}: {first.message}" if first.output else first.message
    return replace(result, verdict=replace(verdict, message=message, findings=findings))


def render_two_runs_terminal(
    comparison: RunComparison, paths: ComparedPaths, *, width: int | None = None, colour: bool = False
) -> str:
    """Write a comparison for a terminal of `width` columns; None wraps nothing."""
    head = f"precreg {comparison.current.precreg}: {count_cases(len(comparison.pairs))} in both runs"
    lines = [head, *(f"{label:8} {text}" for label, text in comparison_sides(comparison, paths))]
    lines += [f"warning  {text}" for text in comparison_notices(comparison, paths)]
    pairs = {pair.id: pair for pair in comparison.pairs}
    for part in comparison_parts(comparison):
        lines += ["", *_terminal_part(part, pairs)]
    wrapped = wrap_lines([strip_controls(line) for line in (*lines, "")], width)
    last = wrap_lines([f"exit {comparison.exit_code}: {describe_comparison(comparison)}"], width)
    if colour:
        ending = {0: "green", 1: "red", 2: "yellow"}[comparison.exit_code]
        wrapped, last = [*map(_coloured, wrapped)], [style(line, fg=ending, bold=True) for line in last]
    return "\n".join([*wrapped, *last]) + "\n"


_COLOURS = {"FAILED": "red", "WORSE": "red", "BETTER": "green", "warning": "yellow"}


def _coloured(line: str) -> str:
    label, _, rest = line.partition(" ")
    return f"{style(label, fg=_COLOURS[label], bold=True)} {rest}" if label in _COLOURS else line


def _terminal_part(part: ComparisonPart, pairs: Mapping[str, CasePair]) -> Iterator[str]:
    yield part.title
    for group in part.groups[:MAX_TEXT_GROUPS]:
        yield from _terminal_group(group, pairs[best_or_worst(group).id])
    if len(part.groups) > MAX_TEXT_GROUPS:
        rest = sum(len(group.results) for group in part.groups[MAX_TEXT_GROUPS:])
        yield f"{_INDENT}and {count_cases(rest)} in {len(part.groups) - MAX_TEXT_GROUPS} more groups: --format json"
    yield from (f"{_INDENT}{line}" for line in part.lines[:MAX_TEXT_LINES])
    if len(part.lines) > MAX_TEXT_LINES:
        yield f"{_INDENT}and {len(part.lines) - MAX_TEXT_LINES} more: --format json"
    if part.note:
        yield f"{_INDENT}{part.note}"


_LABELS: dict[PairKind, str] = {"newly_failing": "FAILED", "worse": "WORSE", "improved": "BETTER"}


def _terminal_group(group: ResultGroup, pair: CasePair) -> Iterator[str]:
    shown, number = best_or_worst(group), len(group.results)
    place = f"the {'best' if _is_gain(group) else 'worst'} of {count_cases(number)}" if number > 1 else ""
    size = describe_loss_size(measure_loss(shown))
    facts = ", ".join(filter(None, (place, size)))
    yield "   ".join(filter(None, (f"{_LABELS[pair.kind]:8} {shown.id}", group.key.reason, facts)))
    texts = [*shown.verdict.message.splitlines(), f"before    {_verdict(pair.before.verdict)}"]
    texts += [f"now       {_verdict(pair.now.verdict)}"] if pair.kind != "newly_failing" else []
    texts += [f"compared  {text}" for text in [explain_pair(pair)] if text]
    texts += [cause] if (cause := describe_group_cause(group)) else []
    if not cause and (command := look_command(pair.now)):
        texts.append(f"look into {command}")
    if number > 1:
        others = [result.name for result in group.results if result is not shown]
        texts.append(f"others    {len(others)} more of {group.key.suite}: {list_some(others, MAX_OTHER_NAMES)}")
    yield from (f"{_INDENT}{text}" for text in texts)


def explain_pair(pair: CasePair) -> str:
    """Write how the errors of a newly failing case compare with those of the baseline run; empty for other cases."""
    if pair.kind != "newly_failing":
        return ""
    errors = pair.errors
    if errors.same_bits:
        return f"its bits are the same: its {'tolerance' if pair.bounds else 'baseline or its tolerance'} changed"
    if errors.findings:
        first = add_finding_message(errors.findings[0])
        return f"{first.output}: {first.message}" if first.output else first.message
    if pair.obstacle in _OBSTACLES:
        return f"its errors cannot be compared: {_OBSTACLES[pair.obstacle]}"
    return "no statistic judges its errors" if errors.unjudged or pair.obstacle else "its errors are within noise"


def _is_gain(group: ResultGroup) -> bool:
    return group.key.reason == "improved"


def sort_group(group: ResultGroup) -> tuple[CaseResult, ...]:
    """Return the cases of a group, the largest loss first, or the largest gain, which is the smallest ratio."""
    return group.results[::-1] if _is_gain(group) else group.results


def best_or_worst(group: ResultGroup) -> CaseResult:
    """Return the case to show of a group."""
    return sort_group(group)[0]


def render_two_runs_markdown(comparison: RunComparison, paths: ComparedPaths) -> str:
    """Write a comparison in GitHub's and GitLab's Markdown, for a comment on a merge request."""
    sentence = describe_comparison(comparison)
    parts = [
        f"# precreg: {escape_markdown(sentence)}",
        "\n".join(f"- {label}: {escape_markdown(text)}" for label, text in comparison_sides(comparison, paths)),
        *(f"**Warning**: {escape_markdown(text)}" for text in comparison_notices(comparison, paths)),
    ]
    for part in comparison_parts(comparison):
        parts += _markdown_part(part)
    return "\n\n".join(parts) + "\n"


def _markdown_part(part: ComparisonPart) -> Iterator[str]:
    title = f"{part.title[0].upper()}{part.title[1:]}"
    if part.groups:
        yield f"## {escape_markdown(title)}"
        rows = [_markdown_group(group) for group in part.groups[:MAX_TEXT_GROUPS]]
        yield "\n".join(["| size | case | reason | message |", "|---|---|---|---|", *rows])
        if len(part.groups) > MAX_TEXT_GROUPS:
            yield f"And {len(part.groups) - MAX_TEXT_GROUPS} more groups."
    if part.lines:
        items = [f"- {escape_markdown(line)}" for line in part.lines[: 5 * MAX_TEXT_LINES]]
        left = len(part.lines) - len(items)
        more = [f"- and {left} more"] if left > 0 else []
        note = [escape_markdown(part.note)] if part.note else []
        # An empty line lets GitHub and GitLab read Markdown inside of HTML.
        listed = "\n".join([*items, *more])
        yield "\n\n".join([f"<details><summary>{escape_html(title)}</summary>", listed, *note, "</details>"])


def _markdown_group(group: ResultGroup) -> str:
    worst = best_or_worst(group)
    others = f" and {len(group.results) - 1} more of {markdown_code(group.key.suite)}" if group.results[1:] else ""
    words = describe_group_cause(group)
    message = ". ".join(filter(None, (short_message(worst), words)))
    cells = (
        describe_loss_size(measure_loss(worst)),
        f"{markdown_code(worst.id)}{others}",
        group.key.reason,
        escape_markdown(message),
    )
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def comparison_json(comparison: RunComparison, paths: ComparedPaths) -> str:
    """Write every case of a comparison with its facts as JSON; a number without a value in JSON is null."""
    found = {
        "schema": COMPARISON_SCHEMA,
        "exit_code": comparison.exit_code,
        "summary": describe_comparison(comparison),
        "warnings": [*comparison_notices(comparison, paths)],
        "current": _json_side(comparison.current, paths.current),
        "baseline": _json_side(comparison.baseline, paths.baseline),
        "counts": Counter(pair.kind for pair in comparison.pairs),
        "cases": [_json_pair(pair) for pair in comparison.pairs],
        "added": [result.id for result in comparison.added],
        "missing": [result.id for result in comparison.missing],
        "unselected": [result.id for result in comparison.unselected],
        "environment": comparison.environment.facts if comparison.environment else [],
        "times": comparison.times,
    }
    return msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"


def _json_side(record: RunRecord, path: str) -> dict[str, Any]:
    return {
        "path": path,
        "project": record.project,
        "precreg": record.precreg,
        "started": record.started,
        "commit": record.git.commit if record.git else None,
        "environment": record.environment.label,
        "fingerprint": record.environment.fingerprint,
        "cases": len(record.results),
    }


def _json_pair(pair: CasePair) -> dict[str, Any]:
    judged = named_result(pair.judged)
    found: dict[str, Any] = {
        "id": pair.id,
        "kind": pair.kind,
        "before": _json_verdict(pair.before.verdict),
        "now": _json_verdict(pair.now.verdict),
    }
    if pair.obstacle:
        found["obstacle"] = pair.obstacle
    if pair.kind in ("newly_failing", "worse", "improved"):
        found["message"] = judged.verdict.message
        found["size"] = loss_size(judged)
        found["size_of"] = measure_loss(judged).unit
        found["findings"] = [*map(add_finding_message, pair.errors.findings)]
    if pair.kind == "newly_failing":
        found["compared"] = explain_pair(pair)
    if pair.errors.largest is not None:
        found["largest_ratio"] = pair.errors.largest
    if pair.bounds:
        found["tolerances"] = pair.bounds
    return found


def _json_verdict(verdict: Verdict) -> dict[str, str]:
    return {"status": verdict.status, "reason": verdict.reason, "message": verdict.message}


def describe_disagreement(found: Disagreement) -> str:
    """Write why a rerun does not confirm a proposal."""
    if found.verdict is None:
        return "a test defines the case, and only pytest can run it again"
    verdict = add_verdict_messages(found.verdict)
    causes = {
        "changed": f"{verdict.reason}: the case changed since the proposal",
        "bits": "its bits are not the proposal's",
        "verdict": f"{verdict.reason} against the proposal: {verdict.message}",
    }
    return f"rerun {found.rerun} of {found.reruns} differs: {causes[found.cause]}"
