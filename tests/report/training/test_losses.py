"""The terminal shows a heading, sentences and a table for each part that was measured."""

from precreg.report.training.losses import gradient_loss_lines
from precreg.training.gauges import GradientGauges
from precreg.types import ClippedStep, GradientLosses
from tests.report.training.made import gradients


def losses(clips=(), **settings):
    gauges = GradientGauges(**settings)
    for step in gradients(steps=4):
        gauges.add(step)
    return gauges.result(clips=clips)


def test_each_part_has_a_heading_and_a_table():
    lines = gradient_loss_lines(losses(tensor_format="e4m3fn", norms=()), max_rows=3)
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "loss scale",
        "scaler",
        "per-tensor scales",
        "clipping",
    ]
    assert [line for line in lines if line.startswith("  and ")] == ["  and 7 more", "  and 7 more"]
    assert any(line.startswith("  parameter ") for line in lines)


def test_a_narrow_terminal_is_kept():
    lines = gradient_loss_lines(losses(tensor_format="e4m3fn", norms=()), width=80)
    rows = [line for line in lines if line.startswith(("  blocks", "  norm of", "  parameter "))]
    assert len(rows) == 8 + 1 + 8 + 4
    assert max(map(len, rows)) <= 80
    assert [line for line in lines if "not shown at this width: " in line] == [
        "  not shown at this width: gradients, largest",
        "  not shown at this width: largest, unscaled",
        "  not shown at this width: from, sum length",
    ]


def test_a_clip_before_unscaling_is_shown_without_a_sweep_of_clipping():
    lines = gradient_loss_lines(losses([ClippedStep(0, 9.0, 1.0, 8.0, True)]))
    assert lines[-3].startswith("  clipped before unscaling: 1 of 1 clippings")


def test_nothing_measured_has_no_lines():
    assert gradient_loss_lines(GradientLosses()) == []
