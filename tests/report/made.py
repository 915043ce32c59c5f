"""Records for the tests of reports: the golden three, one case changed field by field, and a large run."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from precreg.types import (
    Comparison,
    Execution,
    Failure,
    Finding,
    Histogram,
    Outcome,
    Positions,
    Reason,
    RunRecord,
    Status,
    Verdict,
)

ROAD = Path(__file__).parents[1] / "golden" / "road" / "expected"
_ROAD_RECORD = msgspec.json.decode((ROAD / "record.json").read_bytes(), type=RunRecord)


def road(**changes):
    """Return the golden record: one regressed, one proposed, one passed case."""
    return replace(_ROAD_RECORD, **changes)


def regressed(name="float16-8x256", **changes):
    """Return the golden regressed case under a name."""
    return _named(_ROAD_RECORD.results[0], name, changes)


def passed(name="float32-8x256", **changes):
    """Return the golden passed case under a name."""
    return _named(_ROAD_RECORD.results[2], name, changes)


def _named(result, name, changes):
    id = f"{changes.get('tier', 'unit')}/row_sum/{name}"
    outcome = replace(result.outcome, case=id)
    return replace(result, **({"id": id, "name": name, "baseline_id": id, "outcome": outcome} | changes))


def crashed(name="crashes", detail="Traceback (most recent call last):\n  ...\nValueError: no"):
    """Return a case whose subject raised."""
    failure = Failure(Reason.SUBJECT_ERROR, "ValueError: no", detail)
    id = f"unit/row_sum/{name}"
    verdict = Verdict(
        Status.ERROR, failure.reason, failure.message, (Finding(failure.reason, failure.message, ratio=None),)
    )
    outcome = Outcome(id, "1:d", Execution(inputs=("5e0a",), failure=failure))
    return passed(name, verdict=verdict, outcome=outcome, tolerances={}, baseline=None)


def verdict(reason, status, message="", **finding):
    """Return a verdict of one finding."""
    return Verdict(status, reason, message, (Finding(reason, message, **finding),))


def run_of(*results, **changes):
    """Return a record of these cases."""
    return road(**({"results": tuple(results)} | changes))


def large(number, share_failed=0.02):
    """Return a run of so many cases over three tiers, as heavy as real ones: three seeds, positions, heat."""
    step = round(1 / share_failed)
    results = []
    for i in range(number):
        tier = ("unit", "unit", "unit", "integration", "model")[i % 5]
        name = f"float{(16, 32, 64)[i % 3]}-{2 ** (i % 12)}x{i}"
        make = regressed if i % step == 0 else passed
        result = make(name, tier=tier)
        comparisons = tuple(_heavy(result.outcome.comparisons[0], seed, i % step == 0) for seed in range(3))
        outcome = replace(result.outcome, comparisons=comparisons)
        finding = result.verdict.findings[0]
        if i % step == 0:
            ratio = 1.1 + (i * 7919 % 4001) / 100
            finding = replace(finding, ratio=ratio, current=0.024 * ratio)
        results.append(
            replace(result, outcome=outcome, verdict=replace(result.verdict, findings=(finding,)), tier=tier)
        )
    return road(results=tuple(results))


def _heavy(comparison: Comparison, seed: int, failed: bool) -> Comparison:
    size = 100 if failed else 5
    worst = Positions(
        [i * 37 % 98304 for i in range(size)],
        [0.1 + i / 7 for i in range(size)],
        [0.1 + i / 7.001 for i in range(size)],
    )
    bins = list(range(3900, 4000))
    counts = [1 + 10_000 // (1 + abs(bin - 3970 + 5 * seed) ** 2) for bin in bins]
    return replace(
        comparison,
        seed=seed,
        shape=(8, 128, 96),
        reference_shape=(8, 128, 96),
        worst=worst,
        heat=[1e-3 * (1 + i % 7) for i in range(64)],
        histogram=Histogram(17, bins, counts),
    )
