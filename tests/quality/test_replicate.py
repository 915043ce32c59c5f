"""Replicates of a case: other seeds, other last bits, and what they tell besides."""

import pytest
from msgspec.structs import replace

from precreg.quality.variants import Replicate, make_variant, run_variant
from precreg.types.case import Computation, LongSum

CHAIN = ("cpu-test", "generic")
KERNELS = """import itertools

import numpy as np


def total(x):
    return x.sum()


def lost(x):
    return x * np.float32(1 + 2**-10)


def same(x):
    return x


OFF = itertools.cycle([1, 3, 0])


def better_at_last(x):
    return x * np.float32(1 + next(OFF) * 2**-10)
"""


@pytest.fixture
def run(project, case):
    (project / "suites/unit/noisy.py").write_text(KERNELS)

    def run(subject, reference, **fields):
        computations = {
            "subject": Computation("python", f"noisy:{subject}"),
            "oracle": Computation("python", f"noisy:{reference}"),
        }
        return run_variant(make_variant(replace(case(), **computations), "variant", **fields), project, CHAIN)

    return run


def test_a_run_that_is_no_replicate_tells_of_no_noise(run):
    assert run("same", "same").noise is None


def test_a_replicate_that_changes_nothing_has_the_bits_of_the_case(run):
    own, replicate = run("lost", "same", seeds=2), run("lost", "same", seeds=2, replicate=Replicate())
    assert replicate.execution.inputs == own.execution.inputs
    assert replicate.execution.outputs == own.execution.outputs
    assert replicate.comparisons == own.comparisons


def test_the_share_of_the_tolerance_is_that_of_the_worst_element_at_each_seed(run):
    found = run("lost", "same", seeds=2, replicate=Replicate()).noise.shares["out"]
    assert len(found) == 2
    assert all(0.9 * 2**-10 < share * 1e-3 < 2**-10 for share in found)


def test_other_seeds_are_those_that_a_case_of_more_seeds_has(run):
    every = run("same", "same", seeds=4).execution.inputs
    later = run("same", "same", seeds=2, replicate=Replicate(first_seed=2))
    assert later.execution.inputs == every[2:]
    assert [comparison.seed for comparison in later.comparisons] == [2, 3]


def test_moved_inputs_are_what_subject_and_reference_see(run):
    own, moved, again, other = (run("same", "same", replicate=Replicate(moved=number)) for number in (None, 1, 1, 2))
    assert moved.execution.inputs == again.execution.inputs
    assert len({each.execution.inputs for each in (own, moved, other)}) == 3
    assert moved.comparisons[0].metrics["max_abs_error"] == 0


def test_what_is_not_movable_is_the_same(run):
    whole = {"x": {"shape": [4], "dtype": "float32", "constant": {"value": 1}}}
    own, moved = (run("same", "same", inputs=whole, replicate=Replicate(moved=number)) for number in (None, 1))
    assert moved.execution.inputs == own.execution.inputs


def test_the_longest_sum_is_told_where_sums_are_added_in_another_order(run):
    found = run("total", "total", replicate=Replicate(), fault="sum_reversed")
    assert found.noise.longest == LongSum(16, 24, products=False)
    assert run("total", "total", replicate=Replicate()).noise.longest is None
    assert run("same", "same", replicate=Replicate(), fault="sum_reversed").noise.longest is None


def test_of_runs_that_may_differ_the_worst_share_counts(run):
    found = run("better_at_last", "same", replicate=Replicate(), deterministic=False, repeats=3)
    (share,) = found.noise.shares["out"]
    assert 2.9 * 2**-10 < share * 1e-3 < 3 * 2**-10
