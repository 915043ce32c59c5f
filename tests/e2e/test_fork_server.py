"""The command of shells in tests: a fork has the shell's streams, folder, variables and exit code."""

import subprocess

import pytest

from tests.e2e.command import PATIENCE_S, environ, with_suite
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
