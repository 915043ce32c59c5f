"""examples/: the projects of torch and ONNX. Commands print the lines of their pages, and the hook checks a push."""

import json
import subprocess
import sys

import pytest

from tests.e2e.examples import OTHER_MACHINE, copy, follow, pushes, run_jobs
from tests.e2e.test_readme import shell as shell
from tests.other_machine.test_planted import was_accepted_elsewhere

NAMES = ("onnx_model", "torch_model")


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_print_what_the_page_shows(name, shell, tmp_path):
    follow(shell, name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_another_machine_gives_the_same_verdicts(name, shell, tmp_path):
    project = follow(shell, name, tmp_path, "Break it", **OTHER_MACHINE)
    record = json.loads((project / "reports" / "record.json").read_text())
    assert record["results"]
    assert all(was_accepted_elsewhere(result) for result in record["results"])


@pytest.mark.parametrize("name", NAMES)
def test_the_jobs_of_the_pipeline_pass(name, shell, tmp_path):
    project = run_jobs(shell, name, tmp_path)
    assert json.loads((project / "reports" / "codequality.json").read_text()) == []


@pytest.mark.parametrize(("name", "then"), [("onnx_model", (sys.executable, "make_model.py")), ("torch_model", ())])
def test_the_hook_refuses_the_planted_change(name, then, tmp_path):
    first, second = pushes(name, tmp_path, then)
    assert first.returncode == 0, first.stdout + first.stderr
    assert second.returncode == 1
    assert "regressed" in second.stdout + second.stderr


def test_the_script_writes_the_model_that_is_kept(tmp_path):
    project = copy("onnx_model", tmp_path)
    script = "import onnx, make_model; print(onnx.load('model.onnx') == make_model.model())"
    done = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
