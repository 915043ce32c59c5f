"""The text and the JSON of an advice."""

import json

from precreg.report.training.advice import advice_json, advice_sections, render_advice_terminal
from precreg.report.training.record_view import render_training_html
from precreg.types import Remedy, RemedyEffect, RerunFigures, TrainingAdvice, TrainingRecord, TrainingSymptom


def figures(final, **more):
    return RerunFigures(seed=0, steps=40, updates=38, skipped=2, final_loss=final, **more)


def advice(*symptoms, damaged=True, **more):
    plain = {
        "recipe": "train:make",
        "steps": 40,
        "seeds": (0,),
        "optimizer": "Adam",
        "formats": ("float16",),
        "start_losses": (2.0,),
        "runs": (figures(1.5, updated=100, lost=50),),
        "twins": (figures(1.0),),
        "damage": (0.5,),
        "is_damaged": damaged,
        "least_damage": 0.05,
        "symptoms": symptoms,
    }
    return TrainingAdvice(**plain | more)


def lost(*effects):
    return TrainingSymptom(kind="lost_updates", count=50, total=100, format="float16", effects=effects)


def test_a_remedy_is_printed_with_its_measured_effect():
    after = figures(1.01, updated=100, lost=1)
    helped = RemedyEffect(remedy=Remedy(kind="master_weights"), runs=(after,), damage=(0.01,), helped=1)
    text = render_advice_terminal(advice(lost(helped)))
    assert "the run lacks 50 % of the twin's progress" in text
    assert "1. updates are lost in float16 weights: 50 of 100 updates (50 %) leave the weight as it was" in text
    assert "helps         float32 master weights: lacks 50 % -> 1 %; final loss 1.01; 1 of 1 seeds" in text
    assert "lost updates 50 % -> 1 %" in text


def test_a_remedy_that_does_not_help_or_cannot_run_is_printed_as_such():
    none = RemedyEffect(remedy=Remedy(kind="stochastic_rounding"), runs=(figures(1.6),), damage=(0.6,))
    failed = RemedyEffect(remedy=Remedy(kind="master_weights"), problem="RuntimeError: no")
    text = render_advice_terminal(advice(lost(none, failed)))
    assert "no help       stochastic rounding of the updated weights: lacks 50 % -> 60 %" in text
    assert "not measured  float32 master weights: RuntimeError: no" in text
    assert "no measured remedy helps" in text


def test_a_healthy_run_has_no_advice():
    text = render_advice_terminal(advice(lost(), damaged=False, damage=(0.0,)))
    assert "less than 5 %: no advice" in text
    assert "no remedy was measured" in text


def test_a_twin_that_fails_or_makes_no_progress_is_reported():
    assert "the float64 twin of the recipe failed" in render_advice_terminal(advice(twin_problem="RuntimeError: half"))
    assert "makes no progress in 40 steps" in render_advice_terminal(advice(twins=(figures(2.5),)))


def test_a_twin_without_memory_is_measured_on_a_smaller_training():
    text = render_advice_terminal(advice(twin_problem="RuntimeError: no", is_twin_out_of_memory=True))
    assert "measure a smaller training" in text
    assert "x.half()" not in text


def test_no_format_causes_a_twin_that_is_not_finite():
    start = {"start_losses": (None,), "runs": (figures(None),), "twins": (figures(None),), "damage": (None,)}
    text = render_advice_terminal(advice(lost(), damaged=False, **start))
    assert "the loss is NaN or infinite in float64 before the first step, so no format causes it: no advice" in text
    assert "precreg training train:make --steps 1 --every 1" in text
    assert "within 5 %" not in text
    text = render_advice_terminal(advice(lost(), damaged=False, **start | {"start_losses": (2.0,)}))
    assert "the float64 twin diverges to NaN or infinity, so no format causes it: no advice" in text
    # Another seed has a twin, which the remedies are compared with.
    more = {"start_losses": (2.0, 2.0), "twins": (figures(1.0), figures(None)), "damage": (0.5, None)}
    assert "no format" not in render_advice_terminal(advice(lost(), **more))


def test_the_page_has_each_sentence_and_no_markup_of_a_user():
    after = figures(1.01, updated=100, lost=1)
    helped = RemedyEffect(remedy=Remedy(kind="master_weights"), runs=(after,), damage=(0.01,), helped=1)
    symptom = TrainingSymptom(
        kind="lost_updates", count=50, total=100, format="float16", effects=(helped,), places=(("<b>x", 0.5),)
    )
    sections = advice_sections(advice(symptom))
    assert [title for title, _ in sections] == [
        "Advice",
        f"1. {json.loads(advice_json(advice(symptom)))['symptoms'][0]['text']}",
    ]
    page = render_training_html(TrainingRecord(model="train:make"), None, sections)
    assert "lacks 50 % -&gt; 1 %" in page
    assert "most in &lt;b&gt;x (50 %)" in page
    assert "<b>x" not in page


def test_a_run_that_is_not_finite():
    text = render_advice_terminal(advice(runs=(figures(None),), damage=(None,)))
    assert "final loss NaN or infinite" in text
    assert "lacks all (NaN or infinity)" in text


def test_the_json_has_figures_and_sentences():
    found = json.loads(advice_json(advice(lost())))
    assert found["schema"] == "precreg-training-advice/1"
    assert found["symptoms"][0]["kind"] == "lost_updates"
    assert found["symptoms"][0]["text"].startswith("updates are lost in float16")
    assert "50 %" in found["answer"]


def test_names_of_a_user_control_no_terminal():
    assert "\x1b" not in render_advice_terminal(advice(recipe="a\x1b[31m:b"))
