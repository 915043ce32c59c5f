"""Which replicates a case has, and that what is found of it is the same however its runs come."""

import pytest
from msgspec.structs import replace

from precreg.arithmetic.faults.table import HARMLESS_CHANGES
from precreg.environment.machine import detect_environment
from precreg.quality.bounds import LAST_BIT_KIND, OWN_KIND, REORDERED_KIND, REPLICATE_KINDS, RESEEDED_KIND, Margins
from precreg.quality.calibration import (
    ORDERS,
    CaseCalibration,
    Uncalibrated,
    reason_not_replicable,
    replicate_runs,
    run_calibrations,
)
from precreg.run.pipeline import Plan
from precreg.suite.expand import load_cases
from precreg.types.case import Computation
from precreg.types.verdict import Reason
from tests.e2e.command import with_suite
from tests.run.conftest import case_of

SUITE = """suite: s
subject: k:total
reference: k:total
matrix: {dtype: [float32, float16]}
inputs: {x: {shape: [8, 40], dtype: $dtype, normal: {}}}
seeds: 2
"""
KERNEL = "def total(x):\n    return x.sum(-1)\n"


def kinds(case):
    return [variant.kind for variant in replicate_runs(case, 3)]


def test_each_run_has_an_id_and_seeds_of_its_own():
    case = replace(case_of(), seeds=2, repeats=5)
    ran = [*replicate_runs(case, 3)]
    assert [variant.kind for variant in ran] == [
        OWN_KIND,
        *[RESEEDED_KIND] * 3,
        *[LAST_BIT_KIND] * 3,
        *[REORDERED_KIND] * 3,
    ]
    assert len({variant.case.id for variant in ran}) == len(ran)
    assert [variant.case.replicate.first_seed for variant in ran if variant.kind == RESEEDED_KIND] == [2, 4, 6]
    assert {variant.case.replicate.moved for variant in ran if variant.kind == LAST_BIT_KIND} == {1, 2, 3}
    assert {(variant.case.seeds, variant.case.repeats) for variant in ran} == {(2, 1)}


def test_repeats_are_kept_where_they_may_differ():
    assert {
        variant.case.repeats for variant in replicate_runs(replace(case_of(), repeats=5, deterministic=False), 1)
    } == {5}


def test_orders_are_harmless_changes_of_sums():
    assert all("sum" in HARMLESS_CHANGES[order].needs for order in ORDERS)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"dtype": "float32", "normal": {}}, {RESEEDED_KIND, LAST_BIT_KIND}),
        ({"dtype": "int32", "integers": {"low": 0, "high": 9}}, {RESEEDED_KIND}),
        ({"dtype": "float32", "integers": {"low": 0, "high": 9}}, {RESEEDED_KIND}),
        ({"dtype": "float32", "constant": {"value": 1.0}}, set()),
        ({"dtype": "float32", "special": {}}, set()),
        ({"dtype": "float32", "special": {"share": 0.1, "rest": {"normal": {}}}}, {RESEEDED_KIND}),
        ({"dtype": "float32", "file": {"path": "x.npy"}}, {LAST_BIT_KIND}),
        ({"dtype": "float32", "ill_conditioned_sum": {"condition": 1e6}}, {RESEEDED_KIND}),
    ],
)
def test_inputs_decide_which_replicates_there_are(spec, found):
    assert set(kinds(replace(case_of(), inputs={"x": spec | {"shape": [4]}}))) == {OWN_KIND, REORDERED_KIND, *found}


def test_orders_change_in_python_subjects_alone():
    assert REORDERED_KIND not in kinds(replace(case_of(), subject=Computation("command", ["x"])))


def test_what_is_recorded_or_known_to_be_bad_is_fixed():
    assert reason_not_replicable(replace(case_of(), expect_failure="off")) == "known_bad"
    recorded = replace(case_of(), inputs={}, subject=Computation("files", {}))
    assert reason_not_replicable(recorded) == "recorded"
    assert reason_not_replicable(case_of()) is None


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return with_suite(tmp_path_factory.mktemp("replicates"), SUITE, KERNEL)


def found_in(project, cases, jobs=0):
    plan = Plan(project, detect_environment("cpu-test"), jobs)
    return {each.case: each for each in run_calibrations(cases, plan, 3, Margins())}


def test_selection_order_and_processes_change_nothing(project):
    cases = load_cases(project)
    together = found_in(project, cases)
    assert all(isinstance(each, CaseCalibration) for each in together.values())
    assert found_in(project, cases[::-1]) == together
    assert found_in(project, cases, jobs=2) == together
    assert found_in(project, cases[1:]) == {cases[1].id: together[cases[1].id]}


def test_a_sum_in_numpy_is_reordered_and_its_length_known(project):
    found = found_in(project, load_cases(project))
    narrow, wide = found["unit/s/float16"], found["unit/s/float32"]
    assert list(narrow.runs) == list(REPLICATE_KINDS)
    assert wide.runs[REORDERED_KIND] >= 2
    assert [(each.analytic.terms, each.analytic.precision) for each in (*wide.sums, *narrow.sums)] == [(40, 24)] * 2
    assert wide.sums[0].analytic.ratio < narrow.sums[0].analytic.ratio < 1


def test_a_case_that_fails_is_left_out(project):
    case = replace(load_cases(project)[0], params={"axis": 9})
    (found,) = found_in(project, [case]).values()
    assert isinstance(found, Uncalibrated)
    assert (found.cause, found.failure.reason) == ("failed", Reason.SUBJECT_ERROR)
    assert found.failure.message.startswith("TypeError")
