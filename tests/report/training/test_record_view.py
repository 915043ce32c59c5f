"""The view of a record has the figures of the record: maps, histograms, losses and scales."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.report.training.events import describe_training_event, describe_training_steps
from precreg.report.training.record_view import answer_training, render_training_html, view_of_training
from precreg.training.loss_scale import sweep_scales
from precreg.types import (
    ClippedStep,
    ExponentCounts,
    GradientLosses,
    OutputGradient,
    ParameterFigures,
    ScalerPoint,
    StepLoss,
    TrainingEvent,
    TrainingRecord,
    TrainingStep,
    UpdateFigures,
    ValueFigures,
)
from tests.report.test_html import HOSTILE, Page
from tests.training.steps import MadeStep


def figures(values, scale=1.0):
    """Return the figures of gradients in float16 at a scale, from numpy's own conversion."""
    values = np.asarray(values, np.float64)
    with np.errstate(over="ignore"):
        half = np.abs((values * scale).astype(np.float16))
    exponents = np.floor(np.log2(np.abs(values[values != 0]))).astype(int)
    least = int(exponents.min(initial=0))
    return ValueFigures(
        format="float16",
        elements=values.size,
        measured=values.size,
        zeros=int(np.sum(values == 0)),
        below=int(np.sum((half == 0) & (values != 0))),
        beyond=int(np.sum(np.isinf(half))),
        subnormal=int(np.sum((half > 0) & (half < 2.0**-14))),
        exponents=ExponentCounts(least, tuple(np.bincount(exponents - least).tolist())),
    )


def update(lost=1, intended=4, median=0.25):
    return UpdateFigures(elements=4, measured=4, intended=intended, lost=lost, has_twin=True, median_ulp=median)


def made(name="fc.weight", **changes):
    steps = [
        TrainingStep(
            step=number,
            scale=scale,
            parameters=(
                ParameterFigures(
                    parameter=name, shape=(4,), gradient=figures([1e-9, 1.0, 0.0, 4.0], scale), update=update()
                ),
                ParameterFigures(parameter=f"{name}2", shape=(1,), gradient=figures([1.0], scale)),
            ),
            outputs=(OutputGradient(name, figures([2.0**-40, 1.0], scale)),),
        )
        for number, scale in ((0, 1.0), (10, 8.0))
    ]
    record = TrainingRecord(
        model=name,
        optimizer="AdamW",
        every=10,
        begun=20,
        steps=tuple(steps),
        losses=tuple(StepLoss(step, 3.0 / (step + 1)) for step in range(20)),
        scales=tuple(ScalerPoint(step, 1.0 if step < 10 else 8.0, step == 3) for step in range(20)),
    )
    return replace(record, **changes)


def maps_of(record):
    return {each.name: each.cells for each in view_of_training(record, GradientLosses()).maps}


def test_maps_have_the_figures_of_each_parameter_and_step():
    found = maps_of(made())
    assert list(found) == [
        "size", "become zero", "lost updates", "update in ULP", "outputs: size", "outputs: become zero"
    ]  # fmt: skip
    assert found["become zero"].rows == ["fc.weight", "fc.weight2"]
    assert found["become zero"].columns == ["0", "10"]
    # 1e-9 is one of three nonzero gradients, and zero at both scales.
    assert found["become zero"].values == [[1 / 3, 1 / 3], [0.0, 0.0]]
    assert found["lost updates"].values == [[0.25, 0.25], [None, None]]
    # The exponents -30, 0 and 2.
    assert found["size"].values[0][0] == pytest.approx(2 ** (-28 / 3))
    assert found["outputs: become zero"].values == [[0.5, 0.5]]


def test_a_figure_that_is_zero_everywhere_has_no_map():
    assert "NaN and infinities" not in maps_of(made())
    assert "overflow" not in maps_of(made())


def test_histograms_are_of_scaled_gradients_the_worst_first():
    first, second = view_of_training(made(), GradientLosses()).histograms
    assert (first.name, second.name) == ("fc.weight", "fc.weight2")
    # 1.0 at the scale 1 and at the scale 8.
    assert (second.counts.least, list(second.counts.counts)) == (0, [1, 0, 0, 1])
    assert sum(first.counts.counts) == 6


def test_the_range_of_the_swept_format_is_drawn_for_gradients_of_a_wide_format():
    wide = replace(figures([1.0]), format="float32")
    record = made(
        steps=(TrainingStep(step=0, parameters=(ParameterFigures(parameter="w", shape=(1,), gradient=wide),)),)
    )
    losses = GradientLosses(loss_scale=sweep_scales([MadeStep(0, {"w": np.float32([1.0])})]))
    (found,) = view_of_training(record, losses).histograms
    assert (found.format.name, found.computed_in) == ("float16", "float32")
    (plain,) = view_of_training(record, GradientLosses()).histograms
    assert (plain.format.name, plain.computed_in) == ("float32", "")


def test_losses_scales_and_skipped_steps_are_those_of_the_record():
    view = view_of_training(made(), GradientLosses())
    assert view.losses[1] == (1, 1.5)
    assert (view.scaler.steps, view.scaler.skipped, view.scaler.growths) == (20, 1, 1)


def test_the_answer_names_the_first_thing_to_know():
    assert answer_training(made(), GradientLosses()) == "33.3 % of the gradients of fc.weight are lost in float16"
    clipped = made(clips=(ClippedStep(0, 9.0, 1.0, 8.0, True),))
    assert answer_training(clipped, GradientLosses()).startswith("clipped before unscaling: 1 of 1 clippings")
    event = TrainingEvent(kind="nonfinite", step=4, name="fc", phase="forward")
    bad = replace(clipped, events=(event,))
    assert answer_training(bad, GradientLosses()) == (
        "fc has NaN or infinite values in its output, whose inputs are finite: the forward pass made them "
        "(first at step 4)"
    )
    updates = ParameterFigures(parameter="w", shape=(4,), gradient=figures([1.0]), update=update())
    lost = made(steps=(TrainingStep(step=0, parameters=(updates,)),))
    assert answer_training(lost, GradientLosses()) == "25 % of the updates of w leave its bits unchanged"
    still = made(steps=(TrainingStep(step=0, parameters=(replace(updates, update=None),)),))
    assert answer_training(still, GradientLosses()) == "no gradient was lost in 1 step; no update was measured"
    stored = replace(still, optimizer="")
    assert answer_training(stored, GradientLosses()) == "no gradient was lost in 1 step"
    zeros = ParameterFigures(parameter="b", shape=(4,), gradient=figures([0.0, 0.0]))
    dead = replace(stored, steps=(TrainingStep(step=0, parameters=(*still.steps[0].parameters, zeros)),))
    assert answer_training(dead, GradientLosses()) == (
        "no gradient was lost in 1 step, but every gradient of 1 of 2 parameters is zero: b"
    )
    calm = made(steps=(TrainingStep(step=0, parameters=(replace(updates, update=update(lost=0)),)),))
    assert answer_training(calm, GradientLosses()) == "no gradient and no update was lost in 1 step"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            [2.0**-24, 2.0**-20, 0.0, 0.0],
            "gradients of the output of bn underflow in float16: 100 % of the nonzero ones are subnormal or smaller, "
            "and 50 % are zero; use a larger loss scale",
        ),
        ([2.0**-24, 1.0, 1.0, 0.0], "25 % of the updates of w leave its bits unchanged"),
    ],
)
def test_outputs_whose_gradients_are_mostly_subnormal_come_before_lost_updates(values, expected):
    updates = ParameterFigures(parameter="w", shape=(4,), gradient=figures([1.0]), update=update())
    outputs = (OutputGradient("fc", figures([1.0, 2.0])), OutputGradient("bn", figures(values)))
    record = made(steps=(TrainingStep(step=0, parameters=(updates,), outputs=outputs),))
    assert answer_training(record, GradientLosses()) == expected


def test_steps_and_events_are_counted():
    assert describe_training_steps(made(dropped=5, points_dropped=2)) == (
        "20 steps began, 2 steps sampled (every 10), the oldest 5 of the sampled ones are left out, "
        "losses and scales of the oldest 2 steps are left out"
    )
    event = TrainingEvent(kind="sampled", step=0, name="w", times=3, detail="65,536 of 1,000,000")
    assert describe_training_event(event) == (
        "w has more elements than are measured (first at step 0, 3 times): 65,536 of 1,000,000"
    )


def test_an_empty_record_has_a_page():
    page = Page(render_training_html(TrainingRecord(model="m")))
    assert "no step was sampled: observe a step of the optimizer between start() and stop()" in page.text.lower()


@pytest.mark.parametrize("text", HOSTILE)
def test_names_of_a_record_are_neither_markup_nor_code(text):
    def page(name):
        event = TrainingEvent(kind="sampled", step=0, name=name, detail=name)
        return Page(render_training_html(made(name, optimizer=name, events=(event,)), advice=[(name, [name])]))

    assert [tag for tag, _ in page(text).elements] == [tag for tag, _ in page("tame").elements]
