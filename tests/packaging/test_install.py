"""The wheel, and the sdist where no compiler works, as pip installs them outside this checkout."""

import json
import os
import subprocess
import sys

import pytest

from precreg.arithmetic.devices import device_names
from tests.e2e.command import REPORT_FILES, copy_of, environ, precreg, with_suite
from tests.e2e.test_road import ROAD
from tests.packaging.installed import assert_native, assert_numpy, doctor


def install(target, package, **variables):
    """Install a package into a folder, with the dependencies that the tests have."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", target, package], env={**os.environ, **variables}, check=True)
    return target


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    return install(tmp_path_factory.mktemp("with"), wheel)


@pytest.fixture(scope="module")
def without_compiler(tmp_path_factory, sdist):
    return install(tmp_path_factory.mktemp("without"), sdist, CC="/bin/false", CXX="/bin/false")


def run(installed, folder, *arguments):
    command = [sys.executable, str(installed / "bin" / "precreg"), *arguments]
    variables = environ(PYTHONPATH=str(installed), PYTHONSAFEPATH="1")
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def verdicts(project):
    """Return the verdict of every case of the last run."""
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    assert results
    return {result["id"]: (result["verdict"]["status"], result["verdict"]["reason"]) for result in results}


def doctor_of(installed, folder):
    command = [sys.executable, str(installed / "bin" / "precreg")]
    return doctor(command, folder, environ(PYTHONPATH=str(installed), PYTHONSAFEPATH="1"))


def test_the_installed_command_runs_and_writes_every_report(installed, tmp_path):
    project = copy_of(ROAD, tmp_path)
    where = "import precreg; print(precreg.__file__)"
    variables = environ(PYTHONPATH=str(installed), PYTHONSAFEPATH="1")
    shown = subprocess.run([sys.executable, "-c", where], cwd=project, env=variables, capture_output=True, text=True)
    assert shown.stdout.startswith(str(installed)), shown.stderr
    done = run(installed, project, "run")
    assert done.returncode == 1, done.stderr
    names = {path.name for path in (project / "reports").iterdir()}
    assert names == {".gitignore", *REPORT_FILES}


def test_the_tables_of_devices_are_installed(installed, tmp_path):
    suite = f"suite: s\nsubject: k:twice\nreference: k:twice\nmatrix: {{device: [{', '.join(device_names(None))}]}}\n"
    inputs = "device: $device\ninputs: {x: {shape: [8], dtype: float32, normal: {mean: 0, std: 1}}}\n"
    # A device that computes nothing of its subject is an error, and the coarsest has a mantissa of 10 bits.
    project = with_suite(tmp_path, suite + inputs + "tolerance: {rtol: 1e-2}\n", "def twice(x):\n    return x + x\n")
    run(installed, project, "run")
    assert set(verdicts(project).values()) == {("proposed", "new")}


def test_help_and_version(installed, tmp_path):
    assert run(installed, tmp_path, "--help").stdout.startswith("Usage: precreg")
    assert run(installed, tmp_path, "--version").stdout.startswith("precreg ")


def test_types_are_shipped_and_sources_of_the_core_are_not(installed):
    assert (installed / "precreg" / "py.typed").is_file()
    for room in ("arithmetic", "measure"):
        files = [path for path in (installed / "precreg" / room).iterdir() if path.is_file()]
        assert {path.name for path in files if path.suffix != ".py"} == {"__init__.pyi", "_core.abi3.so", "_core.pyi"}
        assert not (installed / "precreg" / room / "core").exists()
    assert not (installed / "precreg" / "core").exists()
    assert all(path.stat().st_size < 2_000_000 for path in installed.rglob("precreg/*/*.so")), "stripped"


def test_the_cores_are_built_and_serve(installed, tmp_path):
    assert_native(doctor_of(installed, tmp_path), installed / "precreg")


def test_an_install_without_a_compiler_works_and_gives_the_same_verdicts(without_compiler, tmp_path):
    assert_numpy(doctor_of(without_compiler, tmp_path))
    project = copy_of(ROAD, tmp_path)
    assert run(without_compiler, project, "run").returncode == 1
    by_numpy = verdicts(project)
    assert precreg(project, "run").returncode == 1
    assert verdicts(project) == by_numpy


def test_the_variable_gives_the_same_verdicts_too(tmp_path):
    project = copy_of(ROAD, tmp_path)
    found = []
    for form in ("", "numpy"):
        precreg(project, "run", PRECREG_FORM=form)
        found.append(verdicts(project))
    assert found[0] == found[1]
