"""Sentences of loss scales say the figures of the sweep, and how sure they are."""

from math import inf

import numpy as np
import pytest

from precreg.report.training.scale_sentences import (
    SCALE_COLUMNS,
    TENSOR_COLUMNS,
    describe_loss_scale,
    describe_scaler,
    describe_tensor_scales,
    format_scale,
    format_share,
    scale_rows,
    tensor_rows,
)
from precreg.training.loss_scale import sweep_scales
from precreg.training.scaler import summarize_scaler
from precreg.training.tensor_scale import sweep_tensor_scales
from precreg.types import ScalerPoint
from tests.training.steps import MadeStep


def sweep_of(*arrays, scale=1.0, format="float32"):
    return sweep_scales(
        MadeStep(step, {"w": np.float32(each)}, scale, None, {"w": format}) for step, each in enumerate(arrays)
    )


def test_the_window_and_the_recommendation():
    assert describe_loss_scale(sweep_of([1e-8, 3.0], [1e-7, 3.0])) == [
        "2^2 to 2^14 lose least in float16: no step overflows, and 0 % of 4 nonzero gradients of 2 steps become zero",
        "at 2^0, 25 % become zero; at 2^13, 0 %",
        "start at 2^13: 1 doubling below 2^14, the highest scale without overflow "
        "(the largest gradient changed 1x from the first to the second half): "
        "torch.amp.GradScaler(init_scale=2.0**13)",
        "a GradScaler from 2^13 skips 0 of 2 steps and ends at 2^13, on these gradients",
        "a GradScaler from 2^16 skips 2 of 2 steps and ends at 2^14, on these gradients",
    ]


def test_a_single_scale_is_written_in_the_singular():
    lines = describe_loss_scale(sweep_of([3e-12, 60000.0]))
    assert lines[0].startswith("2^0 alone loses least in float16: no step overflows, and 50 % of 2 nonzero")
    assert "one step shows no growth" in lines[2]


def test_no_scale_is_needed():
    assert "no gradient of these steps needs a larger scale than 2^0" in describe_loss_scale(sweep_of([1.0]))


def test_zeros_of_a_narrow_format_may_need_a_scale():
    lines = describe_loss_scale(sweep_of([0.0, 1.0], scale=1024.0, format="float16"))
    assert lines[1] == "1 gradients are 0 and may need a larger scale than 2^0; a narrow format held them"


def test_every_scale_overflows():
    first, second = describe_loss_scale(sweep_of([1e5], [1.0]))
    assert first == (
        "every scale from 2^0 to 2^24 overflows float16: at least 1 of 2 steps, at 2^0; "
        "the largest finite gradient is 100000"
    )
    assert second.startswith("use bfloat16")


def test_no_gradient():
    assert describe_loss_scale(sweep_of([0.0])) == ["loss scale of float16: no finite nonzero gradient in 1 step"]


def test_what_is_not_known_is_said():
    lines = describe_loss_scale(sweep_of([0.0, inf, 1.0], scale=1024.0, format="float16"))
    assert lines[-2] == (
        "the shares that become zero are lower bounds: 1 gradients are 0 and came from a narrow format, "
        "which had lost every size up to 2.91e-11; store gradients in float32, or of a training at a larger scale"
    )
    assert lines[-1].startswith("1 gradients are NaN or infinite, in 1 step;")


def test_the_worst_parameter_is_the_first_row():
    step = MadeStep(0, {"fine": np.float32([1.0]), "small": np.float32([1e-10, 1e-9])})
    sweep = sweep_scales([step])
    rows = scale_rows(sweep)
    assert [row[0] for row in rows] == ["small", "fine"]
    assert {len(row) for row in rows} == {len(SCALE_COLUMNS)}
    assert rows[0][3:5] == ("100 %", "0 %")
    assert rows[1][-1] == "2^15"


def test_the_moves_of_a_scaler():
    points = [(8.0, True), (4.0, True), (2.0, False), (4.0, False), (8.0, False), (0.5, False)]
    lines = describe_scaler(summarize_scaler(ScalerPoint(step, *each) for step, each in enumerate(points)))
    assert lines == [
        "the scaler skipped 2 of 6 steps, 2 in a row",
        "its scale grew 2 times and backed off 3 times: from 2^3 to 2^-1, between 2^-1 and 2^3",
        "it grew after 1 step at the soonest; where each growth overflows, 50 % of the steps are skipped",
        "its scale was below 1 in 1 step, which loses gradients",
    ]


@pytest.mark.parametrize(
    ("scale", "line"),
    [
        (2.0**15, "its last scale is above 2^14: at 2^15, 2 of 2 steps overflow float16"),
        (2.0, "its last scale is below 2^2: at 2^1, 25 % of the gradients become zero"),
        (2.0**9, "its last scale is one of those that lose least, 2^2 to 2^14"),
        (2.0**40, None),
    ],
)
def test_the_last_scale_is_placed_beside_the_window(scale, line):
    sweep = sweep_of([1e-8, 3.0], [1e-7, 3.0])
    history = summarize_scaler([ScalerPoint(0, scale, False)])
    assert describe_scaler(history, sweep)[2:] == ([] if line is None else [line])


def test_a_last_scale_at_which_gradients_became_zero_is_not_called_the_best():
    sweep = sweep_of([0.0, 2.0**-20, 3.0], scale=4.0, format="float16")
    history = summarize_scaler([ScalerPoint(0, 4.0, False)])
    assert describe_scaler(history, sweep)[2:] == [
        "its last scale is within 2^0 to 2^14, but 1 gradient is 0 there: try a larger one"
    ]


def test_a_training_without_a_scaler():
    assert describe_scaler(None) == [
        "the training has no scaler, or the scaler has no history: each step ran at the scale 1"
    ]


def test_tensor_scales_name_the_scaling_that_loses_least():
    steps = [MadeStep(0, {"calm": np.full(9, 1e-3)}), MadeStep(1, {"calm": np.full(9, 1.0), "n": np.arange(2)})]
    sweep = sweep_tensor_scales(steps)
    lines = describe_tensor_scales(sweep)
    assert lines[0].endswith("loses least for 1 of 1 tensors")
    assert lines[1] == (
        "delayed scaling (history 1,024, margin 0, the scale 1 in the first step) saturates elements of 1 of 1 tensors"
    )
    assert lines[2] == "not measured, because they hold no floating-point numbers: n"
    (row,) = tensor_rows(sweep)
    assert len(row) == len(TENSOR_COLUMNS)
    assert (row[0], row[6]) == ("calm", "9")
    assert describe_tensor_scales(sweep_tensor_scales([])) == [
        "per-tensor scales of float8_e4m3fn: no finite nonzero element in 0 steps"
    ]


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(0, 5, "0 %"), (5, 5, "100 %"), (1, 10**9, "1e-07 %"), (10**6 - 1, 10**6, "99.9999 %"), (0, 0, "no value")],
)
def test_some_are_never_none_and_most_are_never_all(count, total, text):
    assert format_share(count, total) == text


def test_scales_are_powers_of_two_where_they_can_be():
    assert [format_scale(each) for each in (65536.0, 0.5, 3.0, 0.0)] == ["2^16", "2^-1", "3", "0"]
