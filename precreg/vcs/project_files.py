"""Which files does a new project have beside its suites: a pipeline, and lines of .gitignore?

Existing files keep every line. precreg appends the lines that .gitignore lacks. The first acceptance of a baseline
writes .gitattributes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from precreg.errors import UserError
from precreg.storage import replace_file, report_write_errors
from precreg.vcs.command import run_git
from precreg.vcs.hook import HOOK_NAME, HookCheck, hooks_folder, install_hook, worktree_root

Forge = Literal["gitlab", "github"]
GITLAB_FILE = ".gitlab-ci.yml"
GITHUB_FILE = ".github/workflows/precreg.yml"
# Reports and proposals belong to one machine.
IGNORED = (".precreg/", "reports/")

_GITLAB = """\
# Each merge request runs the suites, and fails if a result got less precise. docs/gitlab.md explains the parts.
precision:
  image: python:{python}
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  variables:
    GIT_DEPTH: 0 # the merge base judges a merge request, so it has to be in the clone
  script:
{install}
    - precreg run
  artifacts:
    when: always
    expire_in: 1 month
    expose_as: precision report
    paths: [{folder}reports/]
    reports:
      junit: {folder}reports/junit.xml
      codequality: {folder}reports/codequality.json
"""
_GITHUB = """\
# Each pull request runs the suites, and fails if a result got less precise.
name: precision
on:
  pull_request:
  push:
    branches: [{branch}]
permissions:
  contents: read
jobs:
  precision:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0 # the merge base judges a pull request, so it has to be in the clone
      - uses: actions/setup-python@v5
        with:
          python-version: "{python}"
{install}
      - run: precreg run --against "origin/${{{{ github.base_ref || github.ref_name }}}}"{where}
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: precision report
          path: {folder}reports/
"""


class ProjectFile(NamedTuple):
    """A file of a new project, relative to the repository, and its fate: written, extended or kept."""

    path: str
    fate: Literal["written", "extended", "kept"]


class HookFate(NamedTuple):
    """The place of the hook relative to the repository, and its fate: installed, or refused for a reason."""

    path: str
    problem: str = ""


def repository_of(project: Path) -> Path | None:
    """Return the top of the working tree that holds a project; None outside git."""
    try:
        return worktree_root(project).resolve()
    except UserError:
        return None


def forge_of(root: Path) -> Forge:
    """Return the forge that hosts a repository: its pipeline files decide, then its remotes; GitLab otherwise."""
    if (root / GITLAB_FILE).exists():
        return "gitlab"
    if (root / ".github").is_dir():
        return "github"
    try:
        remotes = run_git(root, "remote", "--verbose").stdout
    except UserError:
        return "gitlab"
    return "github" if "github.com" in remotes else "gitlab"


def write_project_files(project: Path, root: Path, extra: str = "") -> Iterator[ProjectFile]:
    """Write the pipeline at the top of a repository, and the lines of .gitignore; yield the files with their fates.

    `extra` is an extra of precreg that the suites need. Raises UserError: not-writable.
    """
    folder = "" if project == root else f"{project.relative_to(root).as_posix()}/"
    forge = forge_of(root)
    pipeline = GITHUB_FILE if forge == "github" else GITLAB_FILE
    yield ProjectFile(pipeline, _write_new(root / pipeline, _pipeline(forge, project, root, folder, extra)))
    yield ProjectFile(f"{folder}.gitignore", _append(project / ".gitignore", IGNORED))


def install_project_hook(project: Path, root: Path, python: str) -> HookFate:
    """Install the pre-push hook, unless another tool has one; return its place and the reason if it was not."""
    hooks = hooks_folder(root)
    shown = str((hooks / HOOK_NAME).relative_to(root) if hooks.is_relative_to(root) else hooks / HOOK_NAME)
    folder = "." if project == root else project.relative_to(root).as_posix()
    try:
        install_hook(hooks, HookCheck(python, folder), chain=False)
    except UserError as problem:
        return HookFate(shown, problem.message)
    return HookFate(shown)


def _pipeline(forge: Forge, project: Path, root: Path, folder: str, extra: str) -> str:
    import sys

    commands = [*_install_commands(project, extra)]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if forge == "gitlab":
        lines = [f"cd {shlex.quote(folder)}", *commands] if folder else commands
        install = "\n".join(f"    - {line}" for line in lines)
        return _GITLAB.format(python=version, install=install, folder=folder)
    where = f"\n        working-directory: {folder}" if folder else ""
    install = "\n".join(f"      - run: {line}{where}" for line in commands)
    return _GITHUB.format(python=version, install=install, folder=folder, where=where, branch=_default_branch(root))


def _install_commands(project: Path, extra: str) -> Sequence[str]:
    """Return the commands that install the project, if it has files for pip, and precreg."""
    found = []
    if (project / "requirements.txt").is_file():
        found.append("pip install --quiet -r requirements.txt")
    text = (project / "pyproject.toml").read_text(encoding="utf-8") if (project / "pyproject.toml").is_file() else ""
    if "[build-system]" in text or "\n[project]" in f"\n{text}" or (project / "setup.py").is_file():
        found.append("pip install --quiet .")
    package = f"'precreg[{extra}]'" if extra else "precreg"
    return [*found, f"pip install --quiet {package}"]


def _default_branch(root: Path) -> str:
    """Return the present branch; `main` where git names none."""
    try:
        return run_git(root, "symbolic-ref", "--short", "HEAD").stdout.strip() or "main"
    except UserError:
        return "main"


def _write_new(path: Path, text: str) -> Literal["written", "kept"]:
    if path.exists() or path.is_symlink():
        return "kept"
    with report_write_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    return "written"


def _append(path: Path, lines: Sequence[str]) -> Literal["written", "extended", "kept"]:
    """Append the lines that a file lacks. A link stays as it is: it may lead out of the project."""
    if path.is_symlink():
        return "kept"
    with report_write_errors(str(path)):
        before = path.read_bytes() if path.exists() else b""
        present = {line.strip() for line in before.decode(errors="replace").splitlines()}
        missing = [line for line in lines if line not in present and f"/{line}" not in present]
        if not missing:
            return "kept"
        glue = b"" if not before or before.endswith(b"\n") else b"\n"
        replace_file(path, before + glue + "".join(f"{line}\n" for line in missing).encode())
    return "extended" if before else "written"
