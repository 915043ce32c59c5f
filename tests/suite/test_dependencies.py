import pytest
from msgspec.structs import replace

from precreg.suite.dependencies import dependencies, touched
from precreg.suite.expand import load_cases
from precreg.types import Computation

FILES = {
    "suites/unit/ops/__init__.py": "",
    "suites/unit/ops/softmax.py": "import numpy\nfrom ops.rounding import half\nfrom . import tables\nf = half\n",
    "suites/unit/ops/rounding.py": "def half():\n    import lazily\n",
    "suites/unit/ops/tables.py": "from ..nowhere import x\nfrom .deep.more import y\n",
    "suites/unit/ops/deep/more.py": "import ops.softmax\n",
    "suites/lazily.py": "import package.part\n",
    "package/__init__.py": "from package import other\n",
    "package/part.py": "",
    "package/other.py": "def broken(:",
    "suites/unit/ops/unused.py": "",
    "suites/unit/exact.py": "def f(x): ...\n",
    "suites/unit/x.npy": "",
}
SUITE = """\
suite: softmax
subject: ops.softmax:f
reference: exact:f
inputs: {x: {shape: [2], dtype: float32, file: {path: x.npy}}}
"""
RECORDED = "suite: atan\nfiles: {actual: 'outputs/*.npy', golden: 'golden/*.npy'}\n"


@pytest.fixture
def project(write):
    data = dict.fromkeys(["suites/unit/outputs/a.npy", "suites/unit/golden/a.npy", "suites/unit/golden/b.npy"], "")
    return write({**FILES, **data}, softmax=SUITE, atan=RECORDED)


def test_all_that_is_imported_from_the_project_and_every_file_of_data(project):
    cases = {case.suite: dependencies(case, project) for case in load_cases(project)}
    unused = {"suites/unit/ops/unused.py"}
    there = {path for path in cases["softmax"] if (project / path).exists()}
    assert there == (set(FILES) - unused) | {"suites/unit/softmax.yaml"}


def test_a_recorded_file_that_is_missing_is_a_dependency(project):
    cases = {case.name: dependencies(case, project) for case in load_cases(project)}
    assert cases["b"] == {
        "suites/unit/atan.yaml",
        "suites/tolerances.yaml",
        "suites/unit/outputs/b.npy",
        "suites/unit/golden/b.npy",
    }


def test_files_of_another_kind_of_subject_are_those_of_the_project(project, tmp_path_factory):
    outside = tmp_path_factory.mktemp("weights") / "w.npy"
    outside.touch()
    (case,) = (case for case in load_cases(project) if case.suite == "softmax")
    spec = {"weights": [str(outside), "x.npy"], "device": "cpu"}
    found = dependencies(replace(case, subject=Computation("other", spec), inputs={}), project)
    assert "suites/unit/x.npy" in found
    assert not any("w.npy" in path or "cpu" in path for path in found)


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"package/other.py"}, ["default"]),
        ({"suites/unit/golden/a.npy"}, ["a"]),
        ({"suites/unit/atan.yaml"}, ["a", "b"]),
        ({"baselines/cpu/unit/atan.json"}, ["a", "b"]),
        ({"baselines/cpu/model/atan.json"}, []),
        ({"suites/tolerances.yaml"}, ["a", "b", "default"]),
        ({"suites/unit/ops/unused.py", "README.md"}, []),
    ],
)
def test_touched(project, changed, names):
    assert [case.name for case in touched(load_cases(project), changed, project)] == names


@pytest.mark.parametrize(
    ("statement", "removed"),
    [
        ("from lib import h", "suites/unit/lib/__init__.py"),
        ("from lib import h", "lib.py"),
        ("from lib import h", "lib/h.py"),
        ("import lib.deep.h", "suites/lib/deep/__init__.py"),
        ("def f():\n    from .lib import h", "suites/unit/lib.py"),
    ],
)
def test_a_module_that_was_removed_is_a_dependency_wherever_it_may_have_been(write, statement, removed):
    project = write({"suites/unit/u.py": f"{statement}\ndef f(x): ...\n"}, u="suite: u\nsubject: u:f\ngolden: u:f\n")
    assert [case.suite for case in touched(load_cases(project), {removed}, project)] == ["u"]


def test_a_module_that_hid_another_was_a_dependency_too_but_not_one_that_is_hidden(write):
    files = {"suites/unit/u.py": "import lib\ndef f(x): ...\n", "suites/lib.py": ""}
    project = write(files, u="suite: u\nsubject: u:f\ngolden: u:f\n")
    found = {path for path in dependencies(load_cases(project)[0], project) if "lib" in path}
    assert found == {"suites/unit/lib/__init__.py", "suites/unit/lib.py", "suites/lib/__init__.py", "suites/lib.py"}
