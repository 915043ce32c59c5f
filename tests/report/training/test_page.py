"""The page of a training: each part that was measured, nothing inert turned into markup. tests/browser opens it."""

import re

import pytest

from precreg.report.training.page import TrainingView, render_training_view
from tests.report.test_html import HOSTILE, Page
from tests.report.training.made import NAMES, full_view


def headings(text):
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_each_part_has_a_section():
    text = render_training_view(full_view())
    assert headings(text) == [
        "Events, and what was left out",
        "Raise the loss scale of tiny transformer",
        "Gradient flow by parameter and step",
        "Loss",
        "Loss scale of float16",
        "Scaler",
        "Per-tensor scales",
        "Clipping",
        "Sizes of gradients, and the range of their format",
    ]
    assert text.count("<figure") == 2 + 1 + 2 + 1 + len(NAMES)
    assert "clipped before unscaling: 4 of 4 clippings" in text


def test_a_part_that_was_not_measured_has_no_section():
    text = render_training_view(TrainingView("m", "nothing was measured"))
    assert headings(text) == []
    assert "<fieldset" not in text
    assert "checked" not in text.split("</style>")[1]


def test_the_figures_of_the_map_are_radio_buttons_without_script():
    page = Page(render_training_view(full_view()))
    radios = [attributes for tag, attributes in page.elements if tag == "input"]
    assert [each["id"] for each in radios] == ["map-0", "map-1"]
    assert ["checked" in each for each in radios] == [True, False]
    assert page.scripts == {}


def test_tables_beyond_a_limit_say_how_much_is_left_out():
    many = [f"layer.{place}" for place in range(205)]
    text = render_training_view(full_view(names=many))
    assert "and 5 more; the JSON has all of them" in text
    assert "and 165 histograms more; the JSON has all of them" in text
    assert "199 parameters are left out" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_names_are_neither_markup_nor_code(text):
    hostile = Page(render_training_view(full_view(text, (text, f"{text}2"))))
    tame = Page(render_training_view(full_view("tame", ("tame", "tame2"))))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in tame.elements]
    assert {name for _, attributes in hostile.elements for name in attributes} == {
        name for _, attributes in tame.elements for name in attributes
    }
