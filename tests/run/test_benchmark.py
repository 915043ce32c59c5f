"""Cases with a benchmark: its ratios, its bounds, and a benchmark that cannot be measured."""

import numpy as np
import pytest

from precreg.run.case_run import run_case
from precreg.types.case import Computation, Layer, Location
from precreg.types.verdict import Reason
from tests.run.conftest import python

CHAIN = ("generic",)
RATIOS = ("max_abs_error", "mean_abs_error", "rms_error", "mare", "mere")


@pytest.fixture
def run(project, case):
    def run(subject, benchmark, reference="double_exactly", **fields):
        computation = benchmark if isinstance(benchmark, Computation) else python(benchmark)
        return run_case(case(subject, reference, benchmark=computation, **fields), project, CHAIN)

    return run


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_every_seed_has_the_plain_ratios(run, dtype):
    outcome = run("twice_as_far_off", "off", dtype=dtype, seeds=3)
    assert [comparison.seed for comparison in outcome.comparisons] == [0, 1, 2]
    for comparison in outcome.comparisons:
        for error in RATIOS:
            assert comparison.metrics[f"{error}_ratio"] == pytest.approx(
                comparison.metrics[error] / comparison.benchmark[error], rel=1e-15
            )
            assert comparison.metrics[f"{error}_ratio"] == pytest.approx(2, rel=0.2 if dtype == "float16" else 1e-2)


def test_the_benchmark_gets_the_inputs_of_the_subject_and_no_device(run, case, project):
    """It computes in the dtype of the inputs, and copies: neither side sees what the other writes."""
    outcome = run("dtype_given", "dtype_given", reference="dtype_given")
    sizes = {comparison.output: comparison.benchmark["max_abs_error"] for comparison in outcome.comparisons}
    assert sizes == {"size": 4, "longdouble": 0}
    outcome = run("changes_inputs", "changes_inputs", reference="triple", params={"weights": []}, repeats=2)
    assert outcome.execution.failure is None
    assert outcome.comparisons[0].metrics["mean_abs_error_ratio"] == 1
    on_device = run("double", "double", device="ascend", inputs=_float16())
    assert on_device.comparisons[0].benchmark["max_abs_error"] == 0


def _float16():
    return {"x": {"shape": [16], "dtype": "float16", "normal": {"mean": 0, "std": 1}}}


def test_other_measurements_and_digests_do_not_depend_on_it(run, case, project):
    layers = (Layer("suite", Location("suites/unit/s.yaml", 1), {"rtol": 1e-3, "atol": 1e-5}),)
    alone = run_case(case("off", layers=layers), project, CHAIN)
    beside = run("off", "double", layers=layers)
    assert beside.definition == alone.definition
    assert beside.execution.inputs == alone.execution.inputs
    assert beside.execution.outputs == alone.execution.outputs
    (one,), (other,) = alone.comparisons, beside.comparisons
    assert one.benchmark is None
    assert other.metrics.items() >= one.metrics.items()
    assert other.groups == one.groups


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [
        ("raises", "ValueError: not like this"),
        ("returns_none", "expected an array but got None"),
        ("two_outputs", "expected the benchmark to give every output of the subject but it lacks out"),
        ("wider_double", "out of the benchmark: expected shape (16,) but got shape=(2, 16)"),
        (
            "double_with_nan",
            "out of the benchmark: expected NaN and infinities where the reference has them but 1 of 16",
        ),
        ("gone", "gone"),
        (Computation("files", {"out": "suites/unit/gone.npy"}), "lacks out"),
    ],
)
def test_a_benchmark_that_cannot_be_measured_is_an_error(run, benchmark, words):
    failure = run("double", benchmark).execution.failure
    assert failure.reason is Reason.BENCHMARK_ERROR
    assert words in failure.message


def test_the_subject_and_the_reference_are_blamed_first(run):
    assert run("raises", "raises").execution.failure.reason is Reason.SUBJECT_ERROR
    assert run("double", "raises", reference="raises").execution.failure.reason is Reason.REFERENCE_ERROR


def test_an_output_that_the_subject_lacks_is_the_subjects(run):
    outcome = run("one_output", "two_outputs", reference="two_outputs")
    assert outcome.missing == ("first",)
    assert outcome.execution.failure is None


def test_a_recorded_benchmark(run, project):
    np.save(project / "suites/unit/theirs.npy", np.zeros(16, np.float32))
    outcome = run("double", Computation("files", {"out": "suites/unit/theirs.npy"}))
    (comparison,) = outcome.comparisons
    assert comparison.metrics["mean_abs_error_ratio"] == 0
    assert comparison.benchmark["max_abs_error"] > 1


def test_a_case_that_need_not_repeat(run):
    outcome = run("off", "double", deterministic=False, repeats=3)
    assert "mean_abs_error_ratio" not in outcome.comparisons[0].metrics
    assert outcome.comparisons[0].benchmark["mean_abs_error"] == 0
