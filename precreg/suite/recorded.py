"""Which cases do recorded outputs make?

A suite gives patterns such as outputs/{version}/*.npy and golden/*.npy. Every reference file makes one case in every
version, also where the output file is missing: a missing output must fail and not vanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

from precreg.errors import UserError, nearest
from precreg.storage import (
    ARRAY_SUFFIXES,
    MSPROBE_FILE,
    RAW,
    Source,
    format_value,
    is_array_file,
    is_reading_watched,
    is_url,
    natural_order,
    note_folder,
    note_path,
    note_unknown,
    objects_below,
    path_beside_suite,
    require_path,
    resolve_inside,
)
from precreg.subject import check_object_url, files_spec, read_raw_options
from precreg.suite.load import Suite
from precreg.suite.matrix import Parameters, matrix_rows, require_known, substitute
from precreg.types import Computation, Role

# The parameter for the * of a pattern. Placeholders in braces have names of their own.
STEM = "file"

_HOLE = re.compile(r"\{(\w+)\}|(\*)")


class RecordedPoint(NamedTuple):
    """Hold the parameters, the subject, the oracle and the benchmark of one future case."""

    parameters: Parameters
    subject: Computation
    oracle: Computation
    benchmark: Computation | None = None


class _Pattern(NamedTuple):
    """Hold a pattern that is relative to the project, and the parameters of its placeholders."""

    text: str
    parameters: tuple[str, ...]

    @property
    def glob(self) -> str:
        """Return the pattern for `Path.glob`, with * for every placeholder."""
        return "*".join(escape(literal) for literal in _HOLE.split(self.text)[::3])

    def path(self, row: Parameters) -> str:
        """Return the path for one row of parameters."""
        return _HOLE.sub(lambda hole: str(row[hole[1] or STEM]), self.text)

    def folders(self, project: Path) -> Iterator[Path]:
        """Yield the folders whose names decide the matching files, where the pattern has placeholders.

        A store has none.
        """
        if is_url(self.text):
            return
        literal, parts = Path(_split_folder(self.text)[0]).parts, self.glob.split("/")
        yield project.joinpath(*literal)
        for count in range(len(literal) + 1, len(parts)):
            yield from (folder for folder in project.glob("/".join(parts[:count])) if folder.is_dir())

    def found(self, project: Path) -> dict[str, Parameters]:
        """Return the matching files in the order of their paths, with the parameters of each."""
        # The glob finds candidates quickly. Only the expression says which part of a path belongs to which parameter.
        expression = re.compile(_regex(self.text))
        if is_url(self.text):
            return self._found_objects(expression)
        if is_reading_watched():
            for folder in self.folders(project):
                note_folder(folder)
        found = (path.relative_to(project).as_posix() for path in project.glob(self.glob))
        paths = sorted(found, key=natural_order)
        matches = {path: match for path in paths if (match := expression.fullmatch(path))}
        for path in matches:
            note_path(project / path)
        return {path: match.groupdict() for path, match in matches.items() if (project / path).is_file()}

    def _found_objects(self, expression: re.Pattern[str]) -> dict[str, Parameters]:
        # An object may come and go at any time, so that no index of suites can have these cases.
        note_unknown()
        found = objects_below(f"{_split_folder(self.text)[0]}/")
        urls = sorted((file.url for file in found), key=natural_order)
        return {url: match.groupdict() for url in urls if (match := expression.fullmatch(url))}


def recorded_points(suite: Suite, project: Path) -> list[RecordedPoint]:
    """Return a point for each reference file in each version, or in each combination of other placeholders.

    A placeholder in the matrix takes the matrix's values; other placeholders take the values of the files. Raises
    UserError: no-recorded-files if no file matches or an output has no reference; bad-value, outside-project.
    """
    source, file = suite.source, suite.file.files
    assert file is not None
    role, actual, oracle = _read_patterns(suite, project)
    _check_placeholders(source, role, actual, oracle)
    choices = _read_choices(source, suite.file.matrix, actual)
    recorded = _keep_chosen(_find(source, "actual", actual, project), choices)
    references = _keep_chosen(_find(source, role, oracle, project), choices)
    for key, paths in (("actual", recorded), (role, references)):
        where = source.where("files", key)
        for path in paths:
            if not is_url(path):
                resolve_inside(project, path, file=where.file, line=where.line)
            if not path.isprintable():  # the name of the case would send control characters to terminals
                message = f"expected the name of a file without control characters but got {path!r}"
                raise source.error("bad-value", message, "files", key, hint="rename the file with printable characters")
    _require_files(source, role, actual, recorded, oracle, references)
    # Placeholders of outputs alone, such as {version}, repeat every reference. Only existing combinations count.
    free = [name for name in actual.parameters if name not in choices[0] and name not in oracle.parameters]
    versions = _drop_duplicates({name: row[name] for name in free} for row in recorded.values())
    points = [
        _make_point(suite, actual, oracle, parameters)
        for choice in choices
        for version in versions
        for reference in references.values()
        if (parameters := _merge_rows({**choice, **version}, reference)) is not None
    ]
    return points if file.benchmark is None else _add_benchmarks(suite, project, file.benchmark, actual, points)


def _find(source: Source, key: str, pattern: _Pattern, project: Path) -> dict[str, Parameters]:
    """Return what `found` does. An error of a store gets the line of the pattern."""
    try:
        return pattern.found(project)
    except UserError as problem:
        message = f"{problem.file}: {problem.message}" if problem.file else problem.message
        raise source.error(problem.slug, message, "files", key, hint=problem.hint) from None


def _add_benchmarks(
    suite: Suite, project: Path, text: str, actual: _Pattern, points: list[RecordedPoint]
) -> list[RecordedPoint]:
    """Add the recorded outputs of a second implementation, which must be there for every case."""
    pattern = _read_pattern(suite, project, "benchmark", text)
    _check_placeholders(suite.source, "benchmark", actual, pattern)
    where = suite.source.where("files", "benchmark")
    known = _find(suite.source, "benchmark", pattern, project)
    for point in points:
        wanted = pattern.path(point.parameters)
        if wanted not in known:
            message = f"expected benchmark={wanted} but it is not there{nearest(wanted, known)}"
            raise suite.source.error("no-recorded-files", message, "files", "benchmark")
        if not is_url(wanted):
            resolve_inside(project, wanted, file=where.file, line=where.line)
    return [
        point._replace(benchmark=_file_computation(suite, pattern, point.parameters, "benchmark")) for point in points
    ]


def _file_computation(suite: Suite, pattern: _Pattern, row: Parameters, key: str) -> Computation:
    """Return the computation that reads the file of a row; `key` belongs to the pattern."""
    path, source = pattern.path(row), suite.source

    def error(slug: str, message: str, *keys: str | int, hint: str = "") -> UserError:
        name = keys[0] if keys else key
        place = "reference_dtype" if name == "dtype" and is_oracle else name
        return source.error(slug, message, "files", place, hint=hint)

    is_oracle = key != "actual" and suite.file.files is not None and suite.file.files.reference_dtype is not None
    raw = read_raw_options(_raw_options(suite, row, is_oracle=is_oracle), error) if path.endswith(RAW) else {}
    return Computation("files", files_spec(path, raw, error))


def _raw_options(suite: Suite, row: Parameters, *, is_oracle: bool) -> dict[str, Any]:
    """Return how the raw files of a row are read; $name is a placeholder of the patterns."""
    entry = suite.file.files
    assert entry is not None
    dtype = entry.reference_dtype if is_oracle else entry.dtype
    given = {"dtype": dtype, "shape": entry.shape, "byte_order": entry.byte_order}
    for key, value in given.items():
        require_known(suite.source, value, row.keys(), "files", key)
    return {key: substitute(value, row) for key, value in given.items() if value is not None}


def folders_searched(suite: Suite, project: Path) -> Iterator[str]:
    """Yield the folders whose entries decide the cases of a suite; none for a suite that computes.

    A cache of cases must check these folders: a new file in one of them makes a new case.
    """
    if suite.file.files is None:
        return
    role, *patterns = _read_patterns(suite, project)
    for key, pattern in zip(("actual", role), patterns, strict=True):
        if not is_url(pattern.text):
            yield str(project / suite.directory / _split_folder(getattr(suite.file.files, key))[0])
        yield from map(str, pattern.folders(project))


def accepted_point(suite: Suite, project: Path, parameters: Parameters) -> RecordedPoint:
    """Return the point for the parameters of `baseline_of`. Its files may be deleted, because its baseline remains.

    Raises UserError (bad-value, outside-project) for a value of `baseline_of` that cannot be a part of a path.
    """
    _check_names(suite.source, suite.file.baseline_of, "baseline_of")
    _, actual, oracle = _read_patterns(suite, project)
    return _make_point(suite, actual, oracle, parameters)


def _read_patterns(suite: Suite, project: Path) -> tuple[Role, _Pattern, _Pattern]:
    entry = suite.file.files
    assert entry is not None
    role: Role = "reference" if entry.reference is not None else "golden"
    actual = _read_pattern(suite, project, "actual", entry.actual)
    return role, actual, _read_pattern(suite, project, role, str(getattr(entry, role)))


def _make_point(suite: Suite, actual: _Pattern, oracle: _Pattern, parameters: Parameters) -> RecordedPoint:
    return RecordedPoint(
        parameters,
        _file_computation(suite, actual, parameters, "actual"),
        _file_computation(suite, oracle, parameters, "reference"),
    )


def _read_pattern(suite: Suite, project: Path, key: str, text: str) -> _Pattern:
    """Check a pattern, and return it relative to the project. Its fixed folder must be inside the project."""
    where = suite.source.where("files", key)
    if is_url(text):
        check_object_url(text, lambda slug, message, hint: suite.source.error(slug, message, "files", key, hint=hint))
    else:
        require_path(text, where)
    names = tuple(match[1] or STEM for match in _HOLE.finditer(text))
    if len(set(names)) < len(names):
        raise suite.source.error(
            "bad-value",
            f"expected each placeholder once but got {key}={text}",
            "files",
            key,
            hint="name the placeholders apart: actual: 'out/{version}/{op}.npy'",
        )
    if not is_array_file(text):
        expected = f"a pattern of {', '.join(ARRAY_SUFFIXES)} or {MSPROBE_FILE} files"
        raise suite.source.error(
            "bad-value",
            f"expected {expected} but got {key}={text}",
            "files",
            key,
            hint=f"write a pattern of arrays: {key}: 'out/*.npy'",
        )
    if is_url(text):
        return _Pattern(text, names)
    folder, rest = _split_folder(text)
    # After a placeholder, the folder is unknown and so is the target of "..".
    if ".." in rest.split("/"):
        raise suite.source.error(
            "outside-project", f"expected no .. after a placeholder but got {key}={text}", "files", key
        )
    base = path_beside_suite(project, suite.directory, folder or ".", where)
    return _Pattern(f"{base}/{rest}".removeprefix("./"), names)


def _split_folder(text: str) -> tuple[str, str]:
    """Return the fixed folder of a pattern, before any placeholder, and the rest of the pattern."""
    hole = _HOLE.search(text)
    folder = (text[: hole.start()] if hole else text).rpartition("/")[0]
    return folder, text[len(folder) :].removeprefix("/")


def _regex(text: str) -> str:
    pieces = _HOLE.split(text)
    literal = [re.escape(piece) for piece in pieces[::3]]
    holes = [f"(?P<{name or STEM}>[^/]+)" for name in pieces[1::3]]
    return "".join(part for pair in zip(literal, [*holes, ""], strict=True) for part in pair)


def _check_placeholders(source: Source, role: str, actual: _Pattern, oracle: _Pattern) -> None:
    for name in oracle.parameters:
        if name not in actual.parameters:
            hole = "*" if name == STEM else f"{{{name}}}"
            message = f"expected only placeholders of actual but got {role}={oracle.text} with {hole}"
            raise source.error(
                "bad-value",
                message + nearest(name, actual.parameters),
                "files",
                role,
                hint=f"remove {hole} from {role}:, or add it to actual: 'out/{hole}/*.npy'",
            )


def _read_choices(source: Source, matrix: Any, actual: _Pattern) -> list[Parameters]:
    """Return the rows of the matrix. Every parameter must be a placeholder, and every value must be text."""
    choices = matrix_rows(source, matrix)
    for name in choices[0]:
        if name not in actual.parameters:
            message = f"expected a placeholder of {actual.text} but got {name}{nearest(name, actual.parameters)}"
            raise source.error(
                "bad-value",
                message,
                "matrix",
                name,
                hint=f"write {{{name}}} in actual:, or remove {name}: from matrix:",
            )
    for row in choices:
        _check_names(source, row, "matrix")
    return choices


def _check_names(source: Source, row: Parameters, key: str) -> None:
    """Require that every value is the name of one file or folder, because placeholders are parts of a path."""
    for name, value in row.items():
        if not isinstance(value, str):
            message = f"expected text, in quotes, because it is part of a path, but got {name}={format_value(value)}"
            raise source.error("bad-value", message, key, name, hint=f"write it in quotes: {name}: '{value}'")
        if "/" in value or value in ("", ".."):
            message = f"expected the name of one file or folder but got {name}={value}"
            raise source.error("outside-project", message, key, name)


def _keep_chosen(found: dict[str, Parameters], choices: list[Parameters]) -> dict[str, Parameters]:
    return {path: row for path, row in found.items() if any(_merge_rows(choice, row) is not None for choice in choices)}


def _merge_rows(first: Parameters, second: Parameters) -> Parameters | None:
    """Return the union of two rows, or None if they disagree on a parameter."""
    if any(first.get(name, value) != value for name, value in second.items()):
        return None
    return {**first, **second}


def _drop_duplicates(found: Iterable[Parameters]) -> list[Parameters]:
    # dict.fromkeys keeps the order of the files, which is the order of the cases.
    return [dict(items) for items in dict.fromkeys(tuple(row.items()) for row in found)]


def _require_files(
    source: Source,
    role: str,
    actual: _Pattern,
    recorded: dict[str, Parameters],
    oracle: _Pattern,
    references: dict[str, Parameters],
) -> None:
    """Require files on both sides, and a reference for every recorded output."""
    for key, pattern, found in (("actual", actual, recorded), (role, oracle, references)):
        if not found:
            raise source.error(
                "no-recorded-files", f"expected files but none matches {key}={pattern.text}", "files", key
            )
    for path, row in recorded.items():
        wanted = oracle.path(row)
        if wanted not in references:
            message = f"expected {role}={wanted} for {path} but it is not there{nearest(wanted, references)}"
            raise source.error("no-recorded-files", message, "files", role)
