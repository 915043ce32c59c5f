"""The page and the JSON of a trace: inert whatever a trace holds, small however long it is. tests/browser opens it."""

import base64
import hashlib
import json
import re
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.report.trace.page import course_of, render_trace_html, trace_json
from precreg.report.trace.terminal import render_trace_terminal
from precreg.shadow.trace_file import read_trace
from precreg.types import ErrorSize, Site
from tests.report.test_html import HOSTILE, Page
from tests.report.trace.traced import (
    CUT,
    EPS16,
    OPERATIONS,
    OUTPUT,
    attention,
    changed,
    dumped,
    formula_fault,
    grown,
    layered,
    long_trace,
    operation,
)


def table_of(page, id):
    return next(table for table in page.data("data")["tables"] if table["id"] == id)


def test_the_heading_is_the_answer():
    text = render_trace_html(attention())
    (heading,) = re.findall(r"<h1>(.*?)</h1>", text)
    assert heading.startswith("First loss: kernels.py:41 `scores = q @ k.T`, matmul: own error 870 ULP of float16 (")


def test_tables_have_every_line_and_every_operation():
    page = Page(render_trace_html(attention()))
    groups, operations = table_of(page, "groups"), table_of(page, "operations")
    assert [row[0] for row in groups["rows"]][:2] == [
        "kernels.py:41 `scores = q @ k.T`",
        "kernels.py:42 `scores = scores * scale`",
    ]
    assert [row[0] for row in operations["rows"]] == [[str(number), number] for number in range(1, 7)]
    at = [column["name"] for column in operations["columns"]].index("own")
    assert operations["rows"][3][at] == ["870", float(f"{870 * EPS16:.4g}")]


def test_a_table_of_dumps_comes_first():
    tables = Page(render_trace_html(dumped())).data("data")["tables"]
    assert [table["id"] for table in tables] == ["dumps", "groups", "operations"]
    assert [row[3] for row in tables[0]["rows"]].count("no") == 7


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_trace_is_neither_markup_nor_code(text):
    def trace(word):
        site = Site(word, 1, word, word)
        return attention(
            case=word,
            facts={word: word},
            commit=word,
            operations=tuple(replace(each, name=word, site=site, shares={word: 0.1}) for each in OPERATIONS[:3])
            + tuple(replace(each, shares={word: 0.2}) for each in OPERATIONS[3:]),
            outputs=(replace(OUTPUT, name=word),),
            events=(replace(CUT, name=word, site=site, detail=word),),
            oracle_problem=word,
            formula=replace(formula_fault().formula, problem=word),
            dumps=replace(dumped().dumps, folder=word, only_dumped=(word,)),
        )

    hostile, tame = Page(render_trace_html(trace(text))), Page(render_trace_html(trace("tame")))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in tame.elements]
    assert text in hostile.text
    assert text in json.dumps(hostile.data("data"), ensure_ascii=False).replace('\\"', '"')


def test_nothing_is_fetched_and_only_the_pages_own_script_runs():
    text = render_trace_html(attention())
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|\bsrc=|@import|url\(", text)
    page = Page(text)
    policy = next(attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(page.scripts["code"].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy


def test_a_trace_of_thousands_of_operations_is_a_light_page():
    text = render_trace_html(long_trace(5_000))
    assert len(text) < 1_200_000
    pictures = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert pictures.count("<circle") < 500
    assert len(pictures) < 200_000
    assert len(table_of(Page(text), "operations")["rows"]) == 5_000


def test_a_dot_for_the_loss_survives_the_joining_of_columns():
    text = render_trace_html(long_trace(5_000))
    assert '<circle class="own loss"' in text


def test_a_trace_without_operations_has_no_pictures_and_says_so():
    text = render_trace_html(attention(operations=(), outputs=(replace(OUTPUT, sum_of_shares=None),)))
    assert "No first loss is known: the trace saw no operation with an own error" in text
    assert "<h2>" not in text


def test_an_infinite_error_has_a_place_in_picture_and_table():
    trace = attention(operations=changed(4, own=ErrorSize(inf), total=ErrorSize(inf)))
    page = Page(render_trace_html(trace))
    assert ["inf", "inf"] in table_of(page, "operations")["rows"][3]
    assert "heat-infinite" in render_trace_html(trace)


def test_steps_of_a_training_have_a_heat_map():
    text = render_trace_html(layered(steps=5))
    assert "Modules by training step" in text
    assert "layers.5.norm, 4: 120" in text
    assert "Modules by training step" not in render_trace_html(layered())


def test_several_outputs_have_a_curve_each():
    loss, norm = replace(OUTPUT, name="loss"), replace(OUTPUT, name="norm")
    shares = ({"loss": 0.5}, {"loss": 0.5, "norm": 0.1}, {"norm": 0.9})
    operations = tuple(replace(each, shares=share) for each, share in zip(OPERATIONS, shares, strict=False))
    course = course_of(attention(outputs=(loss, norm), operations=operations))
    assert {
        curve.name: [point.number for stretch in curve.stretches for point in stretch] for curve in course.curves
    } == {
        "loss": [1, 2],
        "norm": [2, 3],
    }
    assert "total error towards norm" in render_trace_html(attention(outputs=(loss, norm), operations=operations))


def test_a_share_of_0_leads_to_no_output_and_one_way_has_one_curve():
    loss, norm, same = (replace(OUTPUT, name=name, number=None) for name in ("loss", "norm", "same"))
    shares = ({"loss": 0.0, "norm": 1.0, "same": 1.0}, {"loss": 1.0, "norm": 0.0, "same": 0.0})
    operations = tuple(replace(each, shares=share) for each, share in zip(OPERATIONS, shares, strict=False))
    course = course_of(attention(outputs=(loss, norm, same), operations=operations))
    found = {curve.name: [point.number for line in curve.stretches for point in line] for curve in course.curves}
    assert found == {"loss": [2], "norm and same": [1]}


def test_small_shares_are_0_percent_in_the_heat_map():
    shares = (1.0, -9e-9, 0.00042)
    operations = tuple(
        replace(each, shares={"out": share}) for each, share in zip(OPERATIONS[1:4], shares, strict=True)
    )
    text = render_trace_html(attention(operations=operations))
    assert "share in %" in text
    assert "9e-09" not in text


def test_phases_and_steps_break_the_curve():
    phases = (*OPERATIONS[:4], *(replace(each, phase="backward") for each in OPERATIONS[4:]))
    course = course_of(attention(operations=phases))
    assert [len(stretch) for stretch in course.curves[0].stretches] == [4, 2]
    assert course.phases == [(5, "backward")]


def test_the_json_has_the_answer_beside_every_fact_and_can_be_shown_again(tmp_path):
    infinite = attention(operations=changed(4, own=ErrorSize(inf)))
    for trace in (attention(events=(CUT,)), formula_fault(), grown(), dumped(), layered(steps=2), infinite):
        (tmp_path / "trace.json").write_bytes(trace_json(trace))
        plain = json.loads((tmp_path / "trace.json").read_text())
        for name in ("answer", "first_loss", "coverage", "warnings"):
            assert name in plain
        assert read_trace(tmp_path / "trace.json") == trace
    loss = json.loads(trace_json(attention()))["first_loss"]
    assert (loss["operation"], loss["reason"], loss["cause"]) == (4, "own", "accumulator")


SIZES = st.one_of(st.none(), st.builds(ErrorSize, st.floats(min_value=0.0)))
TEXTS = st.text(max_size=12)


@given(
    st.lists(
        st.tuples(
            SIZES,
            SIZES,
            st.sampled_from(["forward", "backward", "optimizer"]),
            st.one_of(st.none(), st.integers(0, 3)),
            st.builds(Site, TEXTS, st.integers(0, 99), TEXTS, TEXTS),
            st.one_of(st.just({}), st.fixed_dictionaries({"out": st.floats(-2, 2)})),
            st.sampled_from(["", "not_shadowed", "random", "created", "moved", "opaque"]),
        ),
        max_size=8,
    ),
    st.sampled_from(["ulp", "relative", "tolerance"]),
    st.integers(20, 200),
)
def test_every_trace_has_all_reports(rows, unit, width):
    names = ("own", "total", "phase", "step", "site", "shares", "note")
    fields = (dict(zip(names, row, strict=True)) for row in rows)
    operations = tuple(replace(operation(number, "add", 1, 0.0, 0.0), **each) for number, each in enumerate(fields, 1))
    trace = attention(operations=operations)
    assert "coverage" in render_trace_terminal(trace, unit=unit, every=True, width=width)
    assert render_trace_html(trace, unit).count("</html>") == 1
    json.loads(trace_json(trace))
