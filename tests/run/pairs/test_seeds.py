"""The workers of two versions: outputs that one leaves, and the other measures by one reference."""

import shutil

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.measure import compare_arrays
from precreg.run.case_run import run_case
from precreg.run.pairs.seeds import SeedBatch, SeedTask, leave_outputs, measure_versions
from precreg.types import Reason

CHAIN = ("cpu",)
KERNELS = """\
import numpy as np
import ml_dtypes

COUNT = iter(range(100))


def double(x):
    return x * x.dtype.type(2)


def exact(x):
    return x * 2


def rough(x):
    return (x.astype(np.float16) * np.float16(2)).astype(x.dtype)


def brain(x):
    return (x * 2).astype(ml_dtypes.bfloat16)


def two(x):
    return {"a": x * 2, "b": x * 2}


def counted(x):
    return x * 2 + x.dtype.type(next(COUNT))


def failing(x):
    raise ValueError("no such kernel")


def longer(x):
    return np.concatenate([x, x]) * 2
"""


@pytest.fixture
def trees(tmp_path):
    """Two projects with the same suite's folder: the accepted version and the present one."""
    found = []
    for name in ("accepted", "present"):
        folder = tmp_path / name / "suites" / "unit"
        folder.mkdir(parents=True)
        (folder / "k.py").write_text(KERNELS)
        found.append(tmp_path / name)
    return found


def become(tree, function):
    """Let `double` of a version be another function."""
    path = tree / "suites" / "unit" / "k.py"
    path.write_text(path.read_text() + f"\n\ndouble = {function}\n")
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def computation(case, function):
    return replace(case.subject, spec=f"k:{function}")


@pytest.fixture
def make(case):
    def make(**fields):
        made = case(**fields)
        return replace(made, subject=computation(made, "double"), oracle=computation(made, "exact"))

    return make


def answers(case, trees, number=3, first=1000):
    """Return the answers of both versions to one batch."""
    accepted, present = trees
    batch = SeedBatch(case, first, number, accepted / "outputs")
    former = SeedTask(accepted, leave_outputs).run(batch, str)
    return former, SeedTask(present, measure_versions).run(batch, str) if former.failure is None else None


def test_both_versions_are_measured_by_the_reference_on_the_same_fresh_inputs(make, trees):
    become(trees[1], "rough")
    former, found = answers(make(), trees)
    assert former.inputs == found.inputs
    assert len(set(found.inputs)) == 3
    assert not (trees[0] / "outputs").exists()
    for seed, figures in enumerate(found.figures):
        pair = figures["out"]
        assert not pair.same_bits
        assert pair.accepted.metrics["max_abs_error"] == 0
        ordinary = run_case(replace(make(), seeds=1), trees[1], CHAIN)
        assert ordinary.execution.inputs[0] not in found.inputs, "fresh seeds are none of the case's own"
        assert 0 < pair.present.metrics["max_ulp"] < 2**13, seed


@pytest.mark.parametrize("function", ["double", "brain"])
def test_equal_bits_are_equal_in_any_dtype(make, trees, function):
    for tree in trees:
        become(tree, function)
    _, found = answers(make(), trees)
    assert all(figures["out"].same_bits for figures in found.figures)
    assert all(figures["out"].accepted == figures["out"].present for figures in found.figures)


def test_figures_are_those_of_a_comparison(make, trees):
    become(trees[1], "brain")
    become(trees[0], "brain")
    _, found = answers(make(), trees, number=1)
    x = np.random.default_rng(0).normal(size=16)
    reference = compare_arrays(x.astype("float32"), x, rtol=0, atol=0)
    metrics = found.figures[0]["out"].present.metrics
    assert metrics.keys() >= {"mean_abs_error", "max_ulp"} & reference.metrics.keys()


@pytest.mark.parametrize("function", ["two", "longer", "brain"])
def test_an_output_that_only_one_version_has_or_of_another_shape_or_dtype_is_named(make, trees, function):
    become(trees[1], function)
    _, found = answers(make(), trees)
    assert found.missing in ("out", "a")
    assert found.figures == ()


@pytest.mark.parametrize("version", [0, 1])
def test_a_failure_of_either_version_is_its_answer(make, trees, version):
    become(trees[version], "failing")
    failure = answers(make(), trees)[version].failure
    assert (failure.reason, failure.message) == (Reason.SUBJECT_ERROR, "ValueError: no such kernel")


def test_a_failure_of_the_reference_is_blamed_on_it(make, trees):
    case = make()
    _, found = answers(replace(case, oracle=computation(case, "failing")), trees)
    assert found.failure.reason is Reason.REFERENCE_ERROR


def test_an_undeclared_difference_between_runs_is_named_and_a_declared_one_is_not(make, trees):
    become(trees[1], "counted")
    case = make()
    assert answers(case, trees)[1].unsteady == "out"
    assert answers(replace(case, deterministic=False), trees)[1].unsteady == ""


def test_a_batch_may_take_the_time_that_the_case_allows_for_its_seeds(make):
    case = replace(make(), timeout_s=30.0, seeds=3, repeats=2)
    task = SeedTask(None, leave_outputs)
    assert task.timeout_s(SeedBatch(case, 0, 5, None)) == 30.0
    assert task.timeout_s(SeedBatch(case, 0, 1000, None)) == 60.0, "of seeds so short that a second has 1000"
