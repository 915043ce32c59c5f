"""What `pip install .` gives: the command, with everything it needs to run and to report, outside this checkout."""

import shutil
import subprocess
import sys

import pytest

from tests.e2e.command import ROOT, copy_of, environ
from tests.e2e.test_road import ROAD


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install a copy of the sources into a folder; what they depend on is that of the tests."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "precreg", source / "precreg", ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", target, source], check=True)
    return target


def run(installed, folder, *arguments):
    command = [sys.executable, str(installed / "bin" / "precreg"), *arguments]
    variables = environ(PYTHONPATH=str(installed), PYTHONSAFEPATH="1")
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_installed_command_runs_and_writes_every_report(installed, tmp_path):
    project = copy_of(ROAD, tmp_path)
    where = "import precreg; print(precreg.__file__)"
    variables = environ(PYTHONPATH=str(installed), PYTHONSAFEPATH="1")
    shown = subprocess.run([sys.executable, "-c", where], cwd=project, env=variables, capture_output=True, text=True)
    assert shown.stdout.startswith(str(installed)), shown.stderr
    done = run(installed, project, "run")
    assert done.returncode == 1, done.stderr
    names = {path.name for path in (project / "reports").iterdir()}
    assert names == {".gitignore", "record.json", "junit.xml", "codequality.json", "report.html", "summary.md"}


def test_help_and_version(installed, tmp_path):
    assert run(installed, tmp_path, "--help").stdout.startswith("Usage: precreg")
    assert run(installed, tmp_path, "--version").stdout.startswith("precreg ")


def test_types_are_shipped(installed):
    assert (installed / "precreg" / "py.typed").is_file()
