"""Calls of a running program: through every name of the function, unchanged results, and problems that are counted."""

import importlib
import os
import sys
import threading
from functools import partial

import numpy as np
import pytest

import precreg
from precreg.errors import UserError
from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.storage.yaml_source import read_yaml
from precreg.suite.expand import load_cases

KERNELS = """\
import numpy as np


def softmax(x, axis=-1, *, scale=1.0, name=None):
    terms = np.exp((x - x.max(axis=axis, keepdims=True)) * x.dtype.type(scale))
    return terms / terms.sum(axis=axis, keepdims=True)


def halve(x):
    x /= 2
    return {"half": x, "count": np.float32(1)}


def fail(x):
    raise ArithmeticError("as ever")


def spread(*arrays):
    return arrays[0]


def reduce_over(x, axes):
    return x.sum(axis=tuple(axes))


def pick(x, key):
    return x
"""
USER = "from captured_kernels import softmax\n\n\ndef attend(x):\n    return softmax(x, scale=0.5)\n"
CHAIN = ("cpu-x86_64", "cpu", "generic")
ONES = np.ones((2, 3), np.float32)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Modules of a project that is the current folder, imported as a program imports them."""
    (tmp_path / "captured_kernels.py").write_text(KERNELS)
    (tmp_path / "captured_user.py").write_text(USER)
    (tmp_path / "suites").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module("captured_kernels"), importlib.import_module("captured_user")
    for name in ("captured_kernels", "captured_user"):
        sys.modules.pop(name, None)


def suite_of(project, name="softmax"):
    path = project / "suites/unit" / f"{name}.yaml"
    return read_yaml(path, path.name).data


def failures(project):
    outcomes = run_in_process(load_cases(project), CaseTask(project, CHAIN))
    return [outcome.execution.failure for outcome in outcomes]


@pytest.mark.parametrize("what", ["softmax", "captured_kernels:softmax", "function"])
def test_a_block_records_calls_through_every_module(program, tmp_path, what, capfd):
    kernels, user = program
    before = kernels.softmax
    with precreg.capture(kernels.softmax if what == "function" else what, limit=20):
        first = user.attend(ONES)
        kernels.softmax(ONES.astype(np.float64), axis=0)
    assert kernels.softmax is user.softmax is before
    assert np.array_equal(first, user.attend(ONES))
    suite = suite_of(tmp_path)
    assert suite["subject"] == suite["reference"] == "captured_kernels:softmax"
    assert [row["scale"] for row in suite["matrix"]["include"]] == [0.5, 1.0]
    assert failures(tmp_path) == [None, None]
    assert "kept 2 of 2 calls of captured_kernels:softmax in suites/unit/softmax.yaml" in capfd.readouterr().err


def test_a_block_gives_a_handle_for_functions_without_a_module(program, tmp_path):
    kernels, _ = program
    with precreg.capture("chosen") as record:
        record(kernels.softmax)(ONES)
    assert suite_of(tmp_path, "chosen")["subject"] == "captured_kernels:softmax"
    assert failures(tmp_path) == [None]


def test_inputs_are_those_before_the_call(program, tmp_path):
    kernels, _ = program
    with precreg.capture(kernels.halve, oracle="golden"):
        kernels.halve(ONES.copy())
    with np.load(tmp_path / "suites/unit/halve/call0-float32-2x3.npz") as stored:
        assert np.array_equal(stored["x"], ONES)
    with np.load(tmp_path / "suites/unit/halve-call0-float32-2x3.npz") as stored:
        assert np.array_equal(stored["half"], ONES / 2)
    assert failures(tmp_path) == [None]


def test_a_golden_is_what_the_program_computed(program, tmp_path):
    _, user = program
    with precreg.capture("softmax", oracle="golden"):
        user.attend(np.linspace(0, 1, 6).astype(np.float32).reshape(2, 3))
    assert suite_of(tmp_path)["golden"] == {"files": "$call"}
    (outcome,) = run_in_process(load_cases(tmp_path), CaseTask(tmp_path, CHAIN))
    assert outcome.comparisons[0].metrics["max_abs_error"] == 0


def test_errors_of_the_function_are_its_own(program, tmp_path, capfd):
    kernels, _ = program
    with pytest.raises(ArithmeticError, match="as ever"), precreg.capture(kernels.fail):
        kernels.fail(ONES)
    assert not (tmp_path / "suites/unit/fail.yaml").exists()
    assert "fail was not written: expected calls of captured_kernels:fail but saw 1 calls" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("spread", (ONES, ONES), "argument arrays has a position alone"),
        ("pick", (ONES, {1, 2}), "argument key is a set, which no suite can store"),
        ("pick", (ONES, "$x"), "argument key is a str"),
        ("pick", (np.array(["a"]), 1), "no suite has inputs of dtype=<U1"),
        ("pick", ([ONES], 1), "argument x is a list"),
        ("pick", ({"a": 1}, float("nan")), "argument key is a float"),
    ],
)
def test_what_no_suite_can_repeat_is_counted_and_never_raised(program, name, arguments, said, capfd):
    kernels, _ = program
    function = getattr(kernels, name)
    with precreg.capture(function):
        for _ in range(3):
            getattr(kernels, name)(*arguments)
    err = capfd.readouterr().err
    assert f"3 x not recorded: {said}" in err


def test_calls_with_other_arguments_are_suites_of_their_own(program, tmp_path, capfd):
    kernels, _ = program
    with precreg.capture(kernels.pick):
        kernels.pick(ONES, {"a": [1, {"b": 2}]})
        kernels.pick(ONES, "text")
        kernels.pick(ONES, None)
    assert suite_of(tmp_path, "pick")["params"] == {"key": {"a": [1, {"b": 2}]}}
    assert [row["key"] for row in suite_of(tmp_path, "pick-2")["matrix"]["include"]] == ["text", None]
    assert failures(tmp_path) == [None] * 3


def test_lists_in_place_of_tuples_and_scalars_of_numpy(program, tmp_path):
    kernels, _ = program
    with precreg.capture(kernels.reduce_over):
        kernels.reduce_over(ONES, (0, 1))
        kernels.reduce_over(np.float64(3.5), ())
    assert failures(tmp_path) == [None, None]


def test_a_ufunc_of_numpy(program, tmp_path, monkeypatch):
    kernels, _ = program
    monkeypatch.setattr(kernels, "exp", np.exp, raising=False)
    with precreg.capture(np.exp, name="exponential"):
        kernels.exp(ONES)
    assert suite_of(tmp_path, "exponential")["subject"] == "numpy:exp"
    assert failures(tmp_path) == [None]


def test_an_existing_suite_is_never_overwritten_without_force(program, tmp_path, capfd):
    _, user = program
    path = tmp_path / "suites/unit/softmax.yaml"
    path.parent.mkdir()
    path.write_text("mine\n")
    with precreg.capture("softmax"):
        user.attend(ONES)
    assert path.read_text() == "mine\n"
    assert (
        "softmax was not written: expected a name that is free but suites/unit/softmax.yaml" in capfd.readouterr().err
    )
    with precreg.capture("softmax", force=True):
        user.attend(ONES)
    assert "captured_kernels:softmax" in path.read_text()


def test_a_name_of_several_functions_or_of_none_records_nothing(program, tmp_path, capfd):
    kernels, user = program
    user.halve = partial(kernels.halve)
    user.halve.__module__, user.halve.__qualname__ = "captured_user", "halve"
    with precreg.capture("halve"):
        kernels.halve(ONES.copy())
    with precreg.capture("sotfmax"):
        kernels.softmax(ONES)
    err = capfd.readouterr().err
    assert "several functions are named halve, so name one of captured_kernels:halve, captured_user:halve" in err
    assert "sotfmax was not written: expected calls of sotfmax but saw no call" in err
    assert not (tmp_path / "suites/unit").exists()


@pytest.mark.parametrize(("option", "value"), [("limit", 0), ("max_bytes", 1.5), ("oracle", "none")])
def test_a_wrong_option_is_refused_at_once(program, option, value):
    with pytest.raises(UserError, match=f"{option}={value!r}"):
        precreg.capture("softmax", **{option: value})


def test_threads_record_into_one_suite(program, tmp_path, capfd):
    kernels, _ = program
    sizes = range(1, 9)
    with precreg.capture("softmax", limit=100):
        threads = [threading.Thread(target=lambda size=size: calls(kernels, size)) for size in sizes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "kept 8 of 400 calls" in capfd.readouterr().err
    assert len(suite_of(tmp_path)["matrix"]["include"]) == 8


def calls(kernels, size):
    for _ in range(50):
        kernels.softmax(np.ones(size, np.float32))


def test_forked_processes_record_into_one_suite(program, tmp_path, capfd):
    kernels, _ = program
    with precreg.capture("softmax", limit=100):
        kernels.softmax(np.ones(1))
        for size in (2, 3):
            child = os.fork()
            if child == 0:
                # A process that ends like this runs no handler.
                kernels.softmax(np.ones(size))
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    assert "kept 3 of 3 calls" in capfd.readouterr().err
    assert len(suite_of(tmp_path)["matrix"]["include"]) == 3
    assert failures(tmp_path) == [None] * 3
