"""Values for the tests of verdicts: a case, an outcome and a baseline that agree, to be changed one field at a time."""

from precreg.types.case import Bound, Case, Computation, Location, Tolerance
from precreg.types.outcome import Comparison, Execution, Outcome
from precreg.types.record import Baseline, BaselineEntry, BaselineOutput, Environment

SOURCE = Location("suites/unit/s.yaml", 3)
ENVIRONMENT = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), "f00d", {})
METRICS = {
    "match_ratio": 1.0,
    "max_abs_error": 4e-6,
    "mean_abs_error": 1e-6,
    "rms_error": 1.5e-6,
    "mean_ulp": 0.5,
    "ulp_scale": 1e-6,
    "mean_magnitude": 1.0,
}
COUNTS = {"n": 100, "finite": 100, "nan_mismatched": 0, "inf_mismatched": 0}


def bound(metric, limit):
    return Bound(metric, limit, "suite", SOURCE)


def tolerance(**bounds):
    return Tolerance(
        rtol=bound("rtol", 1e-5),
        atol=bound("atol", 1e-5),
        bounds=tuple(bound(metric, limit) for metric, limit in {"match_ratio": 1.0, **bounds}.items()),
        regression={"mean_abs_error": 0.1, "rms_error": 0.1, "mean_ulp": 0.1, "max_abs_error": 3.0},
    )


def case(**changes):
    computation = Computation("python", "k:f")
    fields = {
        "id": "unit/s/a",
        "tier": "unit",
        "suite": "s",
        "name": "a",
        "source": SOURCE,
        "definition": "1:d",
        "baseline_id": "unit/s/a",
        "baseline_definition": "1:d",
        "directory": "suites/unit",
        "subject": computation,
        "oracle": computation,
        "role": "reference",
        "inputs": {},
        "params": {},
        "parameters": {},
        "layers": (),
    }
    return Case(**(fields | changes))


def comparison(seed=0, counts=None, output="out", **metrics):
    return Comparison(
        output=output,
        seed=seed,
        dtype="float32",
        shape=(10, 10),
        reference_dtype="float64",
        reference_shape=(10, 10),
        metrics={name: value for name, value in (METRICS | metrics).items() if value is not None},
        counts=COUNTS | (counts or {}),
    )


def outcome(*comparisons, digests=("b0", "b1"), inputs=("i0", "i1"), **execution):
    compared = comparisons or (comparison(0), comparison(1))
    ran = Execution(inputs=inputs, outputs={"out": digests}, duration_s=1.0, **execution)
    return Outcome("unit/s/a", "1:d", ran, compared)


def entry(digests=("a0", "a1"), **metrics):
    values = {name: [value] * len(digests) for name, value in (METRICS | metrics).items()}
    accepted = BaselineOutput("float32", (10, 10), list(digests), values)
    return BaselineEntry(
        "1:d", ["i0", "i1"][: len(digests)], "why", "Ada", "2026-11-01", "c0", "f00d", 1.0, {"out": accepted}
    )


def baseline(value=None):
    return Baseline(value or entry(), "generic", "baselines/generic/unit/s.json")
