import random
import sys

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.subject import (
    NO_ARGUMENTS,
    call_function,
    report_failures,
    require_package,
    run_alone,
    seed_generators,
)

CODE = """\
import sys

def make():
    return inner()

def inner():
    raise KeyError("weight")

def leaves():
    sys.exit(3)

def large():
    raise MemoryError("needs 8 GiB\\nof 2 GiB")

def interrupted():
    raise KeyboardInterrupt

def library():
    import failing_library
    return failing_library.call()

def sized(width):
    return width

class Net:
    @staticmethod
    def make():
        return 1
"""
HINTS = {"hint": run_alone("train:make"), "call_hint": NO_ARGUMENTS}


@pytest.fixture
def failure(tmp_path, request):
    """Return the error of a function of a project's module, whose name no other test uses."""
    name = f"train_{abs(hash(request.node.name))}"
    (tmp_path / "code").mkdir()

    def call(function, code=CODE):
        (tmp_path / "code" / f"{name}.py").write_text(code)
        target = f"{name}:{function}"
        # As a decorator: a with statement here would bring a frame of this file, which is not precreg's.
        reported = report_failures(target, tmp_path, "to return a value", **HINTS)(call_function)
        with pytest.raises(UserError) as caught:
            reported(target, tmp_path / "code", tmp_path)
        error = caught.value
        return error, f"code/{name}.py", target

    return call


def test_the_place_is_the_innermost_line_of_the_users_code(failure):
    error, file, target = failure("make")
    assert (error.slug, error.file, error.line) == ("model-failed", file, 7)
    first, *traceback = error.message.splitlines()
    assert first == f"expected {target} to return a value but it failed: KeyError: 'weight'"
    assert "in make" in error.message
    assert traceback[-1] == "  KeyError: 'weight'"
    assert "precreg/subject" not in error.message
    assert error.hint == HINTS["hint"]


def test_the_place_is_not_in_a_library_although_its_environment_lies_in_the_project(failure, tmp_path, monkeypatch):
    packages = tmp_path / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "failing_library.py").write_text("def call():\n    raise ValueError('shape')\n")
    monkeypatch.syspath_prepend(packages)
    error, file, _ = failure("library")
    assert (error.file, error.line) == (file, 20)
    assert "failing_library.py" in error.message


def test_the_place_of_a_syntax_error_is_its_own_line(failure):
    error, file, _ = failure("make", "import sys\n\ndef make(:\n    pass\n")
    assert (error.slug, error.file, error.line) == ("model-failed", file, 3)


def test_a_call_with_wrong_arguments_has_no_place_and_an_advice_of_its_own(failure):
    error, _, target = failure("sized")
    function = target.partition(":")[2]
    assert (error.file, error.line, error.hint) == (None, None, NO_ARGUMENTS)
    assert error.message.splitlines() == [
        f"expected {target} to return a value but it failed: TypeError: {function}() missing 1 required positional"
        " argument: 'width'"
    ]


def test_a_function_that_leaves_the_program_is_a_failure(failure):
    error, file, target = failure("leaves")
    assert (error.slug, error.file, error.line, error.hint) == ("model-failed", file, 10, HINTS["hint"])
    assert error.message == f"expected {target} to return a value but it failed: exited with 3"


def test_missing_memory_has_its_own_slug(failure):
    error, file, target = failure("large")
    assert (error.slug, error.file, error.line) == ("out-of-memory", file, 13)
    assert error.message == f"expected memory for {target} but got MemoryError: needs 8 GiB"


def test_an_interrupt_passes(tmp_path):
    with pytest.raises(KeyboardInterrupt), report_failures("train:make", tmp_path, "to run"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "slug"), [("mkae", "missing-function"), ("sys", "missing-function"), ("other:make", "missing-module")]
)
def test_a_mistake_in_the_name_keeps_its_own_message(failure, tmp_path, function, slug):
    if slug == "missing-module":
        with pytest.raises(UserError) as caught, report_failures(function, tmp_path, "to run"):
            call_function(function, tmp_path, tmp_path)
        error = caught.value
    else:
        error, file, _ = failure(function)
        assert error.file == str(tmp_path / file)
    assert error.slug == slug


def test_the_advice_to_run_a_function_alone_runs_it(failure, tmp_path, monkeypatch):
    _, file, _ = failure("make")
    module = file.rpartition("/")[2].removesuffix(".py")
    monkeypatch.syspath_prepend(tmp_path / "code")
    code = run_alone(f"{module}:Net.make").partition("python -c ")[2].strip("'")
    exec(code, {})
    with pytest.raises(KeyError, match="weight"):
        exec(run_alone(f"{module}:make").partition("python -c ")[2].strip("'"), {})


def test_a_missing_package_names_its_extra():
    require_package("numpy", "computes", extra="none")
    with pytest.raises(UserError) as caught:
        require_package("no_such_package", "runs the model", extra="torch")
    assert caught.value.slug == "missing-extra"
    assert caught.value.message == "expected no_such_package, which runs the model, but it is not installed"
    assert "'precreg[torch]'" in caught.value.hint


def test_generators_give_the_same_numbers_after_the_same_seed():
    def draw():
        return random.random(), np.random.random()

    seed_generators(2**32 + 5)
    first = draw()
    assert draw() != first
    assert seed_generators(2**32 + 5) is ("torch" in sys.modules)
    assert draw() == first
