"""Calibrations as JSON. What is infinite (a metric that is not defined, an error against a tolerance of 0) is null.

Calibrations as text: each case's bounds beside its noise, and what there is of each quality.

Proposals as tolerances of suites, to be pasted: by dtype where its cases have one tolerance, else by case.

What is proposed for several cases is the widest of what is proposed for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isinf
from typing import Any

from msgspec import json, to_builtins

from precreg.measure import declared_metric
from precreg.quality import (
    MIN_FLAKY_PROBABILITY,
    OWN_KIND,
    REPLICATE_KINDS,
    BoundCalibration,
    CaseCalibration,
    LongestSum,
    Margins,
    MeanError,
    Uncalibrated,
    count_by_quality,
    unsound_bounds,
)
from precreg.types import format_distinct, format_number

CALIBRATION_SCHEMA = "precreg-calibration/1"


def calibration_json(
    found: Sequence[CaseCalibration], left_out: Sequence[Uncalibrated], replicates: int, margins: Margins
) -> str:
    """Return everything that is known: what was asked, how many bounds are of which quality, every case."""
    content: dict[str, Any] = {
        "schema": CALIBRATION_SCHEMA,
        "replicates": replicates,
        "slack": margins.slack,
        "vacuous_above": margins.vacuous,
        "flaky_above_chance": MIN_FLAKY_PROBABILITY,
        "bounds": count_by_quality(found),
        "cases": to_builtins(found),
        "left_out": to_builtins(left_out),
    }
    return json.format(json.encode(content), indent=2).decode()


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
"""Percentiles and the largest noise are shares of the limit; of a limit of 0 they are losses."""


def render_calibrations(found: Sequence[CaseCalibration], left_out: Sequence[Uncalibrated], *, all_shown: bool) -> str:
    """Say what every case's bounds are worth, or those alone that are not sound, and count them."""
    lines: list[str] = []
    for case in found:
        bounds = list(case.bounds) if all_shown else unsound_bounds(case)
        if bounds or all_shown:
            lines += [*_of_case(case, bounds, all_shown=all_shown), ""]
    lines += [*_left_out(left_out), *_counted(found)]
    return "".join(f"{line}\n" for line in lines)


def _of_case(case: CaseCalibration, bounds: Sequence[BoundCalibration], *, all_shown: bool) -> Iterator[str]:
    yield f"{case.case}  ({case.source})"
    if all_shown:
        yield f"  {_runs(case)}"
    if bounds:
        yield from (f"  {line}" for line in _aligned([CALIBRATION_COLUMNS, *map(_row, bounds)]))
    yield from (f"  {_bound(bound)} of {bound.output} is {bound.quality}: {bound.why}" for bound in bounds if bound.why)
    if all_shown:
        yield from (f"  {line}" for each in case.mean_errors if (line := _mean_error(each)))
        yield from (f"  {_sum(each)}" for each in case.sums)
        yield from (f"  no analytic bound: {case.no_sums}" for _ in (1,) if case.no_sums)
    yield from (f"  {note}" for note in case.notes)


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
    return format_number(value / limit if limit and not isinf(value) else value, 3)


def _chance(chance: float) -> str:
    return "<1e-9" if chance < 1e-9 else f"{chance:.1g}"


def _bound(bound: BoundCalibration) -> str:
    return format_settings(bound.limits) or bound.bound


def format_settings(limits: dict[str, float]) -> str:
    """Write limits as they stand in a suite, without braces."""
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
    if known.ratio > 1:
        share = f"{format_number(known.ratio, 3)} times the bound: more than one sum of terms of one sign is at work"
    return f"{begin}: {theory}, measured {format_number(known.measured, 3)}, {share}"


def _left_out(left_out: Iterable[Uncalibrated]) -> Iterator[str]:
    every = list(left_out)
    for why, count in Counter(each.why for each in every).most_common():
        first = next(each.case for each in every if each.why == why)
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"left out {first}{others}: {why}"


def _counted(found: Sequence[CaseCalibration]) -> Iterator[str]:
    worth = ", ".join(f"{count} {quality}" for quality, count in count_by_quality(found).items() if count)
    cases = "1 case" if len(found) == 1 else f"{len(found)} cases"
    yield f"bounds of {cases}: {worth or 'none'}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


LimitSettings = dict[str, float]

Key = tuple[str, str]
"""A case's name and an output's."""


def calibration_yaml(found: Sequence[CaseCalibration]) -> str:
    """Return, for each suite, what its `tolerance:` and `cases:` would say; a comment names the suite and the file."""
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
    together = {dtype: alike for dtype, outputs in by_dtype.items() if (alike := _together(outputs))}
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
    """Return the widest proposals and what stands now, where all outputs of all cases have the same limits."""
    limits = [_limits(bounds) for bounds in outputs.values()]
    if any(each != limits[0] for each in limits):
        return None
    proposals = [_proposals(bounds) for bounds in outputs.values()]
    widest = {name: _widest(name, [each[name] for each in proposals]) for name in limits[0] if _in_all(name, proposals)}
    return (widest, _was(limits[0])) if widest else None


def _in_all(name: str, proposals: Sequence[LimitSettings]) -> bool:
    return all(name in each for each in proposals)


def _entries(case: CaseCalibration, dtypes: Sequence[str]) -> Iterator[str]:
    """Yield the entry of one case, with its outputs apart where they differ."""
    outputs: dict[str, list[BoundCalibration]] = {}
    for bound in case.bounds:
        if bound.dtype in dtypes:
            outputs.setdefault(bound.output, []).append(bound)
    proposals = {output: limits for output, bounds in outputs.items() if (limits := _proposals(bounds))}
    if not proposals:
        return
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
    """Write the shortest number that is read back as the same."""
    short = f"{limit:g}"
    return short if float(short) == limit else repr(limit)


def _pattern(name: str) -> str:
    """Write a pattern that matches that name of a case alone: wildcards in it stand for themselves."""
    return _scalar("".join(f"[{character}]" if character in "*?[" else character for character in name))


def _scalar(text: str) -> str:
    """Quote a text, so that YAML takes it for one whatever it looks like."""
    return "'" + text.replace("'", "''") + "'"
