"""A subject that attacks the processes of the run harms its own case, and nothing outlives the run."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from precreg.run.workers import server
from precreg.run.workers.pool import run_in_workers
from precreg.run.workers.worker import CaseTask
from precreg.types.case import Computation
from precreg.types.verdict import Reason
from tests.e2e.command import PATIENCE_S
from tests.processes import children_of, processes_with

CHAIN = ("cpu-x86_64", "cpu", "generic")
HOSTILE = Path(__file__).with_name("hostile.py")


def hostile(function):
    return Computation("python", f"hostile:{function}")


@pytest.fixture
def hostile_case(project, case):
    """Make a case of a hostile subject, whose reference gives the same."""
    shutil.copy(HOSTILE, project / "suites" / "unit" / "hostile.py")

    def make(function, name="bad", **fields):
        return replace(case(name=name, **fields), subject=hostile(function), oracle=hostile("same"))

    return make


def run(project, cases, jobs=1):
    outcomes = list(run_in_workers(cases, CaseTask(project, CHAIN), jobs))
    assert sorted(outcome.case for outcome in outcomes) == sorted(case.id for case in cases)
    by_id = {outcome.case: outcome for outcome in outcomes}
    return [by_id[case.id] for case in cases]


CRASHES = {
    "huge_length": "sent a message of 4294967295 bytes, and the limit is 268435456",
    "garbage": "sent bytes that are no message",
    "text": "sent bytes that are no message",
    "zeros": "sent bytes that are no message",
    "ready_again": "sent a message that answers nothing",
    "another_shape": "sent an outcome that cannot be read",
    "no_msgpack": "sent an outcome that cannot be read",
    "very_deep": "sent an outcome that cannot be read",
    "surrogates": "sent an outcome that cannot be read",
    "huge_array": "sent an outcome that cannot be read",
    "no_kind": "sent a message that answers nothing",
    "answer_of_another": "gave an outcome of unit/s/other in its place",
    "flood": "sent bytes that are no message",
    "flood_of_messages": "gave an outcome of unit/s/other in its place",
    "flood_of_a_thread": "sent bytes that are no message",
    "junk_to_every_descriptor": "sent bytes that are no message",
    "numbers_to_every_descriptor": "sent bytes that are no message",
    "truncates_every_descriptor": "killed by SIGKILL",
    "stops_the_server_and_dies": "exited with code 9",
    "kills_the_server": "lost the server of its process",
    "ends_the_server": "lost the server of its process",
    "ignores_children": "killed by SIGTERM",
    "closes_its_connection": "closed its connection",
    "shuts_its_connection_down": "closed its connection",
    "closes_every_descriptor": "closed its connection",
}
TIMEOUTS = ["length_without_a_message", "half_a_header", "one_byte_at_a_time", "stops", "stops_its_group"]


@pytest.mark.parametrize(
    ("subject", "jobs"),
    [*((subject, 2) for subject in CRASHES), *((subject, 1) for subject in ("answer_of_another", "kills_the_server"))],
)
def test_an_attack_is_the_crash_of_its_case(project, hostile_case, case, subject, jobs):
    cases = [case(name="before"), hostile_case(subject), case(name="after"), case(name="last")]
    before, bad, *after = run(project, cases, jobs)
    assert bad.execution.failure.reason is Reason.CRASHED
    assert bad.execution.failure.message.startswith(CRASHES[subject])
    assert [outcome.execution.failure for outcome in (before, *after)] == [None] * 3


@pytest.mark.parametrize("subject", [*TIMEOUTS, "length_without_a_message_and_on", "stops_the_server"])
def test_an_attack_lasts_no_longer_than_the_timeout(project, hostile_case, case, subject):
    cases = [case(name="before"), hostile_case(subject, timeout_s=1.0), case(name="after")]
    before, bad, after = run(project, cases)
    assert bad.execution.failure.reason is Reason.TIMED_OUT
    assert bad.execution.failure.message.startswith("exceeded its timeout of 1 s while ")
    assert before.execution.failure is after.execution.failure is None


# A thread that a case starts makes another worker run the next case. One that an import starts stays for the cases of
# the module, and attacks the second of them.
LATE = """
import os, threading, time
from hostile import connection, wait, write

def attack():
    while not os.path.exists({file!r}):
        time.sleep(0.001)
    {attack}

if not os.path.exists({file!r}):
    threading.Thread(target=attack, daemon=True).start()

def same(x):
    return x

def lets_the_thread_attack(x):
    with open({file!r}, "a") as stream:
        stream.write(f"{{os.getpid()}}\\n")
    with open({file!r}) as stream:
        if len(set(stream)) == 1:
            wait()
    return x
"""


@pytest.mark.parametrize("attack", ['write(b"late")', "os.close(connection())"])
def test_the_case_after_an_attack_runs_again_in_another_process(project, hostile_case, tmp_path, attack):
    file = tmp_path / "started"
    (project / "suites" / "unit" / "late.py").write_text(LATE.format(file=str(file), attack=attack))
    cases = [
        replace(hostile_case("same"), subject=Computation("python", "late:same")),
        replace(hostile_case("same", name="next"), subject=Computation("python", "late:lets_the_thread_attack")),
    ]
    assert [outcome.execution.failure for outcome in run(project, cases)] == [None, None]
    assert len(set(file.read_text().split())) == 2


LEAVERS = ["daemon", "new_session", "moves_to_a_group", "shell_in_background", "generations"]


@pytest.mark.parametrize("subject", LEAVERS)
def test_processes_that_a_case_leaves_are_named_and_ended(project, hostile_case, case, tmp_path, subject):
    params = {"file": str(tmp_path / "pid")}
    cases = [case(name="before"), hostile_case(subject, params=params), case(name="after")]
    outcomes = run(project, cases)
    assert [outcome.execution.failure for outcome in outcomes] == [None] * 3
    before, bad, after = [outcome.execution.left for outcome in outcomes]
    assert before == after == ()
    (change,) = bad
    assert (change.kind, change.remedy) == ("processes", "replaced")
    expected = {"shell_in_background": "sleep 1000", "new_session": "python"}.get(subject, "a fork of this process")
    assert expected in change.names[0]


@pytest.mark.parametrize(
    "subject", [*LEAVERS, "session_that_hangs", "session_that_dies", "generations_without_a_server"]
)
def test_no_process_outlives_the_run(project, hostile_case, tmp_path, subject):
    server._stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECREG_TEST_MARK", str(tmp_path))
        params = {"file": str(tmp_path / "pid")}
        run(project, [hostile_case(subject, params=params, timeout_s=1.0 if "hangs" in subject else 300.0)])
        if subject == "generations_without_a_server":
            server._running.process.wait(PATIENCE_S)
        own = {each for keeper in children_of(os.getpid()) for each in (keeper, *children_of(keeper))}
        left = set(processes_with(f"PRECREG_TEST_MARK={tmp_path}")) - own
        assert left == set()
        server._stop()
