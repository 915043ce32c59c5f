"""How are the entries of one suite read from its two files?

Everything in a file is checked before it is used: its header, the types and lengths of each entry, its checksum, and
that the figures that people review are those that judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from precreg.baseline.sums import MIXED, SUMS_SCHEMA, SUMS_SUFFIX, UNPAIRED, Plain, SumsLine, join_entry
from precreg.baseline.text import CHECKSUM, FormerSchema, entry_checksum, parse_baseline, parse_lines
from precreg.errors import UserError
from precreg.measure import METRICS
from precreg.storage import DataError, PackedEach, StructPacker, convert_data, read_regular_file
from precreg.types import BASELINE_SCHEMA, AxisSums, BaselineEntry, BaselineOutput, KnownBad

_T = TypeVar("_T")
BASELINES_FOLDER = "baselines"
# Entries and sums in one file, with the same digests and figures.
SINGLE_FILE_SCHEMA = "precreg-baseline/3"
# A writer replaces entries and sums one after the other, so a reader may see one of them before and one after.
_READS = 3
# Every field except axis and joined. measure/ lists them too, but imports numpy, and reading baselines does not.
_SUMS_BY_SEED = AxisSums.__struct_fields__[2:]
# Large cases, and baselines of earlier versions, lack those with a default.
_OPTIONAL_SUMS = _SUMS_BY_SEED[-len(AxisSums.__struct_defaults__) :]


class BaselineFile(NamedTuple):
    """Identify the baselines of one suite (tier/suite) in one environment."""

    environment: str
    suite: str

    @property
    def file(self) -> str:
        """Return the file, relative to the project."""
        return baseline_file(self.environment, self.suite)


def suite_of_case(id: str) -> str:
    """Return the tier/suite of a case id."""
    return "/".join(id.split("/", 2)[:2])


# Each entry of a suite asks for the same file.
@lru_cache(maxsize=1024)
def baseline_file(environment: str, suite: str) -> str:
    """Return the file of one suite (tier/suite) in one environment, relative to the project.

    Raises:
        UserError: outside-project, for a part that is no plain name.
    """
    # Names come from suites and from the command line, so "../../x" must not leave the folder.
    for part in (environment, *suite.split("/")):
        # Lone surrogates have no bytes that a file system could store.
        has_surrogate = any("\ud800" <= character <= "\udfff" for character in part)
        if part.startswith(".") or not part or set(part) & set("/\\\0") or has_surrogate:
            raise UserError("outside-project", f"expected a plain name for a file or folder but got name={part!r}")
    return f"{BASELINES_FOLDER}/{environment}/{suite}.json"


def suite_of_file(file: str) -> str:
    """Return the tier/suite of a baseline file."""
    return file.split("/", 2)[2].removesuffix(".json")


def sums_file(file: str) -> str:
    """Return the sibling of a baseline file that has its sums."""
    return file.removesuffix(".json") + SUMS_SUFFIX


def baseline_header(environment: str, suite: str) -> dict[str, str]:
    """Return the header that a baseline file must have."""
    return {"schema": BASELINE_SCHEMA, "suite": suite, "environment": environment}


def read_baseline_file(
    project: Path, environment: str, suite: str, *, packed: bool = False
) -> Mapping[str, BaselineEntry]:
    """Return the entries of one file by case name; empty without a file. Packed entries take little memory.

    Raises:
        UserError: unreadable-baseline, conflicted-baseline, mixed-baseline, unpaired-baseline, old-schema or
            future-schema.
    """
    file = baseline_file(environment, suite)
    data = read_project_bytes(project, file)
    parse = parse_packed_entries if packed else parse_entries
    for _ in range(_READS):
        try:
            return parse(data, environment, suite, lambda sibling: read_project_bytes(project, sibling))
        except UserError as problem:
            again = read_project_bytes(project, file)
            if problem.slug != UNPAIRED or again == data:
                raise
            data = again
    return parse(data, environment, suite, lambda sibling: read_project_bytes(project, sibling))


def parse_entries(
    data: bytes | None, environment: str, suite: str, read: Callable[[str], bytes | None]
) -> dict[str, BaselineEntry]:
    """Return the entries of the content of a baseline file by case name; none without content.

    `read` returns the content of the sibling, or None. Raises UserError as `read_baseline_file`.
    """
    return _parse(data, environment, suite, read, _itself)


def parse_packed_entries(
    data: bytes | None, environment: str, suite: str, read: Callable[[str], bytes | None]
) -> Mapping[str, BaselineEntry]:
    """Return the entries as `parse_entries` does, each packed as soon as it is checked."""
    packer = StructPacker(BaselineEntry)
    return PackedEach(packer, _parse(data, environment, suite, read, packer.pack))


def _itself(entry: BaselineEntry) -> BaselineEntry:
    return entry


def _parse(
    data: bytes | None,
    environment: str,
    suite: str,
    read: Callable[[str], bytes | None],
    keep: Callable[[BaselineEntry], _T],
) -> dict[str, _T]:
    if data is None:
        return {}
    join = _EntryDecoder(environment, suite, read)
    former = FormerSchema(SINGLE_FILE_SCHEMA, lambda value: keep(decode_entry(value)))
    file, header = baseline_file(environment, suite), baseline_header(environment, suite)
    found = parse_baseline(data, file, header, lambda value: keep(join(value)), former=former)
    join.check_rest()
    return found


class _EntryDecoder:
    """Join each entry of a file with its sums; read these from the first entry on, because old files have none."""

    def __init__(self, environment: str, suite: str, read: Callable[[str], bytes | None]) -> None:
        self._environment, self._suite, self._read = environment, suite, read
        self._file = sums_file(baseline_file(environment, suite))
        self._lines: Iterator[SumsLine] | None = None
        self._data: bytes | None = None
        # The sums of no entry until now, by checksum. Writers keep both files in one order, so there are few.
        self._waiting: dict[str, Plain] = {}
        self._every: dict[str, Plain] | None = None

    def __call__(self, value: Any) -> BaselineEntry:
        """Return an entry. Raises DataError if it has no sums, or the sums of another entry."""
        checksum = value.get(CHECKSUM) if isinstance(value, dict) else None
        if not isinstance(checksum, str):
            raise DataError(MIXED, f"expected an entry with a checksum but got {CHECKSUM}={checksum!r}")
        sums = self._find(checksum)
        if sums is None:
            got = "it has the sums of other entries" if self._every else "there are none"
            raise DataError(UNPAIRED, f"expected the sums of checksum={checksum} in {self._file}, but {got}")
        return decode_entry(join_entry(value, sums))

    def _find(self, checksum: str) -> Plain | None:
        """Return the sums of a checksum. It alone identifies them, even if the case has another name."""
        if self._lines is None:
            self._data = self._read(self._file)
            self._lines = _parse_lines(self._data, self._environment, self._suite)
        if self._every is not None:
            return self._every.get(checksum)
        if checksum in self._waiting:
            return self._waiting.pop(checksum)
        for line in self._lines:
            if line.of == checksum:
                return line.sums
            self._waiting[line.of] = line.sums
        # Two cases may share a line, or the lines are in another order.
        self._every = {line.of: line.sums for line in _parse_lines(self._data, self._environment, self._suite)}
        return self._every.get(checksum)

    def check_rest(self) -> None:
        """Check the lines that no entry needs. Raises UserError as `read_baseline_file`."""
        for _line in self._lines or ():
            pass


def parse_sums(data: bytes | None, environment: str, suite: str) -> dict[str, dict[str, Plain]]:
    """Return the sums in the content of a sibling by case name and checksum; none without content.

    Raises UserError as `read_baseline_file`.
    """
    found: dict[str, dict[str, Plain]] = {}
    for line in _parse_lines(data, environment, suite):
        found.setdefault(line.case, {})[line.of] = line.sums
    return found


def _parse_lines(data: bytes | None, environment: str, suite: str) -> Iterator[SumsLine]:
    if data is not None:
        file = sums_file(baseline_file(environment, suite))
        yield from parse_lines(data, file, sums_header(environment, suite), _decode_line)


def _decode_line(value: Any) -> SumsLine:
    return convert_data(value, SumsLine)


def sums_header(environment: str, suite: str) -> dict[str, str]:
    """Return the header that the sibling of a baseline file must have."""
    return {"schema": SUMS_SCHEMA, "suite": suite, "environment": environment}


def baseline_files(project: Path, environment: str) -> list[str]:
    """Return the files of an environment's baselines, relative to the project, sorted."""
    found = sorted((project / BASELINES_FOLDER / environment).glob("*/[!.]*.json"))
    return [f"{BASELINES_FOLDER}/{environment}/{path.parent.name}/{path.name}" for path in found]


def read_project_bytes(project: Path, file: str) -> bytes | None:
    """Return a file's bytes; None for a missing file.

    Raises:
        UserError: unreadable-baseline, outside-project.
    """
    path = resolve_project_file(project, file)
    try:
        return read_regular_file(path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        message = f"expected a file that can be read, but: {problem.strerror}"
        raise UserError("unreadable-baseline", message, file=file) from problem


def resolve_project_file(project: Path, file: str) -> Path:
    """Return the path of a project file. Raises UserError (outside-project) for a link that leads out."""
    # A repository may contain links, and a merge request may add one that leads to another project's file.
    path = project / file
    if not Path(realpath(path)).is_relative_to(realpath(project)):
        raise UserError("outside-project", f"expected a file inside the project but {file} is a link out of it")
    return path


def decode_entry(value: Any) -> BaselineEntry:
    """Make an entry from plain JSON values. Raises DataError as `check_entry` does, and for wrong types.

    It is also raised for content that the entry's checksum does not fit. Entries of earlier versions have no checksum.
    """
    plain = {name: member for name, member in value.items() if name != CHECKSUM} if isinstance(value, dict) else value
    entry = convert_data(plain, BaselineEntry)
    check_entry(entry)
    # After the other checks: their messages say more about an entry that somebody edited.
    if CHECKSUM in value and value[CHECKSUM] != (found := entry_checksum(plain)):
        message = f"expected the content of checksum={value[CHECKSUM]} but got the content of {found}"
        raise DataError(MIXED, f"{message}: the entry was edited, or merged from two sides")
    return entry


def check_entry(entry: BaselineEntry) -> None:
    """Check what types do not express.

    Raises DataError for lists of unequal length, for groups without an axis, and for figures that no metric has.
    """
    for path, length in _wrong_lengths(entry, len(entry.inputs)):
        expected = f"a value for each of {len(entry.inputs)} seeds"
        raise DataError("bad-value", f"expected {expected} but got {length} in {'.'.join(path)}")
    for name, axes in entry.groups.items():
        shape = entry.outputs[name].shape if name in entry.outputs else ()
        for each in axes:
            if each.axis >= len(shape) or shape[each.axis] < 1:
                message = f"expected an axis of an output of shape={list(shape)} but got axis={each.axis}"
                raise DataError("bad-value", f"{message} in groups.{name}")
    for name, output in entry.outputs.items():
        _check_figures(name, output)


def _check_figures(name: str, output: BaselineOutput) -> None:
    """Check that values of metrics are possible. Raises DataError."""
    for metric, values in output.metrics.items():
        allowed = _range_of(metric)
        if allowed is None:
            continue
        least, greatest, words = allowed
        for value in values:
            if value is not None and not least <= value <= greatest:
                raise DataError("bad-value", f"expected {words} but got {value} in outputs.{name}.metrics.{metric}")


@cache
def _range_of(metric: str) -> tuple[float, float, str] | None:
    """Return the least and greatest value of a metric, and their words; None if it may have any value.

    Analyzers may have any values. A signed metric has the range of its bounds, and bounds apply to the absolute value.
    """
    described = METRICS.get(metric)
    return None if described is None or described.scale == "signed" else described.range


def _wrong_lengths(entry: BaselineEntry, seeds: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the path and the length of each list that has another number of values than seeds."""
    if entry.oracle and len(entry.oracle) != seeds:
        yield ("oracle",), len(entry.oracle)
    for name, output in entry.outputs.items():
        if len(output.digests) != seeds:
            yield ("outputs", name, "digests"), len(output.digests)
        for metric, values in output.metrics.items():
            if len(values) != seeds:
                yield ("outputs", name, "metrics", metric), len(values)
    if entry.known is not None:
        yield from ((path, length) for path, length in _lengths_of_known(entry.known) if length != seeds)
    for name, axes in entry.groups.items():
        yield from _wrong_lengths_of_groups(name, axes, seeds)


def _wrong_lengths_of_groups(name: str, axes: Sequence[AxisSums], seeds: int) -> Iterator[tuple[tuple[str, ...], int]]:
    for number, axis in enumerate(axes):
        for sums in _SUMS_BY_SEED:
            values = getattr(axis, sums)
            if len(values) != seeds and (values or sums not in _OPTIONAL_SUMS):
                yield ("groups", name, str(number), sums), len(values)


def _lengths_of_known(known: KnownBad) -> Iterator[tuple[tuple[str, ...], int]]:
    for name, metrics in known.bounds.items():
        yield from ((("known", "bounds", name, metric), len(values)) for metric, values in metrics.items())
    for name, counts in (*known.nans.items(), *known.infinities.items()):
        yield ("known", name), len(counts)
