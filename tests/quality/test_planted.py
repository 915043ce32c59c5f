"""A case with a fault: what it is given, what is remembered, and what is not run because it could alter nothing."""

import pytest
from msgspec.structs import replace

from precreg.arithmetic.faults.table import FAULTS, HARMLESS_CHANGES
from precreg.quality.variants import VariantComputation, make_variant, run_variant, with_fault
from precreg.types.case import Computation
from precreg.types.verdict import Reason

CHAIN = ("cpu-test", "generic")
KERNELS = """import numpy as np


def moved(x):
    return np.maximum(x, x[::-1]).astype(np.float64)


def added(x):
    return (x + 1.5) - x


def normalised(x):
    return x / np.sqrt((x * x).mean() + np.float32(1e-5))


def narrowed(x):
    return np.tanh(x).astype(np.float16).astype(np.float32)


def edges(x):
    tiny = x * np.float32(1e-39)
    with_nan = np.where(x > 1, np.float32(np.nan), x)
    return np.fmax(np.maximum(with_nan, 0) + np.exp(x * 200), tiny)


def summed(x):
    return np.cumsum(x) @ x + x.sum()


def exact(x, **params):
    return x


def looped(x, steps):
    for _ in range(steps):
        x = x / 2 + 1 / x
    return x


calls = []


def counted(x, **params):
    calls.append(1)
    return x.astype(np.float64)


def counts(x):
    return x * 0 + len(calls)


def numbered(x):
    calls.append(1)
    return x + len(calls)
"""


@pytest.fixture
def faults(project, case):
    """Return a function that gives the outcome of a kernel with a fault."""
    (project / "suites" / "unit" / "k.py").write_text(KERNELS)

    def of(subject, fault, **fields):
        reference = Computation("python", fields.pop("oracle", "k:exact"))
        made = case(name=subject, **fields)
        computations = {"subject": Computation("python", f"k:{subject}"), "oracle": reference}
        return make_variant(replace(made, **computations), str(fault), fault=fault)

    of.project = project
    return of


@pytest.mark.parametrize("subject", ["moved", "added", "normalised", "narrowed", "edges", "summed"])
@pytest.mark.parametrize("fault", [*FAULTS, *HARMLESS_CHANGES])
def test_what_is_not_run_would_have_altered_nothing(faults, subject, fault, monkeypatch):
    case = faults(subject, fault)
    shortened = run_variant(case, faults.project, CHAIN)

    def always_run(computation, call, seed, run):
        return run(with_fault(call, (FAULTS | HARMLESS_CHANGES)[fault]))

    monkeypatch.setattr(VariantComputation, "run_subject", always_run)
    whole = run_variant(case, faults.project, CHAIN)
    assert shortened.execution.failure is None
    assert shortened.execution.outputs == whole.execution.outputs
    assert shortened.comparisons == whole.comparisons


def test_the_kinds_that_are_met(faults):
    def kinds(subject):
        case = faults(subject, "naive_sum")
        run_variant(case, faults.project, CHAIN)
        return VariantComputation(case, faults.project, CHAIN).reuse("actual", 0, None)[1].met

    assert kinds("moved") == set()
    assert kinds("added") == {"addition"}
    assert kinds("normalised") == {"multiplication", "sum", "addition", "epsilon", "function", "root", "division"}
    assert kinds("narrowed") == {"function", "series", "narrowing"}
    assert {"nan", "infinity", "subnormal"} <= kinds("edges")
    assert kinds("summed") == {"running sum", "product", "sum", "addition"}


def test_params_and_inputs_of_the_subject_alone_are_altered(faults):
    case = faults("looped", "one_step_less", params={"steps": 3}, oracle="k:looped")
    x = {"shape": [16], "dtype": "float32", "uniform": {"low": 1, "high": 2}}
    outcome = run_variant(replace(case, inputs={"x": x}), faults.project, CHAIN)
    without = run_variant(replace(case, inputs={"x": x}, fault=None), faults.project, CHAIN)
    errors = [each.comparisons[0].metrics["max_abs_error"] for each in (without, outcome)]
    assert errors[0] < 1e-6 < errors[1]
    assert outcome.execution.inputs == without.execution.inputs
    assert outcome.definition == without.definition


def test_the_oracle_is_computed_once_for_all_faults_of_a_case(faults):
    outcomes = [run_variant(faults("counts", name, oracle="k:counted"), faults.project, CHAIN) for name in FAULTS]
    counts = [outcome.comparisons[0].worst.actual[:1] for outcome in outcomes if outcome.comparisons[0].worst]
    assert counts
    assert max(max(count) for count in counts) <= 1


def test_cases_of_one_definition_have_memories_of_their_own(faults):
    once = faults("numbered", "saturated")
    twice = replace(once, repeats=2)
    assert [run_variant(case, faults.project, CHAIN).execution.unsteady for case in (once, twice)] == [(), ("out",)]


def test_cases_of_one_definition_are_measured_by_their_own_tolerances(faults):
    loose = faults("normalised", "saturated", oracle="k:normalised")
    tight = replace(loose, layers=(replace(loose.layers[0], bounds={"rtol": 1e-9, "atol": 0.0}),))
    alone = run_variant(tight, faults.project, CHAIN).comparisons
    after = [run_variant(case, faults.project, CHAIN).comparisons for case in (loose, tight)]
    assert after[0] != after[1] == alone


def test_an_unknown_fault_is_the_failure_of_its_case(faults):
    failure = run_variant(faults("added", "no_such"), faults.project, CHAIN).execution.failure
    assert failure.reason is Reason.SUBJECT_ERROR
    assert "fault=no_such" in failure.message


def test_a_stale_buffer_is_kept_between_repeats_and_not_between_cases(faults):
    case = faults("summed", "stale_buffer", repeats=2, dtype="float64")
    first, again = (run_variant(case, faults.project, CHAIN) for _ in range(2))
    assert first.execution.unsteady == ("out",)
    assert first.execution.outputs == again.execution.outputs
