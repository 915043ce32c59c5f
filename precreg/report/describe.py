"""Which words do all reports of a run share: labels, order, tables, places, the last sentence?

A report writes its own layout, and takes every number and sentence from here, so that no two reports differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from shlex import quote
from typing import NamedTuple

from precreg.measure import METRICS, metric_named
from precreg.report.groups import loss_order
from precreg.report.layout import format_columns
from precreg.report.pairs import describe_judge
from precreg.report.sections import describe_failing_findings, describe_selection
from precreg.types import (
    ACCELERATOR_FACT,
    SHARE_DIGITS,
    AverageRatio,
    BenchmarkDifference,
    CaseResult,
    ChosenRevision,
    Finding,
    GitState,
    Location,
    Metric,
    MetricDescription,
    NoAcceptedVersion,
    NotRegressed,
    Reason,
    RunRecord,
    Status,
    UnclearOnFreshInputs,
    Verdict,
    format_distinct,
    format_number,
    has_unclaimed_files,
    is_test_defined,
)
from precreg.verdict import UnseenKind, largest_loss, unseen_cases
from precreg.verdict.statistics import MIN_SAMPLES

# Ratios get 3 significant digits, and more only if two compared numbers would otherwise read the same.
RATIO_DIGITS = 3
# A rule without a threshold: any loss over the baseline fails.
HARD_RULE = "hard"
# The rules whose limit applies to the ratio to the baseline; bounds limit the metric itself.
_OF_RATIOS = frozenset({"statistic", "guard", "budget"})


def limits_ratio(finding: Finding) -> bool:
    """Return whether the limit of a finding applies to the ratio to the baseline, and not to the metric itself."""
    return finding.rule in _OF_RATIOS


def failing_rules(verdict: Verdict) -> list[str]:
    """Return the rule that failed the case, if no row of figures shows it; nothing if an old record has no rule."""
    return [first.rule for first in verdict.findings[:1] if first.rule and not first.metric]


def format_interval(finding: Finding) -> str:
    """Write the confidence bounds of the ratio; one side if the other is unknown, nothing if both are."""
    lower, _ = format_distinct([finding.lower, finding.limit], RATIO_DIGITS)
    upper, _ = format_distinct([finding.upper, finding.limit], RATIO_DIGITS)
    # One-sided tests give one bound. An empty side must not look like a bound of 0.
    if lower and upper:
        return f"{lower} to {upper}"
    return (lower and f"at least {lower}") or (upper and f"at most {upper}")


def format_noise(finding: Finding) -> str:
    """Write the largest ratio within noise, with digits enough to differ from 1 and from the ratio of the finding."""
    return format_distinct([finding.floor, finding.ratio, 1.0], RATIO_DIGITS)[0]


def repository_path(record: RunRecord, file: str) -> str:
    """Return the path of a project's file from the root of its repository."""
    return str(PurePosixPath(record.folder, file))


def location_to_show(result: CaseResult) -> Location:
    """Return the line to open first: the broken bound if the project wrote it, otherwise the suite."""
    # Findings are sorted worst first, so the first one failed the case.
    first = next(iter(result.verdict.findings), None)
    # Only a bound has a line of its own. Other reasons lead to the definition of the case.
    if first is None or first.reason is not Reason.OUT_OF_TOLERANCE:
        return result.source
    return next((place for place in _setters(result, first) if place.line), result.source)


def _setters(result: CaseResult, finding: Finding) -> list[Location]:
    """Return the places that set a bound, nearest first; only files of the project have lines.

    A match ratio also depends on rtol and atol, so their places follow.
    """
    places = [finding.source] if finding.source else []
    tolerance = result.tolerances.get(finding.output)
    if finding.metric == "match_ratio" and tolerance is not None:
        places += [tolerance.rtol.source, tolerance.atol.source]
    return places


# In the order of urgency. Capitals mark the cases that need a person, which colour alone would not show in a log.
STATUS_LABELS: dict[Status, str] = {
    Status.FAILED: "FAILED",
    Status.ERROR: "ERROR",
    Status.PROPOSED: "PROPOSED",
    Status.SKIPPED: "SKIPPED",
    Status.PASSED: "passed",
}
_RANK = {status: rank for rank, status in enumerate(STATUS_LABELS)}
# Findings of these reasons limit a ratio even in a record that stores no rule.
_FACTORS = frozenset({Reason.REGRESSED, Reason.OVER_BUDGET})
MAX_TAIL_LINES = 20
# Text reports show the end of a traceback or of the output, where the error is. The HTML report has all of it.
MAX_TAIL_CHARACTERS = 1500
# XML 1.0 forbids controls and surrogates; a terminal would obey escapes, and bidi marks reorder a line.
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")


def strip_controls(text: str) -> str:
    """Remove the characters that a terminal, a log or XML 1.0 must not get: controls, surrogates, text direction."""
    return _UNPRINTABLE.sub("", text)


def sort_results(results: Iterable[CaseResult]) -> list[CaseResult]:
    """Sort by status, then by the size of the loss over all reasons, then by id.

    A loss without a size comes before all others: a NaN, a missing output, an error over a perfect baseline.
    A case that fails because it has no baseline comes after them.
    """
    return sorted(results, key=lambda result: (_RANK[result.verdict.status], *loss_order(result)))


def verdict_rank(verdict: Verdict) -> tuple[int, float]:
    """Return the sort key that puts the worst verdict first: by status, then by the largest ratio."""
    return _RANK[verdict.status], -largest_loss(verdict)


def describe_status_counts(record: RunRecord) -> str:
    """Count the cases of each status, worst first."""
    # Statuses with no case are left out: a line of zeros hides the one number that matters.
    tally = Counter(result.verdict.status for result in record.results)
    parts = (_counted(status, tally[status]) for status in STATUS_LABELS if tally[status])
    return ", ".join(parts) or "no cases"


def _counted(status: Status, number: int) -> str:
    return f"{number} errors" if status is Status.ERROR and number > 1 else f"{number} {status}"


def describe_commit(git: GitState | None) -> str:
    """Write the first 8 digits of the commit."""
    return "none" if git is None else git.commit[:8]


def describe_run_selection(record: RunRecord) -> str:
    """Write the selection with its shard; empty for a run of the whole project."""
    shard = record.selection.get("shard")
    return "; ".join(filter(None, (describe_selection(record.selection), "" if shard is None else f"shard {shard}")))


class FindingRow(NamedTuple):
    """Hold one finding on one metric as text; a field is empty if the finding has no such number.

    `interval` has the confidence bounds of the ratio, `noise` the largest ratio within noise, `rule` the failed rule.
    """

    output: str
    seed: str
    metric: str
    current: str
    baseline: str
    ratio: str
    interval: str
    noise: str
    allowed: str
    rule: str


def finding_rows(verdict: Verdict, described: Sequence[MetricDescription]) -> list[FindingRow]:
    """Describe the findings that carry numbers, worst first; `described` are the analyzers' metrics."""
    return [_row(finding, metric_named(finding.metric, described)) for finding in verdict.findings if finding.metric]


def _row(finding: Finding, metric: Metric) -> FindingRow:
    # Findings on means over the seeds have no seed of their own.
    seed = "" if finding.seed is None else str(finding.seed)
    higher = metric.better == "higher"
    factors = finding.reason in _FACTORS and finding.rule != HARD_RULE and not higher
    if limits_ratio(finding) or factors:
        current, baseline = format_distinct([finding.current, finding.baseline])
        ratio, allowed, _ = format_distinct([finding.ratio, finding.limit, finding.floor], digits=3)
    else:
        # Shares close to 1, such as 0.99993, need more digits than errors to differ at all.
        digits = SHARE_DIGITS if higher else 4
        most = finding.baseline if finding.rule == HARD_RULE else finding.limit
        current, baseline, limit = format_distinct([finding.current, finding.baseline, most], digits)
        ratio = "" if finding.ratio is None else format_number(finding.ratio, max(digits, 3))
        sign = ">=" if higher else "<="
        allowed = limit and f"{sign} {limit}"
    measured = (current or "undefined", baseline, ratio, format_interval(finding), format_noise(finding), allowed)
    return FindingRow(finding.output, seed, finding.metric, *measured, finding.rule)


def finding_notes(verdict: Verdict) -> list[str]:
    """List the findings without a metric that the verdict's message leaves out, with their output and seed."""
    # The first line already shows the message of the verdict, which may join several findings.
    others = (finding for finding in verdict.findings if not finding.metric and finding.message not in verdict.message)
    return list(dict.fromkeys(map(_note, others)))


def _note(finding: Finding) -> str:
    seed = "" if finding.seed is None else f"seed {finding.seed}"
    place = ", ".join(filter(None, (finding.output, seed)))
    return f"{place}: {finding.message}" if place else finding.message


# A narrow terminal leaves these columns out, in this order. The message names the output, and the noise follows it.
_SPARE_COLUMNS = ("rule", "noise", "allowed", "seed")


def finding_table(rows: Sequence[FindingRow], max_rows: int = 12, width: int | None = None) -> list[str]:
    """Arrange rows in columns under their names, as `format_columns` does; leave out empty columns."""
    if not rows:
        return []
    names = [name for name in FindingRow._fields if any(getattr(row, name) for row in rows)]
    cells = [[getattr(row, name) for name in names] for row in rows]
    return format_columns(names, cells, max_rows, width, spare=_SPARE_COLUMNS)


def describe_provenance(result: CaseResult) -> list[str]:
    """Write where the baseline and the case come from, and the facts that the kinds of its computations gave."""
    execution = result.outcome.execution
    hardware = f", on {execution.facts[ACCELERATOR_FACT]}" if ACCELERATOR_FACT in execution.facts else ""
    sides = (("facts", execution.facts), (result.role, execution.oracle_facts))
    given = (f"{side:9} {', '.join(map(' '.join, facts.items()))}" for side, facts in sides if facts)
    places = [f"{'test ' if is_test_defined(result.definition) else 'suite'}     {result.source}{hardware}", *given]
    if result.baseline is None:
        return places
    if result.baseline is not result.stored:
        return [f"baseline  {describe_judge(result)}", *places]
    entry = result.baseline.entry
    accepted = " at ".join(filter(None, (entry.date, entry.commit[:8])))
    accepted = f"baseline  {result.baseline.file}, accepted {accepted}: {entry.reason}"
    return [accepted, *([f"judged by {describe_judge(result)}"] if result.paired else []), *places]


def failure_tail(result: CaseResult) -> list[str]:
    """Return the last lines of a failure's traceback or output."""
    failure = result.outcome.execution.failure
    return [] if failure is None else failure.detail[-MAX_TAIL_CHARACTERS:].splitlines()[-MAX_TAIL_LINES:]


def run_exit_sentence(record: RunRecord) -> str:
    """Write one sentence that explains the exit code: by the cases, then by the findings on the run.

    The cases in which the run could not see every loss follow, whatever the code.
    """
    failed, unjudged = _failed(record), _unjudged(record)
    found = describe_failing_findings(record.findings)
    of_cases = failed or unjudged or ("" if found else _harmless(record))
    parts = (of_cases, found) if failed else (found, of_cases)
    # With --strict, the sentence on unjudged cases counts the unclear ones.
    counted = () if failed or not record.strict else (UnseenKind.NOT_CLEAR,)
    return "; ".join(filter(None, (*parts, count_unseen(record, counted))))


def _failed(record: RunRecord) -> str:
    """Count the failed cases by reason, and the errors; empty if none failed."""
    failed = _with_status(record, Status.FAILED)
    errors = len(_with_status(record, Status.ERROR))
    if not failed:
        return ""
    if not errors and {result.verdict.reason for result in failed} == {Reason.REGRESSED}:
        baselines = "its baseline" if len(failed) == 1 else "their baselines"
        return f"{count_cases(len(failed))} regressed against {record.pair[:8] or baselines}"
    counted = f"{errors} {'error' if errors == 1 else 'errors'}" if errors else ""
    return ", ".join(filter(None, (_reasons(failed), counted)))


def _unjudged(record: RunRecord) -> str:
    unjudged = _with_status(record, Status.ERROR, Status.PROPOSED)
    if record.strict:
        unjudged += [result for result in record.results if result.verdict.reason is Reason.NOT_CLEAR]
    cases = f"{count_cases(len(unjudged))} could not be judged: {_reasons(unjudged)}" if unjudged else ""
    # Without --strict a warning names the files, and the exit code stays.
    files = "changed files belong to no case" if record.strict and has_unclaimed_files(record.warnings) else ""
    return "; ".join(filter(None, (cases, files)))


def _harmless(record: RunRecord) -> str:
    """Write the sentence of exit code 0, which praises nothing if nothing was judged."""
    skipped = len(_with_status(record, Status.SKIPPED))
    if skipped == len(record.results):
        return f"nothing was judged: {count_cases(skipped)} skipped" if skipped else "there was no case to judge"
    also = f"; {count_cases(skipped)} skipped" if skipped else ""
    if bad := len(known_bad_cases(record)):
        also += f"; {count_cases(bad)} known bad"
    # Nothing regressed only where every loss would have been seen.
    praise = "no loss found" if unseen_cases(record.results) else "nothing regressed"
    return f"{praise} against {record.pair[:8] or 'the baselines'}{also}"


def _with_status(record: RunRecord, *statuses: Status) -> list[CaseResult]:
    return [result for result in record.results if result.verdict.status in statuses]


def describe_chosen_commit(commit: str, chosen: ChosenRevision | None) -> str:
    """Write a commit's short id, and the revision that named it, unless that is the id itself."""
    short = commit[:8]
    if chosen is None or (commit.startswith(chosen.text) and not chosen.merge_base):
        return short
    return f"{short} (merge base of {chosen.text} and HEAD)" if chosen.merge_base else f"{short} ({chosen.text})"


def count_cases(number: int) -> str:
    """Count cases."""
    return f"{number} case" if number == 1 else f"{number} cases"


def _reasons(results: Sequence[CaseResult]) -> str:
    tally = Counter(result.verdict.reason for result in results)
    return ", ".join(f"{number} {_reason_words(reason, number)}" for reason, number in tally.most_common())


def _reason_words(reason: Reason, number: int) -> str:
    # Without its underscores: "3 out of tolerance", "2 subject errors".
    return reason.replace("_", " ") + ("s" if number > 1 and reason.endswith("_error") else "")


def list_some(texts: Sequence[str], max_texts: int) -> str:
    """List texts in a sentence; count those beyond `max_texts`."""
    rest = f" and {len(texts) - max_texts} more" if len(texts) > max_texts else ""
    return ", ".join(texts[:max_texts]) + rest


def improved_cases(record: RunRecord) -> list[str]:
    """Return the ids of the improved cases."""
    return sorted(result.id for result in record.results if result.verdict.reason is Reason.IMPROVED)


def known_bad_cases(record: RunRecord) -> list[str]:
    """Return the ids of the cases that passed, though wrong, because their baselines are known to be bad."""
    passed = (result for result in record.results if result.verdict.status is Status.PASSED)
    return sorted(result.id for result in passed if result.verdict.excused)


# By kind, the words behind a number of cases in the exit line.
_UNSEEN_COUNTS = {
    UnseenKind.NO_POWER: "without power",
    UnseenKind.SMALL_OUTPUTS: "judged by a ratio alone",
    UnseenKind.FIGURES_ALONE: "judged by figures alone",
    UnseenKind.WIDER_LIMITS: "judged with the wider limits of another environment",
    UnseenKind.NOT_CLEAR: "not clear",
}
# By kind, the reason in the other reports.
_UNSEEN_REASONS = {
    UnseenKind.NO_POWER: "no statistic judges an output whose bits changed",
    UnseenKind.SMALL_OUTPUTS: "an output whose bits changed is too small for a statistic",
    UnseenKind.FIGURES_ALONE: "a table has no arrays, so the noise of its figures is unknown",
    UnseenKind.WIDER_LIMITS: "bits changed, and no other version of the code ran here",
    UnseenKind.NOT_CLEAR: "fresh inputs neither proved nor excluded a loss",
}


class UnseenNote(NamedTuple):
    """Hold the words on the cases of one kind in which a run could not see every loss."""

    kind: UnseenKind
    # The number of cases and the reason.
    text: str
    ids: list[str]
    # The remedy, with the command.
    advice: str


def count_unseen(record: RunRecord, counted: Sequence[UnseenKind] = ()) -> str:
    """Count the cases of each kind in which a run could not see every loss, apart from the kinds `counted` already."""
    found = {kind: len(cases) for kind, cases in unseen_cases(record.results).items() if kind not in counted}
    first = next(iter(found), None)
    return ", ".join(
        f"{count_cases(number) if kind is first else number} {_UNSEEN_COUNTS[kind]}" for kind, number in found.items()
    )


def describe_unseen_kind(kind: UnseenKind) -> str:
    """Write why a run could not see every loss of one case."""
    return f"{_UNSEEN_COUNTS[kind]}: {_UNSEEN_REASONS[kind]}"


def describe_unseen(record: RunRecord) -> list[UnseenNote]:
    """Describe the cases in which a run could not see every loss, kind by kind, with the command that helps."""
    return [
        UnseenNote(
            kind,
            f"{count_cases(len(cases))} {describe_unseen_kind(kind)}",
            sorted(case.id for case in cases),
            _unseen_advice(record, kind, cases),
        )
        for kind, cases in unseen_cases(record.results).items()
    ]


def _unseen_advice(record: RunRecord, kind: UnseenKind, cases: Sequence[CaseResult]) -> str:
    """Write the command that helps, for the first case of a kind."""
    first = min(cases, key=lambda case: case.id)
    if kind is UnseenKind.NOT_CLEAR:
        pair = f" --pair {record.pair[:8]}" if record.pair else ""
        ended = {
            fact.ended_by
            for case in cases
            for each in case.verdict.findings
            if isinstance(fact := each.fact, UnclearOnFreshInputs)
        }
        whole = " --pair-run-seconds 1800" if "run_seconds" in ended else ""
        return f"allow more: precreg run{pair} --max-seeds 40960 --pair-seconds 120{whole} {first.id}"
    if kind is UnseenKind.FIGURES_ALONE:
        return "keep the arrays of one variant and compare them: precreg compare ACTUAL REFERENCE"
    pairing = _pairing_advice(cases)
    if kind is UnseenKind.WIDER_LIMITS:
        label = record.environment.of_case(first.outcome.execution).label
        accepted = f"precreg baseline accept --seen, or accept '*' --environment {label} --reason WHY"
        return pairing or f"run the accepted version here, then: {accepted}"
    if is_test_defined(first.definition):
        return "draw more inputs in the test, or return more elements, and accept again"
    facts = [finding.fact for case in cases for finding in case.verdict.findings]
    causes = {each.cause for fact in facts if isinstance(fact, NotRegressed) for each in fact.unjudged}
    if causes == {"statistic_off"}:
        return "their suites switch the statistic off; a threshold sees losses, such as regression: {rms_error: 0.1}"
    power = f"set more seeds in the suite and accept again (limits: precreg power {quote(first.id)})"
    return "; or ".join(filter(None, (pairing, power)))


def _pairing_advice(cases: Sequence[CaseResult]) -> str:
    """Write how another version of the code could judge cases; empty if none can."""
    # Tests define no version that `precreg run` could run.
    of_suites = [case for case in cases if not is_test_defined(case.definition)]
    causes = [case.paired.cause for case in of_suites if case.paired is not None]
    if any(isinstance(cause, NoAcceptedVersion) and cause.cause == "shallow" for cause in causes):
        return "fetch the whole history (GIT_DEPTH: 0, or git fetch --unshallow), so that runs can pair"
    if any(isinstance(cause, NoAcceptedVersion) and cause.cause == "no_workers" for cause in causes):
        return "compare with the accepted version here: precreg run --pair auto --jobs 1"
    # The lines of the pair say why the others were not paired.
    unpaired = any(case.paired is None for case in of_suites)
    return "compare with the accepted version here: precreg run --pair auto" if unpaired else ""


# By the side that is nearer to the reference.
_NEARER = {
    "actual": "better than the benchmark",
    "benchmark": "worse than the benchmark",
    "mixed": "better than the benchmark by one average, and worse by another",
    "none": "no difference from the benchmark is shown",
    "same_bits": "the bits of the benchmark",
}


def describe_benchmark_difference(difference: BenchmarkDifference) -> str:
    """Write which of an output and its benchmark is nearer to the reference, with the ratios that show it."""
    averages = "; ".join(map(_describe_average, _decisive(difference)))
    if difference.nearer == "unknown":
        return f"{averages}, without an interval: fewer than {MIN_SAMPLES} groups of elements"
    return f"{_NEARER[difference.nearer]}{': ' if averages else ''}{averages}"


def count_differences(differences: Iterable[BenchmarkDifference]) -> str:
    """Count the sides that are nearer to their references, of several outputs with benchmarks."""
    words = {"actual": "better", "benchmark": "worse", "mixed": "better and worse", "same_bits": "with the same bits"}
    tally = Counter(words.get(each.nearer, "without a difference shown") for each in differences)
    order = (*words.values(), "without a difference shown")
    return ", ".join(f"{tally[word]:,} {word}" for word in order if tally[word])


def _decisive(difference: BenchmarkDifference) -> list[AverageRatio]:
    """Return the first ratio that shows the difference, the first of each kind if they differ, or else the first."""
    # Without errors on one side, the errors alone show it. Only logarithms of errors have a finite ratio there.
    if difference.ratios and 0 in (difference.ratios[0].actual, difference.ratios[0].benchmark):
        return [*difference.ratios[:1]]
    better = [each for each in difference.ratios if each.upper is not None and each.upper < 1]
    worse = [each for each in difference.ratios if each.lower is not None and each.lower > 1]
    return [*better[:1], *worse[:1]] or [*difference.ratios[:1]]


def _describe_average(average: AverageRatio) -> str:
    """Write the ratio of an average error to the benchmark's, with the two errors and the confidence bounds."""
    if not average.ratio:
        actual, benchmark = format_distinct([average.actual, average.benchmark])
        return f"{average.metric} is {actual}, the benchmark's {benchmark}"
    ratio, least, most, _ = format_distinct([average.ratio, average.lower, average.upper, 1.0], 3)
    # The logarithm of an error has no size; its ratio has.
    logarithms = METRICS[average.metric].scale == "log2"
    errors = "" if logarithms else " against ".join(format_distinct([average.actual, average.benchmark]))
    interval = "" if average.lower is None else f"between {least} and {most or 'infinity'}"
    evidence = ", ".join(filter(None, (errors, interval)))
    return f"{average.metric} is {ratio} times the benchmark's{f' ({evidence})' if evidence else ''}"
