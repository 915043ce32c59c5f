"""JUnit of a drift monitor: held to Jenkins' schema, and read as GitLab reads it."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.report.drift.files import render_drift_junit
from tests.report.drift.made import everything, recorded, steady, stepped
from tests.report.test_junit import as_gitlab_reads, valid


@pytest.mark.parametrize("record", [everything(), recorded()], ids=["everything", "nothing"])
def test_it_keeps_jenkins_schema(record):
    assert valid(render_drift_junit(record))


def test_a_reviewer_sees_one_test_a_case_with_status_and_text():
    seen = {name: rest for name, *rest in as_gitlab_reads(render_drift_junit(everything()))}
    assert {name: status for name, (status, *_) in seen.items()} == {
        "unit/mean/step": "failed",
        "integration/mean/lost": "error",
        "unit/mean/gone": "skipped",
        "model/mean/better": "success",
        "unit/mean/steady": "success",
    }
    text = seen["unit/mean/step"][1]
    assert text.startswith("unit/mean/step\n\nout: mean_abs_error rose by 10 % with a step at run 31")
    assert "environment: numpy 2.4.5 -> 2.4.6" in text
    assert "second: mean_abs_error" in text
    assert "mean_abs_error  0.01    0.011  1.1" in text


def test_names_hold_nothing_that_changes_from_day_to_day_and_are_apart_from_those_of_runs():
    root = ElementTree.fromstring(render_drift_junit(everything()))
    assert [suite.get("name") for suite in root] == [
        "precreg.drift.unit",
        "precreg.drift.integration",
        "precreg.drift.model",
    ]
    assert {case.get("classname") for case in root[0]} == {"unit.mean"}
    assert [case.get("name") for case in root[0]] == ["unit/mean/gone", "unit/mean/steady", "unit/mean/step"]


def test_totals_are_those_of_the_cases():
    root = ElementTree.fromstring(render_drift_junit(everything()))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["5", "1", "1"]


def test_of_two_cases_that_xml_cannot_tell_apart_the_worse_is_kept():
    seen = as_gitlab_reads(render_drift_junit(recorded(steady("a"), stepped("a\x01"))))
    assert [(name, status) for name, status, *_ in seen] == [("unit/mean/a", "failed")]


@given(st.text(st.characters()))
def test_any_text_gives_xml_that_a_parser_reads(text):
    record = recorded(stepped(text))
    found = replace(record.results[0], output=text)
    (metric,) = found.metrics
    changed = [replace(worse, change=replace(worse.change, environment=(text,))) for worse in metric.worsenings]
    found = replace(found, metrics=(replace(metric, worsenings=tuple(changed)),))
    assert valid(render_drift_junit(replace(record, results=(found,))))
