"""The page and the tables of a quantization: facts of the record, escaped, also where figures are missing."""

import json
import re
from html.parser import HTMLParser
from math import inf
from typing import get_args

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.report.quantization.page import render_quantization_html
from precreg.report.quantization.steps import render_quantization_steps_html
from precreg.report.quantization.terminal import quantization_json, render_quantization_terminal
from precreg.report.quantization.words import describe_quantization_events
from precreg.types import OutputError, QuantizationEvent, QuantizationRecord
from precreg.types.quantization import QuantizationEventKind, UnusedReason
from tests.report.quantization.made import drawn, full_record, full_steps, of_arrays, of_model

EVIL = '<script>alert("1")</script>'


class Tags(HTMLParser):
    """Collect tags, and check that each closes where it opened."""

    VOID = ("meta", "link", "br", "input", "img")

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags(page):
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


def test_the_page_of_a_model_has_its_table_and_pictures():
    page = render_quantization_html(of_model())
    seen = tags(page)
    assert "script" not in seen
    assert "http" not in re.sub(r"http-equiv", "", page)
    for words in (
        "SQNR by layer",
        "Error of the model by depth",
        "Weights by granularity",
        "Activations by calibration",
    ):
        assert f"<h2>{words}</h2>" in page
    # The largest cost first.
    places = [page.index(f">{name}</td>") for name in ("layer2", "layer1", "layer0")]
    assert places == sorted(places)
    assert "The largest cost has layer2" in page or "the largest cost has layer2: 0.006" in page


def test_names_never_become_markup():
    page = render_quantization_html(replace(of_arrays(**{EVIL: drawn(4, 40)}), model=EVIL))
    assert "script" not in tags(page)
    assert "&lt;script&gt;" in page


def test_control_characters_of_names_are_not_printed():
    text = render_quantization_terminal(of_arrays(**{"a\x1b[31m": drawn(4, 40)}))
    assert "\x1b" not in text


def test_a_model_of_many_layers_keeps_its_page_small():
    page = render_quantization_html(of_model(200))
    assert len(page) < 2_000_000
    tags(page)
    text = render_quantization_terminal(of_model(60))
    assert "20 more with --all" in text
    assert "more with --all" not in render_quantization_terminal(of_model(60), every=True)


def test_exact_and_missing_figures_are_shown_as_such():
    record = of_arrays(exact=np.array([[7.0, -7.0, 1.0]], np.float32), zeros=np.zeros((2, 2), np.float32))
    text = render_quantization_terminal(record)
    assert re.search(r"^exact +3 +0 +exact", text, re.MULTILINE)
    assert re.search(r"^zeros +4 +- +-", text, re.MULTILINE)
    assert "zeros has zeros alone" in text
    tags(render_quantization_html(record))


def test_infinite_errors_are_drawn_and_stored():
    record = of_model()
    rows = (replace(record.rows[0], both_alone=OutputError(inf, None)), *record.rows[1:])
    broken = replace(record, rows=rows, total=OutputError(inf, None))
    tags(render_quantization_html(broken))
    stored = json.loads(quantization_json(broken))
    assert stored["total"]["relative"] == "inf"
    assert stored["answer"].startswith("all layers quantized: the model's error is inf")


def test_the_json_has_every_field_of_the_record():
    stored = json.loads(quantization_json(of_model()))
    assert set(stored) == {*QuantizationRecord.__struct_fields__, "answer"}
    assert stored["rows"][0]["weight"]["figures"]["codes"] == 16


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (QuantizationEvent("sampled", "a", 1234), "activations of a: 1,234 values are left out of the figures"),
        (QuantizationEvent("simulation_differs", "", detail="0.02"), "by 0.02 relative"),
        (QuantizationEvent("not_covered", "lstm", detail="LSTM"), "lstm (LSTM) stays quantized"),
    ],
)
def test_events_have_their_numbers(event, words):
    assert words in describe_quantization_events([event])[0]


def test_many_events_of_a_kind_are_one_line_with_a_count():
    (line,) = describe_quantization_events([QuantizationEvent("not_run", f"l{number}") for number in range(7)])
    assert line.startswith("l0, l1, l2, l3 and 3 more did not run")


def test_events_of_other_details_have_lines_of_their_own():
    events = [QuantizationEvent("short_group", name, detail=detail) for name, detail in (("a", "4/32"), ("b", "3/32"))]
    assert describe_quantization_events(events) == [
        "b: the last group of each channel has 3 of 32 elements",
        "a: the last group of each channel has 4 of 32 elements",
    ]


@pytest.mark.parametrize("kind", get_args(QuantizationEventKind))
def test_every_kind_of_event_has_words_with_its_names(kind):
    (line,) = describe_quantization_events([QuantizationEvent(kind, "layer7", detail="own_scales")])
    assert "layer7" in line or "own_scales" in line


@pytest.mark.parametrize("reason", get_args(UnusedReason))
def test_every_reason_of_an_unused_option_has_words(reason):
    (line,) = describe_quantization_events([QuantizationEvent("unused_option", "--group", detail=reason)])
    assert line.startswith("--group has no effect: ")
    assert reason not in line or reason == "arrays"


def test_a_proposal_has_one_line_for_each_figure():
    text = render_quantization_terminal(full_record())
    assert "at most 6 bits: 5.50 bits for each of 960 weights (660 bytes)" in text.splitlines()
    assert [line for line in text.splitlines() if line.startswith("all int")] == [
        "all int4: 4.50 bits, error 0.1 (20.0 dB, 3 class flips)",
        "all int8: 8.50 bits, error 0.01 (40.0 dB, 0 class flips)",
    ]
    assert "exceeds its bound" not in text
    page = render_quantization_html(full_record())
    tags(page)
    assert "all int4: 4.50 bits" in page


def test_a_proposal_that_exceeds_its_bound_names_a_way_out():
    record = full_record()
    missed = replace(record.proposal, max_bits=None, max_error=0.001)
    text = render_quantization_terminal(replace(record, proposal=missed))
    assert "the proposal exceeds its bound: allow wider formats, such as --width float32" in text


def test_the_page_of_steps_has_maps_and_escapes_names():
    page = render_quantization_steps_html(full_steps(names=(EVIL, "head.weight")))
    assert "script" not in tags(page)
    for words in ("Relative error by step", "Clipped by step", "Turned back by step"):
        assert f"<h2>{words}</h2>" in page
