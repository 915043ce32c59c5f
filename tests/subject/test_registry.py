import subprocess
import sys

from precreg.subject import files, python
from precreg.subject.registry import kind


def test_our_own_kinds():
    assert kind("python") is python.run
    assert kind("files") is files.run


def test_our_own_kinds_need_no_metadata():
    code = "import sys; from precreg.subject.registry import kind; kind('python'); kind('files'); "
    result = subprocess.run([sys.executable, "-c", code + "sys.exit('importlib.metadata' in sys.modules)"], check=False)
    assert result.returncode == 0


def test_an_installed_package_adds_a_kind(install):
    install("precreg-simulator", "simulator", "simulated_kind")
    assert kind("simulator")("spec", None) == "spec"
