"""The record of a run around its cases, and what hand-written tests add to it."""

import pytest
from msgspec.structs import replace

from precreg.baseline.origin import prune_baselines, sort_proposals
from precreg.baseline.proposal import update_proposals
from precreg.baseline.proposal_file import pending_proposals
from precreg.baseline.review import accept_proposals
from precreg.baseline.store import Baselines
from precreg.errors import UserError
from precreg.report.findings import add_messages
from precreg.run import session as composer
from precreg.run.orphans import add_orphans
from precreg.run.pipeline import CaseJudge
from precreg.run.record import begin_record, finish_record
from precreg.run.request import RunOutputs, RunRequest
from precreg.run.session import Session, run_session
from precreg.suite.expand import load_cases
from precreg.suite.select import Selection
from precreg.types.record import TEST_DEFINED_PREFIX
from precreg.types.verdict import Reason, Status
from precreg.types.warning import Orphan, UnwritableFolder
from tests.e2e.command import repository, with_suite

SUITE = """suite: s
subject: k:same
reference: k:same
matrix: {n: [16, 17, 18]}
inputs: {x: {shape: $n, dtype: float32, normal: {}}}
"""
HERE = {"environ": {}, "reason": "it is right", "author": "Ada", "date": "2026-11-21"}


def ran(folder, cases):
    judge = CaseJudge(folder, environment="cpu-test", ci=False)
    return [judge.run(case) for case in cases]


def by_hand(case):
    """Return a case as a hand-written test would define it."""
    own = f"{TEST_DEFINED_PREFIX}1:0"
    return replace(case, id="unit/t/test", baseline_id="unit/t/test", definition=own, baseline_definition=own)


def test_a_record_is_begun_with_what_is_known_and_finished_with_what_came(tmp_path):
    folder = repository(with_suite(tmp_path, SUITE))
    cases = load_cases(folder)
    begun = begin_record(folder, {"tiers": (), "suites": ("s",)}, environment="cpu-test", ci=True)
    assert (begun.selection, begun.ci, begun.environment.label) == ({"suites": ("s",)}, True, "cpu-test")
    assert begun.git.branch == "main"
    results = ran(folder, cases)
    noticed = [UnwritableFolder("x")]
    record = finish_record(begun, cases, reversed(results), project=folder, duration_s=1.23456, noticed=noticed)
    assert [result.id for result in record.results] == [case.id for case in cases]
    assert (record.duration_s, record.warnings[0], record.exit_code) == (1.235, UnwritableFolder("x"), 2)
    assert finish_record(begun, (), (), project=folder, duration_s=0).exit_code == 0


def test_what_a_test_defines_needs_no_case_to_be_recorded(tmp_path):
    folder = with_suite(tmp_path, SUITE)
    case = by_hand(load_cases(folder)[0])
    result = ran(folder, [replace(case, layers=load_cases(folder)[0].layers)])[0]
    record = finish_record(
        begin_record(folder, {}, environment=None, ci=False), (), [result], project=folder, duration_s=0
    )
    assert record.results == (result,)
    assert result.verdict.reason is Reason.NEW


def test_the_baselines_and_proposals_of_tests_are_no_orphans(tmp_path):
    folder = with_suite(tmp_path, SUITE)
    cases = load_cases(folder)
    test = by_hand(cases[0])
    results = ran(folder, [*cases, test])
    update_proposals(folder, results, CaseJudge(folder, environment="cpu-test", ci=False).environment, None)
    assert list(sort_proposals(folder, {case.id: case for case in cases[:2]}).gone) == [cases[2].id]
    accept_proposals(folder, ["*"], known={case.id for case in cases}, **HERE)
    again = ran(folder, cases[:2])
    record = finish_record(
        begin_record(folder, {}, environment="cpu-test", ci=False), cases[:2], again, project=folder, duration_s=0
    )
    orphans = add_orphans(record, cases[:2], Baselines(folder)).orphans
    assert orphans == (Orphan(cases[2].id, "baselines/generic/unit/s.json"),)
    pruned = prune_baselines(folder, {case.id: case.definition for case in cases[:2]}, environ={})
    assert [place.id for place in pruned.removed] == [cases[2].id]
    assert ran(folder, [test])[0].verdict.status is Status.PASSED


def test_a_record_has_the_studies_of_the_cases_that_ran(tmp_path):
    study = "study: {growth: {over: n}}\n"
    folder = with_suite(with_suite(tmp_path, SUITE + study), SUITE.replace("suite: s", "suite: r") + study, name="r")
    cases = load_cases(with_suite(folder, SUITE.replace("suite: s", "suite: without"), name="without"))
    begun = begin_record(folder, {}, environment="cpu-test", ci=False)
    found = finish_record(begun, iter(cases), (), project=folder, duration_s=0).studies
    assert [one.suite for one in found] == ["unit/r", "unit/s"]
    assert [one.suite for one in finish_record(begun, cases[-4:], (), project=folder, duration_s=0).studies] == [
        "unit/s"
    ]


def explain(case, project, *, seed, chain, seconds, accepted):
    raise AssertionError("no case failed")


OUTPUTS = RunOutputs(
    explain=explain,
    add_messages=add_messages,
    make_folder=lambda folder: folder.mkdir(exist_ok=True),
    write=lambda record, folder, dialect: [],
)


def composed(folder, every=None, **options):
    """Run a request in one call; return the record, and everything that was shown of it."""
    shown = []
    request = RunRequest(project=folder, environment="cpu-test", output=folder / "reports", jobs=0, **options)
    record = run_session(
        request,
        OUTPUTS,
        progress=lambda results, total: iter(results),
        summarize=lambda record, written: shown.append((record, written)),
        announce=lambda announcement: None,
        every=every,
    )
    return record, shown


def test_a_request_becomes_a_record_and_proposals(tmp_path):
    folder = with_suite(tmp_path, SUITE)
    record, shown = composed(folder)
    assert shown == [(record, [])]
    assert {result.verdict.reason for result in record.results} == {Reason.NEW}
    words = "no baseline in cpu-test, cpu, generic"
    assert {result.verdict.message for result in record.results} == {words}
    assert {proposal.message for proposal in pending_proposals(folder).values()} == {words}
    assert set(pending_proposals(folder)) == {result.id for result in record.results}
    some, _ = composed(folder, selection=Selection(patterns=("n=16",)))
    assert [result.id for result in some.results] == [record.results[0].id]
    assert some.selection == {"patterns": ("n=16",)}


def test_cases_that_run_one_by_one_give_the_same_record(tmp_path):
    folder = with_suite(tmp_path, SUITE)
    at_once, _ = composed(folder)
    session = Session(RunRequest(project=folder, environment="cpu-test"), OUTPUTS)
    cases = load_cases(folder)
    session.begin({})
    session.add_cumulative_losses(cases)
    results = [session.judge.run(case) for case in cases]
    one_by_one = session.finish(cases, results, folder=folder, summarize=lambda *_: None, complete=True)

    def verdicts(record):
        return [(result.id, result.verdict, result.outcome.execution.outputs) for result in record.results]

    assert verdicts(one_by_one) == verdicts(at_once)
    assert one_by_one.exit_code == at_once.exit_code


def test_the_summary_is_shown_if_proposals_cannot_be_written(tmp_path, monkeypatch):
    folder = with_suite(tmp_path, SUITE)

    def refuse(*_):
        raise UserError("not-writable", "expected a disk with room")

    monkeypatch.setattr(composer, "update_proposals", refuse)
    shown = []
    session = Session(RunRequest(project=folder), OUTPUTS)
    session.begin({})
    with pytest.raises(UserError, match="a disk with room"):
        session.finish((), (), folder=folder, summarize=lambda *both: shown.append(both), complete=False)
    assert len(shown) == 1
