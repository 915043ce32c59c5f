"""A comparison from its settings to its record: sides read, pairs made, each measured and judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from precreg import __version__
from precreg.comparison.layers import layers
from precreg.comparison.mapping import read_mapping
from precreg.comparison.measuring import Terms
from precreg.comparison.pairing import Pair, paired
from precreg.comparison.places import RawFormat, Side, read_side
from precreg.environment.environment import detect
from precreg.errors import UserError
from precreg.measure.installed import entry_point
from precreg.suite.select import named
from precreg.tolerance.warnings import warnings as tolerance_warnings
from precreg.types.records import COMPARISON_SCHEMA, ComparedPair, ComparisonRecord, ComparisonSettings
from precreg.types.types import Finding, Reason
from precreg.verdict.exit_code import exit_code

MOST_NAMES = 3
"""Names of a side that a message lists."""


class Work(NamedTuple):
    """What is to be compared: pairs and their terms; findings and warnings that are known before."""

    pairs: list[Pair]
    terms: Terms
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]


def plan(settings: ComparisonSettings, raw: RawFormat, raw_reference: RawFormat) -> Work:
    """Read both sides (and the benchmark's), pair what is in them, and resolve what limits them.

    Raises UserError: as reading a side, the mapping or tolerances does, unknown-analyzer, and nothing-selected.
    """
    project = None if settings.project is None else Path(settings.project)
    for name in settings.analyzers:
        entry_point(name)
    pyramid = layers(project, settings.limits, settings.analyzers)
    chain = () if project is None else detect().chain
    mapping = {} if settings.mapping is None else read_mapping(Path(settings.mapping))
    actual, reference = read_side(Path(settings.actual), raw), read_side(Path(settings.reference), raw_reference)
    benchmark = None if settings.benchmark is None else read_side(Path(settings.benchmark), raw)
    every = paired(actual, reference, mapping, benchmark)
    chosen = _selected(every, settings.select)
    found = () if any(pair.actual and pair.reference for pair in every) else (_nothing(actual, reference),)
    keep_all = len(chosen) == 1
    terms = Terms(pyramid, chain, settings.role, settings.worst, keep_all, analyzers=settings.analyzers)
    return Work([] if found else chosen, terms, found, tuple(_noticed(actual, reference, benchmark, chosen)))


def finished(
    settings: ComparisonSettings, work: Work, pairs: Iterable[ComparedPair], *, started: str, duration_s: float
) -> ComparisonRecord:
    """Make the record of what came of the work. `started` is a time in ISO 8601."""
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
        exit_code=exit_code(pair.verdict for pair in ordered),
    )


def _selected(pairs: list[Pair], patterns: Sequence[str]) -> list[Pair]:
    meant = named({pair.name for pair in pairs}, patterns)
    chosen = [pair for pair in pairs if pair.name in meant]
    if pairs and not chosen:
        names = ", ".join(pair.name for pair in pairs[:MOST_NAMES])
        more = f" and {len(pairs) - MOST_NAMES} more" if len(pairs) > MOST_NAMES else ""
        message = f"expected an array ({names}{more}) to be selected but got select={', '.join(patterns)}"
        raise UserError("nothing-selected", message)
    return chosen


def _nothing(actual: Side, reference: Side) -> Finding:
    sides = f"{_contents(actual)}, {_contents(reference)}"
    message = f"nothing was compared: no name is on both sides ({sides})"
    return Finding(Reason.MISSING_OUTPUT, message, rule="hard")


def _contents(side: Side) -> str:
    names = sorted(side.arrays)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{side.shown} has {', '.join(names[:MOST_NAMES]) or 'no array'}{more}"


def _noticed(actual: Side, reference: Side, benchmark: Side | None, pairs: Sequence[Pair]) -> Iterator[str]:
    for side in filter(None, (actual, reference, benchmark)):
        if side.passed_over:
            names = ", ".join(side.passed_over[:MOST_NAMES])
            more = f" and {len(side.passed_over) - MOST_NAMES} more" if len(side.passed_over) > MOST_NAMES else ""
            yield f"files in no format of arrays were passed over: {names}{more}"
    alone = [pair.name for pair in pairs if pair.benchmark is None and pair.actual and pair.reference]
    if benchmark is not None and alone:
        more = f" and {len(alone) - MOST_NAMES} more" if len(alone) > MOST_NAMES else ""
        yield f"{benchmark.shown} has no array for {', '.join(alone[:MOST_NAMES])}{more}"


def _on_tolerances(pairs: Sequence[ComparedPair], terms: Terms) -> list[str]:
    """Say what is wrong with the tolerances in use, once for all pairs that have the same, with the first of them."""
    texts: dict[str, str] = {}
    seen = set()
    for pair in pairs:
        if pair.tolerance is None or pair.comparison is None:
            continue
        limits = (pair.tolerance.rtol, pair.tolerance.atol, pair.tolerance.bounds, pair.tolerance.alternatives)
        key = (pair.comparison.dtype, limits)
        if key not in seen:
            seen.add(key)
            magnitude = pair.comparison.metrics.get("mean_magnitude")
            for text in tolerance_warnings(pair.tolerance, pair.comparison.dtype, magnitude, terms.role):
                texts.setdefault(text, pair.name)
    return [f"{name}: {text}" for text, name in texts.items()]


def _on_benchmarks(pairs: Sequence[ComparedPair]) -> list[str]:
    problems = [f"{pair.name}: no benchmark: {pair.benchmark_problem}" for pair in pairs if pair.benchmark_problem]
    return problems[:MOST_NAMES]
