"""A red program: every report names the command that finds its change, and that command finds it."""

import json
import re
import shlex

import pytest

from tests.e2e.command import REPORT_FILES, git, precreg
from tests.e2e.programs import WORSE, accepted, with_kernel

CASE = "unit/sums/length=1000"
SUITE = """\
suite: sums
subject:
  command: ["{build}/kernel", $length, "{inputs.x}", "{outputs.y}"]
  format: bin
  outputs: {y: {dtype: float32, shape: [40]}}
  build:
    command: [cc, -O2, -ffp-contract=off, src/kernel.c, -o, "{build}/kernel"]
    sources: ["src/**"]
    produces: kernel
reference: sums:exact
matrix: {length: [500, 700, 900, 1000]}
inputs: {x: {shape: [40, $length], dtype: float32, uniform: {low: 0, high: 1}}}
tolerance: {rtol: 1e-4}
"""
CANNOT = "precreg cannot look into a program"


@pytest.fixture
def red(tmp_path):
    """Return a project whose kernel lost precision in the working tree."""
    project = with_kernel(tmp_path / "project", SUITE)
    accepted(project)
    (project / "suites/unit/src/kernel.h").write_text(WORSE)
    return project


def run(project, *options, **variables):
    done = precreg(project, "run", "sums", *options, **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_every_report_names_the_command_that_finds_the_line(red):
    good = git(red, "rev-parse", "HEAD")[:8]
    shown = run(red)
    (command,) = re.findall("look into (precreg .*)", shown)
    assert re.fullmatch(rf"precreg bisect (unit/sums/length=\d+) --good {good} --bad \.", command)
    texts = {name: (red / "reports" / name).read_text() for name in REPORT_FILES}
    for name in ("junit.xml", "report.html", "summary.md"):
        assert command in texts[name].replace("\\u0026", "&"), name
        assert not re.search(r"precreg (diagnose|trace) unit", texts[name]), name
    done = precreg(red, *shlex.split(command)[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "to blame: suites/unit/src/kernel.h:1" in done.stdout
    assert "+ typedef float total;" in done.stdout


def test_diagnose_and_trace_name_bisect_for_a_program(red):
    good = git(red, "rev-parse", "HEAD")[:8]
    done = precreg(red, "diagnose", CASE, "--seconds", "5")
    assert f"{CANNOT}: precreg bisect {CASE} --good {good} --bad ." in done.stdout
    assert f"to do: find the line of the change: precreg bisect {CASE} --good {good} --bad ." in done.stdout
    assert "precreg trace" not in done.stdout
    refused = precreg(red, "trace", CASE)
    assert refused.returncode == 2
    assert "error[untraceable]" in refused.stderr
    assert "precreg bisect CASE --good COMMIT --bad ." in refused.stderr


def test_a_run_spends_a_third_of_its_time_and_names_one_group(red):
    # Workers, because a process of its own ends only there when its time is up.
    shown = run(red, "--diagnose", "30", "--jobs", "1")
    assert shown.count(CANNOT) == 1
    assert "rewrites explains" not in shown
    record = json.loads((red / "reports/record.json").read_text())
    assert record["diagnosed"]["used"] < 15
    assert (red / "reports/summary.md").read_text().count(CANNOT) == 1


def test_a_program_that_git_does_not_know_gets_no_command_that_cannot_work(tmp_path):
    project = with_kernel(tmp_path / "project", SUITE)
    (project / "suites/unit/src/kernel.h").write_text(WORSE)
    suite = project / "suites/unit/sums.yaml"
    suite.write_text(suite.read_text().replace("rtol: 1e-4", "rtol: 1e-9, atol: 0"))
    shown = run(project)
    assert "precreg bisect" not in shown
    assert re.search("look into precreg explain unit/sums", shown)
