"""Suites whose cases are ONNX backend tests: the folders alone make the cases, so nothing here needs onnx."""

import pytest

from precreg.errors import UserError
from precreg.suite import node_test_folders
from precreg.suite.expand import load_cases
from precreg.suite.load import load_suites
from precreg.tolerance import resolve_tolerance


@pytest.fixture
def load(tmp_path):
    """Return a function that loads the cases of a suite on a folder of three tests."""
    for name in ("test_add", "test_relu", "test_resize_cubic"):
        folder = tmp_path / "suites/unit/node" / name / "test_data_set_0"
        folder.mkdir(parents=True)
        (folder.parent / "model.onnx").write_bytes(b"")

    def load(entry, more=""):
        (tmp_path / "suites/unit/s.yaml").write_text(f"suite: s\nonnx_tests: {entry}\n{more}")
        return load_cases(tmp_path)

    return load


def mistake(load, entry, more=""):
    with pytest.raises(UserError) as caught:
        load(entry, more)
    return caught.value.slug, caught.value.message


def test_each_folder_is_a_case_with_its_stored_outputs_as_golden(load):
    cases = load("node")
    assert [case.id for case in cases] == ["unit/s/test_add", "unit/s/test_relu", "unit/s/test_resize_cubic"]
    assert {case.role for case in cases} == {"golden"}
    assert (cases[0].subject.kind, cases[0].subject.spec) == ("onnx_test", {"test": "node/test_add"})
    assert cases[0].oracle.spec == {"test": "node/test_add", "expected": True}
    assert cases[0].requires == ("onnxruntime", "onnx")
    assert all(case.empty_passes for case in cases)
    assert len({case.definition for case in cases}) == 3


def test_patterns_select_tests_and_options_are_those_of_models(load):
    (case,) = load("{folder: node, include: [test_r*], exclude: test_resize_*, optimization: disabled}")
    assert case.subject.spec == {"test": "node/test_relu", "optimization": "disabled"}


def test_the_standard_of_onnx_applies_and_integers_must_be_equal(load):
    (case, *_) = load("node")
    limits = {dtype: resolve_tolerance(case.layers, "y", dtype, ("generic",)) for dtype in ("float32", "int64", "bool")}
    assert {name: (found.rtol.limit, found.atol.limit) for name, found in limits.items()} == {
        "float32": (1e-3, 1e-7),
        "int64": (0.0, 0.0),
        "bool": (0.0, 0.0),
    }


def test_a_suite_may_set_its_own_tolerance_and_expect_failures(load):
    more = "tolerance: {float32: {rtol: 1e-5}}\ncases: [{match: test_add, expect: fail, reason: known}]\n"
    (case, *_) = load("node", more)
    assert resolve_tolerance(case.layers, "y", "float32", ("generic",)).rtol.limit == 1e-5
    assert case.expect_failure == "known"


def test_a_new_folder_is_noticed(load, tmp_path):
    load("node")
    (suite,) = load_suites(tmp_path)
    assert list(node_test_folders(suite, tmp_path)) == [str(tmp_path / "suites/unit/node")]


@pytest.mark.parametrize(
    ("entry", "slug", "words"),
    [
        ("nodes", "no-node-tests", "expected folders with model.onnx in suites/unit/nodes but there is none"),
        ("../../..", "outside-project", "expected a path inside the project"),
        ("3", "bad-value", "expected a folder of ONNX backend tests"),
        ("{folder: node, include: [test_rel]}", "unknown-case", 'matches none; did you mean "test_relu"?'),
        ("{folder: node, exclude: ['*']}", "unknown-case", "expected a test that is left"),
        ("{folder: node, include: [3]}", "bad-value", "expected patterns on the names of tests but got include=3"),
        ("{folder: node, threads: 0}", "bad-value", "expected a number of threads"),
        ("{folder: node, nodes: [h]}", "unknown-key", "expected an option of the kind"),
    ],
)
def test_a_mistake_is_named(load, entry, slug, words):
    found = mistake(load, entry)
    assert found[0] == slug
    assert words in found[1]


def test_a_test_without_a_model_does_not_vanish(load, tmp_path):
    (tmp_path / "suites/unit/node/test_relu/model.onnx").unlink()
    assert mistake(load, "node") == (
        "no-node-tests",
        "expected model.onnx in each folder of suites/unit/node but test_relu has none",
    )


@pytest.mark.parametrize(
    "key", ["subject: k:f", "golden: k:f", "inputs: {}", "matrix: {}", "files: {actual: a, golden: b}"]
)
def test_no_key_of_a_computation_stands_beside(load, key):
    slug, message = mistake(load, "node", f"{key}\n")
    assert slug == "bad-value"
    assert message.startswith("expected ")
    assert "but got both" in message
