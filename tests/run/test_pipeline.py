"""The stages together, in this process: a case's result depends on that case alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.baseline.proposal import update_proposals
from precreg.baseline.review import accept_proposals
from precreg.baseline.store import Baselines
from precreg.environment.machine import detect_environment
from precreg.report.sections import describe_warning
from precreg.run.pipeline import KEPT_POSITIONS, Plan, run_and_judge, run_warnings
from precreg.suite.expand import load_cases
from precreg.suite.select import shard_cases
from precreg.types.verdict import Reason, Status
from precreg.types.warning import EmptyPasses
from precreg.verdict.judge import Policy
from tests.e2e.command import with_suite

SUITE = """suite: s
subject: k:scaled
reference: k:exact
matrix: {n: [32, 33, 34, 35, 36, 37, 38, 39, 40, 41], how: [same, worse, much worse, better, broken]}
inputs: {x: {shape: [2, $n], dtype: float32, normal: {}}}
params: {how: $how}
seeds: 2
tolerance: {rtol: 1e-2}
"""
KERNEL = """import numpy as np

FACTORS = {"same": 1 + 1e-4, "worse": 1 + 1e-4, "much worse": 1 + 1e-4, "better": 1 + 1e-4, "broken": 1 + 1e-4}


def scaled(x, how):
    return x * np.float32(FACTORS[how])


def exact(x, how):
    return x
"""
LATER = {"worse": "2e-4", "much worse": "5e-3", "better": "1e-5", "broken": "1e-1"}


def measured(project, cases, **plan):
    environment = detect_environment("cpu-test")
    ran = run_and_judge(cases, Plan(project, environment, **plan), Policy(), Baselines(project))
    return {result.id: without_time(result) for result in ran}


def without_time(result):
    """Leave out what differs between two runs: the time, and the files of oracles, which only workers note."""
    execution = replace(result.outcome.execution, duration_s=0.0, oracle_files=())
    return replace(result, outcome=replace(result.outcome, execution=execution))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project whose baselines were accepted before its kernel became better, worse and broken."""
    folder = with_suite(tmp_path_factory.mktemp("pipeline"), SUITE, KERNEL)
    cases = load_cases(folder)
    plan = Plan(folder, detect_environment("cpu-test"))
    update_proposals(folder, run_and_judge(cases, plan, Policy(), Baselines(folder)), plan.environment, None)
    accept_proposals(
        folder, ["*"], known={case.id for case in cases}, reason="first", author="Ada", date="2026-11-21", environ={}
    )
    kernel = KERNEL
    for how, error in LATER.items():
        kernel = kernel.replace(f'"{how}": 1 + 1e-4', f'"{how}": 1 + {error}')
    later = tmp_path_factory.mktemp("later")
    with_suite(later, SUITE, kernel)
    (folder / "baselines").rename(later / "baselines")
    return later


@pytest.fixture(scope="module")
def together(project):
    return measured(project, load_cases(project))


def test_every_reason_that_a_change_can_have(together):
    reasons = {result.parameters["how"]: result.verdict.reason for result in together.values()}
    assert reasons == {
        "same": Reason.IDENTICAL,
        "worse": Reason.REGRESSED,
        "much worse": Reason.REGRESSED,
        "better": Reason.IMPROVED,
        "broken": Reason.OUT_OF_TOLERANCE,
    }


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_result_is_the_same_alone_in_any_selection_order_shard_and_resume(project, together, data):
    every = load_cases(project)
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=25, unique_by=lambda case: case.id))
    count = data.draw(st.integers(1, 3))
    finished = data.draw(st.sets(st.sampled_from([case.id for case in chosen])))
    done = {case: together[case].outcome for case in finished if together[case].verdict.status is not Status.PASSED}
    found = {}
    for index in range(1, count + 1):
        found |= measured(project, shard_cases(chosen, index, count), done=done)
    assert found == {case.id: together[case.id] for case in chosen}


@pytest.mark.parametrize("jobs", [1, 3])
def test_worker_processes_give_the_same_results(project, together, jobs):
    assert measured(project, load_cases(project), jobs=jobs) == together


def test_positions_are_kept_in_full_only_where_someone_will_look(together):
    for result in together.values():
        kept = [len(comparison.worst.index) for comparison in result.outcome.comparisons]
        if result.verdict.status is Status.PASSED:
            assert all(number <= KEPT_POSITIONS for number in kept)
        else:
            assert all(number > KEPT_POSITIONS for number in kept)


def test_warnings_are_told_once_with_the_first_case_that_has_them(tmp_path):
    tolerance = "tolerance: {rtol: 1e-9, atol: 1000, outputs: {lsos: {rtol: 1}}}"
    project = with_suite(tmp_path, SUITE.replace("tolerance: {rtol: 1e-2}", tolerance), KERNEL)
    cases = load_cases(project)
    ran = sorted(
        run_and_judge(cases, Plan(project, detect_environment("cpu-test")), Policy(), Baselines(project)),
        key=lambda r: r.id,
    )
    found = [describe_warning(fact) for fact in run_warnings(cases, ran)]
    assert len(found) == 3
    assert all(text.startswith(f"{ran[0].id}: ") for text in found)
    assert any("below 1 ULP" in text for text in found)
    assert any("wrong by 100 %" in text for text in found)
    assert any("no output is called lsos" in text for text in found)


def test_a_warning_of_some_outputs_names_them(tmp_path):
    suite = "suite: pair\nsubject: k:pair\nreference: k:pair\ninputs: {x: {shape: [4], dtype: float32, normal: {}}}\n"
    kernel = "def pair(x):\n    return {'near': x, 'far': x * 1e6, 'beyond': x * 1e7}\n"
    found = {}
    for bounds in ("atol: 1e3, rtol: 1e-5", "rtol: 1"):
        project = with_suite(tmp_path / bounds[0], f"{suite}tolerance: {{{bounds}}}\n", kernel)
        cases = load_cases(project)
        (fact,) = run_warnings(
            cases, run_and_judge(cases, Plan(project, detect_environment("cpu-test")), Policy(), Baselines(project))
        )
        found[bounds] = describe_warning(fact)
    assert found["atol: 1e3, rtol: 1e-5"].startswith("unit/pair/default: near: a result that is wrong")
    assert found["rtol: 1"].startswith("unit/pair/default: a result that is wrong"), "it is said of all"


def test_goldens_without_a_finite_element_are_counted_where_they_pass(tmp_path):
    suite = "suite: void\nsubject: k:void\ngolden: k:void\nmatrix: {n: [0, 0.5, 1]}\nparams: {n: $n}\n"
    kernel = "import numpy as np\n\n\ndef void(x, n):\n    return [x[:0], x * np.inf, x][int(2 * n)]\n"
    inputs = "inputs: {x: {shape: [4], dtype: float32, uniform: {low: 1, high: 2}}}\n"
    project = with_suite(tmp_path, suite + inputs, kernel)
    cases = load_cases(project)
    plan, nothing = Plan(project, detect_environment("cpu-test")), Baselines(project)
    assert [*run_warnings(cases, [*run_and_judge(cases, plan, Policy(), nothing)])] == []
    allowed = [replace(case, empty_passes=True) for case in cases]
    (fact,) = run_warnings(allowed, [*run_and_judge(allowed, plan, Policy(), nothing)])
    assert fact == EmptyPasses(cases[0].id, 2)
    assert describe_warning(fact).startswith(
        "unit/void/n=0 and 1 more: the golden has outputs without a finite element"
    )
