"""Modules of a project never run in precreg's own imports, whatever their names; they are named with their paths."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import PATIENCE_S, environ, started, with_suite

SUITE = """suite: s
subject: k:subject
reference: k:subject
inputs: {x: {shape: 20, dtype: float32, normal: {}}}
"""
KERNEL = "def subject(x):\n    return x\n"

LIBRARIES = ("click", "jinja2", "lazy_loader", "ml_dtypes", "msgspec", "numpy", "packaging", "precreg", "yaml")
NAMES = sorted({*sys.stdlib_module_names, *LIBRARIES})
# `python -m` loads these itself, from the current folder, before precreg can run.
OF_PYTHON_M = {
    name.partition(".")[0]
    for name in subprocess.run(
        [sys.executable, "-c", "import runpy, site, sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout.split()
}


@pytest.fixture
def shadowed(tmp_path):
    """Return a project whose root and suites' folder have a module of each name that writes its path and fails."""
    project = with_suite(tmp_path / "project", SUITE, KERNEL)
    for folder in (project, project / "suites" / "unit"):
        for name in NAMES:
            if name.isidentifier() and not (folder / name).exists():
                (folder / f"{name}.py").write_text(TRAP.format(log=str(tmp_path / "log"), name=name))
    return project


TRAP = """import posix
log = posix.open({log!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND)
posix.write(log, ascii(__file__).encode() + b"\\n")
raise RuntimeError("the project's own {name}")
"""


def trapped(project):
    log = project.parent / "log"
    return log.read_text().splitlines() if log.exists() else []


def command(project, *arguments, **variables):
    """Run the command that pip installs."""
    script = Path(sys.executable).with_name("precreg")
    return subprocess.run(
        [script, *arguments],
        cwd=project,
        env=environ(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_no_module_of_the_project_runs_in_our_imports(shadowed, jobs):
    done = command(shadowed, "run", "--jobs", jobs)
    assert trapped(shadowed) == []
    assert (done.returncode, done.stderr) == (2, "1 of 1 cases\n")
    record = json.loads((shadowed / "reports" / "record.json").read_text())
    assert [result["verdict"]["reason"] for result in record["results"]] == ["new"]


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_started_as_a_module_from_the_projects_root(shadowed, jobs):
    for name in OF_PYTHON_M | {"precreg"}:
        (shadowed / f"{name}.py").unlink(missing_ok=True)
    done = started(shadowed, "run", "--jobs", jobs)
    assert trapped(shadowed) == []
    assert (done.returncode, done.stderr) == (2, "1 of 1 cases\n")
    assert "could not be judged: 1 new" in done.stdout


def test_workers_start_although_the_path_begins_with_the_project(shadowed):
    """The user has the command itself find these modules. They do no harm there, and would stop a worker."""
    for name in NAMES:
        (shadowed / f"{name}.py").unlink(missing_ok=True)
    for name in ("selectors", "random", "numpy", "pickle", "msgspec"):
        text = f"import os, sys\nif os.getppid() != {os.getpid()}:\n    os.abort()\n"
        found = (
            "import sys\nsys.path.remove({root!r})\nsys.modules.pop({name!r})\nfrom importlib import import_module\n"
        )
        text += found.format(root=str(shadowed), name=name)
        text += f"import_module({name!r})\nsys.path.insert(0, {str(shadowed)!r})\n"
        (shadowed / f"{name}.py").write_text(text)
    done = command(shadowed, "run", "--jobs", "2", PYTHONPATH=str(shadowed))
    assert (done.returncode, done.stderr) == (2, "1 of 1 cases\n")
    assert "could not be judged: 1 new" in done.stdout


def test_a_module_that_shadows_another_is_named_with_its_path(tmp_path):
    project = with_suite(tmp_path, SUITE, KERNEL)
    (project / "random.py").touch()
    (project / "suites" / "selectors").mkdir()
    (project / "suites" / "selectors" / "__init__.py").touch()
    (project / "suites" / "unit" / "numpy.py").touch()
    (project / "suites" / "unit" / "test.py").touch()
    (project / "suites" / "unit" / "own.py").touch()
    done = command(project, "run", "--jobs", "2")
    assert (done.returncode, done.stderr) == (2, "1 of 1 cases\n")
    record = json.loads((project / "reports" / "record.json").read_text())
    files = ["random.py", "suites/selectors", "suites/unit/numpy.py"]
    assert record["warnings"] == [{"kind": "shadowing_files", "files": files}]
    assert "random.py, suites/selectors" in done.stdout


def test_a_subject_with_the_name_of_a_module_of_python_is_refused(tmp_path):
    project = with_suite(tmp_path, SUITE.replace("k:", "selectors:"))
    (project / "suites" / "unit" / "selectors.py").write_text(KERNEL)
    done = command(project, "run", "--jobs", "2")
    assert done.returncode == 2
    assert done.stderr.startswith("suites/unit/s.yaml:2: error[taken-name]")
    assert "one of Python's own" in done.stderr
