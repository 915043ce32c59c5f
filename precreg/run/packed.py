"""How do the results of many cases wait for the end of their run in little memory?

A result of five seeds takes 100 kB as objects, 15 kB as JSON and 1 kB as packed JSON. Later stages read the figures of
few cases, and verdicts and digests of all of them. So the figures are packed, and everything else stays as it is.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from functools import cache
from sys import intern

from msgspec.structs import replace

from precreg.measure import metrics_to_keep
from precreg.storage import encode_json, is_reduced, pack_dict, pack_tuple
from precreg.types import (
    AxisSums,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Comparison,
    ComparisonOutline,
    Execution,
    Histogram,
    Reason,
)

# Runs of fewer cases keep objects: their results take 100 MB at most, and no stage waits for unpacking.
MANY_CASES = 1000
# Bytes of a record in plain JSON; a larger one is compressed, and lacks the samples of most passed cases. GitLab takes
# artifacts of 100 MB by default, and a run may have several shards. 10,000 cases like the shipped ones have 359 MB in
# plain JSON, and 17 MB so.
MAX_PLAIN_BYTES = 25_000_000
# Passed cases that keep their samples in a large record: as many as the page shows in detail (html_data.py).
PASSED_WITH_SAMPLES = 100


def pack_results(
    results: Iterable[CaseResult], cases: int, max_plain_bytes: int = MAX_PLAIN_BYTES
) -> Iterator[CaseResult]:
    """Yield results as they come, packed if the run has many cases.

    As soon as their record will be compressed, results with accepted bits lose the samples that it leaves out.
    """
    if cases < MANY_CASES:
        yield from results
        return
    size, first = 0, list[str]()
    for result in results:
        if size <= max_plain_bytes:
            size += sum(len(encode_json(comparison)) for comparison in result.outcome.comparisons)
        has_samples = size <= max_plain_bytes or _has_details(result, first)
        yield pack_result(result) if has_samples else pack_result(without_samples(result), reduced=True)


def _has_details(result: CaseResult, first: list[str]) -> bool:
    """Return whether the record keeps the samples of a result, as far as the results until now show.

    `first` are the first ids of results with accepted bits, which come in any order.
    """
    if result.verdict.reason is not Reason.IDENTICAL:
        return True
    if len(first) == PASSED_WITH_SAMPLES and result.id > first[-1]:
        return False
    insort(first, result.id)
    del first[PASSED_WITH_SAMPLES:]
    return True


def without_samples(result: CaseResult) -> CaseResult:
    """Return a result with the metrics that baselines and histories keep, and without samples."""
    if is_reduced(result.outcome.comparisons):
        return result
    outcome, baseline = result.outcome, result.baseline
    comparisons = tuple(map(_kept_figures, outcome.comparisons))
    if baseline is not None:
        baseline = replace(baseline, entry=replace(baseline.entry, groups={}, sketch={}))
    return replace(result, outcome=replace(outcome, comparisons=comparisons), baseline=baseline)


def _kept_figures(comparison: Comparison) -> Comparison:
    metrics, kept = comparison.metrics, metrics_to_keep(comparison.described)
    return replace(
        comparison,
        metrics={name: metrics[name] for name in metrics if name in kept},
        groups=(),
        histogram=None,
        heat=None,
        worst=None,
        places={},
    )


def pack_result(result: CaseResult, *, reduced: bool = False) -> CaseResult:
    """Return a result with packed figures; they read as before. A `reduced` one has no samples any more."""
    outcome, baseline = result.outcome, result.baseline
    # Unpacking takes 20 us, and ten stages of a run read these facts of each case.
    outlines = _one_object(outcome.outlines)
    comparisons = pack_tuple(outcome.comparisons, Comparison, reduced=reduced, outline=outlines)
    # A worker's message has texts of its own.
    definition = result.definition if outcome.definition == result.definition else outcome.definition
    packed = replace(outcome, case=result.id, definition=definition, comparisons=comparisons)
    if baseline is not None:
        baseline = replace(baseline, entry=_packed_entry(baseline.entry, definition, outcome.execution))
    return replace(result, outcome=packed, baseline=baseline)


# Most cases have equal outlines.
@cache
def _one_object(outlines: tuple[ComparisonOutline, ...]) -> tuple[ComparisonOutline, ...]:
    return outlines


_COMMON_TEXTS = ("reason", "author", "date", "commit", "fingerprint", "processor")


def _packed_entry(entry: BaselineEntry, definition: str, execution: Execution) -> BaselineEntry:
    # Most entries of a project have the same author, date and reason, and each was decoded with texts of its own.
    texts = {name: intern(getattr(entry, name)) for name in _COMMON_TEXTS}
    return replace(
        entry,
        **texts,
        definition=definition if entry.definition == definition else entry.definition,
        inputs=_shared(entry.inputs, execution.inputs),
        oracle=_shared(entry.oracle, execution.oracle),
        outputs={
            intern(name): BaselineOutput(
                intern(output.dtype),
                output.shape,
                _shared(output.digests, execution.outputs.get(name, ())),
                pack_dict(output.metrics, list[float | None]),
            )
            for name, output in entry.outputs.items()
        },
        groups=pack_dict(entry.groups, list[AxisSums]),
        sketch=pack_dict(entry.sketch, Histogram),
    )


def _shared(accepted: list[str], measured: tuple[str, ...]) -> list[str]:
    """Return accepted digests as the objects of the equal measured ones: most cases have the same ones."""
    return [*measured] if accepted == [*measured] else accepted
