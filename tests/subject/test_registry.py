import subprocess
import sys

import pytest

from precreg.errors import UserError
from precreg.subject import python
from precreg.subject.kind import kind_named, subject_entry_point, subject_kind


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


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ValueError('no licence')\n", "raised ValueError when it was imported: no licence"),
        ("exit(3)\n", "raised SystemExit when it was imported: 3"),
        ("other = 1\n", "raised AttributeError when it was imported: module 'broken_kind' has no attribute 'run'"),
        ("run = 3\n", "is int, and no function or Kind"),
        (
            "from precreg.subjects import Kind\nrun = Kind(run='json:no')\n",
            "raised AttributeError when it was imported",
        ),
    ],
)
def test_a_kind_that_cannot_be_imported_is_named(install, tmp_path, monkeypatch, code, says):
    install("precreg-broken", "broken", "broken_kind")
    (tmp_path / "broken_kind.py").write_text(code)
    monkeypatch.delitem(sys.modules, "broken_kind", raising=False)
    # Another test may have found a kind of this name in another package.
    for function in (subject_entry_point, kind_named, subject_kind):
        function.cache_clear()
    with pytest.raises(UserError) as caught:
        subject_kind("broken")
    assert caught.value.slug == "bad-kind"
    assert f"broken of broken_kind:run {says}" in caught.value.message
