"""A scaler's history is counted, and a run of a scaler moves as torch.amp.GradScaler does."""

import pytest

from precreg.arithmetic import format_named
from precreg.training.magnitudes import format_limits
from precreg.training.scaler import run_scaler, summarize_scaler
from precreg.types import ScalerPoint, ScalerRun

BEYOND = format_limits(format_named("float16")).beyond


def history(*points):
    return summarize_scaler([ScalerPoint(step, scale, skipped) for step, (scale, skipped) in enumerate(points)])


def test_skipped_steps_growths_and_backoffs():
    found = history((8.0, True), (4.0, True), (2.0, False), (4.0, False), (8.0, True), (4.0, False), (8.0, False))
    assert (found.steps, found.skipped, found.longest_skipped) == (7, 3, 2)
    assert (found.first, found.last, found.least, found.greatest) == (8.0, 8.0, 2.0, 8.0)
    assert (found.growths, found.backoffs, found.growth_interval) == (3, 3, 1)


def test_a_scaler_that_never_moved():
    found = history((0.5, False), (0.5, False))
    assert (found.growths, found.backoffs, found.growth_interval, found.below_one) == (0, 0, None, 2)


def test_a_scaler_without_history_is_a_fact():
    assert summarize_scaler([]) is None


def test_a_run_halves_at_an_overflow_and_doubles_after_the_interval():
    # 1.0 fits up to the scale 2**15.
    assert run_scaler([1.0] * 3, BEYOND, 17) == ScalerRun(17, 3, 2, 15)
    assert run_scaler([1.0] * 5, BEYOND, 15, growth_interval=2) == ScalerRun(15, 5, 1, 16)
    assert run_scaler([float("inf"), 0.0], BEYOND, 3) == ScalerRun(3, 2, 1, 2)
    assert run_scaler([], BEYOND, 3) == ScalerRun(3, 0, 0, 3)


@pytest.mark.parametrize(("size", "skipped"), [(65504.0, 0), (65519.99, 0), (65520.0, 1)])
def test_a_run_skips_what_rounds_to_infinity(size, skipped):
    assert run_scaler([size], BEYOND, 0).skipped == skipped
