"""In which order and with which sentences do the terminal and the page show a comparison?

The terminal imports nothing of the page: its templates and charts take longer to import than numpy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from precreg.comparison.course import (
    GROWTH,
    PairError,
    count_benchmarks,
    first_different,
    first_failing,
    first_measured_failing,
    first_rise,
)
from precreg.comparison.groups import FailureGroup, differing_axes, failure_text, group_failed_pairs
from precreg.measure import METRICS, metric_named, ratio_denominator
from precreg.report import describe_fingerprints, describe_near_zero, finding_rows, strip_controls, verdict_rank
from precreg.types import (
    AbsentArray,
    ComparedPair,
    ComparisonRecord,
    Metric,
    OtherShape,
    Reason,
    SomeNames,
    Status,
    format_number,
)

MAX_NAME_WIDTH = 60
# The first members of a group, or of the pairs that regressed.
MAX_MEMBERS = 3
_MEMBER_WIDTH = 24
_SOURCES = {"file": "the order of", "onnx": "the nodes of the model", "msprobe": "the calls of msprobe in"}


def one_line(name: str) -> str:
    """Shorten a name to one line, keeping its end.

    A file name must not look like a line of ours, nor push the columns away.
    """
    line = strip_controls(name).replace("\n", " ").replace("\t", " ")
    return _cut(line, MAX_NAME_WIDTH)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"...{line[3 - width :]}"


def describe_order(record: ComparisonRecord) -> str:
    """Write which order the pairs have, and which names it and the pairs do not share."""
    order = record.order
    if order.source == "names":
        return "by name, numbers by value"
    files = ", ".join(order.files[:MAX_MEMBERS]) + _and_more(len(order.files) - MAX_MEMBERS)
    parts = [f"{_SOURCES[order.source]} {files}"]
    if order.unordered.count:
        verb = "is not in it and comes" if order.unordered.count == 1 else "are not in it and come"
        parts.append(f"{_counted(order.unordered.count, 'array')} {verb} last, by name ({_named(order.unordered)})")
    if order.unused.count:
        verb = "matches" if order.unused.count == 1 else "match"
        parts.append(f"{_counted(order.unused.count, 'name')} of it {verb} no array ({_named(order.unused)})")
    return "; ".join(parts)


def _named(some: SomeNames) -> str:
    return ", ".join(map(one_line, some.names)) + _and_more(some.others)


def _and_more(number: int) -> str:
    return f" and {number:,} more" if number > 0 else ""


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def describe_pairs(pairs: list[ComparedPair]) -> str:
    """Write the first few names of pairs, and the number of the others."""
    names = (_cut(one_line(pair.name), _MEMBER_WIDTH) for pair in pairs[:MAX_MEMBERS])
    return ", ".join(names) + _and_more(len(pairs) - MAX_MEMBERS)


def describe_why(pair: ComparedPair) -> str:
    """Write the figure and the limit that decided, or the verdict's message."""
    rows = finding_rows(pair.verdict, pair.described)
    if not rows:
        return failure_text(pair)
    return f"{rows[0].metric} {rows[0].current}, allowed {rows[0].allowed}"


def describe_firsts(record: ComparisonRecord, points: list[PairError]) -> Iterator[tuple[str, str]]:
    """Yield a label and a sentence for each first pair along the order: failing, different, of a larger error."""
    total = len(record.pairs)
    failing, by_values = first_failing(record.pairs), first_measured_failing(record.pairs)
    if failing is not None:
        place = f"{record.pairs.index(failing) + 1:,} of {total:,} in order"
        yield "first failing", f"{one_line(failing.name)} ({place}): {_reason(failing)}"
    if by_values is not None and by_values is not failing:
        yield "first failing by its values", f"{one_line(by_values.name)}: {_reason(by_values)}"
    different = first_different(record.pairs)
    if different is not None and different is not failing:
        yield "first with other bits", one_line(different.name)
    rise = first_rise(points)
    if rise is not None:
        error, level = format_number(rise.point.error or 0.0, 3), format_number(rise.before, 3)
        before = f"the median of the {_counted(rise.points_before, 'pair')} before is {level}"
        yield "error grows from", f"{one_line(rise.point.pair.name)} on: mean |a-r| / mean |r| is {error}, {before}"


def _reason(pair: ComparedPair) -> str:
    return f"{pair.verdict.reason}, {describe_why(pair)}"


def describe_no_rise(points: list[PairError]) -> str:
    """Write how many pairs have an error at one level; empty without two of them."""
    known = [point for point in points if point.error is not None]
    if len(known) < 2:
        return ""
    return f"no lasting rise of the error beyond {GROWTH:g} times the median before, in {len(known):,} pairs"


class GroupRow(NamedTuple):
    """Hold the texts of a group: number of pairs, reason, common cause, first members in order."""

    number: str
    reason: str
    cause: str
    members: str


def group_rows(record: ComparisonRecord) -> list[GroupRow]:
    """Describe the groups of at least two failures of one cause, errors and absent arrays first."""
    return [
        GroupRow(f"{len(group.pairs):,}", group.reason, _cause(group), describe_pairs(group.pairs))
        for group in group_failed_pairs(record.pairs)
        if len(group.pairs) > 1
    ]


def _cause(group: FailureGroup) -> str:
    first = group.pairs[0]
    finding = first.verdict.findings[0] if first.verdict.findings else None
    fact = None if finding is None else finding.fact
    if isinstance(fact, AbsentArray):
        return f"the {fact.side} side has no such array" if fact.side == "actual" else f"no {fact.side} of that name"
    if isinstance(fact, OtherShape):
        axes = differing_axes(fact.actual, fact.expected)
        lengths = ", ".join(f"axis {axis} has length {ours} in place of {theirs}" for axis, ours, theirs in axes)
        return lengths or failure_text(first)
    if finding is not None and finding.metric:
        metric = metric_named(finding.metric, first.described)
        if finding.reason is Reason.REGRESSED:
            return f"{metric.name} grew over the benchmark"
        return f"{metric.name} {'below' if metric.better == 'higher' else 'above'} its limit"
    text = failure_text(first)
    return text if len({failure_text(pair) for pair in group.pairs}) == 1 else f"such as: {text}"


def describe_regressions(record: ComparisonRecord) -> list[str]:
    """Write how many pairs regressed against the benchmark, which could not be compared, and the first in order."""
    if record.settings.benchmark is None or len(record.pairs) < 2:
        return []
    counts = count_benchmarks(record.pairs)
    regressed = [pair for pair in record.pairs if pair.regressed]
    lines = [f"{len(regressed):,} of {_counted(counts.judged, 'pair')} regressed against the benchmark"]
    if regressed:
        lines[0] += f", the first in order is {one_line(regressed[0].name)}"
        lines[0] += "" if record.settings.regression else "; with --regression they fail"
    unseen = {
        "without a benchmark": counts.absent,
        "with a benchmark that could not be measured": counts.unreadable,
        "with a benchmark of another dtype": counts.other_dtype,
        "not measured themselves": counts.unmeasured,
    }
    named = [f"{number:,} {what}" for what, number in unseen.items() if number]
    return [*lines, *([f"not compared with the benchmark: {', '.join(named)}"] if named else [])]


def regression_rows(record: ComparisonRecord) -> list[list[str]]:
    """Return name, metric, the benchmark's figure, the new one and their ratio of pairs that regressed, in order."""
    rows = []
    for pair in record.pairs:
        if pair.regressed:
            # The finding with the largest ratio names the loss; the record has all of them.
            worst = max(pair.regressed, key=lambda finding: finding.ratio or 0.0)
            figures = (worst.baseline, worst.current, worst.ratio)
            numbers = ["" if number is None else format_number(number, 3) for number in figures]
            rows.append([one_line(pair.name), worst.metric or worst.message, *numbers])
    return rows


def sort_pairs(pairs: Sequence[ComparedPair]) -> list[ComparedPair]:
    """Sort by status, by the largest ratio to a limit, by the share of matching elements, by name.

    A pair that could not be measured comes before the measured ones.
    """
    return sorted(pairs, key=lambda pair: (*verdict_rank(pair.verdict), _matching(pair), pair.name))


def _matching(pair: ComparedPair) -> float:
    # Below every share, so that unmeasured pairs come first.
    return -1.0 if pair.comparison is None else pair.comparison.metrics.get("match_ratio", -1.0)


def comparison_exit_sentence(record: ComparisonRecord) -> str:
    """Write one sentence with the result of the comparison."""
    tally = Counter(pair.verdict.status for pair in record.pairs)
    bad = {status: number for status, number in tally.items() if status in (Status.FAILED, Status.ERROR) and number}
    number = len(record.pairs)
    # No pair at all is a failure with a reason of its own. `all 0 pairs` would read like success.
    if not number:
        return next((finding.message for finding in record.findings), "nothing was compared")
    if not bad:
        return "the pair is within tolerance" if number == 1 else f"all {number:,} pairs are within tolerance"
    if number == 1:
        verb = "could not be judged" if record.pairs[0].verdict.status is Status.ERROR else "fails"
        return f"the pair {verb}: {record.pairs[0].verdict.reason}"
    reasons = Counter(str(pair.verdict.reason) for pair in record.pairs if pair.verdict.status in bad)
    named = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    return f"{sum(bad.values()):,} of {number:,} pairs {'fails' if sum(bad.values()) == 1 else 'fail'}: {named}"


def advise_pair(pair: ComparedPair) -> list[str]:
    """Return sentences on what to look for in a failed pair: by the shapes of its errors, or else by its figures."""
    if pair.comparison is None or pair.verdict.status is not Status.FAILED:
        return []
    return describe_fingerprints(pair.fingerprints) or [*filter(None, [describe_near_zero(pair.comparison)])]


def benchmark_column(pair: ComparedPair) -> dict[str, float]:
    """Return the benchmark's metrics by name, and for a ratio the number by which it divides."""
    if pair.benchmark is None or pair.comparison is None:
        return {}
    metrics, dtype = pair.benchmark.metrics, pair.comparison.dtype
    divisors = {name: ratio_denominator(metric, dtype, metrics) for name, metric in METRICS.items()}
    return metrics | {name: divisor for name, divisor in divisors.items() if divisor is not None}


def divides_by_floor(pair: ComparedPair, metric: Metric) -> bool:
    """Return whether a ratio divides by a floor, because the benchmark's own error is smaller."""
    if not metric.floored or pair.benchmark is None:
        return False
    return benchmark_column(pair).get(metric.name, 0.0) > pair.benchmark.metrics.get(metric.ratio_of, 0.0)
