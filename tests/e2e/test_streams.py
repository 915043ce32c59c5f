"""Closed streams, and encodings that lack characters: less is shown, and everything is done all the same."""

import subprocess
import sys

import pytest

from tests.e2e.command import copy_of, environ, precreg, with_suite
from tests.e2e.test_road import BASELINE, ROAD

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SUITE = """suite: s
subject: k:fails
reference: k:fails
matrix: {n: [1, 2]}
inputs: {x: {shape: 4, dtype: float32, normal: {}}}
params: {n: $n}
"""
KERNEL = "def fails(x, n):\n    print('détail')\n    return x if n == 1 else open(__file__ + '/é')\n"


def shell(folder, command, **variables):
    """Run a command line of a shell, in which `precreg` is ours."""
    line = command.replace("precreg", f"{sys.executable} -m precreg")
    return subprocess.run(
        line, shell=True, cwd=folder, env=environ(**variables), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("jobs", [0, 1])
def test_closed_streams_keep_no_run_from_its_end(tmp_path, closed, jobs):
    project = copy_of(ROAD, tmp_path)
    expected = precreg(project, "run")
    (project / "reports" / "record.json").unlink()
    done = shell(project, f"precreg run --jobs {jobs} {closed}")
    assert done.returncode == expected.returncode == 1
    assert "Traceback" not in done.stderr
    assert (project / "reports" / "record.json").is_file()
    if ">&-" not in closed.split():
        assert done.stdout.splitlines()[-1] == expected.stdout.splitlines()[-1]


def test_version_needs_no_streams(tmp_path):
    assert shell(tmp_path, "precreg --version >&- 2>&-").returncode == 0


@pytest.mark.parametrize("jobs", ["0", "1"])
def test_a_folder_that_the_locale_cannot_name(tmp_path, jobs):
    project = with_suite(tmp_path / "projet é", SUITE, KERNEL)
    done = precreg(project, "run", "--jobs", jobs, **C_LOCALE)
    assert (done.returncode, done.stderr.count("Traceback")) == (2, 0), done.stderr
    assert "subject_error" in done.stdout
    assert precreg(project, "run", "--resume", **C_LOCALE).returncode == 2


def test_a_character_that_the_output_lacks_is_written_out(tmp_path):
    project = copy_of(ROAD, tmp_path)
    baseline = project / BASELINE
    baseline.write_text(baseline.read_text().replace("float32 accumulator", "→ float32"), encoding="utf-8")
    done = precreg(project, "baseline", "list", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2192 float32" in done.stdout
