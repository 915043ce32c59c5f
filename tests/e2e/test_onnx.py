"""Cases of ONNX models where a package of the extra is missing, and mistakes that suites show without it."""

import json

import pytest

from precreg.run.computation import missing_requirement
from tests.e2e.command import precreg, with_suite

SUITE = """\
suite: net
subject: {onnx: net.onnx}
inputs:
  x: {shape: [2, 4], dtype: float32, normal: {mean: 0, std: 1}}
requires: [a_package_that_nobody_has]
"""


@pytest.fixture
def project(tmp_path):
    folder = with_suite(tmp_path / "project", SUITE, name="net")
    (folder / "suites/unit/net.onnx").write_bytes(b"read when the case runs")
    return folder


def test_a_case_is_skipped_by_name_and_names_each_missing_package(project):
    precreg(project, "run")
    (result,) = json.loads((project / "reports/record.json").read_text())["results"]
    absent = [missing_requirement(name, ("generic",)) for name in ("a_package_that_nobody_has", "onnxruntime", "onnx")]
    assert result["verdict"]["reason"] == "unavailable"
    assert result["verdict"]["message"] == "; ".join(filter(None, absent))


def test_require_makes_it_an_error(project):
    assert precreg(project, "run", "--require").returncode != 0
    (result,) = json.loads((project / "reports/record.json").read_text())["results"]
    assert result["verdict"]["status"] == "error"


def test_a_model_outside_the_project_is_named_with_its_line(project):
    (project / "suites/unit/net.yaml").write_text(SUITE.replace("net.onnx", "../../../net.onnx"))
    done = precreg(project, "run")
    assert done.returncode == 2
    assert "suites/unit/net.yaml:2: error[outside-project]" in done.stderr


def test_export_of_a_model_that_is_not_there_has_no_traceback(project):
    done = precreg(project, "export", "nett.onnx", "-o", "y.npz")
    assert done.returncode == 2
    assert done.stderr.startswith(("error[missing-file]", "error[missing-extra]"))
