"""Specifications of ONNX models: what a suite may say, and what it gets wrong. Nothing here needs onnx."""

import sys

import pytest

from precreg.errors import UserError
from precreg.suite.expand import load_cases


@pytest.fixture
def load(tmp_path):
    """Return a function that loads the one case of a suite with that subject."""
    folder = tmp_path / "suites/unit"
    folder.mkdir(parents=True)
    (folder / "net.onnx").write_bytes(b"read when the case runs")

    def load(subject, more=""):
        (folder / "s.yaml").write_text(f"suite: s\nsubject: {subject}\n{more}")
        return load_cases(tmp_path)

    return load


def spec(load, subject):
    (case,) = load(subject)
    return case.subject.spec


def mistake(load, subject):
    with pytest.raises(UserError) as caught:
        load(subject)
    assert caught.value.file == "suites/unit/s.yaml"
    assert caught.value.line == 2
    return caught.value.slug, caught.value.message


def test_options_at_their_defaults_are_left_out(load):
    defaults = "providers: CPUExecutionProvider, optimization: all, deterministic: false, threads: 1"
    assert spec(load, "{onnx: net.onnx}") == {"model": "net.onnx"}
    assert spec(load, f"{{onnx: ./net.onnx, {defaults}}}") == {"model": "net.onnx"}


def test_options_are_normalized(load):
    given = "{onnx: net.onnx, providers: {CUDAExecutionProvider: {device_id: 1}}, nodes: h, threads: 2}"
    providers = [["CUDAExecutionProvider", {"device_id": 1}]]
    assert spec(load, given) == {"model": "net.onnx", "providers": providers, "nodes": ["h"], "threads": 2}


def test_the_default_reference_is_the_same_model_in_float64(load):
    (case,) = load("{onnx: net.onnx, optimization: basic, nodes: [h], deterministic: true}")
    assert case.oracle.kind == "onnx"
    assert case.oracle.spec == {"model": "net.onnx", "nodes": ["h"], "precision": "float64"}
    assert case.role == "reference"


def test_another_provider_may_be_the_reference(load):
    (case,) = load("{onnx: net.onnx}", "reference: {onnx: net.onnx, optimization: disabled}\n")
    assert case.oracle.spec == {"model": "net.onnx", "optimization": "disabled"}


def test_a_case_needs_the_packages_that_compute_it(load):
    (case,) = load("{onnx: net.onnx}")
    assert set(case.requires) == {"onnxruntime", "onnx"}
    (case,) = load("{onnx: net.onnx}", "reference: {onnx: net.onnx, optimization: disabled}\n")
    assert case.requires == ("onnxruntime",)


@pytest.mark.parametrize(
    ("subject", "slug", "words"),
    [
        ("{onnx: nett.onnx}", "missing-file", 'nett.onnx is not there; did you mean "net.onnx"?'),
        ("{onnx: ../../../net.onnx}", "outside-project", "expected a path inside the project"),
        ("{onnx: [net.onnx]}", "bad-value", "expected the path of a model"),
        ("{onnx: net.onnx, thread: 2}", "unknown-key", 'but got thread; did you mean "threads"?'),
        ("{onnx: net.onnx, threads: 0}", "bad-value", "expected a number of threads from 1 to 1024 but got threads=0"),
        ("{onnx: net.onnx, optimization: most}", "bad-value", "disabled, basic, extended, all but got"),
        ("{onnx: net.onnx, providers: CUDA}", "bad-value", "expected an execution provider of ONNX Runtime"),
        ("{onnx: net.onnx, deterministic: 1}", "bad-value", "expected true or false but got deterministic=1"),
        ("{onnx: net.onnx, nodes: []}", "bad-value", "expected names but got nodes=[]"),
        ("{onnx: net.onnx, fallback: float32}", "bad-value", "expected precision: float64 beside fallback"),
        ("{onnx: net.onnx, precision: float64, optimization: basic}", "bad-value", "but got both"),
        ("{onnx: net.onnx, free_dimensions: {n: 0}}", "bad-value", "sizes by the name of a dimension"),
    ],
)
def test_a_mistake_is_found_when_suites_load(load, subject, slug, words):
    found = mistake(load, subject)
    assert found[0] == slug
    assert words in found[1]


def test_loading_suites_imports_no_library(load):
    before = {name for name in sys.modules if name.partition(".")[0] in ("onnx", "onnxruntime")}
    load("{onnx: net.onnx, nodes: [h]}")
    assert {name for name in sys.modules if name.partition(".")[0] in ("onnx", "onnxruntime")} == before
