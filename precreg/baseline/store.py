"""Reading what was accepted: one file per environment and suite, looked up through a chain of environments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from precreg.baseline.text import parse
from precreg.errors import UserError
from precreg.measure import kept_groups
from precreg.storage.garbage import without_search
from precreg.types.records import BASELINE_SCHEMA, Baseline, BaselineEntry, is_handwritten

FOLDER = "baselines"


A_CASE = b'\n      "definition": '
"""What every entry begins with, and nothing else in a file, as baseline/text.py writes it."""


class Place(NamedTuple):
    """Where an entry stands: one case (tier/suite/name) in one environment."""

    environment: str
    id: str

    @property
    def suite(self) -> str:
        """Return tier/suite."""
        return suite_of(self.id)

    @property
    def name(self) -> str:
        """Return the case's name within its suite."""
        return self.id.split("/", 2)[2]

    @property
    def file(self) -> str:
        """Return the file, relative to the project."""
        return baseline_file(self.environment, self.suite)

    def __str__(self) -> str:
        return f"{self.id} in {self.file}"


def suite_of(id: str) -> str:
    """Return the tier/suite of a case id."""
    return "/".join(id.split("/", 2)[:2])


def baseline_file(environment: str, suite: str) -> str:
    """Return the file of one suite (tier/suite) in one environment, relative to the project.

    Raises:
        UserError: outside-project, where a part would lead elsewhere.
    """
    for part in (environment, *suite.split("/")):
        if part.startswith(".") or not part or set(part) & set("/\\\0"):
            raise UserError("outside-project", f"expected a plain name for a file or folder but got name={part!r}")
    return f"{FOLDER}/{environment}/{suite}.json"


def suite_in(file: str) -> str:
    """Return the tier/suite whose baselines a file has."""
    return file.split("/", 2)[2].removesuffix(".json")


def header(environment: str, suite: str) -> dict[str, str]:
    """Return what a baseline file says of itself."""
    return {"schema": BASELINE_SCHEMA, "suite": suite, "environment": environment}


def read_suite(project: Path, environment: str, suite: str) -> dict[str, BaselineEntry]:
    """Return the entries of one file by case name; none where there is no file.

    Raises:
        UserError: unreadable-baseline, conflicted-baseline, old-schema or future-schema.
    """
    file = baseline_file(environment, suite)
    data = read_bytes(project, file)
    return {} if data is None else parse(data, file, header(environment, suite), entry_of)


def files_of(project: Path, environment: str) -> list[str]:
    """Return the files of an environment's baselines, relative to the project, sorted."""
    found = sorted((project / FOLDER / environment).glob("*/[!.]*.json"))
    return [f"{FOLDER}/{environment}/{path.parent.name}/{path.name}" for path in found]


def read_bytes(project: Path, file: str) -> bytes | None:
    """Return a file's bytes, or None where there is no such file.

    Raises:
        UserError: unreadable-baseline, outside-project.
    """
    path = path_of(project, file)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        message = f"expected a file that can be read, but: {problem.strerror}"
        raise UserError("unreadable-baseline", message, file=file) from problem


def path_of(project: Path, file: str) -> Path:
    """Return where a file of the project is. Raises UserError (outside-project) where a link leads out of it."""
    path = project / file
    if not Path(realpath(path)).is_relative_to(realpath(project)):
        raise UserError("outside-project", f"expected a file inside the project but {file} is a link out of it")
    return path


def entry_of(value: Any) -> BaselineEntry:
    """Make an entry of plain JSON values.

    Raises msgspec.ValidationError, also for lists of unequal length and for groups of what an output does not have.
    """
    entry = msgspec.convert(value, BaselineEntry)
    for path, length in _lengths_per_seed(entry):
        if length != len(entry.inputs):
            message = f"Expected one value for each of {len(entry.inputs)} seeds, got {length} - at `$.{path}`"
            raise msgspec.ValidationError(message)
    for name, axes in entry.groups.items():
        shape = entry.outputs[name].shape if name in entry.outputs else ()
        if any(axis.axis >= len(shape) or shape[axis.axis] < 1 for axis in axes):
            raise msgspec.ValidationError(f"Expected an axis of the output - at `$.groups.{name}`")
    for output, histogram in entry.sketch.items():
        if len(histogram.bins) != len(histogram.counts):
            raise msgspec.ValidationError(f"Expected as many counts as bins - at `$.sketch.{output}`")
    return entry


def _lengths_per_seed(entry: BaselineEntry) -> Iterator[tuple[str, int]]:
    for name, output in entry.outputs.items():
        yield f"outputs.{name}.digests", len(output.digests)
        for metric, values in output.metrics.items():
            yield f"outputs.{name}.metrics.{metric}", len(values)
    for name, axes in entry.groups.items():
        for number, axis in enumerate(axes):
            for sums in kept_groups.SUMS:
                yield f"groups.{name}[{number}].{sums}", len(getattr(axis, sums))


def entries(project: Path) -> dict[Place, BaselineEntry]:
    """Return everything that was accepted, in every environment, sorted by place."""
    folders = sorted(path for path in (project / FOLDER).glob("*/") if not path.name.startswith("."))
    return dict(Baselines(project).entries(folder.name for folder in folders))


class Lookup(Protocol):
    """Where the baseline of a case is looked up: in a project as it stands, or as a commit had it."""

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that has the case."""

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain have together."""


class Baselines:
    """The baselines of a project as one run sees them: each file is read once, when it is first asked for."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._suites: dict[tuple[str, str], dict[str, BaselineEntry]] = {}

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that has the case."""
        wanted = Place("", baseline_id)
        suite, name = wanted.suite, wanted.name
        for environment in chain:
            entry = self._suite(environment, suite).get(name)
            if entry is not None:
                return Baseline(entry, environment, baseline_file(environment, suite))
        return None

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain have together, without reading what they say.

        Raises UserError as `read_bytes` does.
        """
        files = (file for environment in chain for file in files_of(self._project, environment))
        return sum((read_bytes(self._project, file) or b"").count(A_CASE) for file in files)

    def entries(self, environments: Iterable[str]) -> Iterator[tuple[Place, BaselineEntry]]:
        """Yield everything that was accepted in these environments."""
        for environment in environments:
            for file in files_of(self._project, environment):
                suite = suite_in(file)
                for name, entry in self._suite(environment, suite).items():
                    yield Place(environment, f"{suite}/{name}"), entry

    def orphans(self, ids: Collection[str], chain: tuple[str, ...]) -> dict[Place, BaselineEntry]:
        """Return the entries in the chain's environments that no suite's case looks up; `ids` are those that are.

        The entries of hand-written tests are left out.
        """
        return {
            place: entry
            for place, entry in self.entries(chain)
            if place.id not in ids and not is_handwritten(entry.definition)
        }

    def _suite(self, environment: str, suite: str) -> dict[str, BaselineEntry]:
        key = (environment, suite)
        if key not in self._suites:
            with without_search():
                self._suites[key] = read_suite(self._project, environment, suite)
        return self._suites[key]
