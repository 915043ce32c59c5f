import pytest

from precreg.execute.sources import sources_digest


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("suites/unit/softmax.yaml", "suite: softmax\n")
    write("suites/unit/kernels/softmax.py", "def f(): ...\n")
    write("library/core.py", "X = 1\n")
    return write


@pytest.mark.parametrize(
    "name",
    [
        "suites/unit/softmax.yaml",
        "suites/tolerances.yml",
        "suites/unit/kernels/softmax.py",
        "library/core.py",
        "new.py",
    ],
)
def test_a_change_of_code_or_suites_changes_it(tmp_path, write, name):
    before = sources_digest(tmp_path)
    write(name, "changed\n")
    assert sources_digest(tmp_path) != before


@pytest.mark.parametrize(
    "name",
    [
        ".venv/lib/a.py",
        ".git/hook.py",
        "reports/index.py",
        "library/__pycache__/core.py",
        "README.md",
        "ci.yaml",
        "baselines/generic/unit/softmax.json",
        ".precreg/journal.jsonl",
    ],
)
def test_what_is_no_source_does_not(tmp_path, write, name):
    before = sources_digest(tmp_path)
    write(name, "changed\n")
    assert sources_digest(tmp_path) == before


def test_a_virtual_environment_of_any_name_is_none(tmp_path, write):
    before = sources_digest(tmp_path)
    write("python311/pyvenv.cfg", "home = /usr/bin\n")
    write("python311/lib/module.py", "X = 1\n")
    assert sources_digest(tmp_path) == before


def test_a_file_that_moves_changes_it(tmp_path, write):
    before = sources_digest(tmp_path)
    (tmp_path / "library/core.py").rename(tmp_path / "library/core2.py")
    assert sources_digest(tmp_path) != before
