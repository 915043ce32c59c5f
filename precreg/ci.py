"""What the variables of an automatic run say: that no person is there, and what the project is called."""

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
