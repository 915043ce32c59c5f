import os

import pytest

from precreg.run.journal import LARGE_BYTES, sources_digest


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
        "suites/unit/golden/softmax.npy",
        "suites/unit/outputs/1.0/all.npz",
        "suites/unit/outputs/build/weights.txt",
        "outputs/softmax.npy",
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
        "suites/unit/__pycache__/core.pyc",
        "suites/unit/.softmax.yaml.swp",
        "build/library/core.py",
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


def test_a_large_file_counts_by_size_and_time(tmp_path, write):
    large = tmp_path / "suites/unit/large.npy"
    digests = set()
    for size, time in ((LARGE_BYTES, 1), (LARGE_BYTES, 2), (LARGE_BYTES + 1, 2)):
        with large.open("ab") as file:
            file.truncate(size)
        os.utime(large, ns=(time, time))
        digests.add(sources_digest(tmp_path))
    assert len(digests) == 3


def test_a_small_file_counts_by_its_content(tmp_path, write):
    before = sources_digest(tmp_path)
    os.utime(tmp_path / "library/core.py", ns=(1, 1))
    assert sources_digest(tmp_path) == before


def test_files_that_cannot_be_read_stop_no_run(unprivileged):
    suites = unprivileged / "suites"
    suites.mkdir()
    (suites / "secret.txt").write_text("")
    (suites / "secret.txt").chmod(0)
    (suites / "leads nowhere.py").symlink_to(suites / "none.py")
    os.mkfifo(suites / "pipe")
    (suites / b"\xff.txt".decode(errors="surrogateescape")).write_text("")
    assert sources_digest(unprivileged) == sources_digest(unprivileged)
