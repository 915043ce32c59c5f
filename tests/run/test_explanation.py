"""The failed cases that a run diagnoses: which, in which order, in which time, and by what a bad one is bounded."""

import os
import time

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from precreg.run.explanation import (
    DiagnosisPlan,
    count_diagnoses,
    explain_failures,
    is_explainable,
    opaque_subject,
    with_opaque_subject,
)
from precreg.run.pairs.escalation import DiagnosisAnnouncement
from precreg.run.workers import LocalPlace
from precreg.types.case import Computation
from precreg.types.diagnosis import Cause, Diagnosis, Evidence, OpaqueSubject, RewrittenPlace, UnitExplanation
from precreg.types.record import TEST_DEFINED_PREFIX, PairedRun
from precreg.types.verdict import Finding, Reason, Status, Verdict
from tests.report.made import comparison, crashed, improved, nondeterministic, passed, proposed, regressed, skipped

CHAIN = ("cpu-test", "generic")
CAUSE = Cause(
    "hop",
    {"format": "float16"},
    RewrittenPlace("input", "x"),
    "reference",
    Evidence(8, 8, 8, 8, correlation=1.0, remaining=0.0),
)


def found(case, project, *, seed, chain, seconds, accepted, units):
    """Return all that a diagnosis was given; it stands for the engine, whose own tests are in tests/diagnose."""
    given = {"seconds": seconds, "accepted": str(accepted), "project": project.name, "chain": ",".join(chain)}
    cause = replace(CAUSE, options=given)
    explained_by = tuple(UnitExplanation(unit.id) for unit in units)
    return Diagnosis(case=case.id, seed=seed, status="found", causes=(cause,), explained_by=explained_by)


def goes_wrong(case, project, **given):
    """Crash, hang, raise or give what JSON has not, by the name of the case."""
    match case.name:
        case "crash":
            os._exit(5)
        case "hang":
            time.sleep(600)
        case "raise":
            raise ValueError("no\nsuch  base")
        case "nan":
            cause = replace(CAUSE, evidence=replace(CAUSE.evidence, remaining=float("nan")))
            return Diagnosis(case=case.id, status="found", causes=(cause,))
    return found(case, project, **given)


def failed(name, ratio=2.0, reason=Reason.REGRESSED, **changes):
    """Return a failed case whose one finding has a ratio."""
    verdict = Verdict(Status.FAILED, reason, "", (Finding(reason, "", "out", "rms_error", ratio=ratio),))
    return regressed(name, **({"verdict": verdict} | changes))


def cases_of(case, *results):
    return [replace(case(name=result.name), id=result.id) for result in results]


def explained(case, results, explain=found, *, seconds=1000.0, jobs=0, project=None, announce=None, base=None):
    plan = DiagnosisPlan(project, CHAIN, seconds, LocalPlace(jobs), base)
    return explain_failures(cases_of(case, *results), results, plan, explain, announce)


def test_failures_with_errors_are_explained_and_nothing_else(case, project):
    late = failed("late", reason=Reason.OVER_BUDGET)
    by_test = failed("by-test", definition=f"{TEST_DEFINED_PREFIX}1:d")
    others = [passed(), proposed(), improved(), crashed(), skipped(), late, by_test]
    wrong = [failed("r"), failed("t", reason=Reason.OUT_OF_TOLERANCE), nondeterministic()]
    wrong.append(failed("n", reason=Reason.NON_FINITE_MISMATCH))
    results, counts = explained(case, [*others, *wrong], project=project)
    assert [result.diagnosis is not None for result in results] == [False] * len(others) + [True] * len(wrong)
    assert [replace(result, diagnosis=None) for result in results] == [*others, *wrong], "nothing else changes"
    assert [is_explainable(result) for result in results] == [result.diagnosis is not None for result in results]
    assert (counts.diagnosed, counts.not_reached, counts.seconds, counts.problem) == (len(wrong), 0, 1000.0, "")
    assert explained(case, others, project=project) == (tuple(others), None)


def program_of(one):
    return replace(one, subject=Computation("command", {"command": ["./kernel"]}))


def test_programs_and_recorded_files_share_a_third_of_the_time(case, project):
    given = {}

    def noted(one, project, *, seconds, **rest):
        given[one.name] = seconds
        return found(one, project, seconds=seconds, **rest)

    judged = PairedRun(6, True, judged=True, commit="c0ffee")
    results = [failed("python", 1.5), failed("program", 90.0, paired=judged), failed("files", 80.0)]
    cases = cases_of(case, *results)
    cases[1] = program_of(cases[1])
    cases[2] = replace(cases[2], subject=Computation("files", {"out": "y.npy"}))
    plan = DiagnosisPlan(project, CHAIN, 900.0, LocalPlace(0), None)
    explained, _ = explain_failures(cases, results, plan, noted, None)
    # Three quarters of a case's time go to the search.
    assert given["program"] == given["files"] == 0.75 * 150
    assert given["python"] > 0.75 * 800
    subjects = [result.opaque for result in explained]
    assert subjects == [UNSET, OpaqueSubject("program", "c0ffee"), OpaqueSubject("recorded")]
    assert [result.diagnosis.opaque for result in explained] == subjects
    without_time, _ = explain_failures(cases, results, plan._replace(seconds=0.0), noted, None)
    assert [result.opaque for result in without_time] == subjects, "reports name the command without a diagnosis, too"


def test_figures_of_a_whole_training_cost_no_search(case, project):
    def never(one, project, **rest):
        assert one.subject.kind == "python", one
        return found(one, project, **rest)

    results = [failed("trained", 90.0), failed("python", 1.5), failed("quantized", 80.0)]
    cases = cases_of(case, *results)
    cases[0] = replace(cases[0], subject=Computation("training", {"training": "train:make", "steps": 7, "seed": 0}))
    cases[2] = replace(cases[2], directory=".", subject=Computation("quantization", {"quantization": "net:make"}))
    plan = DiagnosisPlan(project, CHAIN, 900.0, LocalPlace(0), None)
    explained, counts = explain_failures(cases, results, plan, never, None)
    folder = cases[0].directory
    commands = ("training", f"{folder}/train:make", "--advise", "--steps", "7"), ("quantization", "net:make")
    subjects = OpaqueSubject("figures", arguments=commands[0]), UNSET, OpaqueSubject("figures", arguments=commands[1])
    assert tuple(result.opaque for result in explained) == subjects
    assert [result.diagnosis.status for result in explained] == ["unknown", "found", "unknown"]
    assert tuple(result.diagnosis.opaque for result in explained) == subjects
    assert (counts.diagnosed, counts.not_reached) == (1, 0)
    # The case of a Python function has all of the time.
    assert float(explained[1].diagnosis.causes[0].options["seconds"]) > 0.75 * 899
    alone, none = explain_failures(cases[:1], results[:1], plan, never, None)
    assert (alone, none) == (explained[:1], None)


def test_a_program_without_sources_has_no_version_to_search(case, project):
    installed = replace(case(name="x"), subject=Computation("command", {"command": ["kernel", "{inputs.x}"]}))
    assert opaque_subject(installed, project, lambda: "c0ffee") == OpaqueSubject("program")
    assert opaque_subject(program_of(installed), project, lambda: "c0ffee") == OpaqueSubject("program", "c0ffee")
    assert opaque_subject(case(name="y"), project, lambda: "c0ffee") is UNSET


def test_a_cause_of_a_part_is_no_cause_of_a_program():
    partial = Diagnosis(case="unit/a", status="partial", causes=(CAUSE,))
    program, recorded = OpaqueSubject("program"), OpaqueSubject("recorded")
    assert with_opaque_subject(partial, program) == replace(
        partial, status="unknown", causes=(), runners_up=(CAUSE,), opaque=program
    )
    assert with_opaque_subject(partial, recorded) == replace(partial, opaque=recorded)
    assert with_opaque_subject(partial, UNSET) == partial
    whole = replace(partial, status="found")
    assert with_opaque_subject(whole, program).causes == (CAUSE,)


def test_no_time_diagnoses_nothing_and_says_nothing(case, project):
    results = [failed("a")]
    announced = []
    assert explained(case, results, seconds=0.0, project=project, announce=announced.append) == (tuple(results), None)
    assert announced == []


def test_the_largest_loss_comes_first_and_those_after_it_share_what_is_left(case, project):
    order = []

    def noted(one, project, *, seconds, **given):
        order.append((one.name, seconds))
        return found(one, project, seconds=seconds, **given)

    results = [
        failed("small", 1.5),
        failed("large", 90.0),
        failed("no-ratio", None),
        failed("b", 3.0),
        failed("a", 3.0),
    ]
    announced = []
    _, counts = explained(case, results, noted, project=project, announce=announced.append)
    assert [name for name, _ in order] == ["no-ratio", "large", "a", "b", "small"]
    assert announced == [DiagnosisAnnouncement(5, 1000.0)]
    # Half of the time, of which three quarters go to the search; the last one may take all of it.
    assert all(370 < seconds <= 375 for _, seconds in order[:-1])
    assert 740 < order[-1][1] <= 750
    assert (counts.diagnosed, counts.not_reached) == (5, 0)


def test_the_worst_case_of_each_suite_and_reason_comes_before_the_others(case, project):
    order = []

    def noted(one, project, **given):
        order.append(one.name)
        return found(one, project, **given)

    results = [
        failed("norm-1", 9.0),
        failed("norm-2", 8.0),
        failed("softmax-1", 3.0, suite="softmax"),
        failed("norm-3", 2.0, Reason.OUT_OF_TOLERANCE),
        failed("softmax-2", 2.5, suite="softmax"),
    ]
    explained(case, results, noted, project=project)
    assert order == ["norm-1", "softmax-1", "norm-3", "norm-2", "softmax-2"]


def test_cases_beyond_the_time_are_counted(case, project):
    for jobs in (0, 1):
        results, counts = explained(case, [failed("a"), failed("b")], seconds=1e-9, jobs=jobs, project=project)
        assert [result.diagnosis for result in results] == [None, None]
        assert (counts.diagnosed, counts.not_reached) == (0, 2)


def test_the_seed_is_that_of_the_worst_finding_that_has_one(case, project):
    of_seed = Finding(Reason.REGRESSED, "", "out", "max_abs_error", seed=1, ratio=2.0)
    fresh = Finding(Reason.REGRESSED, "", "out", "rms_error", seed=7_000_001, ratio=3.0)
    two = Verdict(Status.FAILED, Reason.REGRESSED, "", (fresh, of_seed))
    results, _ = explained(case, [failed("a", verdict=two), failed("b")], project=project)
    assert [result.diagnosis.seed for result in results] == [1, 0]
    assert [each.seed for each in results[0].outcome.comparisons] == [0, 1], "the fresh seed is none of the case's own"
    only = replace(results[1].outcome, comparisons=(comparison(3, 1.0, 1.0),))
    results, _ = explained(case, [replace(failed("b"), outcome=only)], project=project)
    assert results[0].diagnosis.seed == 3


def test_the_accepted_version_is_the_one_that_judged(case, project):
    judged = PairedRun(6, True, judged=True, commit="c0ffee")
    fell_back = replace(judged, judged=False, problem="it could not run")
    new = failed("new", baseline=None)
    results, _ = explained(case, [failed("a", paired=judged), failed("b", paired=fell_back), new], project=project)
    given = [result.diagnosis.causes[0].options["accepted"] for result in results]
    # The project is no repository, so that git knows no commit of a baseline.
    assert given == ["c0ffee", "None", "None"]


def test_larger_cases_get_the_unit_cases_that_changed_the_largest_loss_first(case, project):
    model = failed("model", 9.0, tier="model", id="model/run/model")
    step = failed("step", 8.0, tier="integration", id="integration/step/step")
    within = passed("within", verdict=Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE))
    by_test = failed("by-test", definition=f"{TEST_DEFINED_PREFIX}1:d")
    every = [within, failed("small", 1.5), passed(), failed("large", 4.0), crashed(), by_test, model, step]
    results, _ = explained(case, every, project=project)
    units = {
        result.name: [each.case for each in result.diagnosis.explained_by] for result in results if result.diagnosis
    }
    changed = [each.id for name in ("large", "small", "within") for each in every if each.name == name]
    assert units == {"model": changed, "step": changed, "large": [], "small": []}


def test_each_case_is_diagnosed_in_a_worker_and_a_bad_one_costs_only_itself(case, project):
    names = ["raise", "fine", "crash", "nan", "also-fine"]
    results, counts = explained(
        case, [failed(name, 9.0 - place) for place, name in enumerate(names)], goes_wrong, jobs=2, project=project
    )
    by_name = {result.name: result.diagnosis for result in results}
    assert [by_name[name].status for name in names] == ["failed", "found", "failed", "failed", "found"]
    assert by_name["raise"].problem == "ValueError: no such base"
    assert by_name["crash"].problem == "exited with code 5"
    assert "remaining" in by_name["nan"].problem
    assert not any(each.out_of_time for each in by_name.values())
    options = by_name["fine"].causes[0].options
    assert (options["project"], options["chain"]) == (project.name, "cpu-test,generic")
    assert (counts.diagnosed, counts.not_reached) == (5, 0)


def test_a_case_that_hangs_is_killed_at_its_time(case, project):
    results, counts = explained(case, [failed("hang")], goes_wrong, seconds=1.5, jobs=1, project=project)
    (diagnosis,) = (result.diagnosis for result in results)
    assert (diagnosis.status, diagnosis.out_of_time, diagnosis.problem) == ("failed", True, "")
    assert (counts.diagnosed, counts.not_reached) == (1, 0)


def test_a_case_without_its_definition_is_not_reached(project):
    """A pytest session whose suites can no longer be read has results without cases."""
    plan = DiagnosisPlan(project, CHAIN, 10.0, LocalPlace(0), None)
    results = (failed("a"),)
    assert explain_failures([], results, plan, found, None) == (results, None)
    assert count_diagnoses(results) == (0, 1)


@pytest.mark.parametrize("diagnosed", [0, 1, 2])
def test_the_counts_follow_from_the_results(diagnosed):
    some = [Diagnosis(case="x", status="unknown")] * diagnosed + [None] * (2 - diagnosed)
    results = [passed(), *(failed(str(number), diagnosis=each) for number, each in enumerate(some)), proposed()]
    assert count_diagnoses(results) == (diagnosed, 2 - diagnosed)
