import subprocess
import sys

import pytest

from precreg.errors import UserError
from precreg.subject import files, python
from precreg.subject.registry import kind


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package that brings one kind of subject, as pip would lay it out."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package, kind_name, module):
        (tmp_path / f"{module}.py").write_text("def run(spec, call):\n    return spec\n")
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[precreg.subjects]\n{kind_name} = {module}:run\n")

    return install


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


def test_two_packages_with_one_name_are_refused(install):
    install("first", "twice", "first_kind")
    install("second", "twice", "second_kind")
    with pytest.raises(UserError, match="first_kind:run and second_kind:run") as caught:
        kind("twice")
    assert caught.value.slug == "unknown-subject-kind"


def test_a_misspelt_kind_names_the_nearest():
    with pytest.raises(UserError, match='kind=pyton; did you mean "python"') as caught:
        kind("pyton")
    assert caught.value.slug == "unknown-subject-kind"
