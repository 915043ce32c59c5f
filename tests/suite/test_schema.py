"""The editor's schema accepts what precreg accepts, and refuses what an editor can see."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from precreg.storage.files import find_project
from precreg.storage.yaml_source import read_yaml
from precreg.suite.schema import json_schema, tolerances_schema
from precreg.tolerance.layers import TOLERANCES_FILE
from tests.suite.conftest import SUITE
from tests.suite.test_expand import FULL
from tests.tolerance.test_pyramid import TOLERANCE

ROOT = Path(__file__).parent.parent.parent
PROJECTS = [find_project(ROOT), ROOT / "tests/golden/road"]
SUITES = [
    path
    for project in PROJECTS
    for path in sorted((project / "suites").rglob("*.y*ml"))
    if path.stem != "tolerances" and path.parent.name != "devices"
]
SUITE_SCHEMA, TOLERANCES_SCHEMA = Draft202012Validator(json_schema()), Draft202012Validator(tolerances_schema())


@pytest.fixture
def complaints(tmp_path):
    def complaints(text, validator=SUITE_SCHEMA):
        path = tmp_path / "s.yaml"
        path.write_text(text)
        return [error.message for error in validator.iter_errors(read_yaml(path, "s.yaml").data)]

    return complaints


@pytest.mark.parametrize("validator", [SUITE_SCHEMA, TOLERANCES_SCHEMA])
def test_the_schemas_are_schemas(validator):
    Draft202012Validator.check_schema(validator.schema)


def test_every_key_of_a_suite_is_described():
    assert all(schema.get("description") for schema in json_schema()["properties"].values())


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_suite_here_is_accepted(path):
    assert [error.message for error in SUITE_SCHEMA.iter_errors(read_yaml(path, path.name).data)] == []


def test_the_tolerances_here_are_accepted():
    if (ROOT / TOLERANCES_FILE).exists():
        assert [
            e.message for e in TOLERANCES_SCHEMA.iter_errors(read_yaml(ROOT / TOLERANCES_FILE, TOLERANCES_FILE).data)
        ] == []


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        SUITE + TOLERANCE,
        SUITE + "inputs: {x: {shape: [$n, 4], dtype: float16, uniform: {low: $low}}}\nparams: {n: 1, low: 0}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16, pick: $v, from: {a: {normal: {}}}}}\nmatrix: {v: [a]}\n",
        "suite: s\nfiles: {actual: 'o/{version}/*.npy', golden: 'g/*.npy'}\nbaseline_of: {version: '1'}\n",
        SUITE + "expect: fail\nreason: known bad\ncases: [{match: x, expect: pass}]\n",
        SUITE + "benchmark: kernels:naive\n",
        SUITE + "benchmark: {files: x.npy}\n",
        "suite: s\nfiles: {actual: 'o/*.npy', reference: 'r/*.npy', benchmark: 'b/*.npy'}\n",
        "suite: s\nsubject: {torch: {model: m}}\ngolden: {files: x.npy}\n",
    ],
)
def test_what_is_accepted(complaints, text):
    assert complaints(text) == []


@pytest.mark.parametrize(
    "text",
    [
        SUITE + "sedes: 3\n",
        SUITE + "seeds: 0\n",
        SUITE + "golden: kernels:exact\n",
        "suite: s\nsubject: k:f\n",
        "suite: s\nsubject: k:f\nbenchmark: k:g\n",
        SUITE + "benchmark: naive\n",
        SUITE + "expect: fail\n",
        SUITE + "expect: pass\n",
        SUITE + "reason: known bad\n",
        SUITE + "cases: [{match: x, expect: fail}]\n",
        SUITE + "cases: [{match: x, expect: pass, reason: known bad}]\n",
        SUITE + "matrix: {dtype: [flot16]}\n",
        SUITE + "matrix: {a: []}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16}}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16, normal: {sd: 1}}}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16, nomal: {}}}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16, pick: a}}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16, normal: {}, uniform: {}}}\n",
        SUITE + "inputs: {x: {shape: [2], dtype: float16, pick: a, from: {a: {nomal: {}}}}}\n",
        SUITE + "tolerance: {max_upl: 3}\n",
        SUITE + "tolerance: {standard: torch}\n",
        SUITE + "tolerance: {regression: {mean_ulp: on}}\n",
        SUITE + "tolerance: {regression: {mse: 0.1}}\n",
        SUITE + "cases: [{seeds: 3}]\n",
    ],
)
def test_what_is_refused(complaints, text):
    assert complaints(text)


@pytest.mark.parametrize(("text", "accepted"), [("tiers: {unit: {rtol: 1}}\n", True), ("tier: {}\n", False)])
def test_tolerances(complaints, text, accepted):
    assert (complaints(text, TOLERANCES_SCHEMA) == []) == accepted
