"""What the variables of an automatic run say: that no person is there, what the project is called, what is merged."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import realpath
from pathlib import Path


def in_ci(environ: Mapping[str, str]) -> bool:
    """Tell whether the variable CI says that this is an automatic run."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def project_name(project: Path, environ: Mapping[str, str]) -> str:
    """Return what a project is called: like its folder, but in a GitLab job like its repository.

    A runner may give each job a folder of its own, and the shards of a run are of one project.
    """
    root, name = environ.get("CI_PROJECT_DIR"), environ.get("CI_PROJECT_NAME")
    return name if root and name and realpath(root) == realpath(project) else project.name


def merge_request_base(project: Path, environ: Mapping[str, str]) -> str | None:
    """Return the commit that a merge request's job in GitLab is to be held against; None in any other run.

    It is the merge base of the request; where GitLab has merged the result for the pipeline, HEAD has the target's last
    commit in it, and that is the base. A project outside the job's repository is none of the request's.
    """
    root = environ.get("CI_PROJECT_DIR")
    if root and not Path(realpath(project)).is_relative_to(realpath(root)):
        return None
    merged = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
    return merged or environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or None


def on_default_branch(environ: Mapping[str, str]) -> bool:
    """Tell whether this is a job of GitLab on the default branch, where merge requests have been merged."""
    branch = environ.get("CI_COMMIT_BRANCH")
    return bool(branch) and branch == environ.get("CI_DEFAULT_BRANCH")
