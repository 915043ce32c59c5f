"""The gate, run for real for a merge request: passing, failing, and with thresholds."""

import json

from tests.e2e.command import REPORT_FILES, change, git
from tests.pipeline.local import CASES, INSTALLED, artifacts, commit, in_folder, pipeline
from tests.report.gitlab import pipeline as reviewed

GATE = {"unit: [1/2]", "unit: [2/2]", "integration", "model", "report"}


def merge_request(folder):
    git(folder, "switch", "-q", "-c", "feature")
    return folder


def narrowed(folder):
    """Sum in the dtype of the input: a regression inside the tolerance."""
    change(folder / "suites/kernels.py", "np.square(x.astype(np.float32))", "np.square(x)")
    commit(folder, "save a conversion")
    return folder


def record(folder):
    (file,) = artifacts(folder, "reports/record.json").values()
    return json.loads(file.read_text())


def test_a_merge_request_that_changes_nothing_passes(project):
    folder = merge_request(project("ours"))
    done = pipeline(folder, "merge_request_event")
    assert done.code == 0, done.printed
    assert done.jobs == dict.fromkeys(GATE | {"test"}, "PASS")
    merged = record(folder)
    assert {result["id"] for result in merged["results"]} == CASES
    assert (merged["selection"], merged["ci"], merged["exit_code"]) == ({}, True, 0)
    assert merged["project"] == "small"
    left = {file.name for file in (folder / "reports").iterdir()} - {".gitignore"}
    assert left == set(REPORT_FILES)
    assert json.loads((folder / "reports/codequality.json").read_text()) == []


def test_every_tier_uploads_its_tests_and_each_is_there_once(project):
    folder = merge_request(project("template"))
    assert pipeline(folder, "merge_request_event").code == 0
    uploaded = artifacts(folder, "records/*/junit.xml")
    assert len(uploaded) == 4, "two shards and two tiers"
    tests = reviewed((job, file.read_text()) for job, file in uploaded.items())
    keys = [key for of_job in tests.values() for key in of_job]
    assert len(keys) == len(set(keys)) == len(CASES)


def test_a_regression_stops_the_tiers_above_and_is_reported(project):
    folder = narrowed(merge_request(project("template")))
    done = pipeline(folder, "merge_request_event")
    assert done.code == 1, done.printed
    assert set(done.jobs) == {"unit: [1/2]", "unit: [2/2]", "report"}, "no tier is run above one that failed"
    assert done.jobs["report"] == "FAIL"
    assert {done.jobs["unit: [1/2]"], done.jobs["unit: [2/2]"]} == {"PASS", "FAIL"}, "float16 alone is worse"
    merged = record(folder)
    assert (merged["selection"], merged["exit_code"]) == ({"tiers": ["unit"]}, 1)
    assert "Not the whole project, but tier unit." in (folder / "reports/summary.md").read_text()
    found = json.loads((folder / "reports/codequality.json").read_text())
    assert {entry["check_name"] for entry in found} == {"precreg.regressed"}
    assert {entry["location"]["path"] for entry in found} == {"suites/kernels.py"}, "the change has it"
    assert "exit 1: " in done.printed


def test_a_merge_request_that_takes_its_worst_case_away_is_judged_by_its_base(project):
    """Every shard finds the same, and the report of both tells it once."""
    folder = merge_request(project("template"))
    base = git(folder, "rev-parse", "main")
    change(folder / "suites/unit/means.yaml", "[float16, float32]", "[float32]")
    commit(folder, "one case less")
    done = pipeline(folder, "merge_request_event", CI_MERGE_REQUEST_DIFF_BASE_SHA=base)
    assert done.code == 1, done.printed
    merged = record(folder)
    assert (merged["against"], merged["exit_code"]) == (base, 1)
    assert {result["verdict"]["status"] for result in merged["results"]} == {"passed"}
    assert [(finding["kind"], finding["about"]) for finding in merged["findings"]] == [
        ("case_removed", "unit/unit_means/float16")
    ]


def test_a_model_that_fails_is_reported_beside_the_tiers_that_passed(project):
    folder = merge_request(project("template"))

    change(folder / "suites/model/means.yaml", "float16: {rtol: 2e-2}", "max_ulp: 1e-9")
    commit(folder, "ask for too much")
    done = pipeline(folder, "merge_request_event")
    assert (done.code, done.jobs["integration"], done.jobs["model"]) == (1, "PASS", "FAIL"), done.printed
    assert record(folder)["selection"] == {}
    (entry,) = json.loads((folder / "reports/codequality.json").read_text())
    assert entry["location"] == {"path": "suites/model/means.yaml", "lines": {"begin": 10}}


def test_thresholds_of_the_pipeline_reach_every_job(project):
    folder = merge_request(project("template"))
    done = pipeline(folder, "merge_request_event", PRECISION_THRESHOLDS='{"unit": {"float32": {"max_ulp": 1e-9}}}')
    assert done.code == 1
    (failed,) = [result for result in record(folder)["results"] if result["verdict"]["status"] == "failed"]
    assert (failed["id"], failed["verdict"]["reason"]) == ("unit/unit_means/float32", "out_of_tolerance")


def test_thresholds_that_cannot_be_read_leave_nothing_to_report_and_fail(project):
    folder = merge_request(project("template"))
    done = pipeline(folder, "merge_request_event", PRECISION_THRESHOLDS="{")
    assert (done.code, done.jobs) == (1, dict.fromkeys(["unit: [1/2]", "unit: [2/2]", "report"], "FAIL"))
    assert "error[bad-thresholds]" in done.printed
    assert "error[missing-file]" in done.printed


def test_a_project_in_a_folder_takes_a_cd_and_longer_paths(project):
    folder = narrowed(merge_request(project("template")))
    (folder / "deep").mkdir()
    git(folder, "mv", "suites", "baselines", "deep")
    pipeline_file = folder / ".gitlab-ci.yml"
    pipeline_file.write_text(in_folder(pipeline_file.read_text(), "deep"))
    commit(folder, "into a folder")
    at_the_top = f"env CI_PROJECT_DIR=.. CI_PROJECT_NAME=small {INSTALLED}"
    done = pipeline(folder, "merge_request_event", PRECREG=at_the_top)
    assert done.jobs["report"] == "FAIL", done.printed
    assert len(artifacts(folder, "deep/records/*/junit.xml")) == 2, "the shards of the tier that failed"
    (file,) = artifacts(folder, "deep/reports/codequality.json").values()
    assert {entry["location"]["path"] for entry in json.loads(file.read_text())} == {"deep/suites/kernels.py"}
