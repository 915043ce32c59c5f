"""Inputs that a function of the project makes: in the worker, with a portable generator, and errors that name both."""

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.run.computation import draw_inputs
from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.suite.expand import load_cases
from precreg.suite.inputs.generators import InputGenerator
from precreg.types.verdict import Reason
from tests.suite.conftest import SUITE, write  # noqa: F401

CHAIN = ("cpu-x86_64", "cpu", "generic")
INPUTS = "inputs:\n  x: {shape: [2, 3], dtype: float32, python: 'making:make', args: {scale: $scale}}\n"
TEXT = f"{SUITE}{INPUTS}params: {{}}\nmatrix: {{scale: [1, 2.5]}}\n"
MAKES = "def make(random, shape, dtype, scale=1):\n    return "


@pytest.fixture
def making(write):  # noqa: F811
    def making(body, text=TEXT):
        return write({"suites/unit/making.py": MAKES + body}, softmax=text)

    return making


def drawn(project, case, seed=0):
    return draw_inputs(case, seed, project / case.directory, project)["x"]


def failure(project):
    (outcome, *_) = run_in_process(load_cases(project), CaseTask(project, CHAIN))
    return outcome.execution.failure


def test_a_function_gets_a_generator_the_shape_the_dtype_and_arguments(making):
    project = making("random.normal(shape) * scale if (shape, dtype) == ((2, 3), 'float32') else None\n")
    one, other = load_cases(project)
    expected = InputGenerator("x", 4).normal((2, 3))
    assert np.array_equal(drawn(project, one, 4), expected.astype(np.float32))
    assert np.array_equal(drawn(project, other, 4), (expected * 2.5).astype(np.float32))
    assert one.seeds == 5


def test_two_spellings_are_one_definition(making):
    beside = load_cases(making("0\n"))
    inside = TEXT.replace(
        "python: 'making:make', args: {scale: $scale}", "python: {function: 'making:make', args: {scale: $scale}}"
    )
    assert [case.definition for case in load_cases(making("0\n", inside))] == [case.definition for case in beside]


def test_numbers_are_rounded_once_and_the_dtype_itself_stays(making):
    project = making("[[0.1] * 3] * 2\n", TEXT.replace("float32", "bfloat16"))
    case = load_cases(project)[0]
    assert drawn(project, case).astype(float).tolist() == [[0.10009765625] * 3] * 2


def test_integers_fit_into_a_dtype_of_integers(making):
    project = making("[[True, 2, 3]] * 2\n", TEXT.replace("float32", "int8"))
    assert drawn(project, load_cases(project)[0]).tolist() == [[1, 2, 3]] * 2


@pytest.mark.parametrize(
    ("body", "dtype", "message"),
    [
        ("random.normal(3)\n", "float32", "expected shape=[2, 3] from making:make for input x but got shape=[3]"),
        ("[['a'] * 3] * 2\n", "float32", "expected numbers that float32 can hold from making:make for input x but got"),
        ("[[300] * 3] * 2\n", "int8", "expected numbers that int8 can hold from making:make for input x but got"),
        ("random.normal(shape)\n", "int8", "expected numbers that int8 can hold"),
        (
            "[[1, 2, 1e300]] * 2\n",
            "float32",
            "expected numbers that float32 can hold from making:make for input x but got 1e+300",
        ),
        (
            "1 / 0\n",
            "float32",
            "expected making:make to make input x but it raised ZeroDivisionError: division by zero",
        ),
        ("exit(3)\n", "float32", "expected making:make to make input x but it raised SystemExit: 3"),
        ("None\n", "float32", "expected shape=[2, 3] from making:make for input x but got shape=[]"),
    ],
)
def test_a_mistake_of_the_function_names_input_and_function(making, body, dtype, message):
    found = failure(making(body, TEXT.replace("float32", dtype)))
    assert found.reason is Reason.SUBJECT_ERROR
    assert found.message.startswith(message)
    assert "error[bad-input]" in found.detail
    if "raised Zero" in message:
        assert "making.py" in found.detail


@pytest.mark.parametrize(
    ("spelled", "slug", "says"),
    [
        ("python: 'making:mkae'", "missing-function", 'did you mean "make"?'),
        ("python: 'mkaing:make'", "missing-module", 'did you mean "making"?'),
        ("python: making", "bad-value", "expected module:function but got 'making'"),
        ("python: {args: {}}", "missing-key", "input x: python: expected function:"),
        ("python: {function: 'making:make', arg: {}}", "unknown-key", 'did you mean "args"?'),
        ("python: 'making:make', args: [1]", "bad-value", "args"),
        ("normal: {}, args: {}", "unknown-key", "input x: expected args beside python: module:function"),
    ],
)
def test_a_mistake_of_the_suite_has_its_line(making, spelled, slug, says):
    text = SUITE + f"inputs:\n  x: {{shape: [2, 3], dtype: float32, {spelled}}}\n"
    with pytest.raises(UserError) as caught:
        load_cases(making("0\n", text))
    assert (caught.value.slug, caught.value.line) == (slug, 5)
    assert says in caught.value.message


def test_loading_suites_runs_nothing_of_the_module(write):  # noqa: F811
    project = write({"suites/unit/making.py": "raise SystemExit(9)\ndef make():\n    pass\n"}, softmax=TEXT)
    assert len(load_cases(project)) == 2
