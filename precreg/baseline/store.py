"""Where are accepted entries stored?

A file per environment and suite holds them, with a sibling that holds their sums (see sums.py). A chain of environments
finds them. One lock protects baselines and proposals: a writer holds it from before reading until after writing.

Readers need no lock. Each file is replaced in one step, and at each moment the sibling has the sums of all entries: a
writer adds the new ones before it replaces the entries, and removes the former ones after that.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from precreg.baseline.counts import count_entries
from precreg.baseline.single_entry import find_entry, note_checked, signatures_of_file
from precreg.baseline.suite_file import (
    BASELINES_FOLDER,
    SINGLE_FILE_SCHEMA,
    BaselineFile,
    baseline_file,
    baseline_files,
    baseline_header,
    parse_sums,
    read_baseline_file,
    read_project_bytes,
    resolve_project_file,
    suite_of_case,
    suite_of_file,
    sums_file,
    sums_header,
)
from precreg.baseline.sums import SUMS_SUFFIX, Plain, render_sums_header, render_sums_line
from precreg.baseline.text import CHECKSUM, FormerSchema, baseline_pieces, parse_baseline, split_with_checksum
from precreg.environment import in_ci
from precreg.errors import UserError
from precreg.storage import (
    WORKING_FOLDER,
    append_to_regular_file,
    flush_folder,
    lock_file,
    make_scratch_folder,
    pause_gc,
    replace_file,
    report_write_errors,
)
from precreg.types import Baseline, BaselineEntry, is_test_defined

_T = TypeVar("_T")
# git, GitLab and GitHub fold generated files in reviews. Attributes of the folder need no line of the project's own.
ATTRIBUTES_FILE = f"{BASELINES_FOLDER}/.gitattributes"
_ATTRIBUTES = f"""\
# Written by precreg: the digits and sums that only its statistics read. People review the .json beside each file.
# A merge keeps the lines of both sides; the entries say which of them count.
*{SUMS_SUFFIX} -diff merge=union gitlab-generated linguist-generated
"""
# More entries of one file cost more than reading all of it, because each search reads its text.
_MAX_SINGLES = 8

# Files of so many bytes have about 2,000 entries, whose objects take 20 kB each. Entries of further files are packed,
# which takes a fifth of the time of reading them (profile of benchmarks/pytest_overhead.py, 1,000 cases).
MAX_BYTES_AS_OBJECTS = 4_000_000


class BaselineKey(NamedTuple):
    """Identify an entry: one case (tier/suite/name) in one environment."""

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


def read_all_entries(project: Path) -> dict[BaselineKey, BaselineEntry]:
    """Return all accepted entries in every environment, sorted."""
    folders = sorted(path for path in (project / BASELINES_FOLDER).glob("*/") if not path.name.startswith("."))
    return dict(Baselines(project).entries(folder.name for folder in folders))


class BaselineLookup(Protocol):
    """Look up baselines in the working tree, or as a commit had them."""

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that has the case."""

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain have together."""


class Baselines:
    """Read the baselines of a project for one run; each file is read once, on first use."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._suites: dict[tuple[str, str], Mapping[str, BaselineEntry]] = {}
        # Entries of files that are not read as a whole.
        self._singles: dict[tuple[str, str], dict[str, BaselineEntry | None]] = {}
        self._bytes = 0

    def lookup(self, baseline_id: str, chain: tuple[str, ...]) -> Baseline | None:
        """Return the entry of the first environment of the chain that has the case."""
        wanted = BaselineKey("", baseline_id)
        suite, name = wanted.suite, wanted.name
        for environment in chain:
            entry = self._entry(environment, suite, name)
            if entry is not None:
                return Baseline(entry, environment, baseline_file(environment, suite))
        return None

    def number(self, chain: tuple[str, ...]) -> int:
        """Return how many entries the environments of the chain have together.

        Raises UserError as `read_project_bytes` does.
        """
        return sum(counts.entries for counts in count_entries(self._project, chain).values())

    def entries(self, environments: Iterable[str]) -> Iterator[tuple[BaselineKey, BaselineEntry]]:
        """Yield all accepted entries of these environments."""
        for place in self._places(environments):
            yield place, self._suite(place.environment, place.suite)[place.name]

    def _places(self, environments: Iterable[str]) -> Iterator[BaselineKey]:
        """Yield the places of all accepted entries of these environments."""
        for environment in environments:
            for file in baseline_files(self._project, environment):
                suite = suite_of_file(file)
                yield from (BaselineKey(environment, f"{suite}/{name}") for name in self._suite(environment, suite))

    def orphans(self, ids: Collection[str], chain: tuple[str, ...]) -> dict[BaselineKey, BaselineEntry]:
        """Return the entries of the chain's environments that no case of a suite looks up.

        `ids` are the ids that cases look up. Entries of test-defined cases are not orphans.
        """
        # Most entries are no orphans, and packed ones take longer to unpack than to find.
        lost = (place for place in self._places(chain) if place.id not in ids)
        found = {place: self._suite(place.environment, place.suite)[place.name] for place in lost}
        return {place: entry for place, entry in found.items() if not is_test_defined(entry.definition)}

    def _entry(self, environment: str, suite: str, name: str) -> BaselineEntry | None:
        """Return one entry; the first few of a large file are read without the others."""
        key, found = (environment, suite), self._singles.setdefault((environment, suite), {})
        if key not in self._suites and name not in found and len(found) < _MAX_SINGLES:
            single = find_entry(self._project, environment, suite, name)
            if single is not None:
                found[name] = single.entry
        return found[name] if name in found else self._suite(environment, suite).get(name)

    def _suite(self, environment: str, suite: str) -> Mapping[str, BaselineEntry]:
        key = (environment, suite)
        if key not in self._suites:
            before = signatures_of_file(self._project, environment, suite)
            # Decoded entries are many small objects without cycles.
            with pause_gc():
                self._suites[key] = self._read(environment, suite)
            note_checked(self._project, environment, suite, before)
        return self._suites[key]

    def _read(self, environment: str, suite: str) -> Mapping[str, BaselineEntry]:
        with suppress(OSError):
            self._bytes += os.stat(self._project / baseline_file(environment, suite)).st_size
        return read_baseline_file(self._project, environment, suite, packed=self._bytes > MAX_BYTES_AS_OBJECTS)


def refuse_in_ci(environ: Mapping[str, str]) -> None:
    """Refuse to write baselines in CI. Raises UserError (accept-in-ci)."""
    if in_ci(environ):
        message = f"expected a person's own machine but got CI={environ['CI']}: CI never writes baselines"
        raise UserError("accept-in-ci", message)


LOCK_FILE = f"{WORKING_FOLDER}/baselines.lock"
# Longer than any writer holds the lock: reruns happen before it is taken.
LOCK_TIMEOUT_S = 60.0


@contextmanager
def lock_baselines(project: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock on the project's baselines and proposals. It ends with the process, even with a killed one.

    Raises:
        UserError: locked, after timeout_s seconds of waiting; not-writable.
    """
    with ExitStack() as held:
        # The lock file stays in place: removing it would let a waiting process lock a file without a name.
        with report_write_errors(LOCK_FILE):
            make_scratch_folder(project / WORKING_FOLDER)
            stream = held.enter_context(append_to_regular_file(project / LOCK_FILE))
            locked = lock_file(stream, timeout_s)
        if not locked:
            message = f"expected the lock within {timeout_s:g} s, but another process changes the baselines"
            raise UserError("locked", message, file=LOCK_FILE)
        yield


def store_entries(project: Path, accepted: Mapping[BaselineKey, BaselineEntry]) -> None:
    """Store entries beside the existing ones, or in their place. The caller holds the lock."""
    _write_suites(project, (_with_entries(project, file, of, accepted) for file, of in _by_file(accepted).items()))


def _by_file(places: Iterable[BaselineKey]) -> dict[BaselineFile, dict[str, BaselineKey]]:
    """Return places by their file and their name in it."""
    found: dict[BaselineFile, dict[str, BaselineKey]] = {}
    for place in places:
        found.setdefault(BaselineFile(place.environment, place.suite), {})[place.name] = place
    return found


def _with_entries(
    project: Path, file: BaselineFile, places: Mapping[str, BaselineKey], accepted: Mapping[BaselineKey, BaselineEntry]
) -> _SuiteContent:
    present = _read_suite(project, file)

    def entry(name: str) -> BaselineEntry:
        return accepted[places[name]] if name in places else present[name]

    return _SuiteContent(file, {*present, *places}, entry)


def count_unchecked_entries(project: Path) -> int:
    """Return how many entries of all environments have no checksum: earlier versions wrote none.

    Raises UserError as `read_baseline_file` does.
    """
    unchecked = _read_plainly(project, _has_checksum)
    return sum(not has for entries in unchecked.values() for has in entries.values())


def _read_plainly(project: Path, decode: Callable[[Any], _T]) -> dict[BaselineFile, dict[str, _T]]:
    """Return what `decode` makes of the members of every file, by its place."""
    found = {}
    for place in _all_baseline_files(project):
        data = read_project_bytes(project, place.file)
        former = FormerSchema(SINGLE_FILE_SCHEMA, decode)
        header = baseline_header(*place)
        found[place] = {} if data is None else parse_baseline(data, place.file, header, decode, former=former)
    return found


def _all_baseline_files(project: Path) -> Iterator[BaselineFile]:
    for folder in sorted((project / BASELINES_FOLDER).glob("[!.]*/")):
        yield from (BaselineFile(folder.name, suite_of_file(file)) for file in baseline_files(project, folder.name))


def _has_checksum(plain: Any) -> bool:
    return isinstance(plain, dict) and CHECKSUM in plain


def add_checksums(project: Path) -> int:
    """Write every file again whose entries lack a checksum, and return their number. The caller holds the lock."""
    number = count_unchecked_entries(project)
    store_entries(project, read_all_entries(project) if number else {})
    return number


def single_files(project: Path) -> list[str]:
    """Return the baseline files of earlier versions, which have entries and sums in one file.

    Raises UserError for a file that cannot be read.
    """
    # The header is the first lines of a file, as baseline/text.py writes it; a file in another form is migrated later.
    found = (place.file for place in _all_baseline_files(project))
    return [file for file in found if SINGLE_FILE_SCHEMA.encode() in (read_project_bytes(project, file) or b"")[:200]]


def migrate_baselines(project: Path) -> dict[str, int]:
    """Write the files of earlier versions in the present schema. Return the number of entries by file.

    Entries stay as they are, with reason, author and date. The caller holds the lock. Raises UserError as
    `read_baseline_file` does, before anything is written.
    """
    places = [BaselineFile(file.split("/", 2)[1], suite_of_file(file)) for file in single_files(project)]
    entries = {place: read_baseline_file(project, *place) for place in places}
    _write_suites(project, (_SuiteContent(place, {*cases}, cases.__getitem__) for place, cases in entries.items()))
    return {place.file: len(cases) for place, cases in entries.items()}


def remove_entries(project: Path, places: Collection[BaselineKey]) -> None:
    """Remove entries, files without entries, and sums without a file. The caller holds the lock."""
    suites = {file: (_read_suite(project, file), names) for file, names in _by_file(places).items()}
    kept = (_SuiteContent(file, {*every} - {*names}, every.__getitem__) for file, (every, names) in suites.items())
    _write_suites(project, kept)
    for path in sorted((project / BASELINES_FOLDER).glob(f"[!.]*/*/[!.]*{SUMS_SUFFIX}")):
        if not path.with_suffix(".json").exists():
            delete_file(project, path.relative_to(project).as_posix())


def write_file(project: Path, file: str, text: str) -> None:
    """Replace or create a file in one step; characters that UTF-8 cannot encode become JSON escapes.

    The caller holds the lock.

    Raises:
        UserError: not-writable, outside-project.
    """
    path = resolve_project_file(project, file)
    with report_write_errors(file):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(path)
        replace_file(path, text.encode(errors="backslashreplace"))


def delete_file(project: Path, file: str) -> None:
    """Remove a file if it exists. Raises UserError (not-writable, outside-project)."""
    path = resolve_project_file(project, file)
    with report_write_errors(file), suppress(FileNotFoundError):
        path.unlink()
        flush_folder(path.parent)


class _SuiteContent(NamedTuple):
    """Hold the new entries of a suite: the names of its cases, and a function that returns the entry of a name."""

    place: BaselineFile
    names: Collection[str]
    entry: Callable[[str], BaselineEntry]


def _read_suite(project: Path, place: BaselineFile) -> Mapping[str, BaselineEntry]:
    data = read_project_bytes(project, place.file)
    return read_baseline_file(project, *place, packed=len(data or b"") > MAX_BYTES_AS_OBJECTS)


def _write_suites(project: Path, suites: Iterable[_SuiteContent]) -> None:
    # Every file is read, rendered and on disk before the first one is replaced: an unreadable file or a full disk
    # changes nothing. The text of a suite is in memory case by case, because all texts of 100,000 cases take 1 GB.
    with ExitStack() as discarded:
        staged = []
        for suite in suites:
            with pause_gc():
                staged.append(_stage_suite(project, suite, discarded))
        if any(each.names for each, _ in staged) and not (project / ATTRIBUTES_FILE).exists():
            write_file(project, ATTRIBUTES_FILE, _ATTRIBUTES)
        for suite, files in staged:
            for file in files:
                file.publish()
            # A file without entries is removed, so that an environment that lost its last case does not stay visible.
            if not suite.names:
                delete_file(project, suite.place.file)
                delete_file(project, sums_file(suite.place.file))


_Staged = tuple[_SuiteContent, "Sequence[_StagedFile]"]


def _stage_suite(project: Path, suite: _SuiteContent, discarded: ExitStack) -> _Staged:
    """Stage the files of a suite in the order in which they are published.

    The sibling first has the sums of the former entries, too, and only the new ones after the entries are replaced.
    """
    former = _former_sums(project, suite.place)
    if not suite.names:
        return suite, ()
    sibling = sums_file(suite.place.file)
    both = _StagedFile(project, sibling, discarded)
    shown = _StagedFile(project, suite.place.file, discarded)
    new = _StagedFile(project, sibling, discarded, mark=".new") if former else both
    for file in {both, new}:
        file.write(render_sums_header(sums_header(*suite.place)))

    def parts() -> Iterator[tuple[str, Plain]]:
        for name in sorted({*suite.names, *former}):
            lines = former.pop(name, {})
            if name in suite.names:
                part = split_with_checksum(suite.entry(name))
                line = render_sums_line(name, part.checksum, part.sums)
                lines[part.checksum] = line
                if new is not both:
                    new.write(line)
                yield name, part.shown
            both.write("".join(lines[of] for of in sorted(lines)))

    for piece in baseline_pieces(baseline_header(*suite.place), parts()):
        shown.write(piece)
    files = (both, shown, new) if new is not both else (both, shown)
    for file in files:
        file.close()
    return suite, files


def _former_sums(project: Path, place: BaselineFile) -> dict[str, dict[str, str]]:
    """Return the lines of a suite's sums that its present entries need, by case and checksum."""
    if read_project_bytes(project, place.file) is None:
        return {}
    found = parse_sums(read_project_bytes(project, sums_file(place.file)), *place)
    return {name: {of: render_sums_line(name, of, of_case[of]) for of in of_case} for name, of_case in found.items()}


class _StagedFile:
    """Collect the new content of a file beside it, until `publish` replaces the file in one step.

    `discarded` drops the content of a file that was not published. `mark` keeps two contents of one file apart. The
    methods raise UserError (not-writable).
    """

    def __init__(self, project: Path, file: str, discarded: ExitStack, mark: str = "") -> None:
        self._path, self._file = resolve_project_file(project, file), file
        self._temporary = self._path.with_name(f".{self._path.name}{mark}.{os.getpid()}.tmp")
        self._waiting: list[str] = []
        self._length = 0
        with report_write_errors(file):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not mark:
                _remove_left(self._path)
            # Unbuffered, because closing a buffered one would try to write to a full disk again.
            self._stream = discarded.enter_context(self._temporary.open("wb", buffering=0))
        discarded.callback(self._discard)

    def write(self, text: str) -> None:
        """Append to the content; characters that UTF-8 cannot encode become JSON escapes."""
        self._waiting.append(text)
        self._length += len(text)
        if self._length > _STAGED_LENGTH:
            self._flush()

    def _flush(self) -> None:
        rest = memoryview("".join(self._waiting).encode(errors="backslashreplace"))
        with report_write_errors(self._file):
            while rest:
                rest = rest[self._stream.write(rest) :]
        self._waiting, self._length = [], 0

    def close(self) -> None:
        """Write the content to the disk. The file is closed then, because a process may have few open at once."""
        self._flush()
        with report_write_errors(self._file), self._stream:
            os.fsync(self._stream.fileno())

    def publish(self) -> None:
        """Replace the file. Its content is on disk before: after a power cut the new name could have none."""
        with report_write_errors(self._file):
            os.replace(self._temporary, self._path)
            flush_folder(self._path.parent)

    def _discard(self) -> None:
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)


# Characters that are written at once; longer ones save no time.
_STAGED_LENGTH = 1 << 20


def _remove_left(path: Path) -> None:
    # Nobody else writes while this process holds the lock, so temporary files are left from killed processes.
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        left.unlink()
