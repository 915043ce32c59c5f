import subprocess
import sys

from precreg.subject import python
from precreg.subject.kind import subject_kind


def test_our_own_kinds():
    assert subject_kind("python") is python.run_python
    assert subject_kind("files") is python.run_files


def test_our_own_kinds_need_no_metadata():
    code = "import sys; from precreg.subject.kind import subject_kind as kind; kind('python'); kind('files'); "
    result = subprocess.run([sys.executable, "-c", code + "sys.exit('importlib.metadata' in sys.modules)"], check=False)
    assert result.returncode == 0


def test_an_installed_package_adds_a_kind(install):
    install("precreg-simulator", "simulator", "simulated_kind")
    outputs = subject_kind("simulator")("spec", None)
    assert (list(outputs.arrays), outputs.duration_s) == (["spec"], 0.5)
