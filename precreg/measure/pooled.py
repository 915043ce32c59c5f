"""Several runs of one output, measured together: as one array that has all of their elements would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from precreg.measure.compare import compare, measurements, tally_of
from precreg.measure.figures import figures
from precreg.measure.merge import merge_all
from precreg.measure.pairing import pairing_of
from precreg.measure.regions import regions_of
from precreg.measure.tally import Rules
from precreg.types.types import AxisGroups, Comparison

WORST = 100


AVERAGES = ("mean_abs_error", "rms_error", "mean_ulp", "mean_log2_ulp", "bias", "match_ratio")
"""What is kept of each run by itself: how they spread tells what a run alone may show by chance."""


def compare_runs(
    runs: Sequence[ArrayLike],
    reference: ArrayLike,
    *,
    output: str,
    seed: int,
    rtol: float,
    atol: float,
    regions: Mapping[str, float] | None = None,
) -> Comparison:
    """Measure how far at least one run is from one reference, as `compare` does, all runs together.

    Metrics, counts and the histogram are those of all their elements: means are those over the runs, maxima the
    largest in any. Places and named positions are within one run, so that one may be named more than once. Sums of
    groups are means over the runs, for one run and many to be held against each other. Averages are kept of each run,
    too. Where runs differ in shape or dtype, or from the reference in shape, only the first that differs is measured.

    Raises:
        UserError: bad-value and unknown-dtype, as `compare` does.
    """
    arrays, r = [np.asarray(run) for run in runs], np.asarray(reference)
    odd = [a for a in arrays if a.shape != r.shape or a.dtype != arrays[0].dtype]
    first = odd[0] if odd else arrays[0]
    if odd or r.size == 0:
        return compare(first, r, output=output, seed=seed, rtol=rtol, atol=atol, worst=WORST, regions=regions)
    pairing, rules = pairing_of(first.dtype, r.dtype), Rules(rtol, atol, WORST, tuple((regions or {}).items()))
    tallies = [tally_of(a, r, rules) for a in arrays]
    alone = [figures(tally, pairing.format, regions_of(pairing.dtype, rules.regions)) for tally in tallies]
    pooled = replace(
        Comparison(output, seed, pairing.dtype, first.shape, pairing.reference_dtype, r.shape),
        **measurements(merge_all(tallies, rules), pairing, rules),
        runs=tuple({name: run[name] for name in AVERAGES if name in run} for run in alone),
    )
    return replace(pooled, groups=tuple(_of_one_run(groups, len(arrays)) for groups in pooled.groups))


def _of_one_run(groups: AxisGroups, runs: int) -> AxisGroups:
    """Return sums over so many runs as means over them; a pair that is finite in one of them is taken to be in all."""
    sums = (groups.absolute, groups.signed, groups.squared, groups.ulps, groups.logs)
    means = ([None if number is None else number / runs for number in each] for each in sums)
    return AxisGroups([round(n / runs) for n in groups.n], *means)


def with_worst(comparison: Comparison, runs: Sequence[Comparison]) -> Comparison:
    """Add the metrics of analyzers, which were measured run by run: of each the worst; absent where a run has none."""
    metrics = dict(comparison.metrics)
    for metric in runs[0].described:
        values = [run.metrics.get(metric.name) for run in runs]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            metrics[metric.name] = (min if metric.better == "higher" else max)(known)
    return replace(comparison, metrics=metrics, described=runs[0].described)
