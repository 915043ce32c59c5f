"""How far is an output from its reference, and which backend measures it?

compare_arrays measures one pair of arrays as a Comparison without judgement, summarize_arrays only its main metrics,
and compare_runs several runs of one output together. Ratios to a benchmark and the used share of a tolerance belong to
the same question. All backends give the same tally; they differ in speed and readability.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from math import inf, isfinite
from operator import itemgetter
from types import ModuleType
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from precreg.environment import count_processors
from precreg.errors import UserError
from precreg.measure.accumulation import merge_all_tallies
from precreg.measure.chunks import (
    IN_PLACE_CHUNK,
    MeasuredSide,
    chunk_size,
    cut_chunks,
    read_ahead,
    readable_in_place,
    stream_chunk,
    unmap_chunks,
)
from precreg.measure.figures import compute_metrics, compute_summary
from precreg.measure.groups import GROUP_SUMS
from precreg.measure.metrics import (
    COUNT_DESCRIPTIONS,
    METRICS,
    Regions,
    mean_metrics,
    ratio_denominator,
    regions_of,
)
from precreg.measure.numpy_form import tally_numpy
from precreg.measure.pairing import Pairing, pairing_of
from precreg.measure.plain import tally_reference
from precreg.measure.sketch import sketch_histogram
from precreg.measure.tally import PLACE_NAMES, Counts, Groups, MeasuredFields, MeasureRules, NamedPairs, Tally
from precreg.storage import Array, ArrayStream
from precreg.types import AxisGroups, Comparison, Positions

Backend = Callable[[Array, Array, int, tuple[int, ...], MeasureRules], Tally]

# The backends that this installation has, by their names in the variable PRECREG_FORM. `native` is the compiled core.
BACKENDS: dict[str, Backend] = {"numpy": tally_numpy, "plain": tally_reference}

# The module of the compiled core; None if it was not built.
native: Any
try:
    from precreg.measure import native
except ImportError:
    FASTEST, native, _UNMET = "numpy", None, None
else:
    BACKENDS["native"] = native.tally_native
    FASTEST = "native"
    _ASKED = os.environ.get("PRECREG_ISA")
    # An instruction set in PRECREG_ISA that the core does not run on here.
    _UNMET = _ASKED if _ASKED not in (None, "", native.MEASURE_INSTRUCTION_SET) else None


def select_backend() -> Backend:
    """Return the backend that PRECREG_FORM names, or else the fastest one.

    Raises UserError (bad-value) if PRECREG_FORM names no backend or one that was not built, and if PRECREG_ISA names
    an instruction set that the core or the processor lacks.
    """
    name = os.environ.get("PRECREG_FORM") or FASTEST
    if name not in BACKENDS:
        raise UserError(
            "bad-value",
            f"expected one of {', '.join(BACKENDS)} but got PRECREG_FORM={name}",
            hint=f"set one of them, or none: PRECREG_FORM={next(iter(BACKENDS))}",
        )
    if _UNMET and name == "native":
        expected = "an instruction set of this processor (generic; avx2, avx512 on some)"
        raise UserError(
            "bad-value",
            f"expected {expected} but got PRECREG_ISA={_UNMET}",
            hint="unset the variable, or set PRECREG_ISA=generic",
        )
    return BACKENDS[name]


def shadow_core() -> ModuleType | None:
    """Return the module that adds up values beside their shadows (native.py); None if another backend is selected.

    Raises UserError (bad-value) as select_backend does.
    """
    return native if FASTEST == "native" and select_backend() is BACKENDS["native"] else None


# A second thread took 0.7 to 0.9 ms of processor time at 1.3 and 2.2 million pairs of float32, as much as some 300,000
# pairs (Zen 5, a machine with other work, the least of 30 turns). One of two chunks has at least IN_PLACE_CHUNK pairs.
# So a second thread should pay from 1.4 million pairs on. The wall time between there and this limit is not measured.
MIN_ELEMENTS_FOR_THREADS = 1 << 21


def compare_arrays(
    actual: ArrayLike | ArrayStream,
    reference: ArrayLike | ArrayStream,
    *,
    output: str = "out",
    seed: int = 0,
    rtol: float,
    atol: float,
    worst: int = 100,
    threads: int | None = None,
    regions: Mapping[str, float] | None = None,
) -> Comparison:
    """Measure how far `actual` is from `reference`.

    Arrays have any shape, memory layout and byte order; integers, booleans, floating-point formats of the arithmetic
    room, or complex numbers. The reference may have a wider dtype. Elements within `rtol` and `atol` match. `worst` is
    the number of named positions. Nothing is broadcast: different shapes give no metrics and no counts, and arrays
    without an element give no metrics. docs/metrics.md has every formula. `regions` replaces constants of Regions.
    `threads` changes no metric; None means one for small arrays, and else one for each core of the process.

    Raises:
        UserError: bad-value or unknown-dtype, for arrays of other things than numbers.
    """
    a, r = _as_side(actual), _as_side(reference)
    pairing = pairing_of(a.dtype, r.dtype)
    identity = (output, seed, pairing.dtype, a.shape, pairing.reference_dtype, r.shape)
    if a.shape != r.shape:
        return Comparison(*identity)
    if a.size == 0:
        return Comparison(*identity, counts=dict.fromkeys(COUNT_DESCRIPTIONS, 0))
    rules = MeasureRules(rtol, atol, worst, tuple((regions or {}).items()))
    of_dtype = regions_of(pairing.dtype, rules.regions)
    found = _measure_small(a, r, rules)
    if found is None:
        fields = comparison_fields(tally_arrays(a, r, rules, threads), pairing, of_dtype)
    else:
        fields = fields_found(found, pairing, of_dtype)
    # By position, because keywords take longer; mypy does not follow the types of both tuples.
    return Comparison(*identity, *fields)  # type: ignore[arg-type]


def _measure_small(actual: MeasuredSide, reference: MeasuredSide, rules: MeasureRules) -> object:
    """Measure one chunk in the core, without a tally in Python; None if it takes more, or another backend."""
    if actual.size > IN_PLACE_CHUNK or isinstance(actual, ArrayStream) or isinstance(reference, ArrayStream):
        return None
    if native is None or not readable_in_place(actual, reference) or select_backend() is not BACKENDS["native"]:
        return None
    return native.measure_found(actual, reference, rules)


def summarize_arrays(
    actual: ArrayLike | ArrayStream,
    reference: ArrayLike | ArrayStream,
    *,
    output: str = "out",
    rtol: float,
    atol: float,
    worst: int = 100,
    threads: int | None = None,
    regions: Mapping[str, float] | None = None,
) -> Comparison:
    """Measure as compare_arrays does, and leave out the details of small arrays.

    These have counts, places and the metrics of SUMMARY_METRICS alone. Raises UserError as compare_arrays does.
    """
    a, r = _as_side(actual), _as_side(reference)
    small = a.shape == r.shape and 0 < a.size <= IN_PLACE_CHUNK
    # The details of a large array cost little beside its elements.
    if not small or isinstance(a, ArrayStream) or isinstance(r, ArrayStream):
        limits: dict[str, Any] = {"rtol": rtol, "atol": atol, "worst": worst, "threads": threads, "regions": regions}
        return compare_arrays(a, r, output=output, **limits)
    pairing = pairing_of(a.dtype, r.dtype)
    rules = MeasureRules(rtol, atol, 0, tuple((regions or {}).items()))
    # Without axes there are no groups. Copies of arrays in another layout are small, too.
    tally = tally_arrays(a.reshape(-1), r.reshape(-1), rules, threads)
    return Comparison(
        *(output, 0, pairing.dtype, a.shape, pairing.reference_dtype, r.shape),
        metrics=compute_summary(tally, regions_of(pairing.dtype, rules.regions)),
        counts=_counts(tally.counts),
        places=_places(tally),
    )


def _as_side(side: ArrayLike | ArrayStream) -> MeasuredSide:
    return side if isinstance(side, ArrayStream) else np.asarray(side)


def comparison_fields(tally: Tally, pairing: Pairing, regions: Regions) -> MeasuredFields:
    """Return the fields of a Comparison from a tally of at least one element; `regions` are those of the dtype."""
    return MeasuredFields(
        compute_metrics(tally, pairing.format, regions),
        _counts(tally.counts),
        _positions(tally.worst),
        _positions(tally.non_finite),
        sketch_histogram(tally.sketches.absolute) if tally.counts.finite else None,
        _heat(tally.groups),
        _places(tally),
        tuple(map(_axis_groups, tally.groups)),
    )


def fields_found(found: object, pairing: Pairing, regions: Regions) -> MeasuredFields:
    """Return the fields of a Comparison from a result of the core, as comparison_fields does from its tally."""
    return native.describe_found(found) or comparison_fields(native.read_found(found), pairing, regions)


def tally_arrays(
    actual: MeasuredSide, reference: MeasuredSide, rules: MeasureRules, threads: int | None = None
) -> Tally:
    """Return the tally of two arrays of one shape and any memory layout, with at least one element."""
    size = actual.size
    if isinstance(actual, ArrayStream) or isinstance(reference, ArrayStream):
        return _tally_in_chunks(actual, reference, rules, threads)
    # The shortest way for the usual small array: no chunks, no threads, no merge.
    if size <= IN_PLACE_CHUNK and readable_in_place(actual, reference):
        return select_backend()(actual.reshape(-1), reference.reshape(-1), 0, actual.shape, rules)
    return _tally_in_chunks(actual, reference, rules, threads)


def _tally_in_chunks(actual: MeasuredSide, reference: MeasuredSide, rules: MeasureRules, threads: int | None) -> Tally:
    size = actual.size
    chunk = chunk_size(size)
    chunks = -(-size // chunk)
    workers = min(_count_workers(size) if threads is None else max(threads, 1), chunks)
    if workers == 1:
        return merge_all_tallies(_tallies(actual, reference, 0, size, rules), rules)
    # Threads get whole chunks, so that the cuts and every bit are the same for any number of threads.
    cuts = [chunks * worker // workers * chunk for worker in range(workers)] + [size]
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda low, high: _tallies(actual, reference, low, high, rules), cuts, cuts[1:])
        return merge_all_tallies(list(chain.from_iterable(parts)), rules)


def _count_workers(size: int) -> int:
    return 1 if size < MIN_ELEMENTS_FOR_THREADS else count_processors()


def _tallies(actual: MeasuredSide, reference: MeasuredSide, low: int, high: int, rules: MeasureRules) -> list[Tally]:
    tally, shape = select_backend(), actual.shape
    if isinstance(actual, ArrayStream) or isinstance(reference, ArrayStream):
        mapped = [side for side in (actual, reference) if not isinstance(side, ArrayStream)]
        ahead = unmap_chunks(read_ahead(actual, reference, range(low, high), stream_chunk(actual, reference)), *mapped)
        return [tally(a, r, start, shape, rules) for start, a, r in ahead]
    chunks = unmap_chunks(cut_chunks(actual, reference, low, high), actual, reference)
    return [tally(a, r, start, shape, rules) for start, a, r in chunks]


_SUMMED_COUNTS = ("inf_matched", "inf_mismatched")
_PICK_COUNTS = itemgetter(*[(*Counts._fields, *_SUMMED_COUNTS).index(name) for name in COUNT_DESCRIPTIONS])


def _counts(counts: Counts) -> dict[str, int]:
    matched = counts.plus_inf_matched + counts.minus_inf_matched
    mismatched = counts.plus_inf_mismatched + counts.minus_inf_mismatched
    return dict(zip(COUNT_DESCRIPTIONS, _PICK_COUNTS((*counts, matched, mismatched)), strict=True))


def _positions(named: NamedPairs) -> Positions | None:
    return Positions(*named) if named.index else None


def _places(tally: Tally) -> dict[str, int]:
    return {name: place for name, place in zip(PLACE_NAMES, tally.places, strict=True) if place >= 0}


def _heat(groups: tuple[Groups, ...]) -> list[float] | None:
    """Return the mean error in the groups of the last of two or more axes; 0 for a group without a finite pair."""
    if len(groups) < 2:
        return None
    heat = [total / max(n, 1) for total, n in zip(groups[-1].absolute, groups[-1].n, strict=True)]
    return heat if all(map(isfinite, heat)) else None


def _axis_groups(groups: Groups) -> AxisGroups:
    n, absolute, signed, outward, squared, ulps, squared_ulps, logs = groups
    # By position, because each case makes some of them, and keywords take twice as long.
    kept = map(_finite_or_none, (absolute, signed, squared, ulps, logs, outward, squared_ulps))
    return AxisGroups(n, *kept)


def _finite_or_none(sums: list[float]) -> list[float | None]:
    if isfinite(sum(sums)):
        return sums  # type: ignore[return-value]  # nobody writes to it
    return [number if isfinite(number) else None for number in sums]


# Dynamo admits 3 times the benchmark's RMSE for half precision and for fewer elements than these, 2 times otherwise.
_HALF = ("float16", "bfloat16")
_FEW = 1000


def require_benchmark(benchmark: Comparison, name: str) -> None:
    """Raise UserError (bad-outputs) unless a benchmark can be measured wherever the reference can.

    It needs the reference's shape, and NaN and infinities where the reference has them. `name` begins the message.
    """
    if benchmark.shape != benchmark.reference_shape:
        message = f"{name}: expected shape {benchmark.reference_shape} but got shape={benchmark.shape}"
        raise UserError("bad-outputs", message)
    counts = benchmark.counts
    # Errors are taken over finite pairs: without its worst elements a benchmark would count as better than it is.
    if mismatched := counts["nan_mismatched"] + counts["inf_mismatched"]:
        places = f"{mismatched} of {counts['n']} elements differ"
        raise UserError("bad-outputs", f"{name}: expected NaN and infinities where the reference has them but {places}")


def add_benchmark(comparison: Comparison, benchmark: Comparison) -> Comparison:
    """Add the metrics that need a benchmark, and the benchmark's errors by which they divide."""
    errors = {metric.ratio_of for metric in METRICS.values() if metric.ratio_of in benchmark.metrics}
    return replace(
        comparison,
        metrics=comparison.metrics | benchmark_ratios(comparison, benchmark),
        benchmark={name: benchmark.metrics[name] for name in METRICS if name in errors},
    )


def benchmark_ratios(device: Comparison, benchmark: Comparison) -> dict[str, float]:
    """Return the metrics that need a benchmark, from two comparisons with the same reference.

    `device` is the output under test, and `benchmark` the output of a second implementation. A metric is absent if it
    is not finite, or if one side lacks its terms.
    """
    found = (*_error_ratios(device, benchmark), *_region_ratios(device, benchmark), *_rms_excesses(device, benchmark))
    return {name: value for name, value in found if isfinite(value)}


def _error_ratios(device: Comparison, benchmark: Comparison) -> Iterator[tuple[str, float]]:
    """Yield error / the benchmark's for each metric that is such a ratio, infinite if the benchmark's alone is 0."""
    for metric in METRICS.values():
        denominator = ratio_denominator(metric, device.dtype, benchmark.metrics)
        if denominator is not None and metric.ratio_of in device.metrics:
            error = device.metrics[metric.ratio_of]
            # Two exact results are equally good.
            yield metric.name, error / denominator if denominator else inf if error else 1.0


def _region_ratios(device: Comparison, benchmark: Comparison) -> Iterator[tuple[str, float]]:
    """Yield errors / max(the benchmark's, 1) for small values and for cancellation (cann/opbase)."""
    for region in ("small_value", "cancellation"):
        share = f"{region}_error_share"
        if share in device.metrics and share in benchmark.metrics:
            yield f"{region}_error_ratio", _count_of_share(device, share) / max(_count_of_share(benchmark, share), 1)


def _count_of_share(comparison: Comparison, share: str) -> int:
    # A share is a count over n, rounded once, so that rounding its product with n restores the count.
    return round(comparison.metrics[share] * comparison.counts["n"])


def _rms_excesses(device: Comparison, benchmark: Comparison) -> Iterator[tuple[str, float]]:
    """Yield the excess of the RMSE over multiples of the benchmark's (torch._dynamo.utils.same)."""
    if "rms_error" in device.metrics and "rms_error" in benchmark.metrics:
        own, other = device.metrics["rms_error"], benchmark.metrics["rms_error"]
        yield "rms_excess", own - _benchmark_multiple(device) * other
        yield "rms_excess_3", own - 3 * other


def _benchmark_multiple(device: Comparison) -> int:
    """Return dynamo's multiplier: 3 for results that dynamo expects to be noisy."""
    one_by_one = len(device.shape) == 4 and device.shape[-2:] == (1, 1)
    return 3 if device.dtype in _HALF or device.counts["n"] < _FEW or one_by_one else 2


@np.errstate(all="ignore")
def share_of_tolerance(actual: Array, reference: Array, rtol: float, atol: float) -> float:
    """Return the largest |a - r| / (atol + rtol |r|) over the elements; 0 without an element.

    The share is infinite if a shape, a NaN or an infinity has no counterpart, or if a tolerance of zero meets an error.
    It is above 1 if an element does not match (docs/metric-definitions.md). Within a few units of roundoff of 1 it may
    fall on either side. A reference beyond the output dtype counts as the infinity to which it rounds.
    """
    if actual.shape != reference.shape:
        return inf
    pairing = pairing_of(actual.dtype, reference.dtype)
    wide = np.dtype(np.longdouble) if pairing.kind in ("integer", "mixed") else pairing.working
    a, r = actual.astype(wide), reference.astype(wide)
    rounded = reference.astype(actual.dtype).astype(wide) if pairing.format is not None else r
    finite = np.isfinite(a) & np.isfinite(rounded)
    if not np.array_equal(a[~finite], rounded[~finite], equal_nan=True):
        return inf
    errors = np.abs(a[finite] - r[finite])
    # An error of 0 uses nothing of a tolerance of 0, though 0 / 0 is NaN.
    allowed = atol + rtol * np.abs(r[finite])
    shares = np.where(errors == 0, 0.0, errors / allowed)
    return float(shares.max(initial=0.0))


MAX_WORST_POSITIONS = 100


# Kept run by run, because their spread shows how far a single run may be off: the averages that have group sums, and
# the criterion of goldens.
AVERAGES = (*mean_metrics(), "rms_ulp", "bias", "outward_bias", "match_ratio")


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
    """Measure how far one or more runs together are from one reference.

    Metrics, counts and the histogram cover the elements of all runs: means are means over the runs, and maxima are the
    largest of any. Places and named positions are within one run, so that one may occur several times. Sums of groups
    are means over the runs, so that one run and several can be compared. The Comparison also has the averages of each
    run. If a run has another shape than the reference, or another dtype than the first run, only the first such run is
    measured.

    Raises:
        UserError: bad-value and unknown-dtype, as compare_arrays does.
    """
    arrays, r = [np.asarray(run) for run in runs], np.asarray(reference)
    # Runs of different shapes or dtypes cannot be pooled: the odd one becomes a finding.
    odd = [a for a in arrays if a.shape != r.shape or a.dtype != arrays[0].dtype]
    first = odd[0] if odd else arrays[0]
    if odd or r.size == 0:
        return compare_arrays(
            first, r, output=output, seed=seed, rtol=rtol, atol=atol, worst=MAX_WORST_POSITIONS, regions=regions
        )
    pairing, rules = (
        pairing_of(first.dtype, r.dtype),
        MeasureRules(rtol, atol, MAX_WORST_POSITIONS, tuple((regions or {}).items())),
    )
    tallies, of_dtype = [tally_arrays(a, r, rules) for a in arrays], regions_of(pairing.dtype, rules.regions)
    alone = [compute_metrics(tally, pairing.format, of_dtype) for tally in tallies]
    pooled = replace(
        Comparison(output, seed, pairing.dtype, first.shape, pairing.reference_dtype, r.shape),
        **comparison_fields(merge_all_tallies(tallies, rules), pairing, of_dtype)._asdict(),
        runs=tuple({name: run[name] for name in AVERAGES if name in run} for run in alone),
    )
    return replace(pooled, groups=tuple(_mean_of_runs(groups, len(arrays)) for groups in pooled.groups))


def _mean_of_runs(groups: AxisGroups, runs: int) -> AxisGroups:
    """Return sums over several runs as means over them, as if a pair that is finite in one run were finite in all."""
    sums = {name: getattr(groups, name) for name in GROUP_SUMS}
    means = {name: [None if number is None else number / runs for number in each] for name, each in sums.items()}
    return AxisGroups([round(n / runs) for n in groups.n], **means)


def add_worst_metrics(comparison: Comparison, runs: Sequence[Comparison]) -> Comparison:
    """Add the worst value of each analyzer's metric over the runs; a metric that one run lacks stays absent."""
    metrics = dict(comparison.metrics)
    for metric in runs[0].described:
        values = [run.metrics.get(metric.name) for run in runs]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            metrics[metric.name] = (min if metric.better == "higher" else max)(known)
    return replace(comparison, metrics=metrics, described=runs[0].described)
