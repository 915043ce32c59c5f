"""A small project with a .gitlab-ci.yml in a repository with a remote, and gitlab-ci-local, which runs it."""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.e2e.command import PATIENCE_S, ROOT, environ, git, precreg, repository

TOOL = ROOT / "build" / "gitlab-ci-local" / "node_modules" / ".bin" / "gitlab-ci-local"

OURS = (ROOT / ".gitlab-ci.yml").read_text()
TEMPLATE = re.search(
    r"^```yaml file=\.gitlab-ci\.yml\n(.*?)^```$", (ROOT / "docs/gitlab.md").read_text(), re.MULTILINE | re.DOTALL
)[1]
COMPONENT = "templates/precreg.yml"
FILES = {"ours": OURS, "template": TEMPLATE}

KERNELS = """\
import numpy as np


def mean_square(x):
    return (np.sum(np.square(x.astype(np.float32)), axis=0) / len(x)).astype(x.dtype)


def exact(x):
    return np.sum(np.square(x), axis=0) / len(x)
"""
SUITE = """\
suite: {name}
subject: kernels:mean_square
reference: kernels:exact
matrix:
  dtype: {dtypes}
inputs:
  x: {{shape: [400, 16], dtype: $dtype, normal: {{}}}}
seeds: 2
tolerance:
  float16: {{rtol: 2e-2}}
"""
SUITES = {"unit": "[float16, float32]", "integration": "[float32]", "model": "[float32]"}
CASES = {f"{tier}/{tier}_means/{dtype}" for tier, dtypes in SUITES.items() for dtype in dtypes.strip("[]").split(", ")}

_PATHS = re.compile(r" *(paths|junit|codequality):")

INSTALLED = Path(sys.executable).with_name("precreg")
VARIABLES = {
    "INSTALL": "true",
    # Isolated jobs run in folders of their own, while the tool names one in CI_PROJECT_DIR that it uses in containers.
    "PRECREG": f"env CI_PROJECT_DIR=. CI_PROJECT_NAME=small {INSTALLED}",
}


def make(folder, pipeline):
    """Write the project with accepted baselines and that pipeline, and push it to a remote of its own."""
    (folder / "suites").mkdir()
    (folder / "suites" / "kernels.py").write_text(KERNELS)
    for tier, dtypes in SUITES.items():
        (folder / "suites" / tier).mkdir()
        (folder / "suites" / tier / "means.yaml").write_text(SUITE.format(name=f"{tier}_means", dtypes=dtypes))
    repository(folder)
    first = precreg(folder, "run", "--jobs", "0")
    assert first.returncode == 2, first.stdout + first.stderr
    assert precreg(folder, "baseline", "accept", "--all", "--reason", "first version").returncode == 0
    (folder / ".ci").mkdir()
    (folder / ".ci" / "run").write_text("echo the tests of the project\n")
    (folder / ".gitlab-ci.yml").write_text(pipeline)
    (folder / COMPONENT).parent.mkdir()
    shutil.copy(ROOT / COMPONENT, folder / COMPONENT)
    (folder / ".gitignore").write_text("__pycache__/\n.gitlab-ci-local/\nrecords/\n")
    remote = folder.with_name(f"{folder.name}.git")
    git(folder, "init", "-q", "--bare", str(remote))
    git(folder, "remote", "add", "origin", str(remote))
    commit(folder, "baselines and the pipeline")
    git(folder, "push", "-q", "origin", "main")
    git(folder, "remote", "set-head", "origin", "main")
    return folder


def expanded(text):
    """Return a pipeline as a dict that has the jobs of the component which it includes."""
    file = yaml.safe_load(text)
    for include in file.pop("include", []):
        assert include["local"] == COMPONENT
        component = component_with(**include["inputs"])
        file = component | file | {name: component[name] | file[name] for name in component.keys() & file.keys()}
    return file


def component_with(**inputs):
    """Return the jobs of the component with these inputs, by GitLab's documented rules of interpolation."""
    header, body = yaml.safe_load_all((ROOT / COMPONENT).read_text())
    known = header["spec"]["inputs"]
    assert inputs.keys() <= known.keys()
    return _interpolated(body, {name: one["default"] for name, one in known.items()} | inputs)


def _interpolated(part, inputs):
    match part:
        case dict():
            return {_interpolated(key, inputs): _interpolated(value, inputs) for key, value in part.items()}
        case list():
            return [_interpolated(value, inputs) for value in part]
        case str() if alone := re.fullmatch(r"\$\[\[ inputs\.([\w-]+) \]\]", part):
            return inputs[alone[1]]
        case str():
            return re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: _written(inputs[found[1]]), part)
        case _:
            return part


def _written(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_folder(text, folder):
    """Change a pipeline as docs/gitlab.md says for a project in a folder of the repository."""
    lines = text.replace("before_script:\n", f"before_script:\n    - cd {folder}\n").splitlines(keepends=True)
    return "".join(_longer(line, folder) if _PATHS.match(line) else line for line in lines)


def _longer(line, folder):
    return re.sub(r"(records|reports|\.precreg)/", rf"{folder}/\1/", line)


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


class Done(NamedTuple):
    """What became of a pipeline: the exit code, PASS or FAIL of each job that ran, and what was printed."""

    code: int
    jobs: dict[str, str]
    printed: str


def pipeline(folder, source, **variables):
    """Run the pipeline that GitLab would start for an event, in folders of its own, and return what became of it.

    `when: always` starts a job in GitLab though one before it was skipped, for which the tool waits in vain. So what it
    left out for that is started by name.
    """
    done = _ran(folder, source, **variables)
    for job in (job for job, when in jobs_of(folder, source).items() if when == "always" and job not in done.jobs):
        more = _ran(folder, source, job, **variables)
        done = Done(max(done.code, more.code), done.jobs | more.jobs, done.printed + more.printed)
    return done


def _ran(folder, source, *jobs, **variables):
    return ran_with(folder, source, *jobs, **{**VARIABLES, **variables})


def ran_with(folder, source, *jobs, **variables):
    """Run a pipeline with these variables alone, and return what became of it."""
    done = _tool(folder, source, "--force-shell-executor", "--shell-isolation", *jobs, **variables)
    ended = re.findall(r"^ (PASS|FAIL)  (\S.*?) *$", done.stdout, re.MULTILINE)
    return Done(done.returncode, {job: status for status, job in ended}, done.stdout + done.stderr)


def jobs_of(folder, source, **variables):
    """Return when each job of the pipeline for an event would run, by its name."""
    done = _tool(folder, source, "--list-csv", **variables)
    lines = done.stdout[done.stdout.index("name;") :].splitlines()
    return {row["name"]: row["when"] for row in csv.DictReader(lines, delimiter=";")}


def artifacts(folder, path):
    """Return the files of that path among the artifacts that jobs left, by job."""
    left = folder / ".gitlab-ci-local" / "artifacts"
    return {file.relative_to(left).parts[0]: file for file in sorted(left.glob(f"*/{path}"))}


def _tool(folder, source, *arguments, **variables):
    given = [f"--variable={name}={value}" for name, value in {"CI_PIPELINE_SOURCE": source, **variables}.items()]
    options = ["--home", str(folder.with_name("home")), "--json-schema-validation=false", "--color=false"]
    known = "--ignore-predefined-vars=CI_PIPELINE_SOURCE"
    return subprocess.run(
        [TOOL, *options, known, *given, *arguments],
        cwd=folder,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
