import contextlib
import io
import locale
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import precreg
from precreg.subject.surroundings import SettingsRestored, SurroundingsRestored, user_crash_report


def seen():
    """Return what a later computation could notice."""
    return {
        "filters": list(warnings.filters),
        "errors": np.geterr(),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "folder": os.getcwd(),
        "variables": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
    }


def _delete_folder(folder):
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    folder.rmdir()


CHANGES = {
    "warnings": lambda _: warnings.simplefilter("error"),
    "numpy's errors": lambda _: np.seterr(all="raise"),
    "no stdout": lambda _: setattr(sys, "stdout", None),
    "another stderr": lambda _: setattr(sys, "stderr", io.StringIO()),
    "no stdin": lambda _: setattr(sys, "stdin", None),
    "folder": os.chdir,
    "a folder that is deleted": _delete_folder,
    "locale": lambda _: locale.setlocale(locale.LC_NUMERIC, "C.UTF-8"),
    "recursion": lambda _: sys.setrecursionlimit(sys.getrecursionlimit() + 100),
}
VARIABLES = {
    "new variable": lambda _: os.environ.update(PRECREG_TEST_NEW="1"),
    "changed variable": lambda _: os.environ.update(PRECREG_TEST="2"),
    "removed variable": lambda _: os.environ.pop("PRECREG_TEST"),
}


@pytest.mark.parametrize("change", [*CHANGES.values(), *VARIABLES.values()], ids=[*CHANGES, *VARIABLES])
def test_a_computation_leaves_its_process_as_it_was(change, tmp_path, monkeypatch):
    monkeypatch.setenv("PRECREG_TEST", "1")
    before = seen()
    with SurroundingsRestored():
        change(tmp_path)
    assert seen() == before


def test_one_that_fails_too():
    before = seen()
    with contextlib.suppress(ZeroDivisionError), SurroundingsRestored():
        np.seterr(all="raise")
        os.environ["PRECREG_TEST_NEW"] = "1"
        raise ZeroDivisionError
    assert seen() == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_import_keeps_its_variables_alone(change, tmp_path, monkeypatch):
    monkeypatch.setenv("PRECREG_TEST", "1")
    before = seen()
    with SettingsRestored():
        change(tmp_path)
        os.environ["PRECREG_TEST"] = "2"
    assert seen() == before | {"variables": dict(os.environ, PRECREG_TEST="2")}


def test_numpy_ignores_what_overflows_whoever_asked_for_more():
    with np.errstate(all="raise"), SurroundingsRestored():
        assert set(np.geterr().values()) == {"ignore"}


def test_variables_are_put_back_for_child_processes_too():
    with SurroundingsRestored():
        os.environ["PRECREG_TEST_NEW"] = "1"
    assert os.popen("echo [$PRECREG_TEST_NEW]").read() == "[]\n"


def test_a_forked_child_does_not_come_back():
    readable, writable = os.pipe()
    with SurroundingsRestored():
        child = os.fork()
    os.write(writable, b"back ")
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(readable, 100) == b"back "


def test_a_crash_report_keeps_what_was_printed_and_the_frames_of_the_user():
    ours, lazily = Path(precreg.__file__).parent, "<frozen importlib._bootstrap>"
    report = (
        "printed before\nFatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "/home/ada/kernels.py", line 7 in crash\n'
        f'  File "{ours}/run/case_run.py", line 261 in _run_subject\n  File "{lazily}", line 241 in load\n'
        '  File "<string>", line 9 in <module>\n\nExtension modules: numpy._core, yaml (total: 2)\n'
    )
    kept = report.split(f'  File "{ours}')[0] + "\n"
    assert user_crash_report(report) == kept
    assert user_crash_report("Extension modules: of a user\n") == "Extension modules: of a user\n"
