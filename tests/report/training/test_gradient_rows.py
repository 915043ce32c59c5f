"""The terminal shows the figures of the record: the worst parameter first, right totals, and all omissions."""

import pytest

from precreg.report.training.gradient_table import training_report_lines
from precreg.types import (
    GradientNoise,
    ParameterFigures,
    StepLoss,
    TrainingEvent,
    TrainingRecord,
    TrainingReport,
    TrainingStep,
    UpdateFigures,
    ValueFigures,
)
from tests.report.training.test_record_view import made


def lines_of(record, width=None):
    return training_report_lines(TrainingReport(record=record), width)


def rows_below(lines, title):
    """Return the cells of the rows of a table by their first cell, and the names in their order."""
    first = lines.index(title) + 1
    table = []
    for line in lines[first:]:
        if not line.strip():
            break
        table.append(line.split())
    return {row[0]: row[1:] for row in table[1:]}, [row[0] for row in table[1:]]


def one_step(*parameters):
    return TrainingRecord(model="Net", optimizer="SGD", steps=(TrainingStep(step=0, parameters=parameters),))


def parameter(name, *, update=None, **counts):
    gradient = ValueFigures(format="float16", elements=100, measured=100, least=-3.0, greatest=2.0, **counts)
    return ParameterFigures(parameter=name, shape=(100,), gradient=gradient, update=update)


def update(lost, intended):
    return UpdateFigures(
        elements=100, measured=100, intended=intended, lost=lost, has_twin=True, median_ulp=0.25 if intended else None
    )


def test_the_worst_parameter_is_first():
    _, names = rows_below(
        lines_of(
            one_step(
                parameter("fine"),
                parameter("zeros", zeros=50),
                parameter("subnormal", subnormal=9),
                parameter("below", below=9),
                parameter("lost", update=update(30, 60)),
                parameter("nan", nan=1),
            )
        ),
        "gradients by parameter",
    )
    assert names == ["nan", "lost", "below", "subnormal", "zeros", "fine"]


def test_shares_are_of_nonzero_elements_and_of_intended_updates():
    record = one_step(parameter("w", zeros=50, below=10, beyond=5, subnormal=20, update=update(30, 60)))
    rows, _ = rows_below(lines_of(record), "gradients by parameter")
    # Of 50 nonzero elements 20, 10 and 5; of 100 measured 50; of 60 intended updates 30.
    assert " ".join(rows["w"]) == "float16 3 0 50 % 40 % 20 % 10 % 50 % 0.25"


def test_steps_add_up():
    steps = tuple(
        TrainingStep(step=step, parameters=(parameter("w", nan=step, update=update(step, 4)),)) for step in range(3)
    )
    rows, _ = rows_below(lines_of(TrainingRecord(model="Net", steps=steps)), "gradients by parameter")
    # 0 + 1 + 2 of them.
    assert rows["w"][2] == "3"
    assert " ".join(rows["w"][-3:]) == "25 % 0.25"


def test_outputs_have_a_table_without_updates():
    rows, _ = rows_below(lines_of(made()), "gradients of layers' outputs")
    assert set(rows) == {"fc.weight"}
    lines = lines_of(made())
    header = lines[lines.index("gradients of layers' outputs") + 1]
    assert "become zero" in header
    assert "lost updates" not in header


def test_hidden_rows_and_events_are_counted():
    record = one_step(*(parameter(f"layer{place}.weight") for place in range(25)))
    events = tuple(TrainingEvent(kind="sparse", step=0, name=f"layer{place}.weight") for place in range(13))
    lines = lines_of(TrainingRecord(model="Net", steps=record.steps, events=events))
    assert any("5 more" in line for line in lines)
    assert "  and 3 more; the JSON has all of them" in lines


def test_losses_and_noise():
    record = TrainingRecord(
        model="Net",
        losses=(StepLoss(0, 2.0), StepLoss(1, None), StepLoss(2, 0.5)),
        noise=(GradientNoise(parameter="", source="steps", samples=7, scale=12.0),),
    )
    text = "\n".join(lines_of(record))
    assert "loss: 2 at step 0, 0.5 at step 2; 1 loss was not finite" in text
    assert "noise scale of the gradients: 12 batches, from 7 sampled steps" in text


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            TrainingEvent(kind="not_located", step=3, phase="loss", times=2),
            "the training has a NaN or an infinity in a step that was not sampled (every=1 finds its place): in the "
            "loss (first at step 3, 2 times)",
        ),
        (
            TrainingEvent(kind="failed", step=0, name="NotImplementedError", detail="no sum here"),
            "NotImplementedError stopped the observer, so figures are missing; the training went on (first at step 0): "
            "no sum here",
        ),
    ],
)
def test_events_name_the_error_and_the_step(event, sentence):
    lines = lines_of(TrainingRecord(model="Net", events=(event,)))
    assert f"  {sentence}" in lines


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(width):
    lines = lines_of(made(), width)
    first = lines.index("gradients by parameter") + 1
    table = lines[first : lines.index("", first)]
    assert table[1].split()[0] == "fc.weight"
    # The note about left-out columns may wrap; the rows must not.
    rows = [line for line in table if not line.startswith("  not shown")]
    assert max(map(len, rows)) <= width
