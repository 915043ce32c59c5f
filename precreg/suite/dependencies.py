"""Which files a case depends on, so that a change selects the cases that it can touch. Nothing is executed.

Seen are the suite, suites/tolerances.yaml, the modules that subject, reference and golden name with all that those
import from the project, and files of inputs and recorded outputs. So is every file that an import looks for in vain: a
module that was there and is removed changes the case. A file that a function opens by itself is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from os.path import isfile
from pathlib import Path
from typing import Any

from precreg.suite.modules import possible_files, search_path
from precreg.tolerance.layers import TOLERANCES
from precreg.types import Case, Computation


def touched(cases: Sequence[Case], changed: Set[str], project: Path) -> list[Case]:
    """Return the cases that depend on a changed file, or whose baseline changed; paths are relative to the project."""
    accepted = {path.partition("/")[2].partition("/")[2] for path in changed if path.startswith("baselines/")}
    return [
        case
        for case in cases
        if f"{case.tier}/{case.suite}.json" in accepted or not changed.isdisjoint(dependencies(case, project))
    ]


def dependencies(case: Case, project: Path) -> frozenset[str]:
    """Return the files that the case depends on, relative to the project; a missing one is among them."""
    computed = (_of_computation(computation, case.directory, project) for computation in (case.subject, case.oracle))
    return frozenset({case.source.file, TOLERANCES}).union(*computed, _of_inputs(case, project))


def _of_computation(computation: Computation, directory: str, project: Path) -> frozenset[str]:
    if computation.kind == "files":
        return frozenset(computation.spec.values())
    if computation.kind == "python":
        return _modules(computation.spec.partition(":")[0], directory, project)
    return frozenset(_files_named(computation.spec, directory, project))


def _of_inputs(case: Case, project: Path) -> frozenset[str]:
    return frozenset(_files_named(list(case.inputs.values()), case.directory, project))


def _files_named(value: Any, directory: str, project: Path) -> Iterator[str]:
    """Yield every text inside a value that is the path of a file of the project, relative to the suite."""
    if isinstance(value, str) and isfile(project / directory / value):
        path, root = (project / directory / value).resolve(), project.resolve()
        if path.is_relative_to(root):
            yield path.relative_to(root).as_posix()
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _files_named(item, directory, project)


@lru_cache(maxsize=1024)
def _modules(module: str, directory: str, project: Path) -> frozenset[str]:
    """Return the files of a module, of the packages around it, and of what they import, wherever those may be."""
    folders = search_path(project, directory)
    found: set[Path] = set()
    done = {""}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        waiting.append(name.rpartition(".")[0])
        for path in possible_files(name, folders):
            found.add(path)
            if isfile(path):
                waiting += _imported(path, folders)
                break
    return frozenset(path.relative_to(project).as_posix() for path in found)


def _imported(path: Path, folders: tuple[Path, ...]) -> Iterator[str]:
    """Yield the dotted names that a module imports, anywhere in it; `from a import b` may mean the module a.b."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, (_package(path, node.level, folders), node.module)))
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _package(path: Path, level: int, folders: tuple[Path, ...]) -> str:
    """Return the package that `level` dots mean in a file; empty for an absolute import."""
    if level == 0:
        return ""
    home = path.parents[level - 1]
    root = next((folder for folder in folders if home.is_relative_to(folder)), home)
    return ".".join(home.relative_to(root).parts)
