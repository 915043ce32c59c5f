"""The page and the text of a comparison say the same, escape everything, and draw every step."""

import re
from xml.etree import ElementTree

import msgspec
import pytest

from precreg.report import render_divergence_html, render_divergence_terminal
from precreg.report.charts import DistanceChart, draw_distances
from precreg.report.divergence.sentences import advise_divergence, answer_divergence, divergence_facts
from precreg.report.divergence.terminal import MAX_SHOWN_STEPS
from precreg.types import (
    ConfidenceInterval,
    DirectionBias,
    DivergenceGrowth,
    DivergenceOmissions,
    DivergenceReason,
    DivergenceRecord,
    EpochLosses,
    ParameterCourse,
    TrainingParting,
    TrainingRun,
    TwinCourse,
)

NAME = "layer<b>1</b>"
STEPS = tuple(range(0, 300, 3))
DISTANCES = tuple(0.0 if step < 30 else 1e-8 * 1.03**step for step in STEPS)
LIMITS = tuple(None if step < 27 else 2e-8 * 1.02**step for step in STEPS)


def run(name):
    return TrainingRun(name=name, steps=100, parameters=2, elements=3840, dtypes=("float32",))


RECORD = DivergenceRecord(
    precreg="1",
    a=run("train"),
    b=run("train <script>"),
    steps=STEPS,
    distances=DISTANCES,
    courses=(
        ParameterCourse(NAME, DISTANCES, DISTANCES),
        ParameterCourse("layer2", (0.0,) * 60 + (None,) * 40, (0.0,) * 100),
    ),
    losses_a=(None, *(1.0 / step for step in STEPS[1:])),
    losses_b=(None, *(1.01 / step for step in STEPS[1:])),
    twins=(TwinCourse("twin 1", LIMITS, 0.02, 0.0, 0.0, 1e-9),) * 8,
    noise=LIMITS,
    parted=TrainingParting(30, NAME, 1e-8, 0.2, 1),
    beyond=TrainingParting(150, NAME, 1e-6, None, 0),
    start_ratio=0.8,
    level_ratio=7.25,
    loss_at_parting=0.0,
    growth=DivergenceGrowth(
        pair=ConfidenceInterval(0.03, 0.028, 0.032), twins=ConfidenceInterval(0.02, 0.019, 0.021), p_value=1e-5
    ),
    biases=(DirectionBias("toward", -0.9, 0.01, 1e-6), DirectionBias("direction", 0.1, 0.0, 0.4)),
    epochs=(EpochLosses(0, 10, 0.5, 0.4),),
    omissions=DivergenceOmissions(steps_a=3, parameters_b=("x", "y", "z", "v"), non_finite_b=2, first_non_finite=290),
    verdict="loss",
    reason="growth",
)


def test_text_and_page_have_the_same_answer_and_facts():
    text, page = render_divergence_terminal(RECORD), render_divergence_html(RECORD)
    plain = re.sub(r"&lt;", "<", re.sub(r"&gt;", ">", page)).replace("&#39;", "'")
    for _, words in divergence_facts(RECORD):
        assert words in text
        assert words in plain
    assert answer_divergence(RECORD)[5:] in plain
    assert advise_divergence(RECORD) in text


def test_nothing_of_a_name_becomes_markup_and_the_page_needs_no_network():
    page = render_divergence_html(RECORD)
    assert "<b>" not in page
    assert "<script" not in page
    assert not re.search(r"https?://", page)
    assert "prefers-color-scheme" in page


def test_the_curves_are_drawn_as_xml_with_the_band_and_the_parting():
    chart = DistanceChart(STEPS, DISTANCES, [LIMITS, LIMITS], LIMITS, 30)
    drawing = ElementTree.fromstring(draw_distances(chart))
    classes = [each.get("class") for each in drawing.iter()]
    assert classes.count("twin-band") == 1
    assert classes.count("twin") == 2 + 1, "two twins and the legend"
    assert "parts at step 30" in ElementTree.tostring(drawing, "unicode")
    for each in drawing.iter("circle"):
        assert 0 <= float(each.get("cx")) <= 960
        assert 0 <= float(each.get("cy")) <= 340


@pytest.mark.parametrize(
    "chart",
    [
        DistanceChart((0,), (0.0,), [], (), None),
        DistanceChart((0, 1), (None, None), [], (), 0),
        DistanceChart(tuple(range(5000)), (1e-3,) * 5000, [(1e-9,) * 5000], (1e-8,) * 5000, 0),
    ],
)
def test_odd_runs_are_drawn_small(chart):
    drawn = draw_distances(chart)
    ElementTree.fromstring(drawn)
    assert len(drawn) < 60_000


def test_a_terminal_shows_some_steps_counts_the_others_and_wraps():
    text = render_divergence_terminal(RECORD)
    assert "and 89 more steps" in text
    rows = re.findall(r"^\d+ +\S+ +", text, re.MULTILINE)
    assert len(rows) == MAX_SHOWN_STEPS + 1, "and the step where the runs part"
    assert "3 steps of run A alone" in text
    assert "4 parameters of run B alone: x, y, z and 1 more" in text
    assert max(map(len, render_divergence_terminal(RECORD, width=80).splitlines())) <= 80


@pytest.mark.parametrize("reason", DivergenceReason.__args__)
def test_every_reason_has_its_sentence(reason):
    verdict = {"none": "chaos"}.get(reason, "unclear")
    record = msgspec.structs.replace(RECORD, verdict=verdict, reason=reason)
    biases = (*RECORD.biases, DirectionBias("loss", 0.01, 0.0, 1e-6))
    record = msgspec.structs.replace(record, biases=biases)
    answer = answer_divergence(record)
    assert answer.startswith(f"{verdict}: ")
    assert len(answer) < 200
    assert (advise_divergence(record) is None) == (reason == "none")
