"""What tests of several rooms need."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from precreg.subject import enter_module_space, leave_module_space
from tests.e2e.command import THREADS
from tests.shipped import session_folder, shipped_run

os.environ.update(THREADS)
# Causes are searched where a test is about them: see `environ` of the commands.
os.environ["PRECREG_DIAGNOSE"] = "0"

# On a loaded machine a drawn example may take any time. In CI the examples are always the same, as hypothesis has it.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure():
    """Let interrupts interrupt: where a shell starts this in the background, it and its children ignore them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection(session):
    """Import the later half of the modules first in the second worker: then each rewrites the asserts of one half."""
    if os.environ.get("PYTEST_XDIST_WORKER") != "gw1":
        return
    root = Path(__file__).parents[1]
    ignored = [Path(each).resolve() for each in session.config.getoption("ignore") or ()]
    found = {file.resolve() for folder in session.config.args for file in Path(folder).rglob("test_*.py")}
    files = sorted(file for file in found if not any(file.is_relative_to(each) for each in ignored))
    for file in reversed(files[len(files) // 2 :]):
        # Collection imports it again, and reports the error.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_finish():
    """Keep garbage collections off the twelve thousand tests, which live to the end: each took a third of a second."""
    # Tests change modules within a second, and Python takes bytecode of the same second and size for the changed file.
    # Collection writes bytecode, here and in the workers of xdist: pytest spent 13 of its 19 s on rewriting asserts.
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def modules_of_tests():
    """Bring back the modules of tests, which are this project's, where a test ran another project in this process.

    The test that runs next in this process may be any of them, and pickles what its module defines.
    """
    yield
    if __name__ not in sys.modules:
        suites = Path(__file__).parents[1] / "suites"
        enter_module_space(suites, suites.parent)
        leave_module_space()


@pytest.fixture(scope="session")
def shipped(tmp_path_factory):
    """Return the one run of the shipped suites of this session. Its project is for reading: copy it for a change."""
    return shipped_run(session_folder(tmp_path_factory) / "shipped")


@pytest.fixture
def unprivileged():
    """A folder of its own for a user whom permissions hold, which they do not hold root."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        yield folder
        os.seteuid(0)
    else:
        yield folder
        folder.chmod(0o700)
    shutil.rmtree(folder)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package that brings one kind of subject, as pip would lay it out."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package, kind_name, module):
        code = "from precreg.subject import Outputs\ndef run(spec, call):\n    return Outputs({spec: [1.0]}, 0.5)\n"
        (tmp_path / f"{module}.py").write_text(code)
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[precreg.subjects]\n{kind_name} = {module}:run\n")

    return install
