"""From `subject:`, `reference:` and `golden:` to computations, checked without running any of them."""

from __future__ import annotations

from os.path import isfile
from pathlib import Path
from typing import Any

from precreg.errors import UserError, nearest
from precreg.storage.project import beside
from precreg.storage.yaml_source import KeyPath, Source, shown
from precreg.subject.kinds import BUILT_IN, entry_point
from precreg.suite.modules import locate
from precreg.types.types import Computation


def read_computation(source: Source, key: str, value: Any, directory: str, project: Path) -> Computation:
    """Return the computation that a key of a suite names: module:function, or {KIND: spec}.

    Raises UserError: bad-value, unknown-subject-kind, missing-module, missing-function, outside-project, missing-file.
    """
    kind, spec = _kind_and_spec(source, key, value)
    path = (key, kind) if isinstance(value, dict) else (key,)
    if kind == "python":
        if not isinstance(spec, str):
            raise source.error("bad-value", f"expected module:function but got {key}={shown(spec)}", *path)
        locate(spec, directory, project, source.where(*path))
    if kind == "files":
        return file_computation(_paths(source, path, spec, directory, project))
    return Computation(kind, spec)


def file_computation(paths: str | dict[str, str]) -> Computation:
    """Return the computation that reads recorded arrays; paths are relative to the project.

    One path is one array named "out", or every array of an .npz file; a mapping names the array of each path.
    """
    if isinstance(paths, str):
        paths = {"*" if paths.endswith(".npz") else "out": paths}
    return Computation("files", paths)


def _kind_and_spec(source: Source, key: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, str):
        return "python", value
    if not isinstance(value, dict) or len(value) != 1:
        raise source.error("bad-value", f"expected module:function or {{KIND: spec}} but got {key}={shown(value)}", key)
    kind, spec = next(iter(value.items()))
    if kind not in BUILT_IN:
        try:
            entry_point(kind)
        except UserError as error:
            raise source.error(error.slug, error.message, key, kind) from None
    return kind, spec


def _paths(source: Source, path: KeyPath, spec: Any, directory: str, project: Path) -> str | dict[str, str]:
    if isinstance(spec, str):
        return existing_file(source, path, spec, directory, project)
    if not isinstance(spec, dict) or not spec or not all(isinstance(item, str) for item in spec.values()):
        raise source.error("bad-value", f"expected a path, or a path per output, but got files={shown(spec)}", *path)
    return {name: existing_file(source, (*path, name), item, directory, project) for name, item in spec.items()}


def existing_file(source: Source, path: KeyPath, file: str, directory: str, project: Path) -> str:
    """Return a path beside the suite, relative to the project. Raises UserError: outside-project, missing-file."""
    found = beside(project, directory, file, source.where(*path))
    if not isfile(project / found):
        folder = (project / found).parent
        known = [item.name for item in folder.iterdir() if isfile(item)] if folder.is_dir() else []
        message = f"expected a file but {found} is not there{nearest(Path(found).name, known)}"
        raise source.error("missing-file", message, *path)
    return found
