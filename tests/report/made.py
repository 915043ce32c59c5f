"""Records for the tests of reports: three cases with round figures, to be changed field by field, and a large run."""

import random

from msgspec.structs import replace

from precreg.types.case import Bound, Location, Tolerance
from precreg.types.outcome import Comparison, Execution, Failure, Histogram, Outcome, Positions, RepeatDifference
from precreg.types.record import (
    RECORD_SCHEMA,
    Baseline,
    BaselineEntry,
    BaselineOutput,
    CaseResult,
    Environment,
    GitState,
    RunRecord,
)
from precreg.types.verdict import Finding, Reason, Status, Verdict
from precreg.types.warning import FindingKind, RunFinding

SUITE = Location("suites/unit/row_sum.yaml", 1)
SHIPPED = Location("precreg:standards/torch-2.13")
TOLERANCE = Tolerance(
    rtol=Bound("rtol", 1e-2, "suite float16", Location("suites/unit/row_sum.yaml", 14)),
    atol=Bound("atol", 1e-5, "shipped", SHIPPED),
    bounds=(Bound("match_ratio", 1.0, "shipped", SHIPPED),),
    regression={"mean_abs_error": 0.1, "rms_error": 0.1},
    standard="torch-2.13",
)


def verdict(reason, status, message="", **finding):
    """Return a verdict of one finding."""
    return Verdict(status, reason, message, (Finding(reason, message, **finding),))


def comparison(seed, mean, rms):
    """Return measurements of one output at one seed."""
    return Comparison(
        output="out",
        seed=seed,
        dtype="float16",
        shape=(8,),
        reference_dtype="float64",
        reference_shape=(8,),
        metrics={"mean_abs_error": mean, "rms_error": rms, "bias": -mean / 2, "match_ratio": 1.0},
        counts={"n": 8, "finite": 8, "nan_mismatched": 0, "exact_matches": 1},
        worst=Positions([3, 1], [127.75, 130.5], [128.25, 130.125]),
        histogram=Histogram(0, [4092, 4096], [3, 5]),
    )


def accepted(mean, rms):
    """Return a baseline with the metrics of two seeds."""
    output = BaselineOutput("float16", (8,), ["aa01…", "aa02…"], {"mean_abs_error": mean, "rms_error": rms})
    entry = BaselineEntry(
        definition="1:d",
        inputs=["5e0a…", "77b1…"],
        reason="first version",
        author="Ada <ada@example.org>",
        date="2026-11-02",
        commit="0c1d2e3f4a5b",
        fingerprint="6f2a90c1",
        duration_s=0.0004,
        outputs={"out": output},
        sketch={"out": Histogram(1, [4080, 4084], [7, 8])},
    )
    return Baseline(entry, "generic", "baselines/generic/unit/row_sum.json")


def _result(name, verdict, comparisons, baseline, changes):
    tier = changes.get("tier", "unit")
    id = f"{tier}/row_sum/{name}"
    execution = Execution(("5e0a…", "77b1…"), {"out": ("cc01…", "cc02…")}, 0.0004)
    fields = {
        "id": id,
        "tier": tier,
        "suite": "row_sum",
        "name": name,
        "source": SUITE,
        "role": "reference",
        "definition": "1:d",
        "parameters": {"dtype": "float16", "shape": [8, 256]},
        "tags": (),
        "outcome": Outcome(id, "1:d", execution, comparisons),
        "verdict": verdict,
        "tolerances": {"out": TOLERANCE},
        "baseline": baseline,
        "baseline_id": id,
    }
    return CaseResult(**(fields | changes))


def regressed(name="float16-8x256", **changes):
    """Return a case whose mean error is 4.9 times and whose RMS error is 4.7 times the baseline's."""
    message = "out: mean_abs_error grew 4.9x over the baseline (0.024 -> 0.1175, allowed 1.1x)"
    findings = (
        Finding(Reason.REGRESSED, message, "out", "mean_abs_error", None, 0.1175, 0.024, 0.1175 / 0.024, 1.1),
        Finding(Reason.REGRESSED, "rms_error grew", "out", "rms_error", None, 0.1405, 0.0299, 0.1405 / 0.0299, 1.1),
    )
    comparisons = (comparison(0, 0.118, 0.142), comparison(1, 0.117, 0.139))
    baseline = accepted([0.0239, 0.0241], [0.03, 0.0298])
    return _result(name, Verdict(Status.FAILED, Reason.REGRESSED, message, findings), comparisons, baseline, changes)


STATISTIC = Finding(
    Reason.REGRESSED,
    "mean_abs_error grew 4.9x over the baseline",
    "out",
    "mean_abs_error",
    None,
    0.1175,
    0.024,
    0.1175 / 0.024,
    1.02,
    rule="statistic",
    lower=4.7312,
    upper=5.0649,
    floor=1.00131,
)
"""What a statistic tells with all its numbers."""


def judged_by(finding, name="float16-8x256"):
    """Return a case that one finding decides."""
    return regressed(name, verdict=Verdict(Status.FAILED, finding.reason, f"out: {finding.message}", (finding,)))


def proposed(name="float16-16x64", **changes):
    """Return a case without a baseline."""
    new = verdict(Reason.NEW, Status.PROPOSED, "no baseline in cpu-x86_64, cpu, generic")
    return _result(name, new, (comparison(0, 0.03, 0.04),), None, changes)


def passed(name="float32-8x256", **changes):
    """Return a case with the baseline's bits."""
    identical = verdict(Reason.IDENTICAL, Status.PASSED, "every output has the baseline's bits")
    comparisons = (comparison(0, 5e-6, 6e-6), comparison(1, 5.1e-6, 6.1e-6))
    return _result(name, identical, comparisons, accepted([5e-6, 5.1e-6], [6e-6, 6.1e-6]), changes)


def improved(name="better", **changes):
    """Return a case that is better than the baseline."""
    better = verdict(
        Reason.IMPROVED,
        Status.PASSED,
        "out: mean_abs_error fell",
        output="out",
        metric="mean_abs_error",
        current=0.01,
        baseline=0.02,
        ratio=0.5,
    )
    return passed(name, **({"verdict": better} | changes))


def crashed(name="crashes", detail="Traceback (most recent call last):\n  ...\nValueError: no", **changes):
    """Return a case whose subject raised."""
    failure = Failure(Reason.SUBJECT_ERROR, "ValueError: no", detail)
    raised = verdict(failure.reason, Status.ERROR, failure.message)
    outcome = Outcome(name, "1:d", Execution(inputs=("5e0a…",), failure=failure))
    return passed(name, **({"verdict": raised, "outcome": outcome, "tolerances": {}, "baseline": None} | changes))


def nondeterministic(name="stale-buffer", **changes):
    """Return a case whose second output, and what follows from it, differs between two runs."""
    differences = (
        RepeatDifference("partial", 0, 2, (0, 37), 12, 512, 1.1920929e-07),
        RepeatDifference("total", 0, 2, (), 1, 1, None, 1),
        RepeatDifference("rest", 1, 3),
    )
    first = (
        "starts in output 'partial' at [0, 37]: 12 of 512 elements differ, by at most 1.19e-07, "
        "between run 1 and 2 of seed 0"
    )
    found = (
        Finding(Reason.NONDETERMINISTIC, first, "partial"),
        Finding(Reason.NONDETERMINISTIC, "differs too: 1 of 1 elements differs, 1 of them NaN or infinite", "total"),
    )
    outcome = Outcome(name, "1:d", Execution(unsteady=("partial", "total", "rest"), differences=differences))
    given = Verdict(Status.FAILED, Reason.NONDETERMINISTIC, first, found)
    return passed(name, **({"verdict": given, "outcome": outcome} | changes))


def skipped(name="on-npu", **changes):
    """Return a case whose requirement is missing."""
    missing = verdict(Reason.UNAVAILABLE, Status.SKIPPED, "device:npu is not there")
    return passed(name, **({"verdict": missing, "outcome": Outcome(name, "1:d", Execution())} | changes))


LOOSENED = RunFinding(
    FindingKind.BOUND_LOOSENED,
    "unit/row_sum/float16-8x256",
    "max_ulp may be 16 and could be 4",
    factor=4.0,
    source=Location("suites/unit/row_sum.yaml", 14),
)
REMOVED = RunFinding(
    FindingKind.CASE_REMOVED, "unit/row_sum/gone", "the case is gone, and its baseline judged it before"
)
CHANGED = RunFinding(
    FindingKind.BASELINE_CHANGED,
    "unit/row_sum/float32-8x256",
    "mean_abs_error was accepted at 1.2 times what it was",
    factor=1.2,
    allowed="float16 sums from now on, see the decision of October",
)
UNUSED = RunFinding(
    FindingKind.ALLOWANCE_UNUSED, "baselines/allow.yaml", "entry 2 allows nothing any more", fails=False
)


def run_of(*results, **changes):
    """Return a record of these cases, as schema 1 writes it."""
    fields = {
        "schema": RECORD_SCHEMA,
        "precreg": "0.1.0",
        "project": "road",
        "started": "2026-11-21T09:00:00+00:00",
        "duration_s": 0.31,
        "environment": Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), "6f2a90c1", {"numpy": "2.4.6"}),
        "git": GitState("1a2b3c4d5e6f", "main", False, "Ada <ada@example.org>"),
        "selection": {},
        "ci": False,
        "results": results,
        "exit_code": 1,
    }
    return RunRecord(**(fields | changes))


def road(**changes):
    """Return a run of one regressed, one proposed and one passed case."""
    return run_of(regressed(), proposed(), passed(), **changes)


def large(number, share_failed=0.02):
    """Return a run of so many cases over three tiers, as heavy as real ones: three seeds, positions, heat."""
    step = round(1 / share_failed)
    results = []
    for i in range(number):
        tier = ("unit", "unit", "unit", "integration", "model")[i % 5]
        name = f"float{(16, 32, 64)[i % 3]}-{2 ** (i % 12)}x{i}"
        make = regressed if i % step == 0 else passed
        result = make(name, tier=tier)
        heavy = tuple(_heavy(result.outcome.comparisons[0], seed, 100 if i % step == 0 else 5) for seed in range(3))
        results.append(replace(result, outcome=replace(result.outcome, comparisons=heavy)))
    return run_of(*results)


_SUITES = ("layer_norm", "row_sum", "softmax", "attention", "gelu", "conv2d", "matmul")
_METRICS = ("mean_abs_error", "rms_error", "bias", "max_abs_error", "max_ulp", "mean_ulp")


def various(number, share_failed=0.02):
    """Return a run like `large`, in which each case has a name, a message and figures of its own, as in a real run."""
    drawn = random.Random(3)
    run = large(number, share_failed)
    return replace(run, results=tuple(_varied(case, at, drawn) for at, case in enumerate(run.results)))


def _varied(case, at, drawn):
    suite, shape = drawn.choice(_SUITES), f"{2 ** drawn.randrange(12)}x{drawn.randrange(4096)}"
    name = f"float{(16, 32, 64)[at % 3]}-{shape}-eps=1e-{at % 9}-{at}"
    outcome = replace(
        case.outcome,
        comparisons=tuple(_varied_comparison(each, drawn) for each in case.outcome.comparisons),
        execution=replace(case.outcome.execution, duration_s=drawn.random()),
    )
    named = replace(case, id=f"{case.tier}/{suite}/{name}", suite=suite, name=name, outcome=outcome)
    return replace(named, verdict=_varied_verdict(case.verdict, drawn)) if case.verdict.findings else named


def _varied_comparison(comparison, drawn):
    positions = range(len(comparison.worst.index))
    worst = Positions(
        [drawn.randrange(98304) for _ in positions],
        [drawn.gauss(0, 1) for _ in positions],
        [drawn.gauss(0, 1) for _ in positions],
    )
    counts = [drawn.randrange(100_000) for _ in comparison.histogram.bins]
    return replace(
        comparison,
        worst=worst,
        heat=[drawn.random() for _ in comparison.heat],
        metrics={metric: drawn.random() for metric in _METRICS},
        histogram=replace(comparison.histogram, counts=counts),
    )


def _varied_verdict(judged, drawn):
    ratio, baseline = drawn.uniform(1.1, 50), drawn.random() * 1e-3
    message = (
        f"out: mean_abs_error grew {ratio:.3g}x over the baseline ({baseline:.4g} -> {baseline * ratio:.4g}, "
        f"95 % CI {ratio * 0.95:.3g} to {ratio * 1.05:.3g}; noise alone: up to 1.03x)"
    )
    finding = replace(judged.findings[0], message=message, ratio=ratio, current=baseline * ratio, baseline=baseline)
    return replace(judged, message=message, findings=(finding,))


def _heavy(comparison, seed, size):
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
