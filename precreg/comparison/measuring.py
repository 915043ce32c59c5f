"""One pair from its files to its verdict. Whatever is wrong with the files is part of the answer."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from precreg.arithmetic.formats import dtype_name
from precreg.comparison.pairing import Pair
from precreg.comparison.places import Place
from precreg.errors import UserError
from precreg.measure.benchmark import ratios
from precreg.measure.compare import compare
from precreg.measure.measure import analyzed
from precreg.storage.arrayfile_stored import Array
from precreg.tolerance.pyramid import resolve
from precreg.types.records import ComparedPair
from precreg.types.types import Comparison, Layer, Positions, Reason, Role, Status, Tolerance, Verdict
from precreg.verdict.pair import judge_pair, unmeasured

KEPT_POSITIONS = 5
"""Worst positions that the record keeps of a pair that passed; one that did not keeps all."""


_Shape = tuple[int, ...]


class Terms(NamedTuple):
    """How pairs are measured and judged. `worst` is how many positions are kept, `chain` that of environments.

    `keep_all` keeps them of pairs that passed, too. `threads` work on one pair. `analyzers` measure each, too.
    """

    layers: tuple[Layer, ...]
    chain: tuple[str, ...]
    role: Role
    worst: int
    keep_all: bool = False
    threads: int = 1
    analyzers: tuple[str, ...] = ()


class _Unmeasurable(Exception):  # noqa: N818  (an event: it becomes the pair's verdict)
    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def compared(pair: Pair, terms: Terms) -> ComparedPair:
    """Load, measure and judge one pair."""
    try:
        reference = _load(pair.reference, Reason.REFERENCE_ERROR)
        actual = _load(pair.actual, Reason.SUBJECT_ERROR, reference)
        if pair.reference is not None and pair.reference.takes_any_shape:
            reference = _load(pair.reference, Reason.REFERENCE_ERROR, actual)
        if actual is None:
            return _unmeasured(pair, Reason.MISSING_OUTPUT, f"the actual side has no array {pair.name!r}")
        if reference is None:
            return _unmeasured(pair, Reason.MISSING_OUTPUT, f"the {terms.role} side has no array {pair.name!r}")
        return _judged(pair, actual, reference, terms)
    except _Unmeasurable as event:
        return _unmeasured(pair, event.reason, event.message)


def _load(place: Place | None, reason: Reason, other: Array | None = None) -> Array | None:
    if place is None:
        return None
    try:
        return place.load(None if other is None else other.shape)
    except UserError as problem:
        raise _Unmeasurable(reason, f"{problem.file or place.shown}: {problem.message}") from None
    except MemoryError:
        raise _Unmeasurable(reason, f"{place.shown}: expected enough memory to unpack it") from None


def _unmeasured(pair: Pair, reason: Reason, message: str) -> ComparedPair:
    return _answer(pair, unmeasured(reason, message))


def _answer(pair: Pair, verdict: Verdict) -> ComparedPair:
    actual, reference, benchmark = (None if place is None else place.shown for place in pair[1:])
    return ComparedPair(pair.name, actual, reference, verdict, benchmark_path=benchmark)


def _judged(pair: Pair, actual: Array, reference: Array, terms: Terms) -> ComparedPair:
    name = pair.name if any(layer.output is not None for layer in terms.layers) else ""
    tolerance = resolve(terms.layers, name, dtype_name(actual.dtype), terms.chain)
    comparison = _measured(pair.name, actual, reference, tolerance, terms)
    if terms.analyzers:
        comparison = _analyzed(comparison, actual, reference, terms)
    benchmark, problem = _benchmark(pair, reference, tolerance, terms)
    if benchmark is not None:
        comparison = replace(comparison, metrics=comparison.metrics | ratios(comparison, benchmark))
    verdict = judge_pair(comparison, tolerance, terms.role)
    if verdict.status is Status.PASSED and not terms.keep_all:
        comparison = replace(comparison, worst=_first(comparison.worst))
    return replace(
        _answer(pair, verdict),
        comparison=comparison,
        tolerance=tolerance,
        benchmark=benchmark,
        benchmark_problem=problem,
    )


def _measured(name: str, actual: Array, reference: Array, tolerance: Tolerance, terms: Terms) -> Comparison:
    return compare(
        actual,
        reference,
        output=name,
        rtol=tolerance.rtol.limit,
        atol=tolerance.atol.limit,
        regions=tolerance.regions,
        worst=terms.worst,
        threads=terms.threads,
    )


def _analyzed(comparison: Comparison, actual: Array, reference: Array, terms: Terms) -> Comparison:
    try:
        return analyzed(comparison, actual, reference, terms.analyzers, terms.threads)
    except UserError as problem:
        raise _Unmeasurable(Reason.ANALYZER_ERROR, problem.message) from None


def _benchmark(
    pair: Pair, reference: Array, tolerance: Tolerance, terms: Terms
) -> tuple[Comparison | None, str | None]:
    """Measure the benchmark's array against the same reference; or say why that cannot be done."""
    if pair.benchmark is None:
        return None, None
    try:
        array = _load(pair.benchmark, Reason.SUBJECT_ERROR, reference)
    except _Unmeasurable as event:
        return None, event.message
    assert array is not None
    if array.shape != reference.shape:
        return None, f"{pair.benchmark.shown}: expected shape {reference.shape} but got shape={array.shape}"
    return _measured(pair.name, array, reference, tolerance, terms), None


def _first(worst: Positions | None) -> Positions | None:
    if worst is None or len(worst.index) <= KEPT_POSITIONS:
        return worst
    return Positions(worst.index[:KEPT_POSITIONS], worst.actual[:KEPT_POSITIONS], worst.reference[:KEPT_POSITIONS])
