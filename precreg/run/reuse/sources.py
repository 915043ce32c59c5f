"""Which files does a case name, by its definition and by the imports of its modules?

They count before anything runs: a file that is missing so far, too, and a file that a pattern would match. Cases of one
suite mostly name the same files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import msgpack

from precreg.errors import UserError
from precreg.run.journal import project_sources
from precreg.run.reuse.file_state import FileStates, digest_of
from precreg.subject import built_folder, escape_surrogates, prepare_computation
from precreg.suite import search_path
from precreg.tolerance import TOLERANCES_FILE
from precreg.types import Case, Computation
from precreg.vcs import case_dependencies, module_dependencies, texts_in

# Modules count by imports, and suites by the definitions of their cases.
_FOLLOWED = (".py", ".yaml", ".yml")
_NO_BUILD = "no build"


class CaseSources:
    """The named files of the cases of a project, with their states."""

    def __init__(self, project: Path, states: FileStates) -> None:
        """Read nothing yet; `project` is absolute."""
        self._project, self.states = project, states
        self._paths: dict[bytes, frozenset[str]] = {}
        self._digests: dict[bytes, str] = {}
        self._builds: dict[str, str] = {}
        self._imports: dict[tuple[str, str], frozenset[str]] = {}
        self._shadows: dict[tuple[frozenset[str], str], str] = {}
        self._all: list[str] | None = None

    def paths(self, case: Case) -> frozenset[str]:
        """Return the absolute paths that a case names, existing or not, apart from its suite and the tolerances."""
        # The definition of the case stands for its suite.
        key = self._key(case)
        if key not in self._paths:
            named = case_dependencies(case, self._project) - {case.source.file, TOLERANCES_FILE}
            # A program may read any file of the project, and import any module.
            every = self.every_file() if _runs_program(case) else ()
            self._paths[key] = frozenset((*(f"{self._project}/{path}" for path in named), *every))
        return self._paths[key]

    def digest(self, case: Case) -> str:
        """Return a digest of the named files, of the names of data files beside them, and of builds."""
        key = self._key(case)
        if key not in self._digests:
            paths = self.paths(case)
            beside = {os.path.dirname(path) for path in paths if os.path.isfile(path)}
            folders = sorted({*beside, str(self._project / case.directory)})
            names = (self.states.data_names(folder) for folder in folders if folder.startswith(str(self._project)))
            self._digests[key] = digest_of(self.states.digest(paths), *names, *self._built(case))
        return self._digests[key]

    def every_file(self) -> list[str]:
        """Return the modules and arrays of the project, and every file below suites/."""
        if self._all is None:
            self._all = [str(path) for path in project_sources(self._project)]
        return self._all

    def data_digest(self) -> str:
        """Return a digest of all files of the project that are neither modules nor suites."""
        return self.states.digest(path for path in self.every_file() if not path.endswith(_FOLLOWED))

    def imports_of(self, path: str, directory: str) -> frozenset[str]:
        """Return the absolute paths that the imports of a module's file lead to, for a suite in `directory`."""
        found = self._imports.get((path, directory))
        if found is None:
            names = (_dotted(path, str(folder)) for folder in search_path(self._project, directory))
            name = next(filter(None, names), None)
            found = frozenset() if name is None else self.tried(name, directory)
            self._imports[path, directory] = found
        return found

    def tried(self, name: str, directory: str) -> frozenset[str]:
        """Return the absolute paths that an import of a name tries in the project, with those of its own imports."""
        found = module_dependencies(name, directory, self._project)
        return frozenset(f"{self._project}/{path}" for path in found)

    def shadows(self, tops: frozenset[str], directory: str) -> str:
        """Return a digest of the places in the project where an import of these names would find something."""
        key = tops, directory
        if key not in self._shadows:
            self._shadows[key] = self._find_shadows(tops, directory)
        return self._shadows[key]

    def _find_shadows(self, wanted: frozenset[str], directory: str) -> str:
        root = f"{self._project}/"
        own = [str(folder) for folder in search_path(self._project, directory)]
        path = [os.path.abspath(each) for each in sys.path]
        folders = dict.fromkeys((*own, *(each for each in path if f"{each}/".startswith(root))))
        return digest_of(*(f"{each} {sorted(self.states.module_names(each) & wanted)}" for each in folders))

    def _key(self, case: Case) -> bytes:
        computations = (case.subject, case.oracle, case.benchmark)
        # With the directory these give the paths of files of inputs. Making a path takes ten times as long.
        texts = sorted({*texts_in([*case.inputs.values()])})
        places = (case.directory, case.source.file, case.device, case.analyzers, case.depends)
        # A name that the locale cannot decode has surrogates, which msgpack refuses.
        return msgpack.encode((escape_surrogates(repr(places)), computations, [*map(escape_surrogates, texts)]))

    def _built(self, case: Case) -> Iterator[str]:
        """Yield the folder of each build, whose name is a digest of its sources, compilers and variables."""
        for computation in _computations(case):
            if computation.kind == "command" and "build" in computation.spec:
                key = f"{case.directory} {computation.spec!r}"
                if key not in self._builds:
                    self._builds[key] = self._build(computation, self._project / case.directory)
                yield self._builds[key]

    def _build(self, computation: Computation, directory: Path) -> str:
        prepare_computation(computation, directory, self._project)
        try:
            return str(built_folder(computation.spec["build"], directory, self._project))
        except UserError:
            # The case meets the same error, and no outcome with an error is kept.
            return _NO_BUILD


def _computations(case: Case) -> Iterator[Computation]:
    yield from (each for each in (case.subject, case.oracle, case.benchmark) if each is not None)


def _runs_program(case: Case) -> bool:
    return any(computation.kind == "command" for computation in _computations(case))


def _dotted(path: str, folder: str) -> str | None:
    """Return the name by which an import in a folder finds a file; None for a file in another folder."""
    if not path.startswith(f"{folder}/"):
        return None
    name = path.removeprefix(f"{folder}/").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".") if all(part.isidentifier() for part in name.split("/")) else None
