"""Reading what was accepted: one file per environment and suite, looked up through a chain of environments.

Writing what was accepted: under one lock, and whole files at a time, so that a kill or a full disk leaves the old.

The lock is the project's only one. Whoever changes baselines or proposals holds it from before reading until after
writing; readers need none, because a file is always either the old one or the new one.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from precreg.baseline.text import parse_baseline, render_baseline
from precreg.errors import UserError
from precreg.measure import GROUP_SUMS
from precreg.storage import (
    WORKING_FOLDER,
    flush_folder,
    make_scratch_folder,
    pause_gc,
    replace_file,
    report_write_errors,
)
from precreg.types import BASELINE_SCHEMA, Baseline, BaselineEntry, is_test_defined

BASELINES_FOLDER = "baselines"


CASE_MARKER = b'\n      "definition": '
"""What every entry begins with, and nothing else in a file, as baseline/text.py writes it."""


class BaselineKey(NamedTuple):
    """Where an entry stands: one case (tier/suite/name) in one environment."""

    environment: str
    id: str

    @property
    def suite(self) -> str:
        """Return tier/suite."""
        return suite_of_case(self.id)

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


def suite_of_case(id: str) -> str:
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
    return f"{BASELINES_FOLDER}/{environment}/{suite}.json"


def suite_of_file(file: str) -> str:
    """Return the tier/suite whose baselines a file has."""
    return file.split("/", 2)[2].removesuffix(".json")


def baseline_header(environment: str, suite: str) -> dict[str, str]:
    """Return what a baseline file says of itself."""
    return {"schema": BASELINE_SCHEMA, "suite": suite, "environment": environment}


def read_baseline_file(project: Path, environment: str, suite: str) -> dict[str, BaselineEntry]:
    """Return the entries of one file by case name; none where there is no file.

    Raises:
        UserError: unreadable-baseline, conflicted-baseline, old-schema or future-schema.
    """
    file = baseline_file(environment, suite)
    data = read_project_bytes(project, file)
    return {} if data is None else parse_baseline(data, file, baseline_header(environment, suite), decode_entry)


def baseline_files(project: Path, environment: str) -> list[str]:
    """Return the files of an environment's baselines, relative to the project, sorted."""
    found = sorted((project / BASELINES_FOLDER / environment).glob("*/[!.]*.json"))
    return [f"{BASELINES_FOLDER}/{environment}/{path.parent.name}/{path.name}" for path in found]


def read_project_bytes(project: Path, file: str) -> bytes | None:
    """Return a file's bytes, or None where there is no such file.

    Raises:
        UserError: unreadable-baseline, outside-project.
    """
    path = resolve_project_file(project, file)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        message = f"expected a file that can be read, but: {problem.strerror}"
        raise UserError("unreadable-baseline", message, file=file) from problem


def resolve_project_file(project: Path, file: str) -> Path:
    """Return where a file of the project is. Raises UserError (outside-project) where a link leads out of it."""
    path = project / file
    if not Path(realpath(path)).is_relative_to(realpath(project)):
        raise UserError("outside-project", f"expected a file inside the project but {file} is a link out of it")
    return path


def decode_entry(value: Any) -> BaselineEntry:
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
            for sums in GROUP_SUMS:
                yield f"groups.{name}[{number}].{sums}", len(getattr(axis, sums))


def read_all_entries(project: Path) -> dict[BaselineKey, BaselineEntry]:
    """Return everything that was accepted, in every environment, sorted by place."""
    folders = sorted(path for path in (project / BASELINES_FOLDER).glob("*/") if not path.name.startswith("."))
    return dict(Baselines(project).entries(folder.name for folder in folders))


class BaselineLookup(Protocol):
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
        wanted = BaselineKey("", baseline_id)
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
        files = (file for environment in chain for file in baseline_files(self._project, environment))
        return sum((read_project_bytes(self._project, file) or b"").count(CASE_MARKER) for file in files)

    def entries(self, environments: Iterable[str]) -> Iterator[tuple[BaselineKey, BaselineEntry]]:
        """Yield everything that was accepted in these environments."""
        for environment in environments:
            for file in baseline_files(self._project, environment):
                suite = suite_of_file(file)
                for name, entry in self._suite(environment, suite).items():
                    yield BaselineKey(environment, f"{suite}/{name}"), entry

    def orphans(self, ids: Collection[str], chain: tuple[str, ...]) -> dict[BaselineKey, BaselineEntry]:
        """Return the entries in the chain's environments that no suite's case looks up; `ids` are those that are.

        The entries of hand-written tests are left out.
        """
        return {
            place: entry
            for place, entry in self.entries(chain)
            if place.id not in ids and not is_test_defined(entry.definition)
        }

    def _suite(self, environment: str, suite: str) -> dict[str, BaselineEntry]:
        key = (environment, suite)
        if key not in self._suites:
            with pause_gc():
                self._suites[key] = read_baseline_file(self._project, environment, suite)
        return self._suites[key]


LOCK_FILE = f"{WORKING_FOLDER}/baselines.lock"

LOCK_TIMEOUT_S = 60.0


@contextmanager
def lock_baselines(project: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock on the project's baselines and proposals. It ends with the process, even with a killed one.

    Raises:
        UserError: locked, after timeout_s seconds of waiting; not-writable.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(project / LOCK_FILE)
    with report_write_errors(LOCK_FILE):
        make_scratch_folder(project / WORKING_FOLDER)
        try:
            lock.acquire(timeout=timeout_s)
        except Timeout as problem:
            message = f"expected the lock within {timeout_s:g} s, but another process changes the baselines"
            raise UserError("locked", message, file=LOCK_FILE) from problem
    try:
        yield
    finally:
        lock.release()


def store_entries(project: Path, accepted: Mapping[BaselineKey, BaselineEntry]) -> None:
    """Store entries beside those that are there, or in their place. The caller holds the lock.

    Every file is read and rendered before the first is written.
    """
    changed = _suites_at(project, accepted)
    for place, entry in accepted.items():
        changed[place.environment, place.suite][place.name] = entry
    _write_suites(project, changed)


def remove_entries(project: Path, places: Collection[BaselineKey]) -> None:
    """Remove entries, and the files that hold no other. The caller holds the lock."""
    changed = _suites_at(project, places)
    for place in places:
        changed[place.environment, place.suite].pop(place.name, None)
    _write_suites(project, changed)


def write_file(project: Path, file: str, text: str) -> None:
    """Replace a file, or make it, in one step. A name that is no Unicode (an author's) becomes a JSON escape.

    The caller holds the lock, so what is half-written beside the file was left by a process that was killed.

    Raises:
        UserError: not-writable, outside-project.
    """
    path = resolve_project_file(project, file)
    with report_write_errors(file):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            left.unlink()
        replace_file(path, text.encode(errors="backslashreplace"))


def delete_file(project: Path, file: str) -> None:
    """Remove a file that may be gone already. Raises UserError (not-writable, outside-project)."""
    path = resolve_project_file(project, file)
    with report_write_errors(file), suppress(FileNotFoundError):
        path.unlink()
        flush_folder(path.parent)


def _suites_at(project: Path, places: Collection[BaselineKey]) -> dict[tuple[str, str], dict[str, BaselineEntry]]:
    return {
        (place.environment, place.suite): read_baseline_file(project, place.environment, place.suite)
        for place in places
    }


def _write_suites(project: Path, suites: Mapping[tuple[str, str], Mapping[str, BaselineEntry]]) -> None:
    texts = {
        baseline_file(environment, suite): render_baseline(baseline_header(environment, suite), cases)
        if cases
        else None
        for (environment, suite), cases in suites.items()
    }
    for file, text in texts.items():
        if text is None:
            delete_file(project, file)
        else:
            write_file(project, file, text)
