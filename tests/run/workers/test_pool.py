import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from precreg.environment.machine import THREAD_VARIABLES
from precreg.errors import UserError
from precreg.run.workers.pool import run_in_workers
from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.types.case import Computation
from precreg.types.outcome import Execution, Outcome
from precreg.types.verdict import Reason
from tests.e2e.command import PATIENCE_S
from tests.processes import is_alive, wait_until, workers_of

CHAIN = ("cpu-x86_64", "cpu", "generic")
RUNNING = " while running the subject, seed 0"


@pytest.fixture
def run(project):
    def run(cases, jobs=1):
        outcomes = {outcome.case: outcome for outcome in run_in_workers(cases, CaseTask(project, CHAIN), jobs)}
        assert set(outcomes) == {case.id for case in cases}
        return [outcomes[case.id] for case in cases]

    return run


def failure_of(outcome):
    return outcome.execution.failure


@pytest.mark.parametrize(
    ("subject", "reason", "message"),
    [
        ("raises", Reason.SUBJECT_ERROR, "ValueError: not like this"),
        ("exits", Reason.SUBJECT_ERROR, "exited with 3"),
        ("returns_none", Reason.SUBJECT_ERROR, "expected an array but got None for output out"),
        ("raises_its_own", Reason.SUBJECT_ERROR, "kernels.OwnError: of its own"),
        ("interrupts_itself", Reason.SUBJECT_ERROR, "KeyboardInterrupt"),
        ("interrupts_by_signal", Reason.SUBJECT_ERROR, "KeyboardInterrupt"),
        ("names_badly", Reason.SUBJECT_ERROR, r"expected output names of Unicode characters but got name='\ud800'"),
        ("gives_the_outcome_of_another", Reason.CRASHED, f"gave an outcome of unit/s/other in its place{RUNNING}"),
        ("exits_at_once", Reason.CRASHED, f"exited with code 5{RUNNING}"),
        ("is_killed", Reason.CRASHED, f"killed by SIGKILL{RUNNING}"),
        ("segfaults", Reason.CRASHED, f"killed by SIGSEGV{RUNNING}"),
        ("hangs", Reason.TIMED_OUT, f"exceeded its timeout of 1 s{RUNNING}"),
        ("hangs_and_ignores_sigterm", Reason.TIMED_OUT, f"exceeded its timeout of 1 s{RUNNING}"),
    ],
)
def test_a_subject_that_goes_wrong_costs_its_own_case(run, case, subject, reason, message):
    cases = [case(name="before"), case(subject, name="bad", timeout_s=1.0), case(name="after")]
    before, bad, after = run(cases)
    assert (failure_of(bad).reason, failure_of(bad).message) == (reason, message)
    assert failure_of(before) is failure_of(after) is None
    assert after.comparisons


def test_a_forked_child_gives_no_outcomes(project, case):
    cases = [case("forks_and_comes_back", seeds=3, name=str(number)) for number in range(20)]
    outcomes = list(run_in_workers(cases, CaseTask(project, CHAIN), 1))
    assert [outcome.case for outcome in outcomes] == [case.id for case in cases]
    assert [failure_of(outcome) for outcome in outcomes] == [None] * 20


@pytest.mark.parametrize("subject", ["changes_its_process", "closes_the_descriptors"])
def test_what_a_subject_changes_of_its_process_reaches_nobody_else(run, case, subject):
    cases = [case(subject, "needs_its_process_unchanged", name="a"), case("needs_its_process_unchanged", name="b")]
    assert [failure_of(outcome) for outcome in run(cases)] == [None, None]


def test_a_thread_that_was_left_turns_no_crash_into_a_timeout(run, case):
    _, crashed = run([case("leaves_a_thread", name="a"), case("exits_at_once", name="b", timeout_s=4.0)])
    assert failure_of(crashed).reason is Reason.CRASHED


def processes(outcomes):
    """Number the processes that the cases ran in, in the order of the cases."""
    digests = [outcome.execution.outputs["out"] for outcome in outcomes]
    known = list(dict.fromkeys(digests))
    return [known.index(digest) for digest in digests]


def test_a_worker_is_replaced_only_after_a_case_that_changed_its_program(run, case):
    names = ["process_id", "sets_an_alarm", "patches_numpy", "process_id", "process_id"]
    outcomes = run([case(name, name, name=str(number)) for number, name in enumerate(names)])
    assert processes(outcomes) == [0, 0, 0, 1, 1]
    left = [[(change.kind, change.remedy) for change in outcome.execution.left] for outcome in outcomes]
    assert left == [[], [("timers", "repaired")], [("functions", "replaced")], [], []]


def test_a_worker_goes_on_with_the_module_whose_import_changed_its_program(run, case, project):
    text = "import decimal, os\n{}def pid(x):\n    return float(os.getpid())\n"
    for module, code in (("precise", "decimal.getcontext().prec = 50\n"), ("plain", "")):
        (project / "suites" / "unit" / f"{module}.py").write_text(text.format(code))
    modules = ["plain", "precise", "precise", "plain", "plain", "precise"]
    pids = [Computation("python", f"{module}:pid") for module in modules]
    outcomes = run([replace(case(name=str(number)), subject=pid, oracle=pid) for number, pid in enumerate(pids)])
    assert processes(outcomes) == [0, 0, 0, 1, 1, 1]
    kinds = [[change.kind for change in outcome.execution.left] for outcome in outcomes]
    assert kinds == [[], ["decimal_context"], ["decimal_context"], [], [], ["decimal_context"]]


def test_two_hundred_cases_with_three_crashes_lose_nothing(run, case):
    cases = [
        case("crashes_at", "crashes_at_nothing", name=f"{number:03}", params={"number": number})
        for number in range(200)
    ]
    outcomes = run(cases, jobs=2)
    crashed = [number for number, outcome in enumerate(outcomes) if failure_of(outcome) is not None]
    assert crashed == [20, 21, 150]
    assert {failure_of(outcomes[number]).reason for number in crashed} == {Reason.CRASHED}


def without_time(outcome: Outcome) -> Outcome:
    """Leave out the time, and the files of oracles, which only workers note."""
    return replace(outcome, execution=replace(outcome.execution, duration_s=0.0, oracle_files=()))


def test_the_outcomes_are_the_same_for_any_number_of_jobs(run, case, project):
    pairs = [("double", "double_exactly"), ("two_outputs", "two_outputs"), ("returns_none", "double_exactly")]
    cases = [
        case(subject, reference, name=f"{subject}-{dtype}", dtype=dtype, seeds=2, repeats=2)
        for subject, reference in pairs
        for dtype in ("float16", "float32", "float64")
    ]
    alone = [without_time(outcome) for outcome in run_in_process(cases, CaseTask(project, CHAIN))]
    for jobs in (1, 2, 4):
        assert [without_time(outcome) for outcome in run(cases, jobs)] == alone


def test_the_end_of_what_was_printed_is_kept_with_the_failure(run, case, capfd):
    subjects = ("raises", "prints_a_megabyte", "exits_at_once", "hangs")
    cases = [case(subject, name=subject, timeout_s=1.0) for subject in subjects]
    details = [failure_of(outcome).detail for outcome in run(cases)]
    for detail, end in zip(details, ("shortly before\n", "the end\n", "last words\n", "waiting\n"), strict=True):
        assert detail.endswith(end)
        assert len(detail) < 10_000
    assert capfd.readouterr() == ("", "")


def test_what_is_printed_never_reaches_our_output(run, case, capfd):
    (outcome,) = run([case("prints")])
    assert failure_of(outcome) is None
    assert capfd.readouterr() == ("", "")


def test_what_a_case_printed_is_not_told_of_the_next(run, case):
    _, crashed = run([case("prints", name="a"), case("is_killed", name="b")])
    assert failure_of(crashed).detail == ""


def test_a_segfault_says_where(run, case):
    (outcome,) = run([case("segfaults")])
    assert "in segfaults" in failure_of(outcome).detail


@pytest.mark.parametrize("subject", ["starts_a_child", "starts_a_child_and_hangs"])
def test_children_of_a_subject_do_not_outlive_the_run(run, case, tmp_path, subject):
    pid_file = tmp_path / "pid"
    run([case(subject, "starts_nothing", params={"pid_file": str(pid_file)}, timeout_s=1.0)])
    assert wait_until(lambda: not is_alive(int(pid_file.read_text())))


def test_a_child_that_holds_the_connection_delays_nobody(run, case):
    bad, after = run([case("forks_and_dies", name="bad"), case(name="after")])
    assert failure_of(bad).message == "exited with code 6 while running the subject, seed 0"
    assert failure_of(after) is None


def test_no_process_is_left(run, case, project):
    run([case(name=str(number)) for number in range(4)], jobs=2)
    assert workers_of(os.getpid()) == []
    cases = [case(name="a"), case("hangs", name="b"), case("hangs", name="c")]
    outcomes = run_in_workers(cases, CaseTask(project, CHAIN), 2)
    next(outcomes)
    assert workers_of(os.getpid()) != []
    outcomes.close()
    assert workers_of(os.getpid()) == []


def test_slow_cases_do_not_wait_behind_each_other(run, case):
    cases = [case("meets_three_others", "double_exactly", name=str(number)) for number in range(4)]
    outcomes = run(cases, jobs=4)
    assert [outcome.execution.failure for outcome in outcomes] == [None] * 4


SCRIPT = """
import sys
from pathlib import Path
from precreg.run.workers.worker import CaseTask
from precreg.run.workers.pool import run_in_workers
from tests.run.conftest import case_of

cases = [case_of(*{arguments}, name=str(number)) for number in range({count})]
for outcome in run_in_workers(cases, CaseTask(Path(sys.argv[1]), ("cpu",)), 2):
    print(outcome.case, outcome.execution.failure, flush=True)
"""


def start(project, count, *arguments, **environment):
    code = SCRIPT.format(arguments=arguments, count=count)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_do_not_outlive_their_parent(project, number):
    parent = start(project, 2, "hangs_and_ignores_sigterm")
    assert wait_until(lambda: len(workers_of(parent.pid)) == 2)
    workers = workers_of(parent.pid)
    parent.send_signal(number)
    assert parent.wait(10) != 0
    assert wait_until(lambda: not any(map(is_alive, workers)))
    parent.communicate()


def test_a_script_without_a_guard_can_run_cases(project):
    out, err = start(project, 3).communicate(timeout=PATIENCE_S)
    assert sorted(out.splitlines()) == ["unit/s/0 None", "unit/s/1 None", "unit/s/2 None"]
    assert err == ""


def test_blas_has_one_thread_in_workers_too(project, monkeypatch):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    out, _ = start(project, 1, "needs_one_thread").communicate(timeout=PATIENCE_S)
    assert out == "unit/s/0 None\n"


def test_workers_that_cannot_start_are_one_error(project, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "numpy.py").write_text("import os\nos._exit(9)\n")
    parent = start(project, 5, PYTHONPATH=str(tmp_path / "broken"))
    _, err = parent.communicate(timeout=PATIENCE_S)
    assert err.count("error[no-workers]") == 1


class DyingTask(CaseTask):
    def prepare(self):
        os.abort()


def test_a_worker_that_dies_at_its_start_is_not_started_again(project, case):
    with pytest.raises(UserError, match="expected a worker process to start but it killed by SIGABRT") as caught:
        list(run_in_workers([case()], DyingTask(project, CHAIN), 1))
    assert caught.value.slug == "no-workers"


def test_no_cases_need_no_workers(project):
    assert list(run_in_workers([], CaseTask(project, CHAIN), 2)) == []


def test_an_outcome_of_a_failure_has_no_facts(run, case):
    (outcome,) = run([case("is_killed")])
    assert outcome == Outcome("unit/s/case", "1:case", Execution(failure=failure_of(outcome)))


def test_a_timeout_may_be_longer_than_the_system_can_wait(run, case):
    (outcome,) = run([case(timeout_s=1e9)])
    assert outcome.execution.failure is None


EARLY = """
import os, signal, sys
from pathlib import Path
from precreg.run.workers import server
from precreg.run.workers.worker import CaseTask
from precreg.run.workers.pool import run_in_workers
from tests.run.conftest import case_of

server.start_fork_server()
os.kill(server._running.process.pid, signal.SIGINT)
for outcome in run_in_workers([case_of()], CaseTask(Path(sys.argv[1]), ("cpu",)), 1):
    print(outcome.case, outcome.execution.failure, flush=True)
"""


def test_an_interrupt_while_the_server_starts_is_left_to_the_parent(project):
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(project)], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.stdout, done.stderr) == ("unit/s/case None\n", "")


def test_cases_run_from_other_threads_too(project, case):
    with ThreadPoolExecutor(1) as threads:
        outcomes = threads.submit(lambda: list(run_in_workers([case()], CaseTask(project, CHAIN), 1))).result()
    assert [failure_of(outcome) for outcome in outcomes] == [None]
