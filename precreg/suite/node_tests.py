"""Which cases does a folder of ONNX backend tests make?

A suite names the folder by `onnx_tests:`. Each folder in it with a model.onnx and data sets is a test, and each test is
a case. The stored outputs are its golden.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from precreg.errors import EXAMPLES, nearest
from precreg.storage import Source, format_value, note_folder, note_path, path_beside_suite
from precreg.suite.computations import read_computation
from precreg.suite.load import Suite
from precreg.suite.recorded import RecordedPoint
from precreg.types import Computation

KEY = "onnx_tests"
# The parameter of a case that names its test.
TEST = "test"
_KIND = "onnx_test"
_MODEL = "model.onnx"
_KEYS = ("folder", "include", "exclude")


def node_test_points(suite: Suite, project: Path) -> list[RecordedPoint]:
    """Return a point for each selected test, in the order of their names.

    Raises UserError: bad-value, outside-project, no-node-tests, unknown-case, and the errors of the kind's options.
    """
    source, entry = suite.source, _entry(suite)
    folder = _folder(suite, project)
    known = _tests(source, project / folder, folder)
    chosen = _select(source, entry, known)
    options = {name: value for name, value in entry.items() if name not in _KEYS}
    inside = os.path.relpath(folder, suite.directory)
    # The options are the same for each test, so they are checked once.
    first = read_computation(source, KEY, {_KIND: f"{inside}/{chosen[0]}", **options}, suite.directory, project)
    checked = {name: value for name, value in first.spec.items() if name != TEST}
    return [
        RecordedPoint(
            {TEST: name},
            Computation(_KIND, {TEST: f"{inside}/{name}", **checked}),
            Computation(_KIND, {TEST: f"{inside}/{name}", "expected": True}),
        )
        for name in chosen
    ]


def node_test_folders(suite: Suite, project: Path) -> Iterator[str]:
    """Yield the folders whose entries decide the tests of a suite; none for a suite without the key."""
    if suite.file.onnx_tests is not None:
        yield str(project / _folder(suite, project))


def _entry(suite: Suite) -> Mapping[str, Any]:
    given = suite.file.onnx_tests
    entry = {"folder": given} if isinstance(given, str) else given
    if not isinstance(entry, dict) or not isinstance(entry.get("folder"), str) or not entry["folder"]:
        expected = "a folder of ONNX backend tests, or {folder: PATH, include: [PATTERN], ...},"
        raise suite.source.error("bad-value", f"expected {expected} but got {KEY}={format_value(given)}", KEY)
    return entry


def _folder(suite: Suite, project: Path) -> str:
    """Return the folder of the tests, relative to the project. Raises UserError: bad-value, outside-project."""
    return path_beside_suite(project, suite.directory, _entry(suite)["folder"], suite.source.where(KEY, "folder"))


def _tests(source: Source, folder: Path, shown: str) -> list[str]:
    """Return the names of all tests. Raises UserError: no-node-tests, also for a folder without a model."""
    note_folder(folder)
    found = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []
    tests = [name for name in found if not name.startswith(".")]
    if not tests:
        message = f"expected folders with {_MODEL} in {shown} but there is none"
        raise source.error("no-node-tests", message, KEY, "folder")
    for name in tests:
        # A test that is incomplete, or not checked out, must not vanish.
        note_path(folder / name / _MODEL)
        if not (folder / name / _MODEL).is_file():
            message = f"expected {_MODEL} in each folder of {shown} but {name} has none"
            raise source.error("no-node-tests", message, KEY, "folder")
    return tests


def _select(source: Source, entry: Mapping[str, Any], known: list[str]) -> list[str]:
    """Return the tests that a pattern includes and none excludes. Raises UserError: bad-value, unknown-case."""
    included, excluded = (_matched(source, entry, key, known) for key in ("include", "exclude"))
    chosen = [name for name in known if (name in included or "include" not in entry) and name not in excluded]
    if not chosen:
        raise source.error("unknown-case", f"expected a test that is left after {KEY} excludes but got none", KEY)
    return chosen


def _matched(source: Source, entry: Mapping[str, Any], key: str, known: list[str]) -> set[str]:
    patterns = entry.get(key, [])
    patterns = patterns if isinstance(patterns, list) else [patterns]
    found: set[str] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            message = f"expected patterns on the names of tests but got {key}={format_value(pattern)}"
            raise source.error("bad-value", message, KEY, key, hint=f"write texts: {EXAMPLES['onnx_tests']}")
        matched = {name for name in known if fnmatchcase(name, pattern)}
        if not matched:
            message = f"expected a pattern on the names of tests but got {key}={pattern}, which matches none"
            raise source.error("unknown-case", message + nearest(pattern, known), KEY, key)
        found |= matched
    return found
