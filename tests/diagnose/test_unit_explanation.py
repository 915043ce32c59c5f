"""Which unit case explains a larger one, with which share: by replacing functions in small repositories."""

from math import sqrt

import numpy as np
import pytest

from precreg.diagnose.evidence import error_to_explain, removed_share
from precreg.diagnose.executed import note_functions
from precreg.diagnose.unit_explanation import explain_by_units
from precreg.suite import load_cases
from precreg.vcs import commit_of
from tests.e2e.command import repository

KERNELS = """\
SCALE = 3


def first(x):
    return x * SCALE


def second(x):
    return x + 1


def tidy(x):
    return x
"""
WHOLE = "import kernels\n\n\ndef both(x):\n    return kernels.tidy(kernels.second(kernels.first(x)))\n"
SUBJECTS = {
    "unit/first": "kernels:first",
    "unit/second": "kernels:second",
    "unit/tidy": "kernels:tidy",
    "model/both": "whole:both",
}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for name, subject in SUBJECTS.items():
        path = folder / f"suites/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        inputs = "inputs: {x: {shape: [50], dtype: float64, normal: {}}}"
        path.write_text(f"suite: {path.stem}\nsubject: {subject}\nreference: {subject}\n{inputs}\n")
    (folder / "suites/kernels.py").write_text(KERNELS)
    (folder / "suites/whole.py").write_text(WHOLE)
    return repository(folder)


def explained(project, *changes, seconds=300):
    """Change the files, and return the shares of the unit cases that explain the model."""
    for file, before, after in changes:
        path = project / f"suites/{file}.py"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))
    cases = {case.id: case for case in load_cases(project)}
    units = [case for case in cases.values() if case.tier == "unit"]
    accepted = commit_of(project, "HEAD")
    found = explain_by_units(cases["model/both/default"], units, project, seed=0, accepted=accepted, seconds=seconds)
    return {each.case: (each.shared, each.share) for each in found}


def test_one_function_carries_all_and_a_refactoring_beside_it_nothing(project):
    tidied = ("kernels", "def tidy(x):\n    return x", "def tidy(x):\n    y = x\n    return y")
    found = explained(project, ("kernels", "x + 1", "x + 1.5"), tidied)
    assert found == {"unit/second/default": (("suites/kernels.py:second",), 1.0)}


def test_the_shares_of_two_functions_follow_their_errors(project):
    """The errors of both are constants of one sign, so each share is its part of the sum."""
    changes = [("kernels", "x * SCALE", "x * SCALE + 3"), ("kernels", "x + 1", "x + 2")]
    found = explained(project, *changes)
    assert list(found) == ["unit/first/default", "unit/second/default"]
    assert [share for _, share in found.values()] == pytest.approx([0.75, 0.25])


def test_a_changed_constant_of_a_module_has_a_share(project):
    found = explained(project, ("kernels", "SCALE = 3", "SCALE = 4"))
    assert found == {"unit/first/default": (("suites/kernels.py:<module>",), 1.0)}


def test_a_function_and_its_caller_with_other_arguments_are_replaced_together(project):
    call = ("kernels.second(kernels.first(x))", "kernels.second(kernels.first(x), 2)")
    found = explained(
        project,
        ("kernels", "def second(x):\n    return x + 1", "def second(x, by=None):\n    return x + (by or 2)"),
        ("whole", *call),
    )
    assert found == {"unit/second/default": (("suites/kernels.py:second",), 1.0)}


def test_nothing_is_explained_without_a_change_of_bits_or_without_time(project):
    assert explained(project, ("kernels", "return x + 1", "return 1 + x")) == {}
    assert explained(project, ("kernels", "1 + x", "2 + x"), seconds=0.5) == {}


def test_the_removed_share_is_one_minus_the_rest_for_each_output():
    rng = np.random.default_rng(0)
    accepted = {"a": rng.normal(size=100), "b": rng.normal(size=100)}
    error = {name: rng.normal(size=100) for name in accepted}
    present = {name: accepted[name] + error[name] for name in accepted}
    # In a the rest is a tenth of the error; in b it has grown, which counts as no share and not as a negative one.
    made = {"a": accepted["a"] + 0.1 * error["a"], "b": accepted["b"] + 3 * error["b"]}
    paired = error_to_explain(accepted, present)
    rest = sqrt(float(np.mean((made["a"] - accepted["a"]) ** 2) / np.mean((present["a"] - accepted["a"]) ** 2)))
    assert removed_share(paired, made) == pytest.approx((1 - rest) / 2)
    assert removed_share(paired, accepted) == 1
    assert removed_share(paired, present) == 0
    assert removed_share(paired, {"a": accepted["a"]}) == 0.5


def test_functions_that_run_are_noted_by_their_qualified_names(tmp_path):
    source = (
        "class A:\n    def f(self):\n        def inner():\n            return 1\n        return inner()\n"
        "\n\ndef g():\n    return 2\n"
    )
    (tmp_path / "a.py").write_text(source)
    space = {}
    exec(compile(source, str(tmp_path / "a.py"), "exec"), space)
    with note_functions(tmp_path, ("a.py",)) as found:
        space["A"]().f()
    assert found == {"a.py:A.f"}
    with note_functions(tmp_path, ()) as found:
        space["g"]()
    assert found == set()
