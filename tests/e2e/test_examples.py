"""examples/: commands print the lines of their pages, the hook checks a push, and servers accept the pipelines.

Projects of torch and ONNX run in tests/extras/e2e/test_examples.py, and tests/other_machine runs all others on another
machine.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.command import ROOT, change, git, precreg, repository
from tests.e2e.examples import (
    EXAMPLES,
    add_tools,
    component_inputs,
    copy,
    follow,
    patch,
    project_names,
    pushes,
    run_jobs,
    tracked,
)
from tests.e2e.test_readme import shell as shell

NAMES = project_names()
HERE = ("c_kernel", "numerical_library")
COMPONENT = ROOT / "templates" / "precreg.yml"


@pytest.mark.parametrize("name", HERE)
def test_the_commands_print_what_the_page_shows(name, shell, tmp_path):
    follow(shell, name, tmp_path)


@pytest.mark.parametrize("name", HERE)
def test_the_hook_refuses_the_planted_change(name, tmp_path):
    first, second = pushes(name, tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert second.returncode == 1
    assert "regressed" in second.stdout + second.stderr


@pytest.mark.parametrize("source", ["../../kernel/layer_norm.c", "../../kernel/*.c", "{project}/kernel/layer_norm.c"])
def test_a_merge_request_of_a_note_passes_and_one_of_a_loss_fails(source, tmp_path):
    project = copy("c_kernel", tmp_path)
    change(project / "suites/unit/layer_norm.yaml", "sources: [../../kernel/layer_norm.c]", f"sources: ['{source}']")
    repository(project)
    # A pattern is another definition than a path, and needs a baseline of its own.
    precreg(project, "run")
    precreg(project, "baseline", "accept", "unit/layer_norm/*", "--reason", "other sources")
    git(project, "add", "baselines")
    git(project, "commit", "-q", "--allow-empty", "-m", "Accept")
    git(project, "branch", "base")
    (project / "note.txt").write_text("a note\n")
    git(project, "add", "note.txt")
    git(project, "commit", "-qm", "Add a note")
    done = precreg(project, "run", "--against", "base")
    assert done.returncode == 0, done.stdout
    assert "base_unreadable" not in done.stdout
    assert "case_introduced" not in done.stdout
    subprocess.run(["git", "apply"], cwd=project, input=patch("c_kernel"), text=True, check=True)
    done = precreg(project, "run", "--against", "base")
    assert done.returncode == 1, done.stdout
    assert "regressed" in done.stdout
    assert "base_unreadable" not in done.stdout


@pytest.mark.parametrize("name", HERE)
def test_the_jobs_of_the_pipeline_pass(name, shell, tmp_path):
    project = run_jobs(shell, name, tmp_path)
    assert json.loads((project / "reports" / "codequality.json").read_text()) == []
    assert (project / "records" / "precreg-unit" / "junit.xml").exists()


def test_the_steps_of_the_workflow_pass(shell, tmp_path):
    project = repository(copy("numerical_library", tmp_path))
    add_tools(shell)
    workflow = yaml.safe_load((project / ".github" / "workflows" / "precreg.yml").read_text())
    steps = [step for step in workflow["jobs"]["precision"]["steps"] if "run" in step]
    assert [step["run"].split()[0] for step in steps] == ["pip", "pytest", "precreg"]
    shell(f"cd {project}")
    for step in steps[1:]:
        for base in ("", git(project, "rev-parse", "HEAD")):
            done = shell(f"export CI=true GITHUB_ACTIONS=true BASE={base}\n{step['run']}")
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_project_is_small_and_complete(name):
    files = tracked(name)
    assert len(files) <= 16
    assert sum((EXAMPLES / name / file).stat().st_size for file in files) < 100_000
    assert {".gitignore", ".gitlab-ci.yml", "README.md", "baselines/.gitattributes"} <= set(files)
    baselines = [EXAMPLES / name / file for file in files if Path(file).match("generic/*/*.json")]
    assert {json.loads(file.read_text())["schema"] for file in baselines} == {"precreg-baseline/4"}
    assert f"]({name}/README.md)" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_component_has_the_inputs_that_a_project_gives(name):
    (header, _) = yaml.safe_load_all(COMPONENT.read_text())
    inputs = component_inputs(name)
    assert inputs.keys() <= header["spec"]["inputs"].keys()
    tiers = {Path(file).parts[1] for file in tracked(name) if file.startswith("suites/") and file.endswith(".yaml")}
    assert set(inputs["tiers"].split()) == tiers


PIPELINES = {".gitlab-ci.yml": "gitlab-ci", ".github/workflows/precreg.yml": "github-workflows"}


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name in NAMES for file in PIPELINES if file in tracked(name)]
)
def test_a_server_accepts_the_pipeline(name, file):
    check = [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", f"vendor.{PIPELINES[file]}"]
    done = subprocess.run([*check, EXAMPLES / name / file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
