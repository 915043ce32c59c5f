"""Write the result of `precreg calibrate`: each bound beside the noise of its case, as JSON, a table and YAML.

JSON has null for an infinite number: a metric without a value, or an error against a tolerance of 0.
The YAML is to be pasted into suites: one tolerance per dtype if its cases share one, otherwise one per case. A limit
for several cases is the widest of their proposals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isinf
from typing import Any, assert_never

from msgspec import json, to_builtins

from precreg.measure import declared_metric
from precreg.quality import (
    MIN_FLAKY_PROBABILITY,
    OWN_KIND,
    REPLICATE_KINDS,
    BoundCalibration,
    BoundFault,
    CaseCalibration,
    FailedRuns,
    FarAboveNoise,
    LikelyBreak,
    LongestSum,
    Margins,
    MeanError,
    NoError,
    OwnRunBreaks,
    RunsBreak,
    Uncalibrated,
    count_by_quality,
    unsound_bounds,
)
from precreg.report.describe import count_cases
from precreg.report.layout import format_columns
from precreg.report.sections import describe_tolerance_fact
from precreg.types import VacuousTolerance, format_distinct, format_number

CALIBRATION_SCHEMA = "precreg-calibration/1"


def calibration_json(
    found: Sequence[CaseCalibration], left_out: Sequence[Uncalibrated], replicates: int, margins: Margins
) -> str:
    """Return all facts as JSON: the options, the number of bounds of each quality, and every case."""
    content: dict[str, Any] = {
        "schema": CALIBRATION_SCHEMA,
        "replicates": replicates,
        "slack": margins.slack,
        "vacuous_above": margins.vacuous,
        # The key is a part of the schema, so it keeps its name.
        "flaky_above_chance": MIN_FLAKY_PROBABILITY,
        "bounds": count_by_quality(found),
        "cases": [_case_as_json(case) for case in found],
        "left_out": [{"case": each.case, "tier": each.tier, "why": describe_uncalibrated(each)} for each in left_out],
    }
    return json.format(json.encode(content), indent=2).decode()


def _case_as_json(case: CaseCalibration) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(case)
    # Calibration stores facts. JSON gets the sentences too, so that a script needs no copy of the wording.
    for written, bound in zip(plain["bounds"], case.bounds, strict=True):
        written["why"] = _why(bound)
        # A script may look for this fact under its former name.
        written["vacuous"] = written["fault"] if isinstance(bound.fault, VacuousTolerance) else None
    return plain | {"no_sums": _NO_SUMS[case.no_sums], "notes": [*map(_describe_failed_runs, case.notes)]}


# Percentiles and the largest noise are shares of the limit; for a limit of 0 they are losses.
CALIBRATION_COLUMNS = (
    "output",
    "bound",
    "median",
    "95 %",
    "99 %",
    "largest",
    "headroom",
    "chance",
    "quality",
    "proposal",
)

# A narrow terminal leaves them out: the largest noise and the headroom say the same.
_SPARE_PERCENTILES = ("median", "95 %", "99 %", "chance")


def render_calibrations(
    found: Sequence[CaseCalibration], left_out: Sequence[Uncalibrated], *, all_shown: bool, width: int | None = None
) -> str:
    """Write the table of every case, or only of those with an unsound bound, and count the bounds.

    Tables fit `width`; None means that they have no limit.
    """
    lines: list[str] = []
    for case in found:
        bounds = list(case.bounds) if all_shown else unsound_bounds(case)
        if bounds or all_shown:
            lines += [*_of_case(case, bounds, all_shown=all_shown, width=width), ""]
    lines += [*_left_out(left_out), *_counted(found)]
    return "".join(f"{line}\n" for line in lines)


def _of_case(
    case: CaseCalibration, bounds: Sequence[BoundCalibration], *, all_shown: bool, width: int | None
) -> Iterator[str]:
    yield f"{case.case}  ({case.source})"
    if all_shown:
        yield f"  {_runs(case)}"
    if bounds:
        rows = [*map(_row, bounds)]
        inner = None if width is None else width - 2
        table = format_columns(CALIBRATION_COLUMNS, rows, len(rows), inner, spare=_SPARE_PERCENTILES)
        yield from (f"  {line}" for line in table)
    reasons = ((bound, _why(bound)) for bound in bounds)
    yield from (f"  {_bound(bound)} of {bound.output} is {bound.quality}: {why}" for bound, why in reasons if why)
    if all_shown:
        yield from (f"  {line}" for each in case.mean_errors if (line := _mean_error(each)))
        yield from (f"  {_sum(each)}" for each in case.sums)
        yield from (f"  no analytic bound: {_NO_SUMS[case.no_sums]}" for _ in (1,) if case.no_sums)
    yield from (f"  {_describe_failed_runs(note)}" for note in case.notes)


def _why(bound: BoundCalibration) -> str:
    return "" if bound.fault is None else describe_fault(bound.fault)


def describe_fault(fault: BoundFault) -> str:
    """Write the mistake of a bound."""
    match fault:
        case OwnRunBreaks():
            return "the case's own run breaks it"
        case RunsBreak(runs):
            return f"{', '.join(f'{broken} of {number} {kind}' for kind, broken, number in runs)} runs break it"
        case LikelyBreak(probability):
            return f"another run breaks it with an estimated probability of {probability:.2g}"
        case NoError():
            return "no run has any error, so a limit of 0 is enough"
        case FarAboveNoise(times):
            return f"it is {times:.3g} times the largest noise"
        case VacuousTolerance():
            return describe_tolerance_fact(fault)
        # mypy then reports a new fact that has no sentence yet.
        case _:
            assert_never(fault)


_NO_SUMS = {
    "": "",
    "golden": "a golden has rounding errors of its own",
    "unseen": "no sum over axes, running sum or product of matrices was seen",
}


def _describe_failed_runs(note: FailedRuns) -> str:
    first = f"{note.first.reason}, {note.first.message}"
    return f"{note.failed} of {note.runs} {note.kind} runs failed: {first}"


def describe_uncalibrated(left_out: Uncalibrated) -> str:
    """Write why the noise of a case cannot be measured."""
    if left_out.failure is not None:
        return f"{left_out.failure.reason}: {left_out.failure.message}"
    causes = {
        "known_bad": "it is known to be bad",
        "recorded": "recorded outputs have no inputs to perturb",
        "no_noise": "no replicate differs from its own run",
    }
    return "; ".join([causes[left_out.cause], *map(_describe_failed_runs, left_out.notes)])


def _runs(case: CaseCalibration) -> str:
    replicates = ", ".join(f"{case.runs[kind]} {kind}" for kind in REPLICATE_KINDS if kind != OWN_KIND)
    seeds = "1 seed" if case.seeds == 1 else f"{case.seeds} seeds"
    return f"runs of {seeds}: its own, {replicates}"


def _row(bound: BoundCalibration) -> tuple[str, ...]:
    noise = bound.noise
    sizes = ["-"] * 4
    if noise is not None:
        sizes = [_size(value, bound.limit) for value in (noise.median, noise.p95, noise.p99, noise.largest)]
    return (
        bound.output,
        _bound(bound),
        *sizes,
        "-" if bound.headroom is None else format_number(bound.headroom, 3),
        "-" if bound.chance is None else _chance(bound.chance),
        str(bound.quality),
        format_settings(bound.proposal) or "-",
    )


def _size(value: float, limit: float | None) -> str:
    # A share of the limit shows the distance at once: 1 is the limit. Infinity has no share.
    return format_number(value / limit if limit and not isinf(value) else value, 3)


def _chance(chance: float) -> str:
    # The tail is extrapolated from a few runs, so smaller figures and a second digit would claim too much.
    return "<1e-9" if chance < 1e-9 else f"{chance:.1g}"


def _bound(bound: BoundCalibration) -> str:
    return format_settings(bound.limits) or bound.bound


def format_settings(limits: dict[str, float]) -> str:
    """Write limits as in a suite, without braces."""
    return ", ".join(f"{name}: {limit:.7g}" for name, limit in limits.items())


def _mean_error(each: MeanError) -> str:
    if each.deviation is None or each.stands_out is None:
        return ""
    varies = f"{each.output}: the mean error varies by {format_number(100 * each.deviation, 2)} % over {each.n} runs"
    return f"{varies}; a change stands out from a factor of {format_distinct([each.stands_out, 1.0], 3)[0]}"


def _sum(each: LongestSum) -> str:
    known = each.analytic
    of = "products" if known.products else "terms"
    begin = f"{each.output}: longest sum {known.terms} {of} in {known.precision} bits"
    if known.bound is None:
        return f"{begin}: n u is 1 or more, so there is no bound; sqrt(n) u is {format_number(known.probable, 3)}"
    theory = f"bound {format_number(known.bound, 3)}, sqrt(n) u {format_number(known.probable, 3)}"
    if known.measured is None or known.ratio is None:
        return f"{begin}: {theory}"
    share = f"{format_number(known.ratio, 2)} of the bound"
    # A theorem bounds the error of one sum, so a larger error proves that the assumption does not hold.
    if known.ratio > 1:
        share = f"{format_number(known.ratio, 3)} times the bound: more than one sum of terms of one sign is at work"
    return f"{begin}: {theory}, measured {format_number(known.measured, 3)}, {share}"


def _left_out(left_out: Iterable[Uncalibrated]) -> Iterator[str]:
    every = [(each.case, describe_uncalibrated(each)) for each in left_out]
    # Whole suites are mostly left out for one reason, so each reason is one line.
    for why, count in Counter(why for _, why in every).most_common():
        first = next(case for case, reason in every if reason == why)
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"left out {first}{others}: {why}"


def _counted(found: Sequence[CaseCalibration]) -> Iterator[str]:
    worth = ", ".join(f"{count} {quality}" for quality, count in count_by_quality(found).items() if count)
    yield f"bounds of {count_cases(len(found))}: {worth or 'none'}"


LimitSettings = dict[str, float]
# The name of a case and of an output.
Key = tuple[str, str]


def calibration_yaml(found: Sequence[CaseCalibration]) -> str:
    """Return the `tolerance:` and `cases:` of each suite; a comment names the suite and its file."""
    lines: list[str] = []
    for suite in dict.fromkeys((case.tier, case.suite) for case in found):
        cases = [case for case in found if (case.tier, case.suite) == suite]
        lines += [f"# {'/'.join(suite)} ({cases[0].source})", *_of_suite(cases), ""]
    return "\n".join(lines)


def _of_suite(cases: Sequence[CaseCalibration]) -> Iterator[str]:
    by_dtype: dict[str, dict[Key, list[BoundCalibration]]] = {}
    for case in cases:
        for bound in case.bounds:
            by_dtype.setdefault(bound.dtype, {}).setdefault((case.name, bound.output), []).append(bound)
    together = {dtype: shared for dtype, outputs in by_dtype.items() if (shared := _together(outputs))}
    if together:
        yield "tolerance:"
        yield from (f"  {dtype}: {_mapping(limits)}{was}" for dtype, (limits, was) in together.items())
    apart = [(dtype, outputs) for dtype, outputs in by_dtype.items() if dtype not in together]
    entries = [entry for case in cases for entry in _entries(case, [dtype for dtype, _ in apart])]
    if entries:
        yield "cases:"
        yield from entries
    if not together and not entries:
        yield "# nothing to propose"


def _together(outputs: Mapping[Key, Sequence[BoundCalibration]]) -> tuple[LimitSettings, str] | None:
    """Return the widest proposals and the present limits, if all outputs of all cases share the present limits."""
    limits = [_limits(bounds) for bounds in outputs.values()]
    # A common tolerance would change cases that have limits of their own, so they get entries.
    if any(each != limits[0] for each in limits):
        return None
    proposals = [_proposals(bounds) for bounds in outputs.values()]
    # Only limits with a proposal in every case: otherwise the widest one could break a case without a proposal.
    widest = {name: _widest(name, [each[name] for each in proposals]) for name in limits[0] if _in_all(name, proposals)}
    return (widest, _was(limits[0])) if widest else None


def _in_all(name: str, proposals: Sequence[LimitSettings]) -> bool:
    return all(name in each for each in proposals)


def _entries(case: CaseCalibration, dtypes: Sequence[str]) -> Iterator[str]:
    """Yield the entry of one case, with its outputs apart if they differ."""
    outputs: dict[str, list[BoundCalibration]] = {}
    for bound in case.bounds:
        if bound.dtype in dtypes:
            outputs.setdefault(bound.output, []).append(bound)
    proposals = {output: limits for output, bounds in outputs.items() if (limits := _proposals(bounds))}
    if not proposals:
        return
    # One line for the frequent case of one output, so that a reviewer sees old and new limits side by side.
    if len(outputs) == 1:
        ((output, limits),) = proposals.items()
        yield f"  - {{match: {_pattern(case.name)}, tolerance: {_mapping(limits)}}}{_was(_limits(outputs[output]))}"
        return
    yield f"  - match: {_pattern(case.name)}"
    yield "    tolerance:"
    yield "      outputs:"
    for output, limits in proposals.items():
        yield f"        {_scalar(output)}: {_mapping(limits)}{_was(_limits(outputs[output]))}"


def _limits(bounds: Sequence[BoundCalibration]) -> LimitSettings:
    return {name: limit for bound in bounds for name, limit in bound.limits.items()}


def _proposals(bounds: Sequence[BoundCalibration]) -> LimitSettings:
    return {name: limit for bound in bounds for name, limit in bound.proposal.items()}


def _widest(name: str, limits: Sequence[float]) -> float:
    # Calibration has just run the analyzers, so that each one loads; rtol and atol count as undescribed.
    return min(limits) if declared_metric(name).better == "higher" else max(limits)


def _mapping(limits: LimitSettings) -> str:
    return "{" + ", ".join(f"{name}: {_number(limit)}" for name, limit in limits.items()) + "}"


def _was(limits: LimitSettings) -> str:
    return f"  # was {', '.join(f'{name}: {_number(limit)}' for name, limit in limits.items())}"


def _number(limit: float) -> str:
    """Write the shortest number that reads back as the same float64."""
    short = f"{limit:g}"
    return short if float(short) == limit else repr(limit)


def _pattern(name: str) -> str:
    """Write a pattern that matches only this case name: wildcards in it are quoted."""
    return _scalar("".join(f"[{character}]" if character in "*?[" else character for character in name))


def _scalar(text: str) -> str:
    """Quote a text, so that YAML never reads it as a number, a date or a boolean."""
    return "'" + text.replace("'", "''") + "'"
