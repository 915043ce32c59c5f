"""Whatever stands where in a suite, its author sees a UserError with the file, or cases: never a traceback."""

import copy
import json

import pytest

from precreg.errors import UserError
from precreg.storage.yaml_source import read_yaml
from precreg.suite.expand import load_cases
from tests.suite.conftest import SUITE
from tests.suite.test_expand import FULL
from tests.tolerance.test_pyramid import TOLERANCE, TOLERANCES

ODD = [
    None,
    True,
    -1,
    0,
    1.5,
    10**400,
    "",
    "x",
    "$x",
    "$dtype",
    "a:b",
    "x\0.npy",
    "y" * 300,
    [],
    {},
    [[]],
    [None],
    [{}],
    {"x": None},
    {"": {"": []}},
]
RECORDED = """\
suite: atan
files: {actual: "o/{version}/*.npy", golden: "g/*.npy"}
matrix: {version: ["1", "2"], exclude: [{version: "2"}]}
baseline_of: {version: "1"}
"""
DATA = {"suites/unit/o/1/a.npy": "", "suites/unit/g/a.npy": ""}


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def mutants(data):
    """Yield copies of the data with one value replaced by an odd one, one removed, or one key misspelt."""
    for path in paths(data):
        if not path:
            yield from ODD
            continue
        for odd in ODD:
            yield changed(data, path, lambda parent, key, odd=odd: parent.__setitem__(key, odd))
        yield changed(data, path, lambda parent, key: parent.pop(key))
        if isinstance(path[-1], str):
            yield changed(data, path, lambda parent, key: parent.__setitem__(f"{key}s", parent.pop(key)))


def changed(data, path, change):
    mutant = parent = copy.deepcopy(data)
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return mutant


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("suites/unit/s.yaml", FULL),
        ("suites/unit/s.yaml", SUITE + TOLERANCE),
        ("suites/unit/s.yaml", RECORDED),
        ("suites/tolerances.yaml", TOLERANCES),
    ],
    ids=["full", "tolerance", "recorded", "tolerances"],
)
def test_one_odd_value_anywhere(write, file, text):
    project = write({**DATA, "suites/unit/other.yaml": SUITE.replace("softmax", "other"), file: text})
    refused = 0
    for mutant in mutants(read_yaml(project / file, file).data):
        (project / file).write_text(json.dumps(mutant))
        error = error_of(project)
        if error is not None:
            assert (error.file, bool(error.line)) == (file, True), mutant
            refused += 1
    assert refused > 100


def error_of(project):
    try:
        load_cases(project)
    except UserError as error:
        return error
    return None
