import sys
import warnings

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.arithmetic.formats import dtype_name
from precreg.run.case_run import run_case
from precreg.types.case import Computation, Layer, Location
from precreg.types.verdict import Reason

CHAIN = ("cpu-x86_64", "cpu", "generic")


@pytest.fixture
def run(project):
    return lambda case: run_case(case, project, CHAIN)


def test_a_case_that_works(run, case):
    outcome = run(case("double", seeds=3, repeats=2))
    assert outcome.case == "unit/s/case"
    assert outcome.definition == "1:case"
    assert outcome.execution.failure is None
    assert outcome.execution.unsteady == ()
    assert outcome.execution.duration_s > 0
    assert len(set(outcome.execution.inputs)) == 3
    assert len(set(outcome.execution.outputs["out"])) == 3
    assert [comparison.seed for comparison in outcome.comparisons] == [0, 1, 2]
    assert {comparison.metrics["max_abs_error"] for comparison in outcome.comparisons} == {0.0}


def test_the_same_case_gives_the_same_facts(run, case):
    first, second = run(case("double")), run(case("double"))
    assert first.execution.inputs == second.execution.inputs
    assert first.execution.outputs == second.execution.outputs
    assert first.comparisons == second.comparisons


@pytest.mark.parametrize(
    ("dtype", "bytes_more", "is_longdouble"),
    [
        ("float16", 6, False),
        ("bfloat16", 6, False),
        ("float32", 4, False),
        ("float64", np.dtype(np.longdouble).itemsize - 8, True),
        ("complex64", 8, False),
    ],
)
def test_a_reference_computes_in_a_wider_type(run, case, dtype, bytes_more, is_longdouble):
    outcome = run(case("dtype_given", "dtype_given", dtype=dtype))
    errors = {comparison.output: comparison.metrics["max_abs_error"] for comparison in outcome.comparisons}
    assert errors == {"size": bytes_more, "longdouble": is_longdouble}


def test_a_reference_gets_integers_as_they_are(run, case):
    inputs = {"x": {"shape": [4], "dtype": "int16", "integers": {"low": 0, "high": 9}}}
    outcome = run(case("dtype_given", "dtype_given", inputs=inputs))
    assert [comparison.metrics["max_abs_error"] for comparison in outcome.comparisons] == [0, 0]


def test_a_golden_computes_in_the_same_type(run, case):
    outcome = run(case("dtype_given", "dtype_given", role="golden", dtype="float16"))
    assert [comparison.metrics["max_abs_error"] for comparison in outcome.comparisons] == [0, 0]


def test_a_subject_may_write_into_its_inputs_and_params(run, case):
    outcome = run(case("changes_inputs", "triple", params={"weights": []}, repeats=3))
    assert outcome.execution.unsteady == ()
    assert outcome.comparisons[0].metrics["max_rel_error"] < 1e-6


def test_repeats_that_differ_name_their_outputs(run, case):
    outcome = run(case("unsteady", "unsteady", repeats=2))
    assert outcome.execution.unsteady == ("unsteady",)
    assert run(case("unsteady", "unsteady")).execution.unsteady == ()


def test_the_stage_where_repeats_first_differ_is_known_with_its_element(run, case):
    execution = run(case("stale_stage", "stale_stage", seeds=2, repeats=3)).execution
    assert execution.unsteady == ("partial", "total")
    partial, total = execution.differences
    assert (partial.seed, partial.repeat, partial.place, partial.differing, partial.size) == (0, 2, (2,), 1, 4)
    assert (total.place, total.differing, total.size, total.largest) == ((), 1, 1, 1.0)


@pytest.fixture
def any_order(run, case):
    """Run a sum of 2000 terms whose order is never the same."""
    x = {"x": {"shape": [2000], "dtype": "float32", "uniform": {"low": 1, "high": 2}}}
    return lambda **fields: run(case("any_order", "exact_total", inputs=x, deterministic=False, **fields))


def test_of_a_case_that_is_declared_nondeterministic_all_runs_are_measured_together(any_order):
    outcome = any_order(seeds=3, repeats=5)
    execution = outcome.execution
    assert execution.unsteady == ("total",)
    assert (execution.differences[0].seed, execution.differences[0].repeat, execution.differences[0].place) == (
        0,
        2,
        (),
    )
    assert [(one.output, one.seed, one.counts["n"]) for one in outcome.comparisons] == [
        (name, seed, 5) for seed in range(3) for name in ("size", "total")
    ]
    totals = [one.metrics for one in outcome.comparisons if one.output == "total"]
    assert all(0 < of["mean_abs_error"] < of["max_abs_error"] for of in totals), "runs differ, and all count"
    assert {of["match_ratio"] for of in totals} == {1.0}


def test_a_digest_is_that_of_all_runs_where_they_agree_and_else_that_of_none(any_order):
    two, three = any_order(repeats=2).execution.outputs, any_order(repeats=3).execution.outputs
    assert two["size"] == three["size"] == any_order().execution.outputs["size"]
    assert len({two["total"], three["total"]}) == 2
    assert {len(digest) for digest in (*two["size"], *two["total"])} == {32}


def test_runs_that_differ_in_more_than_bits_are_told(run, case):
    shape = run(case("another_shape", "four_ones", repeats=2, deterministic=False))
    assert shape.comparisons[0].shape != shape.comparisons[0].reference_shape
    assert shape.execution.differences[0].place is None
    output = run(case("sometimes_more", "both", repeats=2, deterministic=False))
    assert output.missing == ("sometimes",)
    assert (output.execution.unsteady, output.execution.differences[0].place) == (("sometimes",), None)


def test_analyzers_measure_every_run_of_a_case_that_is_declared_nondeterministic(any_order, monkeypatch):
    seen = []

    def counted(measured, actual, oracle, analyzers):
        seen.append(float(actual))
        return replace(measured, described=())

    monkeypatch.setattr("precreg.run.case_run.add_analyzer_metrics", counted)
    any_order(repeats=4, analyzers=("some",))
    assert len(seen) == 8, "two outputs of four runs"


def test_a_buffer_that_is_used_again_hides_nothing(run, case):
    outcome = run(case("one_buffer", "overwrites_the_buffer", repeats=2))
    assert outcome.execution.unsteady == ("out",)
    assert outcome.comparisons[0].metrics["max_abs_error"] > 0


def test_an_output_that_is_missing_is_a_fact(run, case):
    outcome = run(case("one_output", "two_outputs"))
    assert outcome.missing == ("first",)
    assert [comparison.output for comparison in outcome.comparisons] == ["sum"]


def test_an_output_that_the_reference_lacks_is_its_error(run, case):
    failure = run(case("two_outputs", "one_output")).execution.failure
    assert failure.reason is Reason.REFERENCE_ERROR
    assert "lacks first, and gives sum" in failure.message


@pytest.mark.parametrize("named", ["float16", dtype_name(np.dtype(np.longdouble))])
def test_tolerances_are_those_of_the_outputs_dtype(run, case, named):
    layers = (
        Layer("suite", Location("s.yaml"), {"rtol": 0.0, "atol": 0.0}),
        Layer("suite", Location("s.yaml"), {"rtol": 10.0}, dtype=named),
    )
    ratios = {}
    for dtype in (named, "float32"):
        (comparison,) = run(case("double", "dtype_scaled", dtype=dtype, layers=layers)).comparisons
        ratios[dtype] = comparison.metrics["match_ratio"]
    assert ratios == {named: 1.0, "float32": 0.0}


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("raises", "ValueError: not like this"),
        ("calls_wrongly", "TypeError: calls_wrongly() missing 1 required keyword-only argument: 'never_given'"),
        ("returns_none", "expected an array but got None for output out"),
        ("recurses", "RecursionError: maximum recursion depth exceeded"),
        ("runs_out_of_memory", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 4.00 EiB"),
        ("exits", "exited with 3"),
        ("raises_its_own", "kernels.OwnError: of its own"),
        ("leaves_its_generator", "GeneratorExit"),
        ("no_such_function", "expected a function of kernels but got function=no_such_function"),
    ],
)
def test_what_goes_wrong_in_a_subject(run, case, subject, message):
    failure = run(case(subject)).execution.failure
    assert failure.reason is Reason.SUBJECT_ERROR
    assert failure.message.startswith(message)


def test_what_goes_wrong_in_a_reference(run, case):
    failure = run(case("double", "raises")).execution.failure
    assert (failure.reason, failure.message) == (Reason.REFERENCE_ERROR, "ValueError: not like this")


def test_a_traceback_shows_the_users_code_only(run, case):
    detail = run(case("raises")).execution.failure.detail
    assert "in raises" in detail
    assert "precreg/" not in detail


def test_a_requirement_that_is_not_met(run, case):
    failure = run(case("raises", requires=("numpy>=1000", "device:npu"))).execution.failure
    assert failure.reason is Reason.UNAVAILABLE
    assert "numpy>=1000" in failure.message
    assert "npu" in failure.message


def test_overflow_is_no_warning(run, case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = run(case("overflows", "overflows"))
    assert outcome.execution.failure is None
    assert outcome.comparisons[0].counts["inf_mismatched"] == 0


def test_recorded_files_count_as_inputs(run, case, project):
    for name, value in (("actual", 1.0), ("golden", 1.0)):
        np.save(project / f"{name}.npy", np.full(4, value, np.float32))
    files = {
        "subject": Computation("files", {"out": "actual.npy"}),
        "oracle": Computation("files", {"out": "golden.npy"}),
        "inputs": {},
        "role": "golden",
    }
    recorded = replace(case(), **files)
    before = run(recorded)
    np.save(project / "golden.npy", np.full(4, 1.5, np.float32))
    after = run(recorded)
    assert before.execution.outputs == after.execution.outputs
    assert before.execution.inputs != after.execution.inputs
    assert after.comparisons[0].metrics["max_abs_error"] == 0.5
    (project / "golden.npy").unlink()
    assert run(recorded).execution.failure.reason is Reason.REFERENCE_ERROR


def test_the_modules_path_does_not_grow(run, case):
    run(case("double"))
    length = len(sys.path)
    run(case("double"))
    assert len(sys.path) == length
