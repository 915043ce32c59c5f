import os
import subprocess
import sys

import pytest

from precreg.arithmetic.identity import identities, identities_in_python, same_values, same_values_in_python
from precreg.arithmetic.processor_mode import (
    ORDINARY_MODE,
    describe_floating_point_mode,
    floating_point_mode,
    ordinary_mode,
)
from precreg.subject.health import watch_case_in_process
from precreg.subject.surroundings import SettingsRestored, take_left_modes
from tests.e2e.neighbours import hostile


@pytest.mark.parametrize("change", [hostile.ftz, hostile.daz, hostile.rounds_up, hostile.rounds_toward_zero])
def test_a_computation_leaves_the_floating_point_mode_as_it_was(change):
    take_left_modes()
    with SettingsRestored():
        change(None)
        left = floating_point_mode()
    assert (left == ORDINARY_MODE, floating_point_mode()) == (False, ORDINARY_MODE)
    assert take_left_modes() == {left}


def test_a_computation_begins_in_the_ordinary_mode_whatever_was_before():
    with ordinary_mode():
        hostile.rounds_down(None)
        with SettingsRestored():
            assert floating_point_mode() == ORDINARY_MODE


@pytest.mark.parametrize(
    ("change", "name"),
    [(hostile.rounds_up, "rounding up"), (hostile.rounds_down, "rounding down"), (hostile.ftz, "FTZ")],
)
def test_a_mode_is_named_by_what_differs(change, name):
    with ordinary_mode():
        change(None)
        assert describe_floating_point_mode(floating_point_mode()) == (name,)
    assert describe_floating_point_mode(ORDINARY_MODE) == ()


class EqualToAll:
    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize(
    ("take", "compare"),
    [(identities, same_values), (identities_in_python, same_values_in_python)],
    ids=["core", "python"],
)
def test_values_are_compared_by_identity(take, compare):
    first, second = object(), [1, 2]
    names = {"a": first, "b": second}
    pairs = [(names, take(names))]
    assert compare(pairs)
    assert compare([])
    for changed in (EqualToAll(), None):
        names["a"] = changed
        assert not compare(pairs)
    names["a"] = first
    assert compare(pairs)
    names["b"] = [1, 2]
    assert not compare(pairs)
    names["b"] = second
    names["c"] = first
    assert not compare(pairs)
    del names["c"], names["b"]
    assert not compare(pairs)


def test_a_watch_is_at_rest_between_cases_and_takes_what_others_changed():
    """pytest, and the code that calls precreg, may change the process between two cases."""
    for _ in range(2):
        with watch_case_in_process(is_first=True):
            pass
        before = os.umask(0o027)
        try:
            with watch_case_in_process(is_first=True):
                pass
            assert os.umask(0o027) == 0o027
        finally:
            os.umask(before)


def test_the_check_sees_nothing_where_a_case_changes_nothing():
    """It would name every case after an import of a library, or after a thread that has ended."""
    code = (
        "import precreg.run.case_run, threading\n"
        "from precreg.subject.health import watch_worker\n"
        "watch = watch_worker()\n"
        "for step in range(3):\n"
        "    watch.begin_case(())\n"
        "    import sqlite3, xml.dom.minidom, asyncio, concurrent.futures, numpy.polynomial, numpy.ma\n"
        "    thread = threading.Thread(target=int)\n"
        "    thread.start()\n"
        "    asyncio.run(asyncio.sleep(0))\n"
        "    with concurrent.futures.ThreadPoolExecutor(2) as pool:\n"
        "        list(pool.map(int, range(4)))\n"
        "    numpy.errstate(all='raise'), numpy.float32(1) / 3, __import__('json').dumps({})\n"
        "    assert watch.end_case() == (), watch.end_case()\n"
        "assert not watch.is_spoiled\n"
        "print('seen nothing')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("seen nothing\n", "")
