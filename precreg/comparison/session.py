"""How does a comparison happen, from its settings to its record?

The session reads the settings, pairs the arrays, and makes the record of all pairs. Each pair is loaded, measured and
judged. A file that cannot be read gives a verdict, not an error. The tolerance has the shipped defaults, the project's
own layers if the user names a project, and the options above both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from precreg import __version__
from precreg.arithmetic import dtype_name
from precreg.baseline import entry_from
from precreg.comparison.order import order_of_dumps, read_order, sort_by_execution
from precreg.comparison.pairing import (
    ArrayPlace,
    ArraySide,
    RawFormat,
    StoredPair,
    pair_arrays,
    read_mapping,
    read_side,
)
from precreg.environment import detect_environment
from precreg.errors import UserError, name_hint, nearest
from precreg.measure import (
    METRICS,
    SUMMARY_METRICS,
    add_analyzer_metrics,
    add_benchmark,
    analyzer_target,
    compare_arrays,
    metrics_like,
    require_benchmark,
    summarize_arrays,
)
from precreg.measure.fingerprints import find_fingerprints
from precreg.report import add_finding_message, add_verdict_messages
from precreg.storage import STREAM_PROBLEMS, Array, ArrayStream, array_digest, natural_order
from precreg.suite import read_foundation, select_names
from precreg.tolerance import (
    CLOSENESS_KEYS,
    NO_BOUNDS,
    SHIPPED_LAYERS,
    drop_unmeasured_settings,
    find_standard,
    limit_example,
    limit_problem,
    require_analyzers,
    resolve_tolerance,
    tolerance_warnings,
)
from precreg.types import (
    COMPARISON_SCHEMA,
    AbsentArray,
    BaselineEntry,
    BoundsHold,
    ComparedPair,
    Comparison,
    ComparisonRecord,
    ComparisonSettings,
    ComparisonWarning,
    Execution,
    ExecutionOrder,
    Finding,
    Fingerprint,
    Layer,
    Location,
    MissingBenchmark,
    NoCommonName,
    Outcome,
    Positions,
    Reason,
    Role,
    SameElements,
    SideContents,
    SkippedFiles,
    Status,
    Tolerance,
    ToleranceFact,
    ToleranceWarning,
    UnmeasuredBenchmark,
    Verdict,
)
from precreg.verdict import (
    benchmark_difference,
    case_alpha,
    judge_pair,
    judge_pair_by_benchmark,
    run_exit_code,
    unmeasured_verdict,
)

# The elements in which shapes of errors are searched, if many pairs fail: some 20 ms a pair.
MANY_PAIRS_SAMPLE = 2**15
# A passed pair keeps few positions, because thousands of pairs would make the record large.
KEPT_PAIR_POSITIONS = 5


class ComparisonTerms(NamedTuple):
    """Hold how pairs are measured and judged: the tolerance's layers, the chain of environments, the role.

    `worst` is the number of positions to keep; `keep_all` keeps them for passed pairs too. `threads` is the number of
    threads for one pair. `analyzers` add their metrics to each pair. The rule of regressions compares pairs with their
    benchmarks at the error level `alpha`, and decides about their verdicts if `regression`. Without `details`, the
    measurements of small pairs that pass have only the metrics of the usual bounds, and no positions.
    """

    layers: tuple[Layer, ...]
    chain: tuple[str, ...]
    role: Role
    worst: int
    keep_all: bool = False
    threads: int = 1
    analyzers: tuple[str, ...] = ()
    alpha: float = 0.0
    regression: bool = False
    details: bool = True


class _Unmeasurable(Exception):  # noqa: N818  (an event: it becomes the pair's verdict)
    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def compare_pair(pair: StoredPair, terms: ComparisonTerms) -> ComparedPair:
    """Load, measure and judge one pair."""
    try:
        reference = _load(pair.reference, Reason.REFERENCE_ERROR)
        actual = _load(pair.actual, Reason.SUBJECT_ERROR, reference)
        # Raw bytes on the reference side have no shape until the actual array is loaded.
        if pair.reference is not None and pair.reference.takes_any_shape:
            reference = _load(pair.reference, Reason.REFERENCE_ERROR, actual)
        # After the loads: an unreadable file is an error, and must not be reported as a missing array.
        if actual is None:
            return unmeasured_pair(pair, Reason.MISSING_OUTPUT, AbsentArray("actual", pair.name))
        if reference is None:
            return unmeasured_pair(pair, Reason.MISSING_OUTPUT, AbsentArray(terms.role, pair.name))
        found = _judged(pair, actual, reference, terms)
        # The verdict of a failure names positions.
        if not terms.details and found.verdict.status is not Status.PASSED:
            found = _judged(pair, actual, reference, terms._replace(details=True))
        return found
    except _Unmeasurable as event:
        return unmeasured_pair(pair, event.reason, event.message)
    # A file or a store may fail in the middle of a stream.
    except UserError as problem:
        if problem.slug not in STREAM_PROBLEMS or pair.actual is None:
            raise
        # Each side is a file of its own, whose arrays are shown as FILE:NAME.
        of_actual = pair.actual.shown.startswith(str(problem.file))
        reason = Reason.SUBJECT_ERROR if of_actual else Reason.REFERENCE_ERROR
        return unmeasured_pair(pair, reason, f"{problem.file}: {problem.message}")


LoadedArray = Array | ArrayStream


def _load(place: ArrayPlace | None, reason: Reason, other: LoadedArray | None = None) -> LoadedArray | None:
    if place is None:
        return None
    try:
        return place.stream(None if other is None else other.shape)
    except UserError as problem:
        # A folder may have thousands of files. One bad file is a verdict, so the others are still compared.
        raise _Unmeasurable(reason, f"{problem.file or place.shown}: {problem.message}") from None
    # A small archive may unpack to more than the memory; that is a fact about the file.
    except MemoryError:
        raise _Unmeasurable(reason, f"{place.shown}: expected enough memory to unpack it") from None


def unmeasured_pair(pair: StoredPair, reason: Reason, cause: AbsentArray | str) -> ComparedPair:
    """Return the verdict on a pair that could not be measured, for a missing side or the message of an error."""
    return _answer(pair, unmeasured_verdict(reason, cause))


def _answer(pair: StoredPair, verdict: Verdict) -> ComparedPair:
    actual, reference, benchmark = (None if place is None else place.shown for place in pair[1:])
    # Almost all pairs of a folder pass in the same words.
    passes_plainly = bool(verdict.findings) and isinstance(verdict.findings[0].fact, BoundsHold | SameElements)
    named = _cached_messages(verdict) if passes_plainly else add_verdict_messages(verdict)
    return ComparedPair(pair.name, actual, reference, named, benchmark_path=benchmark)


_cached_messages = lru_cache(maxsize=64)(add_verdict_messages)


def _judged(pair: StoredPair, actual: LoadedArray, reference: LoadedArray, terms: ComparisonTerms) -> ComparedPair:
    # Layers seldom name an output. Without a name, all pairs of a dtype share one cached tolerance.
    name = pair.name if any(layer.output is not None for layer in terms.layers) else ""
    tolerance = resolve_tolerance(terms.layers, name, dtype_name(actual.dtype), terms.chain)
    comparison = _measured(pair.name, actual, reference, tolerance, terms)
    if terms.analyzers:
        comparison = _analyzed(comparison, actual, reference, terms)
    beside, problem = _benchmark(pair, actual, reference, tolerance, terms)
    difference = None
    if beside is not None:
        comparison = add_benchmark(comparison, beside.measured)
        difference = benchmark_difference(comparison, beside.measured, beside.entry, same_bits=beside.same_bits)
    alone = judge_pair(comparison, tolerance, terms.role)
    judges = terms.regression or beside is not None
    by_benchmark = _by_benchmark(pair, comparison, tolerance, terms, beside, problem) if judges else alone
    # Unless it judges, a benchmark only adds figures to the pair, so that its problem is a warning.
    verdict = by_benchmark if terms.regression else alone
    if verdict.status is Status.PASSED and not terms.keep_all:
        comparison = replace(comparison, worst=_first(comparison.worst))
    searches = terms.details and verdict.status is Status.FAILED
    return replace(
        _answer(pair, verdict),
        comparison=comparison,
        tolerance=tolerance,
        benchmark=None if beside is None else beside.measured,
        benchmark_problem=problem,
        difference=difference,
        regressed=tuple(
            add_finding_message(finding) for finding in by_benchmark.findings if finding.reason is Reason.REGRESSED
        ),
        # A passed pair needs no cause, and its small errors may have a shape, too.
        fingerprints=_fingerprints(pair.name, actual, reference, terms) if searches else (),
    )


def _fingerprints(
    name: str, actual: LoadedArray, reference: LoadedArray, terms: ComparisonTerms
) -> tuple[Fingerprint, ...]:
    most = None if terms.keep_all else MANY_PAIRS_SAMPLE
    return find_fingerprints(name, np.asarray(actual), np.asarray(reference), most=most)


def _by_benchmark(
    pair: StoredPair,
    comparison: Comparison,
    tolerance: Tolerance,
    terms: ComparisonTerms,
    beside: _Benchmark | None,
    problem: str | None,
) -> Verdict:
    # Equal bits did not regress, and need no evidence.
    if beside is not None and beside.same_bits:
        return judge_pair(comparison, tolerance, terms.role)
    entry = None if beside is None else beside.entry
    absent = problem or f"expected a benchmark for {pair.name!r} but there is none"
    return judge_pair_by_benchmark(comparison, tolerance, terms.role, entry, problem=absent, alpha=terms.alpha)


def _measured(
    name: str, actual: LoadedArray, reference: LoadedArray, tolerance: Tolerance, terms: ComparisonTerms
) -> Comparison:
    # An analyzer may read any metric.
    in_full = terms.details or bool(terms.analyzers) or not SUMMARY_METRICS.issuperset(tolerance.bounded)
    measure = compare_arrays if in_full else summarize_arrays
    return measure(
        actual,
        reference,
        output=name,
        # The comparison counts matches in the same pass over the elements, so it needs the limits now.
        rtol=tolerance.rtol.limit,
        atol=tolerance.atol.limit,
        regions=tolerance.regions,
        worst=terms.worst,
        threads=terms.threads,
    )


def _analyzed(
    comparison: Comparison, actual: LoadedArray, reference: LoadedArray, terms: ComparisonTerms
) -> Comparison:
    try:
        # Analyzers take arrays of numpy: a stream is copied into a temporary file for them.
        return add_analyzer_metrics(
            comparison, np.asarray(actual), np.asarray(reference), terms.analyzers, terms.threads
        )
    except UserError as problem:
        raise _Unmeasurable(Reason.ANALYZER_ERROR, problem.message) from None


class _Benchmark(NamedTuple):
    """The benchmark of a pair: its measurements, and these as an entry of a baseline."""

    measured: Comparison
    entry: BaselineEntry
    # The actual has the benchmark's bits.
    same_bits: bool


def _benchmark(
    pair: StoredPair, actual: LoadedArray, reference: LoadedArray, tolerance: Tolerance, terms: ComparisonTerms
) -> tuple[_Benchmark | None, str | None]:
    """Measure the benchmark against the same reference, or return why it cannot be measured."""
    if pair.benchmark is None:
        return None, None
    try:
        array = _load(pair.benchmark, Reason.BENCHMARK_ERROR, reference)
    except _Unmeasurable as event:
        return None, event.message
    assert array is not None
    measured = _measured(pair.name, array, reference, tolerance, terms)
    try:
        require_benchmark(measured, pair.benchmark.shown)
    except UserError as problem:
        return None, problem.message
    digest = array_digest(np.asarray(array))
    execution = Execution(outputs={pair.name: (digest,)})
    entry = entry_from(Outcome(pair.name, "", execution, (measured,)), "", "")
    return _Benchmark(measured, entry, digest == array_digest(np.asarray(actual))), None


def _first(worst: Positions | None) -> Positions | None:
    some = slice(KEPT_PAIR_POSITIONS)
    return None if worst is None else Positions(worst.index[some], worst.actual[some], worst.reference[some])


OPTIONS = Location("command line")


def comparison_layers(
    project: Path | None, limits: Mapping[str, float | str], analyzers: Collection[str] = ()
) -> tuple[Layer, ...]:
    """Return the layers of the tolerance: shipped, of suites/tolerances.yaml, and of the options.

    Of suites/tolerances.yaml only the default and the environments apply. `limits` are rtol, atol, standard and limits
    on metrics, including those of the chosen `analyzers`.

    Raises UserError: as reading that file does, and unknown-metric, unknown-standard, unknown-analyzer, bad-value for
    the options.
    """
    for metric, limit in limits.items():
        _check(metric, limit)
    # The options come last, because a later layer wins: a person at the command line overrides files.
    own = (Layer("options", OPTIONS, dict(limits)),) if limits else ()
    require_analyzers(own, analyzers)
    if project is None:
        return (*SHIPPED_LAYERS, *own)
    # Tiers, suites and cases have layers too, but a stored array belongs to none of them.
    written = read_foundation(project, {})
    return (*SHIPPED_LAYERS, *drop_unmeasured_settings((*written.default, *written.environments), analyzers), *own)


def _check(metric: str, limit: float | str) -> None:
    if limit == NO_BOUNDS.name:
        message = f"expected a standard with bounds but got {metric}={limit}: no baseline judges stored arrays"
        raise UserError(
            "bad-value", message, file=OPTIONS.file, hint="write a standard with bounds: --standard torch-2.13"
        )
    if metric == "standard":
        find_standard(str(limit), OPTIONS)
    # A misspelled metric would limit nothing, and the pair would pass.
    elif metric not in (known := (*CLOSENESS_KEYS, *METRICS, *metrics_like(metric))):
        message = f"expected the name of a metric but got {metric}={limit}{nearest(metric, known)}"
        raise UserError("unknown-metric", message, file=OPTIONS.file, hint=name_hint(metric, known, "--bound "))
    elif expected := limit_problem(metric, limit):
        raise UserError(
            "bad-value",
            f"expected {expected} but got {metric}={limit}",
            file=OPTIONS.file,
            hint=f"write such a limit: --bound {metric}={limit_example(metric)}",
        )


# Messages and warnings list so many names; a folder may have thousands.
MAX_NAMES = 3


class ComparisonWork(NamedTuple):
    """Hold pairs to compare in order, their terms, the findings and warnings known before, and the order's source."""

    pairs: list[StoredPair]
    terms: ComparisonTerms
    findings: tuple[Finding, ...]
    warnings: tuple[ComparisonWarning, ...]
    order: ExecutionOrder = ExecutionOrder()


def plan_comparison(
    settings: ComparisonSettings, raw: RawFormat, raw_reference: RawFormat, *, details: bool = True
) -> ComparisonWork:
    """Read all sides, pair their arrays, and resolve the tolerance.

    Without `details`, a comparison of many pairs measures only what its summary prints.

    Raises UserError: as reading a side, the mapping or tolerances does, unknown-analyzer, and nothing-selected.
    """
    project = None if settings.project is None else Path(settings.project)
    if settings.regression and settings.benchmark is None:
        raise UserError("not-comparable", "expected --benchmark beside --regression but got none: it has to judge")
    # Before any file is read: a misspelled analyzer stops the command at once.
    for name in settings.analyzers:
        analyzer_target(name)
    pyramid = comparison_layers(project, settings.limits, settings.analyzers)
    chain = () if project is None else detect_environment().chain
    mapping = {} if settings.mapping is None else read_mapping(Path(settings.mapping))
    actual, reference = read_side(settings.actual, raw), read_side(settings.reference, raw_reference)
    benchmark = None if settings.benchmark is None else read_side(settings.benchmark, raw)
    known = order_of_dumps((actual, reference)) if settings.order is None else read_order(Path(settings.order))
    every, order = sort_by_execution(pair_arrays(actual, reference, mapping, benchmark), known)
    chosen = _selected(every, settings.select)
    # Two folders without a common name are mostly a wrong path. Thousands of missing outputs would hide that.
    found = () if any(pair.actual and pair.reference for pair in every) else (_nothing(actual, reference),)
    # The user inspects a single pair in detail, so it keeps all positions even if it passes.
    keep_all = len(chosen) == 1
    # All pairs count, and not only the selected ones, so that a verdict is the same in any selection.
    alpha = case_alpha(len(every))
    terms = ComparisonTerms(pyramid, chain, settings.role, settings.worst, keep_all, 1, settings.analyzers, alpha)
    terms = terms._replace(
        regression=settings.regression, details=details or keep_all or settings.benchmark is not None
    )
    noticed = tuple(_noticed(actual, reference, benchmark, chosen))
    return ComparisonWork([] if found else chosen, terms, found, noticed, order)


def finish_comparison(
    settings: ComparisonSettings,
    work: ComparisonWork,
    pairs: Iterable[ComparedPair],
    *,
    started: str,
    duration_s: float,
) -> ComparisonRecord:
    """Make the record of the compared pairs; `started` is a time in ISO 8601."""
    # Pairs come in the order in which workers finish, and a record must not depend on it.
    place = {pair.name: place for place, pair in enumerate(work.pairs)}
    ordered = tuple(sorted(pairs, key=lambda pair: place[pair.name]))
    return ComparisonRecord(
        schema=COMPARISON_SCHEMA,
        precreg=__version__,
        started=started,
        duration_s=round(duration_s, 3),
        settings=settings,
        pairs=ordered,
        findings=work.findings,
        warnings=(*work.warnings, *_on_tolerances(ordered, work.terms), *_on_benchmarks(ordered)),
        exit_code=run_exit_code(pair.verdict for pair in ordered),
        order=work.order,
    )


def _selected(pairs: list[StoredPair], patterns: Sequence[str]) -> list[StoredPair]:
    # Two sides without a common name are a finding, whatever a pattern says.
    if not pairs:
        return []
    meant = select_names([pair.name for pair in pairs], patterns, noun="array")
    return [pair for pair in pairs if pair.name in meant]


def _nothing(actual: ArraySide, reference: ArraySide) -> Finding:
    fact = NoCommonName(_contents(actual), _contents(reference))
    return add_finding_message(Finding(Reason.MISSING_OUTPUT, rule="hard", fact=fact))


def _contents(side: ArraySide) -> SideContents:
    names = sorted(side.arrays, key=natural_order)
    return SideContents(side.shown, tuple(names[:MAX_NAMES]), max(0, len(names) - MAX_NAMES))


def _noticed(
    actual: ArraySide, reference: ArraySide, benchmark: ArraySide | None, pairs: Sequence[StoredPair]
) -> Iterator[SkippedFiles | MissingBenchmark]:
    """Yield the skipped files and missing benchmarks, which are known before anything is measured."""
    for side in filter(None, (actual, reference, benchmark)):
        if side.passed_over:
            names = tuple(side.passed_over)
            yield SkippedFiles(names[:MAX_NAMES], max(0, len(names) - MAX_NAMES))
    alone = tuple(pair.name for pair in pairs if pair.benchmark is None and pair.actual and pair.reference)
    if benchmark is not None and alone:
        yield MissingBenchmark(benchmark.shown, alone[:MAX_NAMES], max(0, len(alone) - MAX_NAMES))


def _on_tolerances(pairs: Sequence[ComparedPair], terms: ComparisonTerms) -> list[ToleranceWarning]:
    """Return the facts about the tolerances, once for all pairs with the same one, with the first pair."""
    first: dict[ToleranceFact, str] = {}
    seen = set()
    for pair in pairs:
        if pair.tolerance is None or pair.comparison is None:
            continue
        limits = (pair.tolerance.rtol, pair.tolerance.atol, pair.tolerance.bounds, pair.tolerance.alternatives)
        key = (pair.comparison.dtype, limits)
        # Thousands of pairs share one tolerance, which is checked once.
        if key not in seen:
            seen.add(key)
            magnitude = pair.comparison.metrics.get("mean_magnitude")
            # No baseline judges a stored array, so a tolerance without bounds admits everything here.
            for fact in tolerance_warnings(
                replace(pair.tolerance, regression={}), pair.comparison.dtype, magnitude, terms.role
            ):
                first.setdefault(fact, pair.name)
    return [ToleranceWarning(name, fact) for fact, name in first.items()]


def _on_benchmarks(pairs: Sequence[ComparedPair]) -> list[UnmeasuredBenchmark]:
    problems = [UnmeasuredBenchmark(pair.name, pair.benchmark_problem) for pair in pairs if pair.benchmark_problem]
    return problems[:MAX_NAMES]
