"""Run a comparison from its settings to its record, in one process or in several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from precreg import __version__
from precreg.comparison.measuring import ComparisonTerms, PairTask, compare_pair, comparison_layers
from precreg.comparison.pairing import ArraySide, RawFormat, StoredPair, pair_arrays, read_mapping, read_side
from precreg.environment import detect_environment
from precreg.errors import UserError
from precreg.measure import analyzer_entry_point
from precreg.run import run_in_workers
from precreg.suite import match_names
from precreg.tolerance import tolerance_warnings
from precreg.types import (
    COMPARISON_SCHEMA,
    ComparedPair,
    ComparisonRecord,
    ComparisonSettings,
    ComparisonWarning,
    Finding,
    MissingBenchmark,
    Reason,
    SkippedFiles,
    ToleranceFact,
    ToleranceWarning,
    UnmeasuredBenchmark,
)
from precreg.verdict import run_exit_code

# Messages and warnings list so many names; a folder may have thousands.
MAX_NAMES = 3


class ComparisonWork(NamedTuple):
    """Hold pairs to compare and their terms, and the findings and warnings known before."""

    pairs: list[StoredPair]
    terms: ComparisonTerms
    findings: tuple[Finding, ...]
    warnings: tuple[ComparisonWarning, ...]


def plan_comparison(settings: ComparisonSettings, raw: RawFormat, raw_reference: RawFormat) -> ComparisonWork:
    """Read all sides, pair their arrays, and resolve the tolerance.

    Raises UserError: as reading a side, the mapping or tolerances does, unknown-analyzer, and nothing-selected.
    """
    project = None if settings.project is None else Path(settings.project)
    # Before any file is read: a misspelled analyzer stops the command at once.
    for name in settings.analyzers:
        analyzer_entry_point(name)
    pyramid = comparison_layers(project, settings.limits, settings.analyzers)
    chain = () if project is None else detect_environment().chain
    mapping = {} if settings.mapping is None else read_mapping(Path(settings.mapping))
    actual, reference = read_side(Path(settings.actual), raw), read_side(Path(settings.reference), raw_reference)
    benchmark = None if settings.benchmark is None else read_side(Path(settings.benchmark), raw)
    every = pair_arrays(actual, reference, mapping, benchmark)
    chosen = _selected(every, settings.select)
    # Two folders without a common name are mostly a wrong path. Thousands of missing outputs would hide that.
    found = () if any(pair.actual and pair.reference for pair in every) else (_nothing(actual, reference),)
    # The user inspects a single pair in detail, so it keeps all positions even if it passes.
    keep_all = len(chosen) == 1
    terms = ComparisonTerms(pyramid, chain, settings.role, settings.worst, keep_all, analyzers=settings.analyzers)
    return ComparisonWork([] if found else chosen, terms, found, tuple(_noticed(actual, reference, benchmark, chosen)))


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
    ordered = tuple(sorted(pairs, key=lambda pair: pair.name))
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
    )


def _selected(pairs: list[StoredPair], patterns: Sequence[str]) -> list[StoredPair]:
    meant = match_names({pair.name for pair in pairs}, patterns)
    chosen = [pair for pair in pairs if pair.name in meant]
    if pairs and not chosen:
        names = ", ".join(pair.name for pair in pairs[:MAX_NAMES])
        more = f" and {len(pairs) - MAX_NAMES} more" if len(pairs) > MAX_NAMES else ""
        message = f"expected an array ({names}{more}) to be selected but got select={', '.join(patterns)}"
        raise UserError("nothing-selected", message)
    return chosen


def _nothing(actual: ArraySide, reference: ArraySide) -> Finding:
    sides = f"{_contents(actual)}, {_contents(reference)}"
    message = f"nothing was compared: no name is on both sides ({sides})"
    return Finding(Reason.MISSING_OUTPUT, message, rule="hard")


def _contents(side: ArraySide) -> str:
    names = sorted(side.arrays)
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{side.shown} has {', '.join(names[:MAX_NAMES]) or 'no array'}{more}"


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
            for fact in tolerance_warnings(pair.tolerance, pair.comparison.dtype, magnitude, terms.role):
                first.setdefault(fact, pair.name)
    return [ToleranceWarning(name, fact) for fact, name in first.items()]


def _on_benchmarks(pairs: Sequence[ComparedPair]) -> list[UnmeasuredBenchmark]:
    problems = [UnmeasuredBenchmark(pair.name, pair.benchmark_problem) for pair in pairs if pair.benchmark_problem]
    return problems[:MAX_NAMES]


# Starting processes costs more than they save on fewer pairs; threads share the elements of each pair instead.
MIN_PAIRS_TO_SHARE = 64


def compare_pairs(pairs: Sequence[StoredPair], terms: ComparisonTerms, jobs: int) -> Iterator[ComparedPair]:
    """Measure and judge every pair, and yield each as it comes; `jobs` is the number of processes, 0 for this one.

    A process that dies costs the pair that it compared. Raises UserError (no-workers) if a process cannot start.
    """
    if jobs <= 1 or len(pairs) < MIN_PAIRS_TO_SHARE:
        return (compare_pair(pair, terms._replace(threads=max(jobs, 1))) for pair in pairs)
    return run_in_workers(pairs, PairTask(terms), jobs)
