"""What CI is given: a pipeline that GitLab takes, and the two commands of README."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from precreg.report.codequality import SEVERITIES
from precreg.types.verdict import Reason

ROOT = Path(__file__).parents[2]


PAGE = (ROOT / "docs" / "gitlab.md").read_text()
TEMPLATE = re.search(r"^```yaml file=\.gitlab-ci\.yml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("text", [(ROOT / ".gitlab-ci.yml").read_text(), TEMPLATE], ids=["ours", "template"])
def test_gitlab_takes_the_pipeline(text, tmp_path):
    (tmp_path / ".gitlab-ci.yml").write_text(text)
    check = [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci"]
    command = [*check, "--data-transform", "gitlab-ci", tmp_path / ".gitlab-ci.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_has_the_severity_of_every_reason():
    rows = re.findall(r"^\| (blocker|critical|major) \| (.*) \|$", PAGE, re.MULTILINE)
    said = {Reason(reason): severity for severity, reasons in rows for reason in re.findall(r"`(\w+)`", reasons)}
    assert said == SEVERITIES


TARGETS = ("extras", "browser", "pipeline", "postgresql", "packaging")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("ci", "code", "said"), [("", 0, "SKIPPED tests/{}"), ("true", 2, "tests/{} cannot run")])
def test_what_a_target_needs_and_lacks_is_said_and_fails_in_ci(tmp_path, target, ci, code, said):
    """The tools of the target stand alone on the PATH, so what it needs is not there, and no apt-get to install it."""
    for tool in ("make", "sh", "id", "touch"):
        found = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True)
        (tmp_path / tool).symlink_to(found.stdout.strip())
    variables = {"PATH": str(tmp_path), "CI": ci, "HOME": os.environ.get("HOME", "/")}
    command = ["make", "--no-print-directory", "-o", ".venv/.installed-dev", f"EXTRAS={tmp_path / 'none'}", target]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said.format(target) in done.stdout + done.stderr
