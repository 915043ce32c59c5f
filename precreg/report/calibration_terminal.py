"""Calibrations as text: each case's bounds beside its noise, and what there is of each quality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isinf

from precreg.quality.calibrated import Calibrated, MeanError, Sum, Uncalibrated
from precreg.quality.quality import KINDS, OWN, Judged
from precreg.quality.summary import counts, unsound
from precreg.types.numbers import apart, figure

COLUMNS = ("output", "bound", "median", "95 %", "99 %", "largest", "headroom", "chance", "quality", "proposal")
"""Percentiles and the largest noise are shares of the limit; of a limit of 0 they are losses."""


def of_cases(found: Sequence[Calibrated], left_out: Sequence[Uncalibrated], *, all_shown: bool) -> str:
    """Say what every case's bounds are worth, or those alone that are not sound, and count them."""
    lines: list[str] = []
    for case in found:
        bounds = list(case.bounds) if all_shown else unsound(case)
        if bounds or all_shown:
            lines += [*_of_case(case, bounds, all_shown=all_shown), ""]
    lines += [*_left_out(left_out), *_counted(found)]
    return "".join(f"{line}\n" for line in lines)


def _of_case(case: Calibrated, bounds: Sequence[Judged], *, all_shown: bool) -> Iterator[str]:
    yield f"{case.case}  ({case.source})"
    if all_shown:
        yield f"  {_runs(case)}"
    if bounds:
        yield from (f"  {line}" for line in _aligned([COLUMNS, *map(_row, bounds)]))
    yield from (f"  {_bound(bound)} of {bound.output} is {bound.quality}: {bound.why}" for bound in bounds if bound.why)
    if all_shown:
        yield from (f"  {line}" for each in case.mean_errors if (line := _mean_error(each)))
        yield from (f"  {_sum(each)}" for each in case.sums)
        yield from (f"  no analytic bound: {case.no_sums}" for _ in (1,) if case.no_sums)
    yield from (f"  {note}" for note in case.notes)


def _runs(case: Calibrated) -> str:
    replicates = ", ".join(f"{case.runs[kind]} {kind}" for kind in KINDS if kind != OWN)
    seeds = "1 seed" if case.seeds == 1 else f"{case.seeds} seeds"
    return f"runs of {seeds}: its own, {replicates}"


def _row(bound: Judged) -> tuple[str, ...]:
    noise = bound.noise
    sizes = ["-"] * 4
    if noise is not None:
        sizes = [_size(value, bound.limit) for value in (noise.median, noise.p95, noise.p99, noise.largest)]
    return (
        bound.output,
        _bound(bound),
        *sizes,
        "-" if bound.headroom is None else figure(bound.headroom, 3),
        "-" if bound.chance is None else _chance(bound.chance),
        str(bound.quality),
        settings(bound.proposal) or "-",
    )


def _size(value: float, limit: float | None) -> str:
    return figure(value / limit if limit and not isinf(value) else value, 3)


def _chance(chance: float) -> str:
    return "<1e-9" if chance < 1e-9 else f"{chance:.1g}"


def _bound(bound: Judged) -> str:
    return settings(bound.limits) or bound.bound


def settings(limits: dict[str, float]) -> str:
    """Write limits as they stand in a suite, without braces."""
    return ", ".join(f"{name}: {limit:.7g}" for name, limit in limits.items())


def _mean_error(each: MeanError) -> str:
    if each.deviation is None or each.stands_out is None:
        return ""
    varies = f"{each.output}: the mean error varies by {figure(100 * each.deviation, 2)} % over {each.n} runs"
    return f"{varies}; a change stands out from a factor of {apart([each.stands_out, 1.0], 3)[0]}"


def _sum(each: Sum) -> str:
    known = each.analytic
    of = "products" if known.products else "terms"
    begin = f"{each.output}: longest sum {known.terms} {of} in {known.precision} bits"
    if known.bound is None:
        return f"{begin}: n u is 1 or more, so there is no bound; sqrt(n) u is {figure(known.probable, 3)}"
    theory = f"bound {figure(known.bound, 3)}, sqrt(n) u {figure(known.probable, 3)}"
    if known.measured is None or known.ratio is None:
        return f"{begin}: {theory}"
    share = f"{figure(known.ratio, 2)} of the bound"
    if known.ratio > 1:
        share = f"{figure(known.ratio, 3)} times the bound: more than one sum of terms of one sign is at work"
    return f"{begin}: {theory}, measured {figure(known.measured, 3)}, {share}"


def _left_out(left_out: Iterable[Uncalibrated]) -> Iterator[str]:
    every = list(left_out)
    for why, count in Counter(each.why for each in every).most_common():
        first = next(each.case for each in every if each.why == why)
        others = f" and {count - 1} more" if count > 1 else ""
        yield f"left out {first}{others}: {why}"


def _counted(found: Sequence[Calibrated]) -> Iterator[str]:
    worth = ", ".join(f"{count} {quality}" for quality, count in counts(found).items() if count)
    cases = "1 case" if len(found) == 1 else f"{len(found)} cases"
    yield f"bounds of {cases}: {worth or 'none'}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
