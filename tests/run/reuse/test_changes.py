"""No outcome is stale: each kind of change makes the cases run again that it may concern, and only these."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import git, repository
from tests.run.reuse.projects import KERNEL, Runs, runs, suite, write

__all__ = ["runs"]

A = "suites/unit/a.py"
HELPED = "from helper import two\n\n\ndef f(x):\n    return x * two()\n\n\ndef g(x):\n    return x * 2\n"
LAZY = "def f(x):\n    from helper import two\n    return x * two()\n\n\ndef g(x):\n    return x * 2\n"
NAMED = "from importlib import import_module\n\n\ndef f(x):\n    return x * import_module('hel' + 'per').two()\n\n\n"
NAMED += "def g(x):\n    return x * 2\n"
TWO = "def two():\n    return 2\n"
THREE = "def two():\n    return 3\n"
READS = """\
from pathlib import Path

HERE = Path(__file__).parent


def f(x):
    return x * float((HERE / ("fac" + "tor")).read_text())


def g(x):
    return x * 2
"""
REFERENCE_READS = """\
from pathlib import Path

HERE = Path(__file__).parent


def f(x):
    return x * 2


def g(x):
    return x * float((HERE / ("fac" + "tor")).read_text())
"""
CACHED = """\
from functools import cache
from pathlib import Path


@cache
def factor():
    return float((Path(__file__).parent / ("fac" + "tor")).read_text())
"""
GLOBS = """\
from pathlib import Path


def f(x):
    return x * sum(float(path.read_text()) for path in sorted((Path(__file__).parent / "parts").glob("*")))


def g(x):
    return x * 2
"""
EXISTS = """\
import os


def f(x):
    return x * (3 if os.path.exists(os.path.join(os.path.dirname(__file__), "over" + "ride")) else 2)


def g(x):
    return x * 2
"""
OPTIONAL = """\
try:
    from fast import two
except ImportError:
    def two():
        return 2


def f(x):
    return x * two()


def g(x):
    return x * 2
"""


def fill(runs, files):
    """Write further files, and run until each case reuses its outcome."""
    write(runs.project, files)
    assert runs() == set()
    assert runs() == {"a", "b"}, runs.fates
    return runs


def test_nothing_changed(runs):
    fill(runs, {})
    assert runs() == {"a", "b"}
    marks = {each.outcome.reused.started for each in runs.results.values()}
    assert marks == {"2026-01-01T00:00:01"}, "the mark names the run that computed"
    assert runs.counts.cases == 2
    assert runs.counts.ran == ()


# What a project has, the change, and the cases that still reuse their outcome.
CHANGES = {
    "the module of the subject": ({}, {A: KERNEL.replace("x * 2", "x + x")}, "b"),
    "a comment in the module": ({}, {A: KERNEL + "# why\n"}, "b"),
    "a helper": ({A: HELPED, "suites/unit/helper.py": TWO}, {"suites/unit/helper.py": THREE}, "b"),
    "a helper that the function imports": (
        {A: LAZY, "suites/unit/helper.py": TWO},
        {"suites/unit/helper.py": THREE},
        "b",
    ),
    "a helper by a made name": ({A: NAMED, "suites/unit/helper.py": TWO}, {"suites/unit/helper.py": THREE}, "b"),
    "a helper of a helper": (
        {A: HELPED, "suites/unit/helper.py": "from deeper import two\n", "deeper.py": TWO},
        {"deeper.py": THREE},
        "b",
    ),
    "a module that shadows a helper": ({A: HELPED, "helper.py": TWO}, {"suites/unit/helper.py": THREE}, "b"),
    "a package that shadows a helper": ({A: HELPED, "helper.py": TWO}, {"suites/helper/__init__.py": THREE}, "b"),
    "a module that was missing": ({A: OPTIONAL}, {"suites/unit/fast.py": THREE}, "b"),
    "a module that shadows a library's import": ({}, {"suites/unit/numpy.py": "raise ImportError\n"}, ""),
    "a file that the subject reads": ({A: READS, "suites/unit/factor": "2"}, {"suites/unit/factor": "3"}, "b"),
    "a file that the reference reads": (
        {A: REFERENCE_READS, "suites/unit/factor": "2"},
        {"suites/unit/factor": "3"},
        "b",
    ),
    "a file that a pattern finds": ({A: GLOBS, "suites/unit/parts/x": "2"}, {"suites/unit/parts/y": "1"}, "b"),
    "a file whose presence counts, in the folder of both": ({A: EXISTS}, {"suites/unit/override": ""}, ""),
    "a file of depends": (
        {"suites/unit/a.yaml": suite("a", depends="['tables/*.bin']"), "suites/unit/tables/x.bin": "1"},
        {"suites/unit/tables/y.bin": "1"},
        "b",
    ),
    "a seed more": ({}, {"suites/unit/a.yaml": suite("a", seeds=7)}, "b"),
    "a param": (
        {A: "def f(x, k):\n    return x * k\n\n\ng = f\n", "suites/unit/a.yaml": suite("a", params="{k: 2}")},
        {"suites/unit/a.yaml": suite("a", params="{k: 3}")},
        "b",
    ),
    "a dtype": ({}, {"suites/unit/a.yaml": suite("a").replace("float32", "float64")}, "b"),
    "a shape": ({}, {"suites/unit/a.yaml": suite("a").replace("[8]", "[9]")}, "b"),
    "another distribution": ({}, {"suites/unit/a.yaml": suite("a").replace("normal", "uniform")}, "b"),
    "another reference": ({}, {"suites/unit/a.yaml": suite("a").replace("a:g", "a:f")}, "b"),
    "repeats": ({}, {"suites/unit/a.yaml": suite("a", repeats=3)}, "b"),
    "a timeout": ({}, {"suites/unit/a.yaml": suite("a", timeout=77)}, "b"),
    "an rtol, which the measurement uses": ({}, {"suites/unit/a.yaml": suite("a").replace("1e-3", "1e-2")}, "b"),
    "a device's table": (
        {"suites/unit/a.yaml": suite("a", device="mine"), "suites/devices/mine.yaml": "about: one\nlike: ascend\n"},
        {"suites/devices/mine.yaml": "about: two\nlike: mlu370\n"},
        "b",
    ),
}


@pytest.mark.parametrize(("files", "changed", "reused"), CHANGES.values(), ids=CHANGES)
def test_a_change_runs_the_cases_that_it_concerns(runs, files, changed, reused):
    fill(runs, files)
    write(runs.project, changed)
    assert runs() == set(reused), runs.fates


def test_the_same_bytes_again_change_nothing(runs):
    fill(runs, {})
    write(runs.project, {A: KERNEL})
    assert runs() == {"a", "b"}


def test_a_source_with_the_size_and_the_times_of_before(runs, monkeypatch):
    fill(runs, {})
    place = runs.project / A
    facts = place.stat()
    place.write_text(KERNEL.replace("x * 2\n\n\n", "x * 3\n\n\n"))
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (place.stat().st_size, place.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)
    assert runs() == {"b"}


def test_a_large_file_with_the_size_and_the_times_of_before(runs):
    large = "def f(x):\n    return x * float(open(__file__[:-4] + 'large').read(1))\n\n\ndef g(x):\n    return x * 2\n"
    fill(runs, {A: large, "suites/unit/large": "2" + " " * (1 << 20)})
    place = runs.project / "suites/unit/large"
    facts = place.stat()
    with place.open("r+") as stream:
        stream.write("3")
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert runs() == {"b"}


def test_a_removed_file(runs):
    fill(runs, {A: GLOBS, "suites/unit/parts/x": "2", "suites/unit/parts/y": "0"})
    (runs.project / "suites/unit/parts/y").unlink()
    assert runs() == {"b"}


def test_a_removed_module(runs):
    fill(runs, {A: OPTIONAL, "suites/unit/fast.py": TWO})
    (runs.project / "suites/unit/fast.py").unlink()
    assert runs() == {"b"}


def test_a_link_that_leads_to_another_file(runs):
    write(runs.project, {"first": "2", "second": "3"})
    (runs.project / "suites/unit/factor").symlink_to(runs.project / "first")
    fill(runs, {A: READS})
    (runs.project / "suites/unit/factor").unlink()
    (runs.project / "suites/unit/factor").symlink_to(runs.project / "second")
    assert runs() == {"b"}


def test_a_folder_on_the_way_that_leads_to_another_place(runs):
    write(runs.project, {"one/x": "2", "other/x": "3"})
    (runs.project / "suites/unit/parts").symlink_to(runs.project / "one")
    fill(runs, {A: GLOBS})
    (runs.project / "suites/unit/parts").unlink()
    (runs.project / "suites/unit/parts").symlink_to(runs.project / "other")
    assert runs() == {"b"}


def test_a_file_that_another_case_had_read_into_a_cache(runs):
    """One worker runs a first, whose call fills the cache; b reads no file, and depends on it all the same."""
    uses = "from shared import factor\n\n\ndef f(x):\n    return x * factor()\n\n\ndef g(x):\n    return x * 2\n"
    fill(runs, {A: uses, "suites/unit/b.py": uses, "suites/unit/shared.py": CACHED, "suites/unit/factor": "2"})
    write(runs.project, {"suites/unit/factor": "3"})
    assert runs() == set()


def test_a_module_by_a_made_name_that_another_case_had_imported(runs):
    fill(runs, {A: NAMED, "suites/unit/b.py": NAMED, "suites/unit/helper.py": TWO})
    write(runs.project, {"suites/unit/helper.py": THREE})
    assert runs() == set()


def test_recorded_outputs(runs):
    import numpy as np

    unit = runs.project / "suites/unit"
    recorded = suite("a").replace("a:g", "{files: {out: expected.npy}}").replace("reference", "golden")
    recorded = recorded.replace(
        "{shape: [8], dtype: float32, normal: {}}", "{shape: [8], dtype: float32, file: {path: x.npy}}"
    )
    np.save(unit / "x.npy", np.arange(8, dtype=np.float32))
    np.save(unit / "expected.npy", np.arange(8, dtype=np.float32) * 2)
    fill(runs, {"suites/unit/a.yaml": recorded})
    np.save(unit / "expected.npy", np.arange(8, dtype=np.float32) * 3)
    assert runs() == {"b"}
    assert runs() == {"a", "b"}
    np.save(unit / "x.npy", np.ones(8, dtype=np.float32))
    assert runs() == {"b"}


def test_inputs_that_a_function_makes(runs):
    made = suite("a").replace(
        "{shape: [8], dtype: float32, normal: {}}", "{shape: [8], dtype: float32, python: 'made:draw'}"
    )
    draw = "import numpy as np\n\n\ndef draw(random, shape, dtype):\n    return np.full(shape, {}, dtype)\n"
    fill(runs, {"suites/unit/a.yaml": made, "suites/unit/made.py": draw.format(1)})
    write(runs.project, {"suites/unit/made.py": draw.format(2)})
    assert runs() == {"b"}


LIBRARY = "int factor(void) {{ return {}; }}\n"
LOADS = """\
from ctypes import CDLL
from pathlib import Path

library = CDLL(str(Path(__file__).parent / "libfactor.so"))


def f(x):
    return x * library.factor()


def g(x):
    return x * 2
"""


def compiled(folder, number):
    (folder / "factor.c").write_text(LIBRARY.format(number))
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libfactor.so", folder / "factor.c"]
    subprocess.run(command, check=True)
    (folder / "factor.c").unlink()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_that_is_rebuilt_in_place(runs):
    compiled(runs.project / "suites/unit", 2)
    write(runs.project, {A: LOADS})
    assert runs() == set()
    assert "a" in runs()
    compiled(runs.project / "suites/unit", 3)
    assert "a" not in runs()


PROGRAM = """\
#!{python}
import sys
import numpy as np
from factor import FACTOR
np.save(sys.argv[2], np.load(sys.argv[1]) * np.float32(FACTOR))
"""
COMMAND = "{command: [./program, '{inputs.x}', '{outputs.out}']}"


def test_a_program_and_the_modules_beside_it(runs):
    unit = runs.project / "suites/unit"
    of_program = suite("a").replace("subject: a:f", f"subject: {COMMAND}")
    write(runs.project, {"suites/unit/program": PROGRAM.format(python=sys.executable)})
    (unit / "program").chmod(0o755)
    fill(runs, {"suites/unit/a.yaml": of_program, "suites/unit/factor.py": "FACTOR = 2\n"})
    write(runs.project, {"suites/unit/factor.py": "FACTOR = 3\n"})
    assert "a" not in runs()
    assert "a" in runs()
    write(runs.project, {"suites/unit/program": PROGRAM.format(python=sys.executable) + "\n"})
    assert "a" not in runs()


def test_a_variable_of_the_environment(runs, monkeypatch):
    fill(runs, {})
    monkeypatch.setenv("TERM", "another")
    assert runs() == {"a", "b"}
    for name in ("OMP_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES", "LC_ALL", "CUDA_VISIBLE_DEVICES", "ANYTHING"):
        monkeypatch.setenv(name, f"{os.environ.get(name, '')}2")
        assert runs() == set(), name
        assert runs() == {"a", "b"}, name


def test_the_current_folder_the_path_and_the_umask(runs, monkeypatch, tmp_path):
    fill(runs, {})
    monkeypatch.chdir(tmp_path)
    assert runs() == set()
    assert runs() == {"a", "b"}
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    assert runs() == set()
    assert runs() == {"a", "b"}
    (site / "sitecustomize.py").write_text("")
    assert runs() == set()
    assert runs() == {"a", "b"}
    info = site / "numpy-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n")
    assert runs() == set()
    assert runs() == {"a", "b"}
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.8\n")
    assert runs() == set()
    assert runs() == {"a", "b"}
    before = os.umask(0o077)
    try:
        assert runs() == set()
    finally:
        os.umask(before)


def test_the_interpreter_and_precreg(runs, monkeypatch):
    fill(runs, {})
    monkeypatch.setattr(sys, "version", sys.version.replace("3.", "4.", 1))
    assert runs() == set()
    monkeypatch.undo()
    assert runs() == {"a", "b"}
    monkeypatch.setattr("precreg.run.reuse.conditions.__version__", "9.9.9")
    assert runs() == set()


def test_a_copy_of_precreg_that_is_edited(runs, monkeypatch, tmp_path):
    """Only the place of the package is another: the code that runs stays the same."""
    copy = tmp_path / "precreg"
    copy.mkdir()
    (copy / "__init__.py").write_text("")
    (copy / "core.py").write_text("x = 1\n")
    monkeypatch.setattr("precreg.run.reuse.conditions.precreg.__file__", str(copy / "__init__.py"))
    fill(runs, {})
    (copy / "core.py").write_text("x = 2\n")
    assert runs() == set()
    assert runs() == {"a", "b"}
    (copy / "added.py").write_text("")
    assert runs() == set()


def test_another_library_outside_the_project(runs, monkeypatch, tmp_path):
    site = tmp_path / "site"
    write(site, {"outside.py": TWO.replace("two", "f_two"), "data/factor": "2"})
    monkeypatch.syspath_prepend(str(site))
    uses = "from outside import f_two\n\n\ndef f(x):\n    return x * f_two()\n\n\ndef g(x):\n    return x * 2\n"
    fill(runs, {A: uses})
    write(site, {"outside.py": THREE.replace("two", "f_two")})
    assert "a" not in runs()


ANALYZER = """\
import numpy as np

from precreg import Metric, analyzer


@analyzer(Metric("largest_sum", "value", "|sum a - sum r|", "lower", "ours"))
def rows(actual, reference):
    return {{"largest_sum": {factor} * np.abs(actual.sum() - reference.sum())}}
"""


def test_an_analyzer_that_is_installed(runs, monkeypatch, tmp_path):
    site = tmp_path / "site"
    info = "ours_1.dist-info"
    points = "[precreg.analyzers]\nrows_of_a_test = our_rows_of_a_test:rows\n"
    write(site, {f"{info}/METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 1\n"})
    write(site, {f"{info}/entry_points.txt": points, "our_rows_of_a_test.py": ANALYZER.format(factor=1)})
    monkeypatch.syspath_prepend(str(site))
    fill(runs, {"suites/unit/a.yaml": suite("a", analyzers="[rows_of_a_test]")})
    write(site, {"our_rows_of_a_test.py": ANALYZER.format(factor=2)})
    assert "a" not in runs()


def test_another_commit_is_checked_out_and_the_first_again(runs):
    fill(runs, {A: HELPED, "suites/unit/helper.py": TWO})
    repository(runs.project)
    write(runs.project, {"suites/unit/helper.py": THREE})
    git(runs.project, "commit", "-qam", "three")
    assert runs() == {"b"}
    git(runs.project, "checkout", "-q", "HEAD~1")
    assert runs() == {"a", "b"}
    assert runs.results["unit/a/default"].outcome.reused.started == "2026-01-01T00:00:01"
    git(runs.project, "checkout", "-q", "main")
    assert runs() == {"a", "b"}
    assert runs.results["unit/a/default"].outcome.reused.started == "2026-01-01T00:00:03"


def test_another_user(runs, monkeypatch):
    fill(runs, {})
    monkeypatch.setattr("os.getuid", lambda: 12345)
    assert runs() == set()


def test_a_clock_that_was_set_back(runs, monkeypatch):
    fill(runs, {})
    place = runs.project / A
    write(runs.project, {A: KERNEL.replace("x * 2\n\n\n", "x * 3\n\n\n")})
    os.utime(place, ns=(0, 0))
    assert runs() == {"b"}
    assert runs() == {"a", "b"}


def test_a_file_that_changes_while_its_case_runs(runs):
    """The outcome may belong to either content, so no later run takes it."""
    edits = f"{READS}\n\n(HERE / 'factor').write_text((HERE / 'factor').read_text())\n"
    write(runs.project, {A: edits, "suites/unit/factor": "2"})
    runs()
    for _ in range(2):
        assert runs() == {"b"}
        assert runs.fates == {"unit/a/default": "changed_meanwhile"}


def test_a_bound_is_judged_anew_without_a_run(runs):
    write(runs.project, {A: KERNEL.replace("x * 2\n\n\n", "x * 2.002\n\n\n")})
    runs()
    assert runs() == {"a", "b"}
    before = runs.results["unit/a/default"].verdict
    write(runs.project, {"suites/unit/a.yaml": suite("a").replace("rtol: 1e-3", "rtol: 1e-3, max_rel_error: 1e-9")})
    assert runs() == {"a", "b"}
    after = runs.results["unit/a/default"].verdict
    assert before != after
    assert any(finding.metric == "max_rel_error" for finding in after.findings)


def test_an_older_version_of_the_files_has_its_outcome_still(runs):
    fill(runs, {A: HELPED, "suites/unit/helper.py": TWO})
    write(runs.project, {"suites/unit/helper.py": THREE})
    assert runs() == {"b"}
    write(runs.project, {"suites/unit/helper.py": TWO})
    assert runs() == {"a", "b"}
    write(runs.project, {"suites/unit/helper.py": THREE})
    assert runs() == {"a", "b"}


UNSEEN = {
    "network": "import socket\n\n\ndef f(x):\n    socket.getaddrinfo('127.0.0.1', 80)\n    return x * 2\n",
    "programs": "import subprocess\n\n\ndef f(x):\n    subprocess.run(['true'], check=True)\n    return x * 2\n",
    "failed": "def f(x):\n    raise ValueError\n",
    "left_changes": "import os\n\n\ndef f(x):\n    os.umask(0o7)\n    return x * 2\n",
}


@pytest.mark.parametrize(("reason", "subject"), UNSEEN.items(), ids=UNSEEN)
def test_a_case_whose_dependencies_cannot_be_seen_is_never_reused(runs, reason, subject):
    write(runs.project, {A: f"{subject}\n\ndef g(x):\n    return x * 2\n"})
    runs()
    for _ in range(2):
        assert runs() == {"b"}
        assert runs.fates == {"unit/a/default": reason}
    assert runs.counts.ran == ((reason, 1),)


@pytest.mark.parametrize(
    ("reason", "options"),
    [("nondeterministic", {"repeats": 3, "deterministic": "false"}), ("timed", {"budget": "{time_ratio: 2}"})],
)
def test_a_case_that_declares_so_is_never_reused(runs, reason, options):
    write(runs.project, {"suites/unit/a.yaml": suite("a", **options)})
    runs()
    assert runs() == {"b"}
    assert runs.fates == {"unit/a/default": reason}


def test_the_process_of_a_reference_counts_too(runs):
    connects = UNSEEN["network"].replace("f(x)", "g(x)")
    write(runs.project, {A: f"{connects}\n\ndef f(x):\n    return x * 2\n"})
    runs()
    assert runs() == {"b"}
    assert runs.fates == {"unit/a/default": "network"}


def test_files_that_a_case_makes_for_itself(runs):
    temporary = """\
import tempfile
from pathlib import Path

import numpy as np


def f(x):
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", x)
        return np.load(Path(folder) / "x.npy") * 2


def g(x):
    return x * 2
"""
    fill(runs, {A: temporary})


def test_another_number_of_workers_finds_the_same(runs):
    fill(runs, {})
    assert runs(jobs=2) == {"a", "b"}
    assert isinstance(runs, Runs)
    assert Path(runs.project / ".precreg/outcomes.sqlite").is_file()
