"""Suites name computations by a kind, its value and its options; mistakes in them have a line."""

import json

import jsonschema
import pytest

from precreg.errors import UserError
from precreg.suite.expand import load_cases
from precreg.suite.schema import json_schema

KIND = """\
from precreg.subjects import Kind, Outputs

OPTIONS = ("scale", "label")


def read(value, options, place):
    if isinstance(value, dict) and "bad" in value:
        raise place.error("bad-value", "expected no bad", "bad")
    for name in options:
        if name not in OPTIONS:
            raise place.error("unknown-key", f"expected scale or label but got {name}", name)
    return {"value": value, **options}


def run(spec, call):
    return Outputs({"out": call.inputs["x"]}, 0.0)


KIND = Kind(
    run=run,
    read=read,
    requirements=lambda spec: ["not_installed_at_all"] if spec.get("label") == "heavy" else (),
    reference=lambda spec: {"value": "exact"} if spec["value"] != "alone" else None,
)
"""
SUITE = """\
suite: s
subject: SUBJECT
inputs: {x: {shape: [4], dtype: float32, normal: {}}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the package of the kind, as pip would lay it out."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "read_kind-1.0.dist-info"
    info.mkdir()
    (folder / "read_kind.py").write_text(KIND)
    (folder / "broken_kind.py").write_text("raise RuntimeError('the driver is too old')\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: read-kind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[precreg.subjects]\nreading = read_kind:KIND\nplain = read_kind:run\nbroken = broken_kind:KIND\n"
    )
    return folder


@pytest.fixture
def load(tmp_path, monkeypatch, site):
    """Return a function that loads a suite whose subject has a text of YAML, and more lines below it."""
    monkeypatch.syspath_prepend(str(site))

    def load(subject, more=""):
        path = tmp_path / "suites/unit/s.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SUITE.replace("SUBJECT", subject) + more)
        return load_cases(tmp_path)

    return load


def mistake(load, subject, more=""):
    with pytest.raises(UserError) as caught:
        load(subject, more)
    return caught.value


def test_options_beside_the_key_reach_the_kind(load):
    (case,) = load("{scale: 2, reading: a}")
    assert (case.subject.kind, case.subject.spec) == ("reading", {"value": "a", "scale": 2})


def test_an_option_changes_the_definition_and_its_absence_does_not(load):
    (plain,), (scaled,) = load("{reading: a}"), load("{reading: a, scale: 2}")
    assert plain.definition == load("{reading: a}")[0].definition != scaled.definition


def test_the_reference_of_the_kind_serves_a_suite_that_names_none(load):
    (case,) = load("{reading: a}")
    assert (case.oracle.kind, case.oracle.spec, case.role) == ("reading", {"value": "exact"}, "reference")
    (case,) = load("{reading: a}", "golden: {plain: b}\n")
    assert (case.oracle.spec, case.role) == ("b", "golden")


@pytest.mark.parametrize("subject", ["{reading: alone}", "{plain: a}", "numpy:sin"])
def test_without_a_reference_of_the_kind_the_suite_names_one(load, subject):
    problem = mistake(load, subject)
    assert (problem.slug, problem.message) == (
        "missing-key",
        "expected reference: or golden: but neither is there",
    )


def test_names_in_values_and_options_have_the_values_of_each_row(load):
    more = "params: {base: $n, both: [$n, $base]}\nmatrix: {n: [1, 2], unused: [a, b]}\n"
    cases = load("{reading: {deep: [$both]}, scale: $base}", more.replace(", unused: [a, b]", ""))
    assert [case.subject.spec for case in cases] == [
        {"value": {"deep": [[1, 1]]}, "scale": 1},
        {"value": {"deep": [[2, 2]]}, "scale": 2},
    ]


def test_a_parameter_of_the_matrix_hides_a_key_of_params(load):
    cases = load("{reading: $n}", "params: {n: 7}\nmatrix: {n: [1, 1.0, true]}\n")
    assert [repr(case.subject.spec["value"]) for case in cases] == ["1", "1.0", "True"]


@pytest.mark.parametrize(
    ("subject", "more", "slug", "line", "says"),
    [
        ("{reading: $m}", "matrix: {n: [1]}\n", "unknown-reference", 2, "but got reading=$m"),
        ("{reading: a, scale: $m}", "", "unknown-reference", 2, "but got scale=$m"),
        ("{reading: $a}", "params: {a: $b, b: $a}\n", "cyclic-reference", 4, "a -> b -> a"),
        ("{reading: $a}", "params: {a: $b}\n", "unknown-reference", 4, "but got a=$b"),
        (
            "{reading: a, python: k:f}",
            "",
            "bad-value",
            2,
            "one kind of subject but got subject with reading and",
        ),
        ("{reading: a, plain: b}", "", "bad-value", 2, "reading and plain"),
        ("{python: 'numpy:sin', files: a.npy}", "", "bad-value", 2, "python and files"),
        ("{reading: a, shape: 3}", "", "unknown-key", 2, "expected scale or label but got shape"),
        ("{plain: a, scale: 3}", "", "unknown-key", 2, "expected no key beside the kind of subject but got scale"),
        ("{python: 'numpy:sin', scale: 3}", "", "unknown-key", 2, "but got scale"),
        ("{readin: a}", "", "unknown-subject-kind", 2, 'did you mean "reading"'),
        ("{}", "", "bad-value", 2, "expected module:function or {KIND: spec}"),
        ("[reading]", "", "bad-value", 2, "expected module:function or {KIND: spec}"),
        ("\n  reading:\n    good: 1\n    bad: 2", "", "bad-value", 5, "expected no bad"),
        ("\n  reading: a\n  scale: 1\n  shape: 2", "", "unknown-key", 5, "but got shape"),
    ],
)
def test_a_mistake_has_the_line_of_the_option(load, subject, more, slug, line, says):
    problem = mistake(load, subject, more)
    assert (problem.slug, problem.file, problem.line) == (slug, "suites/unit/s.yaml", line)
    assert says in problem.message


def test_what_a_kind_needs_is_required_by_its_cases(load):
    (case,) = load("{reading: a, label: heavy}", "requires: [numpy]\n")
    assert case.requires == ("numpy", "not_installed_at_all")


def test_a_kind_whose_package_cannot_be_imported_leaves_the_suites_readable(load):
    (case,) = load("{broken: a, option: 1}", "reference: numpy:sin\n")
    assert case.subject.kind == "broken"


def test_the_schema_for_editors_allows_options():
    suite = {"suite": "s", "subject": {"reading": "a", "scale": 2}, "reference": "k:f", "inputs": {}}
    errors = [*jsonschema.Draft202012Validator(json.loads(json.dumps(json_schema()))).iter_errors(suite)]
    assert errors == []
