import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from precreg.run.journal import journal_header, resume_journal, start_journal
from precreg.run.pipeline import Plan, run_cases
from precreg.types.record import Environment
from tests.run.conftest import case_of

COUNT = 60
ENVIRONMENT = Environment("cpu-test", ("cpu-test", "cpu", "generic"), "12345678", {})
SCRIPT = """
import sys
from pathlib import Path
from tests.run.test_run import slow_cases, plan_of
from precreg.run.pipeline import run_cases

project, jobs = Path(sys.argv[1]), int(sys.argv[2])
plan = plan_of(project, jobs)
for outcome in run_cases(slow_cases(), plan):
    print(outcome.case, flush=True)
"""


def slow_cases():
    return [
        case_of("takes_a_moment", "crashes_at_nothing", name=f"{number:02}", params={"number": number})
        for number in range(COUNT)
    ]


def plan_of(project, jobs):
    journal = start_journal(project / ".precreg" / "journal.jsonl", journal_header(project, ENVIRONMENT))
    return Plan(project, ENVIRONMENT, jobs, journal)


def facts(outcome):
    return replace(outcome, execution=replace(outcome.execution, duration_s=0.0, oracle_files=()))


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_killed_run_loses_nothing_it_had_and_goes_on(project, jobs):
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(project), str(jobs)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    shown = [next(run.stdout).strip() for _ in range(5)]
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()

    journal, done = resume_journal(project / ".precreg" / "journal.jsonl", journal_header(project, ENVIRONMENT))
    assert set(shown) <= set(done)
    assert len(done) < COUNT
    found = list(run_cases(slow_cases(), Plan(project, ENVIRONMENT, jobs, journal, done)))
    journal.close()
    assert {outcome.case for outcome in found[: len(done)]} == set(done)
    assert sorted(outcome.case for outcome in found) == [case.id for case in slow_cases()]

    journal, all_done = resume_journal(project / ".precreg" / "journal.jsonl", journal_header(project, ENVIRONMENT))
    journal.close()
    assert all_done == {outcome.case: outcome for outcome in found}


def test_what_is_done_is_not_run_again(project):
    cases = [case_of(name="a"), case_of("raises", name="b")]
    plan = Plan(project, ENVIRONMENT)
    first = {outcome.case: outcome for outcome in run_cases(cases, plan)}
    fixed = [cases[0], case_of(name="b")]
    again = list(run_cases(fixed, replace(plan, done=first)))
    assert {outcome.case: outcome for outcome in again} == first


def test_a_case_that_was_defined_otherwise_is_run_again(project):
    plan = Plan(project, ENVIRONMENT)
    (before,) = run_cases([case_of("raises")], plan)
    redefined = replace(case_of(), definition="1:other")
    (after,) = run_cases([redefined], replace(plan, done={before.case: before}))
    assert after.definition == "1:other"
    assert after.execution.failure is None


def test_jobs_choose_the_processes(project):
    plan = Plan(project, ENVIRONMENT)
    (alone,) = run_cases([case_of()], plan)
    (apart,) = run_cases([case_of()], replace(plan, jobs=1))
    assert facts(alone) == facts(apart)


def test_a_finished_run_has_nothing_left(project):
    plan = plan_of(project, 0)
    done = {outcome.case: outcome for outcome in run_cases([case_of()], plan)}
    plan.journal.close()
    assert list(run_cases([case_of()], replace(plan, journal=None, jobs=2, done=done))) == list(done.values())
