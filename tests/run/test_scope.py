"""A run of a few cases reads few suites, and its record is the one of a run that read all of them."""

import json

import pytest
from msgspec import to_builtins

from precreg.errors import UserError
from precreg.run.request import RunOutputs, RunRequest
from precreg.run.scope import read_scope
from precreg.run.session import run_session
from precreg.suite.expand import load_cases
from precreg.suite.select import Selection
from tests.scaled import A, B, Project

OTHER = """suite: other
subject: k:coarse
reference: k:exact
tags: [large]
matrix: {n: [16, 17]}
inputs: {x: {shape: $n, dtype: float32, normal: {}}}
"""
SMALL = OTHER.replace("other", "small").replace("large", "little")
TABLE = "suite: t\ntable: {file: t.csv, name: [v], dtype: float32, metrics: {max_ulp: ulp}}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Make a project with a cumulative loss in one suite, and a table that lost a row."""
    made = Project(tmp_path_factory.mktemp("project"))
    for step, scale in enumerate((1.0, 1.2, 1.4)):
        made.accepted(scale, f"step {step}")
    unit = made.folder / "suites/unit"
    for name, text in (("other", OTHER), ("small", SMALL), ("t", TABLE)):
        (unit / f"{name}.yaml").write_text(text)
    (unit / "t.csv").write_text("v,ulp\na,1\nb,2\n")
    made.accepted(1.4, "more")
    (unit / "t.csv").write_text("v,ulp\na,1\n")
    return made.folder


def run(folder, selection, every=None):
    request = RunRequest(project=folder, selection=selection, jobs=0, output=folder / "reports")
    outputs = RunOutputs(lambda *_, **__: None, lambda record: record, lambda _: None, lambda *_: [])
    return run_session(
        request,
        outputs,
        progress=lambda results, _: iter(results),
        summarize=lambda *_: None,
        announce=lambda _: None,
        every=every,
    )


def facts(record):
    """Return a record without times."""
    plain = to_builtins(record)
    for name in ("date", "duration_s", "begun", "started"):
        plain.pop(name, None)
    return json.loads(json.dumps(plain, default=str), object_hook=without_times)


def without_times(mapping):
    return {name: value for name, value in mapping.items() if not name.endswith(("_s", "_ns", "date", "time", "rss"))}


@pytest.mark.parametrize(
    "selection",
    [
        Selection(patterns=("unit/small/n=16",)),
        Selection(patterns=("n=17",)),
        Selection(suites=("small",)),
        Selection(tags=("large",)),
        Selection(patterns=("unit/t/a",)),
        Selection(patterns=("unit/t/b",)),
        Selection(patterns=("unit/s/n=64", "unit/t/*")),
        Selection(patterns=("*",)),
        Selection(last_failed=frozenset({"unit/other/n=17"})),
        Selection(),
    ],
)
def test_both_roads_make_the_same_record(project, selection):
    plain = facts(run(project, selection, load_cases(project)))
    assert facts(run(project, selection)) == plain
    assert facts(run(project, selection)) == plain
    assert plain["results"]


@pytest.mark.parametrize(
    "selection", [Selection(patterns=("nothing",)), Selection(tags=("little",), suites=("other",))]
)
def test_and_the_same_mistake(project, selection):
    with pytest.raises(UserError) as plain:
        run(project, selection, load_cases(project))
    for _ in range(2):
        with pytest.raises(UserError) as alone:
            run(project, selection)
        assert str(alone.value) == str(plain.value)


def test_the_project_has_what_findings_of_any_run_need(project):
    record = run(project, Selection(patterns=("unit/small/n=16",)))
    assert {finding.about for finding in record.findings} == {A, B}
    (vanished,) = run(project, Selection(patterns=("unit/t/b",))).results
    assert vanished.verdict.status.value in ("failed", "error")


def test_the_other_suites_are_not_read(project):
    request = RunRequest(project=project, selection=Selection(suites=("small",)))
    read_scope(request)
    scope = read_scope(request)
    suites = [case.suite for case in scope.cases]
    assert {*suites} == {"s", "t", "small"}
    assert len(suites) + scope.left_out == len(load_cases(project))
