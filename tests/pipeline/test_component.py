"""The component for other projects: its inputs, and the jobs that each input changes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.command import ROOT, git
from tests.pipeline.local import COMPONENT, artifacts, commit, component_with, jobs_of, make, pipeline

HEADER = next(yaml.safe_load_all((ROOT / COMPONENT).read_text()))
INPUTS = HEADER["spec"]["inputs"]
TYPES = {"string": str, "number": int, "boolean": bool}


def include(**inputs):
    return yaml.safe_dump({"stages": ["test"], "include": [{"local": COMPONENT, "inputs": inputs}]})


@pytest.fixture(scope="module")
def project_with(tmp_path_factory):
    """Return a function that gives the small project with the component and these inputs, on a feature branch."""

    def project_with(**inputs):
        folder = tmp_path_factory.mktemp("component") / "small"
        folder.mkdir()
        make(folder, include(**inputs))
        git(folder, "switch", "-q", "-c", "feature")
        return folder

    return project_with


def test_every_input_has_a_description_and_a_default_of_its_type():
    assert HEADER.keys() == {"spec"}
    for name, one in INPUTS.items():
        assert one["description"].endswith("."), name
        assert type(one["default"]) is TYPES[one.get("type", "string")], name


def test_the_page_has_every_input_with_its_default_and_description():
    written = {name: "" if one["default"] == "" else f"`{_yaml(one['default'])}`" for name, one in INPUTS.items()}
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| (.+) \|$", (ROOT / "docs/gitlab.md").read_text(), re.MULTILINE)
    found = {name: (default, meaning) for name, default, meaning in rows if name in INPUTS}
    assert found == {name: (written[name], one["description"]) for name, one in INPUTS.items()}


def _yaml(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_input_changes_the_jobs():
    changed = {"string": "other", "number": 7, "boolean": False}
    default = component_with()
    for name, one in INPUTS.items():
        assert component_with(**{name: changed[one.get("type", "string")]}) != default, name


@pytest.mark.parametrize("inputs", [{}, {"prefix": "", "shards": 3, "drift": False, "folder": "libs/norms/"}])
def test_gitlab_accepts_the_jobs_of_the_component(inputs, tmp_path):
    (tmp_path / ".gitlab-ci.yml").write_text(yaml.safe_dump(component_with(**inputs)))
    check = [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci"]
    command = [*check, "--data-transform", "gitlab-ci", tmp_path / ".gitlab-ci.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_project_without_inputs_has_a_job_for_each_tier_and_passes(project_with):
    folder = project_with(install="true")
    done = pipeline(folder, "merge_request_event")
    assert done.code == 0, done.printed
    tiers = {"precreg-unit: [1/1]", "precreg-integration", "precreg-model"}
    assert done.jobs == dict.fromkeys(tiers | {"precreg-report"}, "PASS")
    uploaded = [file.parent.name for file in artifacts(folder, "records/*/junit.xml").values()]
    assert sorted(uploaded) == ["precreg-integration", "precreg-model", "precreg-unit-1-1"]
    assert set(jobs_of(folder, "schedule")) == {"precreg-drift"}


def test_inputs_choose_tiers_schedules_and_the_name_of_jobs(project_with):
    folder = project_with(tiers="unit model", drift=False, prefix="p-", shards=2)
    jobs = {job.partition(":")[0] for job in jobs_of(folder, "merge_request_event")}
    assert jobs == {"p-unit", "p-model", "p-report"}
    assert jobs_of(folder, "schedule") == {}


def test_more_arguments_reach_the_runs_of_a_project_in_a_folder(project_with):
    folder = project_with(folder="deep/", arguments="--jobs 0 --tag absent", tiers="unit")
    (folder / "deep").mkdir()
    git(folder, "mv", "suites", "baselines", "deep")
    commit(folder, "into a folder")
    done = pipeline(folder, "merge_request_event")
    assert "absent" in done.printed
    assert done.jobs["precreg-unit: [1/1]"] == "FAIL", done.printed
