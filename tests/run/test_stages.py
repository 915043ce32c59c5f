"""A crash says what the case was doing."""

import os

import pytest
from msgspec.structs import replace

from precreg.run.workers.pool import run_in_workers
from precreg.run.workers.worker import CaseTask
from precreg.subject.stage import Activity, Stage, enter_stage, mark_import, read_stage, share_stage, stage_file
from precreg.types.case import Computation
from precreg.types.verdict import Reason

DYING = """
import os, sys
COUNT = 0


def at_the_third(x):
    global COUNT
    COUNT += 1
    if COUNT == 6:
        print("last words", file=sys.stderr)
        os._exit(7)
    return x


def at_once(x):
    os._exit(7)


def same(x):
    return x
"""


@pytest.fixture
def crash(project, case):
    (project / "suites" / "unit" / "dying.py").write_text(DYING)
    (project / "suites" / "unit" / "dying_at_import.py").write_text("import os\nos._exit(7)\n")

    def crash(subject, oracle="dying:same", **fields):
        made = replace(case(**fields), subject=Computation("python", subject), oracle=Computation("python", oracle))
        (outcome,) = run_in_workers([made], CaseTask(project, ("cpu",)), 1)
        return outcome.execution.failure

    return crash


@pytest.mark.parametrize(
    ("subject", "fields", "doing"),
    [
        ("dying:at_once", {}, "running the subject, seed 0"),
        ("dying:at_the_third", {"seeds": 8}, "running the subject, seed 5"),
        ("dying:at_the_third", {"seeds": 2, "repeats": 4}, "running the subject, seed 1, repeat 2"),
        ("dying_at_import:f", {}, "importing the module, before running the subject, seed 0"),
        ("dying:same", {"benchmark": Computation("python", "dying:at_once")}, "running the benchmark, seed 0"),
    ],
)
def test_a_crash_says_what_the_case_was_doing(crash, subject, fields, doing):
    failure = crash(subject, **fields)
    assert (failure.reason, failure.message) == (Reason.CRASHED, f"exited with code 7 while {doing}")


@pytest.mark.parametrize(
    ("oracle", "fields", "doing"),
    [
        ("dying:at_once", {}, "running the reference, seed 0"),
        ("dying:at_the_third", {"seeds": 8}, "running the reference, seed 5"),
        ("dying_at_import:f", {}, "importing the module, before running the reference, seed 0"),
        ("dying:at_once", {"role": "golden"}, "running the golden, seed 0"),
    ],
)
def test_a_crash_of_the_process_of_references_says_what_it_was_doing(crash, oracle, fields, doing):
    failure = crash("dying:same", oracle, **fields)
    assert failure.reason is Reason.REFERENCE_ERROR
    assert failure.message == f"its process exited with code 7 while {doing}"


def test_a_crash_has_the_last_lines_of_standard_error(crash):
    assert crash("dying:at_the_third", seeds=8).detail == "last words\n"


@pytest.fixture
def shared():
    descriptor = stage_file()
    share_stage(os.dup(descriptor))
    yield descriptor
    enter_stage(Activity.OTHER)
    os.close(descriptor)


def test_a_stage_is_read_as_it_was_written(shared):
    assert read_stage(shared) is None
    enter_stage(Activity.SUBJECT, 2**40, 3)
    assert read_stage(shared) == Stage(Activity.SUBJECT, False, 2**40, 3)
    mark_import(True)
    assert read_stage(shared) == Stage(Activity.SUBJECT, True, 2**40, 3)
    enter_stage(Activity.MEASURING, 1)
    assert read_stage(shared) == Stage(Activity.MEASURING, False, 1, 0)
    enter_stage(Activity.OTHER)
    assert read_stage(shared) is None


@pytest.mark.parametrize("content", [b"\xff" * 14, b"\x02\x02" + bytes(12), b"\x63" + bytes(13)])
def test_bytes_that_a_subject_wrote_are_no_stage(shared, content):
    os.pwrite(shared, content, 0)
    assert read_stage(shared) is None


def test_nobody_cuts_off_a_stage(shared):
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(shared, 0)
    enter_stage(Activity.DRAWING, 1)
