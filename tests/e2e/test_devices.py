"""Devices through the real command: one of the project's own, and every mistake in one."""

import json

import pytest

from precreg.arithmetic.devices import device_names
from tests.e2e.command import change, forked_pytest, git, precreg, repository, with_suite

KERNEL = """\
import numpy as np


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
"""
SUITE = """\
suite: softmax
subject: k:softmax
reference: k:softmax
matrix:
  device: [cpu, npu]
device: $device
inputs:
  x: {shape: [16, 64], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-5, atol: 0}
"""
DEVICE = """\
about: ours
formats:
  short: {precision: 12, min_exponent: -126, max_exponent: 127}
elementwise:
  float32: {format: short, rounding: toward_zero}
reductions:
  float32: {accumulator: short, output: short, rounding: toward_zero}
"""
TABLE = "suites/devices/npu.yaml"


@pytest.fixture
def project(tmp_path):
    """Make a project with a suite on two devices, one of them its own."""
    with_suite(tmp_path, SUITE, KERNEL, "softmax")
    (tmp_path / "suites/devices").mkdir()
    (tmp_path / TABLE).write_text(DEVICE)
    return repository(tmp_path)


def results(project):
    record = json.loads((project / "reports" / "record.json").read_text())
    return {result["name"]: result for result in record["results"]}


def test_the_subject_is_computed_on_the_device_and_the_reference_is_not(project):
    done = precreg(project, "run", "--jobs", "2")
    assert done.returncode == 1, done.stdout
    found = results(project)
    assert found["cpu"]["verdict"]["reason"] == "new"
    assert found["npu"]["verdict"]["reason"] == "out_of_tolerance"
    comparison = found["npu"]["outcome"]["comparisons"][0]
    assert 2**-12 < comparison["metrics"]["max_rel_error"] < 2**-5
    assert found["npu"]["parameters"] == {"device": "npu"}


def test_processes_and_pytest_give_the_same_bits(project):
    digests = []
    for jobs in ("0", "2"):
        precreg(project, "run", "--jobs", jobs)
        digests.append({name: result["outcome"]["execution"]["outputs"] for name, result in results(project).items()})
    done = forked_pytest(project, "-o", "precreg_suites=suites", "suites")
    assert "1 failed" in done.stdout
    assert "npu.yaml" not in done.stdout, "the table of a device is no suite"
    digests.append({name: result["outcome"]["execution"]["outputs"] for name, result in results(project).items()})
    assert digests[0] == digests[1] == digests[2]
    assert digests[0]["cpu"] != digests[0]["npu"]


def test_explain_names_the_device(project):
    assert "\ndevice      npu\n" in precreg(project, "explain", "unit/softmax/npu").stdout


def test_a_change_of_the_table_selects_its_cases(project):
    change(project / TABLE, "precision: 12", "precision: 13")
    git(project, "commit", "-q", "-a", "-m", "one bit more")
    listed = precreg(project, "list", "--changed-since", "HEAD~1").stdout
    assert "unit/softmax/npu" in listed
    assert "unit/softmax/cpu" not in listed


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("format: short", "format: shrot", f"{TABLE}:5: error[unknown-format]: expected the name of a format but got"),
        ("rounding: toward_zero}\nred", "rounding: zero}\nred", f"{TABLE}:5: error[unknown-rounding]: expected one of"),
        ("precision: 12", "precision: 0", f"{TABLE}:3: error[bad-format]: format short: expected at least 1 bit"),
        ("  float32: {acc", "  float32: {order: blocks, acc", f"{TABLE}:7: error[bad-device]: expected a width beside"),
    ],
)
def test_a_mistake_in_a_table_is_one_error_before_any_case_runs(project, before, after, said):
    change(project / TABLE, before, after)
    done = precreg(project, "run")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error[") == 1


def test_an_unknown_device_is_told_with_the_nearest(project):
    change(project / "suites/unit/softmax.yaml", "[cpu, npu]", "[cpu, npv]")
    done = precreg(project, "run")
    assert done.returncode == 2
    known = ", ".join(sorted([*device_names(None), "npu"]))
    said = f'expected one of {known} but got device=npv; did you mean "npu"?'
    assert f"suites/unit/softmax.yaml:6: error[unknown-device]: {said}" in done.stderr


def test_what_a_device_cannot_compute_is_the_subjects_error(project):
    change(project / "suites/unit/k.py", "    return", "    np.linalg.inv(weights[:, :16])\n    return")
    done = precreg(project, "run", "--jobs", "0")
    assert done.returncode == 2
    found = results(project)
    assert found["cpu"]["verdict"]["reason"] == "new"
    assert found["npu"]["verdict"]["reason"] == "subject_error"
    assert "numpy.linalg.inv is not simulated on npu" in found["npu"]["outcome"]["execution"]["failure"]["message"]
