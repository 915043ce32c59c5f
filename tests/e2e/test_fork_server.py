"""The command of shells in tests: a fork has the shell's streams, folder, variables and exit code."""

import json
import subprocess

import pytest

from tests.e2e.command import PATIENCE_S, environ, git, precreg, repository, with_suite
from tests.e2e.fork_server import write_command

SUITE = "suite: s\nsubject: k:same\nreference: k:same\ninputs: {x: {shape: [8], dtype: float32, normal: {}}}\n"


@pytest.fixture
def shell(tmp_path):
    """Return a function that runs a line in a project, with `precreg` on the PATH."""
    (tmp_path / "bin").mkdir()
    write_command(tmp_path / "bin" / "precreg", "precreg", PATIENCE_S)
    project = with_suite(tmp_path / "project", SUITE)

    def shell(line, **variables):
        known = environ()
        variables["PATH"] = f"{tmp_path / 'bin'}:{known['PATH']}"
        return subprocess.run(
            ["sh", "-c", line], cwd=project, env={**known, **variables}, capture_output=True, text=True, check=False
        )

    return shell


# Python reads a seed for its hashes as it starts, so that command is no fork.
@pytest.mark.parametrize("variables", [{}, {"PYTHONHASHSEED": "0"}], ids=["fork", "interpreter"])
def test_a_command_has_the_streams_the_folder_the_variables_and_the_code_of_its_shell(shell, variables):
    done = shell("precreg list | cat && precreg nope", **variables)
    assert done.stdout.startswith("unit/s/")
    assert "Usage: precreg" in done.stderr
    assert done.returncode == 2
    assert shell("CI=true precreg run --jobs 0", **variables).returncode == 1
    assert shell("precreg run --jobs 0", **variables).returncode == 2


def test_commands_of_one_shell_may_run_at_once(shell):
    assert shell("precreg --version & precreg --version & wait").stdout.count("precreg ") == 2


KERNEL = "import numpy as np\n\n\ndef same(x):\n    print('computes')\n    return x\n\n\ndef exact(x):\n    return x\n"
ENDS = KERNEL.replace("    return x\n\n\ndef exact", "    import os\n\n    os.abort()\n\n\ndef exact")


def test_a_bisection_finds_the_same_in_forks_and_in_interpreters(tmp_path):
    project = repository(with_suite(tmp_path, SUITE.replace("reference: k:same", "reference: k:exact"), KERNEL))
    first = git(project, "rev-parse", "HEAD")
    for kernel in (ENDS, KERNEL.replace("return x\n\n\ndef exact", "return x + x\n\n\ndef exact")):
        (project / "suites/unit/k.py").write_text(kernel)
        git(project, "commit", "-qam", "change")
    found = []
    for variables in ({}, {"PYTHONHASHSEED": "0"}):
        done = precreg(project, "bisect", "unit/s", "--good", first, "--json", "-", **variables)
        assert done.returncode == 2, done.stderr
        found.append(json.loads(done.stdout))
        found[-1].pop("seconds")
        for step in found[-1]["ends"] + found[-1]["steps"]:
            step.pop("seconds")
    (step,) = found[0]["steps"]
    assert (step["reason"], step["message"]) == ("crashed", "killed by SIGABRT")
    assert found[0] == found[1]
