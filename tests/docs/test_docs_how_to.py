"""Short how-to pages: their suites run, their scripts and manifests are understood by the programs that read them."""

import json
import os
import shlex
import subprocess
import sys

import pytest
import yaml

from precreg.suite.expand import load_cases
from tests.docs.test_docs import commands, files, matches, page, write_files
from tests.e2e.command import PATIENCE_S, environ, git, precreg, repository
from tests.e2e.fork_server import write_command

KERNEL = page("bring-kernel.md")
CLUSTERS = files(page("clusters.md"))


def test_a_kernel_is_brought_as_the_page_shows(tmp_path):
    project = repository(write_files(tmp_path, KERNEL))
    steps = commands(KERNEL)
    assert len(steps) == 4
    for line, expected in steps:
        done = precreg(project, *shlex.split(line))
        for wanted in expected.splitlines():
            assert any(matches(wanted, shown) for shown in done.stdout.splitlines()), (wanted, done.stdout)
    assert len(load_cases(project)) == 2


def test_the_workflow_is_one_of_github(tmp_path):
    write_files(tmp_path, page("github-actions.md"))
    file = tmp_path / ".github" / "workflows" / "precision.yml"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def accepted(tmp_path):
    """Return a project with two accepted cases and `precreg` in the folder bin."""
    project = repository(write_files(tmp_path / "project", KERNEL))
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    program = tmp_path / "bin" / "precreg"
    program.parent.mkdir()
    write_command(program, "precreg", PATIENCE_S)
    return project


def in_shell(project, script, **variables):
    """Run a script in a shell of the project, and return what it printed."""
    variables["PATH"] = f"{project.parent / 'bin'}:{os.environ['PATH']}"
    command = ["sh", "-c", script]
    return subprocess.run(command, cwd=project, env=environ(**variables), capture_output=True, text=True, check=False)


def test_the_run_of_the_workflow_takes_a_base_or_none(accepted):
    workflow = yaml.safe_load(files(page("github-actions.md"))[".github/workflows/precision.yml"])
    (step,) = (each for each in workflow["jobs"]["precision"]["steps"] if each.get("name") == "Run the cases")
    for base in ("", git(accepted, "rev-parse", "HEAD")):
        done = in_shell(accepted, step["run"], BASE=base)
        assert done.returncode == 0, done.stdout + done.stderr
        heading = next(line for line in done.stdout.splitlines() if line.startswith("precreg "))
        assert ("against" in heading) == bool(base)


@pytest.mark.parametrize("kind", ["slurm", "kubernetes"])
def test_shards_of_a_cluster_make_one_report(accepted, kind):
    for number in range(4):
        if kind == "slurm":
            done = in_shell(accepted, CLUSTERS["precision.sbatch"], SLURM_ARRAY_TASK_ID=str(number + 1))
        else:
            (container,) = yaml.safe_load(CLUSTERS["precision.yaml"])["spec"]["template"]["spec"]["containers"]
            (script,) = container["args"]
            script = script.replace("/records", "records")
            done = in_shell(accepted, script, JOB_COMPLETION_INDEX=str(number), CI="true")
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
    done = in_shell(accepted, CLUSTERS["precision_report.sbatch"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads((accepted / "reports" / "record.json").read_text())["results"]) == 2
