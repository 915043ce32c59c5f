"""A bound on significant digits gates: a naive sum fails it, a compensated one passes, and every report says so."""

import json
import re
import shutil
from xml.etree import ElementTree

import pytest

from tests.e2e.command import change, git, precreg

KERNELS = """\
import numpy as np


def summed(x):
    total, lost = x[0], x[0] * 0
    for term in x[1:]:
        term = term - lost
        following = total + term
        lost = (following - total) - term
        total = following
    return total


def exact(x):
    return np.sum(x)
"""
SUITE = """\
suite: sum
subject: kernels:summed
reference: kernels:exact
inputs:
  x: {shape: [400], dtype: float32, uniform: {low: 0, high: 1}}
seeds: 3
stochastic: {samples: 20}
tolerance: {rtol: 1e-3, min_significant_digits: 6.2}
"""
KERNEL = "suites/unit/kernels.py"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A repository with an accepted case that sums with compensation."""
    folder = tmp_path_factory.mktemp("accepted")
    (folder / "suites/unit").mkdir(parents=True)
    (folder / KERNEL).write_text(KERNELS)
    (folder / "suites/unit/sum.yaml").write_text(SUITE)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a compensated sum")
    assert precreg(folder, "run").returncode == 2
    assert precreg(folder, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    return folder


@pytest.fixture(scope="module")
def judged(accepted, tmp_path_factory):
    """A copy of the repository in which a second run judged the case by its baseline."""
    folder = shutil.copytree(accepted, tmp_path_factory.mktemp("judged") / "project", symlinks=True)
    done = precreg(folder, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.fixture
def project(accepted, tmp_path):
    """A copy of the repository."""
    return shutil.copytree(accepted, tmp_path / "project", symlinks=True)


def record_of(project):
    (result,) = json.loads((project / "reports/record.json").read_text())["results"]
    return result


def fewest(project):
    return min(each["metrics"]["min_significant_digits"] for each in record_of(project)["outcome"]["comparisons"])


def test_the_gate_passes_the_compensated_sum_and_fails_the_naive_one(judged, project):
    compensated = fewest(judged[0])
    change(project / KERNEL, "term = term - lost", "term = term - 0 * lost")
    done = precreg(project, "run", "--pair", "off")
    assert done.returncode == 1, done.stdout
    assert record_of(project)["verdict"]["reason"] == "out_of_tolerance"
    assert "min_significant_digits is 5." in done.stdout
    assert fewest(project) < 6.2 < compensated


def test_every_report_has_the_digits_of_a_case_that_passes(judged, tmp_path):
    project, printed = judged
    shown = f"{fewest(project):.3g}"
    assert re.search(rf"^ +unit/sum/\S+ +out +{re.escape(shown)} ", printed, re.MULTILINE)
    (test,) = ElementTree.parse(project / "reports/junit.xml").getroot().iter("testcase")
    properties = {each.get("name"): float(each.get("value")) for each in test.iter("property")}
    assert properties["precreg.min_significant_digits.out"] == pytest.approx(fewest(project), rel=1e-5)
    assert f"at least {shown} significant digits" in test.findtext("system-out")
    assert f"| {shown} |" in (project / "reports/summary.md").read_text().partition("## Significant digits")[2]
    html = (project / "reports/report.html").read_text()
    assert f"at least {shown} significant digits" in html
    assert "min_significant_digits" in html
    (digits,) = {json.dumps(each["digits"]["settings"]) for each in record_of(project)["outcome"]["comparisons"]}
    assert json.loads(digits)["samples"] == 20
    again = precreg(project, "report", "reports", "--output", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    for name in ("junit.xml", "summary.md"):
        assert (tmp_path / "again" / name).read_text() == (project / "reports" / name).read_text()


def test_three_runs_have_the_same_digits_in_process_and_in_workers(judged, accepted, project):
    precreg(project, "run", "--jobs", "2")
    first, second, workers = (
        [each["digits"] for each in record_of(folder)["outcome"]["comparisons"]]
        for folder in (accepted, judged[0], project)
    )
    assert first == second == workers


def test_a_bound_without_samples_is_broken_and_the_message_says_why(project):
    change(project / "suites/unit/sum.yaml", "stochastic: {samples: 20}\n", "")
    done = precreg(project, "run", "--pair", "off")
    assert done.returncode == 1
    assert "min_significant_digits needs an output of real numbers and stochastic: in the suite" in done.stdout
    assert all("digits" not in each for each in record_of(project)["outcome"]["comparisons"])


def test_noise_that_meets_nothing_is_an_error_without_a_traceback(project):
    change(project / KERNEL, "total, lost = x[0], x[0] * 0", "x = np.asarray(x)\n    total, lost = x[0], x[0] * 0")
    done = precreg(project, "run", "--pair", "off")
    assert done.returncode == 2
    assert "expected floating-point operations on the inputs" in done.stdout
    assert "error[idle-noise]" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_baselines_do_not_keep_digits(project):
    (file,) = (project / "baselines").rglob("sum.json")
    assert "significant_digits" not in file.read_text()
