"""What CI is given: a pipeline that GitLab takes, and the two commands of README."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_gitlab_takes_the_pipeline():
    check = [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci"]
    done = subprocess.run(
        [*check, "--data-transform", "gitlab-ci", ROOT / ".gitlab-ci.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


TARGETS = ("browser", "pipeline", "postgresql")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("ci", "code", "said"), [("", 0, "SKIPPED tests/{}"), ("true", 2, "tests/{} cannot run")])
def test_what_a_target_needs_and_lacks_is_said_and_fails_in_ci(tmp_path, target, ci, code, said):
    """The tools of the target stand alone on the PATH, so there is no chromium, no Node.js, no server and no apt-get."""
    for tool in ("make", "sh", "id", "touch"):
        found = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True)
        (tmp_path / tool).symlink_to(found.stdout.strip())
    variables = {"PATH": str(tmp_path), "CI": ci, "HOME": os.environ.get("HOME", "/")}
    command = ["make", "--no-print-directory", "-o", ".venv/.installed-dev", target]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said.format(target) in done.stdout + done.stderr
