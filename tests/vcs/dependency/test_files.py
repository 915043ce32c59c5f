from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from msgspec.structs import replace

from precreg.suite.expand import load_cases
from precreg.types.case import Computation
from precreg.vcs.dependency import affected_cases, case_dependencies

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
    cases = {case.suite: case_dependencies(case, project) for case in load_cases(project)}
    unused = {"suites/unit/ops/unused.py"}
    there = {path for path in cases["softmax"] if (project / path).exists()}
    assert there == (set(FILES) - unused) | {"suites/unit/softmax.yaml"}


def test_a_recorded_file_that_is_missing_is_a_dependency(project):
    cases = {case.name: case_dependencies(case, project) for case in load_cases(project)}
    assert cases["b"] == {
        "suites/unit/atan.yaml",
        "suites/tolerances.yaml",
        "suites/unit/outputs/b.npy",
        "suites/unit/golden/b.npy",
    }


def test_files_of_another_kind_of_subject_are_those_of_the_project(project, tmp_path_factory, install):
    install("precreg-other", "other", "other_kind")
    outside = tmp_path_factory.mktemp("weights") / "w.npy"
    outside.touch()
    (case,) = (case for case in load_cases(project) if case.suite == "softmax")
    spec = {"weights": [str(outside), "x.npy"], "device": "cpu"}
    found = case_dependencies(replace(case, subject=Computation("other", spec), inputs={}), project)
    assert "suites/unit/x.npy" in found
    assert not any("w.npy" in path or "cpu" in path for path in found)


def test_the_package_of_a_kind_of_subject_is_a_dependency(write, install):
    install("precreg-approximator", "approximator", "approximating_kind")
    project = write(s="suite: s\nsubject: {approximator: 3}\nreference: numpy:sin\n")
    cases = load_cases(project)
    assert affected_cases(cases, {"approximating_kind.py"}, project) == cases
    assert affected_cases(cases, {"suites/unit/s.yaml"}, project) == cases


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"package/other.py"}, ["default"]),
        ({"suites/unit/golden/a.npy"}, ["a"]),
        ({"suites/unit/atan.yaml"}, ["a", "b"]),
        ({"baselines/cpu/unit/atan.json"}, ["a", "b"]),
        ({"baselines/cpu/unit/atan.sums"}, ["a", "b"]),
        ({"baselines/cpu/model/atan.json", "baselines/.gitattributes", "baselines/cpu/unit/notes"}, []),
        ({"suites/tolerances.yaml"}, ["a", "b", "default"]),
        ({"suites/unit/ops/unused.py", "README.md"}, []),
    ],
)
def test_touched(project, changed, names):
    assert [case.name for case in affected_cases(load_cases(project), changed, project)] == names


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
    project = write({"suites/unit/u.py": f"{statement}\ndef f(): ...\n"}, u="suite: u\nsubject: u:f\ngolden: u:f\n")
    assert [case.suite for case in affected_cases(load_cases(project), {removed}, project)] == ["u"]


def test_a_module_that_hid_another_was_a_dependency_too_but_not_one_that_is_hidden(write):
    files = {"suites/unit/u.py": "import lib\ndef f(): ...\n", "suites/lib.py": ""}
    project = write(files, u="suite: u\nsubject: u:f\ngolden: u:f\n")
    found = {path for path in case_dependencies(load_cases(project)[0], project) if "lib" in path}
    compiled = {f"suites/{folder}lib{suffix}" for folder in ("unit/", "") for suffix in EXTENSION_SUFFIXES}
    assert compiled <= found, "Python looks for compiled modules first"
    assert found - compiled == {
        "suites/unit/lib/__init__.py",
        "suites/unit/lib.py",
        "suites/lib/__init__.py",
        "suites/lib.py",
    }


def of_module(write, text, files=()):
    """Return the dependencies of a case whose subject is in suites/unit/u.py."""
    texts = files if isinstance(files, dict) else dict.fromkeys(files, "")
    project = write({**texts, "suites/unit/u.py": f"{text}\ndef f(): ...\n"}, u="suite: u\nsubject: u:f\ngolden: u:f\n")
    return case_dependencies(load_cases(project)[0], project)


@pytest.mark.parametrize(
    "statement",
    [
        "from importlib import import_module\nlib = import_module('ops.table')",
        "import importlib\ndef g():\n    return importlib.import_module('ops.table').x",
        "lib = __import__('ops.table')",
        "from ops import *",
        "from ops import table as t",
        "import ops.table as t",
        "if True:\n    try:\n        import ops.table\n    except ImportError:\n        pass",
        "class A:\n    import ops.table",
    ],
)
def test_ways_to_import(write, statement):
    files = {"suites/unit/ops/__init__.py": "__all__ = ['table']\n", "suites/unit/ops/table.py": ""}
    assert set(files) <= of_module(write, statement, files)


def test_a_relative_import_by_name(write):
    files = {
        "suites/unit/ops/__init__.py": "from importlib import import_module\nimport_module('.deep.a', __package__)\n",
        "suites/unit/ops/deep/a.py": "import_module('..table', __package__)\nfrom ....................... import far\n",
        "suites/unit/ops/table.py": "",
    }
    assert set(files) <= of_module(write, "import ops", files)


def test_a_package_without_init_that_lies_in_two_folders(write):
    files = ["suites/unit/space/near.py", "space/far.py"]
    assert set(files) <= of_module(write, "import space.near\nfrom space import far", files)


def test_modules_that_import_each_other_end(write):
    files = {"suites/unit/a.py": "import b\n", "suites/unit/b.py": "import a, u\n"}
    assert set(files) <= of_module(write, "import a", files)


@pytest.mark.parametrize(
    "statement",
    [
        "import numpy as np\nw = np.load('data/w.npy')",
        "from pathlib import Path\nw = Path(__file__).parent / 'data' / 'w.npy'",
        "from pathlib import Path\nHERE = Path(__file__).parent\ndef g(): return open(HERE / 'data/w.npy')",
        "w = open('suites/unit/data/w.npy')",
        "w = open('../unit/data/w.npy')",
    ],
)
def test_a_file_that_a_module_names_is_a_dependency_though_it_was_removed(write, statement):
    assert "suites/unit/data/w.npy" in of_module(write, statement)


def test_texts_that_name_no_file_of_the_project(write):
    texts = [
        "'/etc/passwd.txt'",
        "'../../../up.npy'",
        "'README.md'",
        "'\\0.npy'",
        "'.'",
        "'a' / 2",
        "'two\\nlines.npy'",
    ]
    found = of_module(write, "\n".join(f"a = {text}" for text in texts))
    compiled = {f"suites/unit/u{suffix}" for suffix in EXTENSION_SUFFIXES}
    modules = {"suites/unit/u.py", "suites/unit/u/__init__.py", *compiled}
    assert found == {"suites/unit/u.yaml", "suites/tolerances.yaml", *modules}


def test_where_a_link_leads_is_a_dependency_too(write, tmp_path):
    (tmp_path / "suites" / "unit").mkdir(parents=True)
    (tmp_path / "suites" / "unit" / "ops").symlink_to("../../shared")
    found = of_module(write, "import ops.table", {"shared/table.py": "from . import other\n"})
    assert {"suites/unit/ops/table.py", "shared/table.py", "shared/other.py"} <= found


def test_a_package_that_is_installed_from_the_project_is_part_of_it(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "src")
    monkeypatch.syspath_prepend(tmp_path / ".venv" / "lib" / "site-packages")
    files = {
        "src/precreg_test_ours/__init__.py": "from .core import f\nimport precreg_test_theirs\n",
        "src/precreg_test_ours/core.py": "f = 1\n",
        ".venv/lib/site-packages/precreg_test_theirs/__init__.py": "import more\n",
    }
    found = of_module(write, "from precreg_test_ours import f", files)
    assert {"src/precreg_test_ours/__init__.py", "src/precreg_test_ours/core.py"} <= found
    assert not any(path.startswith(".venv") for path in found)


def test_the_table_of_a_device_is_a_dependency_of_the_cases_on_it(project):
    (case,) = (case for case in load_cases(project) if case.suite == "softmax")
    tables = {"suites/devices/npu.yaml", "suites/devices/npu.yml"}
    assert case_dependencies(replace(case, device="npu"), project) - case_dependencies(case, project) == tables
    assert affected_cases([case, replace(case, device="npu")], {"suites/devices/npu.yaml"}, project) == [
        replace(case, device="npu")
    ]


BESIDE = SUITE.replace("reference:", "benchmark: theirs.fast:f\nreference:")
THEIRS = {
    "suites/theirs/__init__.py": "",
    "suites/theirs/fast.py": "import lazily\ndef f(x): ...\nDATA = 'weights.npy'\n",
    "suites/theirs/weights.npy": "",
}


@pytest.mark.parametrize("changed", [*THEIRS, "package/part.py"])
def test_a_change_of_the_benchmark_selects_the_case(write, changed):
    alone, beside = SUITE.replace("suite: softmax", "suite: alone").replace("ops.softmax:f", "exact:f"), BESIDE
    project = write({**FILES, **THEIRS}, softmax=beside.replace("ops.softmax:f", "exact:f"), alone=alone)
    assert [case.suite for case in affected_cases(load_cases(project), {changed}, project)] == ["softmax"]


@pytest.mark.parametrize(
    ("suite", "file"),
    [
        (SUITE + "benchmark: {files: {out: theirs.npy}}\n", "theirs.npy"),
        (RECORDED.replace("}", ", benchmark: 'theirs/*.npy'}"), "theirs/a.npy"),
    ],
)
def test_a_recorded_benchmark_is_a_dependency(write, suite, file):
    data = ("outputs/a.npy", "golden/a.npy", file)
    project = write({**FILES, **{f"suites/unit/{path}": "" for path in data}}, s=suite)
    (case,) = load_cases(project)
    assert f"suites/unit/{file}" in case_dependencies(case, project)


ROWS = """\
suite: rows
subject: exact:f
reference: exact:f
matrix: {a: [1, 2], from: [one.npy, two.npy], n: [2, 3]}
params: {a: $a}
inputs:
  x: {shape: [$n], dtype: float32, file: {path: $from}}
"""


def test_rows_that_name_other_files_are_affected_apart_although_shapes_and_params_name_none(write):
    project = write(
        {"suites/unit/exact.py": "def f(x, a): ...\n", "suites/unit/one.npy": "", "suites/unit/two.npy": ""}, rows=ROWS
    )
    cases = load_cases(project)
    affected = affected_cases(cases, {"suites/unit/two.npy"}, project)
    assert [case.name for case in affected] == [case.name for case in cases if case.parameters["from"] == "two.npy"]
    assert len(affected) == len(cases) / 2 == 4


DRAWN = """\
suite: rows
subject: exact:f
reference: exact:f
matrix: {from: ['one:f', 'two:f'], n: [2, 3]}
inputs: {x: {shape: [$n], dtype: float32, python: {function: $from}}}
"""


def test_rows_whose_inputs_functions_of_other_modules_draw_are_affected_apart(write):
    functions = dict.fromkeys(("suites/unit/one.py", "suites/unit/two.py"), "def f(*a): ...\n")
    cases = load_cases(project := write({"suites/unit/exact.py": "def f(x): ...\n", **functions}, rows=DRAWN))
    affected = affected_cases(cases, {"suites/unit/two.py"}, project)
    assert [case.name for case in affected] == [case.name for case in cases if case.parameters["from"] == "two:f"]
    assert len(affected) == 2
