"""Records of stored gradients: figures by step, what was left out, and files without gradients."""

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.training import StepGradients, read_gradients, record_of_gradients
from tests.training.test_values import plain


def step(number, scale=1.0, loss=None, formats=None, **arrays):
    return StepGradients(number, loss, scale, arrays, formats or {})


def test_figures_of_each_step_and_parameter_are_those_of_the_arrays(tmp_path):
    random = np.random.default_rng(3)
    for number in range(4):
        np.savez(
            tmp_path / f"step{number}.npz",
            loss=1.0 / (number + 1),
            loss_scale=1024.0,
            weight=(random.standard_normal((8, 5)) * 1e-6 * 1024).astype(np.float16),
            steps=np.arange(3),
        )
    record = record_of_gradients("g", read_gradients(tmp_path), every=2)
    assert [each.step for each in record.steps] == [0, 2]
    assert [point.loss for point in record.losses] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert [point.scale for point in record.scales] == [1024.0] * 4
    stored = np.load(tmp_path / "step2.npz")["weight"]
    (found,) = record.steps[1].parameters
    assert (found.parameter, found.shape, found.gradient.format) == ("weight", (8, 5), "float16")
    exact = stored.astype(np.float64) / 1024
    assert found.gradient.mean == pytest.approx(exact.mean(), rel=1e-12)
    assert found.gradient.std == pytest.approx(exact.std(), rel=1e-12)
    assert record.steps[1].gradient_norm == pytest.approx(np.linalg.norm(exact), rel=1e-12)
    from precreg.arithmetic import format_named

    counts, _ = plain(stored.reshape(-1), format_named("float16"))
    assert found.gradient.subnormal == counts["subnormal"] > 0
    assert {(event.kind, event.name, event.times) for event in record.events} == {("not_measured", "steps", 2)}


def test_another_format_counts_its_own_range():
    steps = [step(0, weight=np.array([1e-9, 1e-5, 1.0, 1e6], np.float32))]
    (found,) = record_of_gradients("g", steps, format="float16").steps[0].parameters
    assert (found.gradient.below, found.gradient.subnormal, found.gradient.beyond) == (1, 1, 1)
    (found,) = record_of_gradients("g", steps).steps[0].parameters
    assert (found.gradient.below, found.gradient.subnormal, found.gradient.beyond) == (0, 0, 0)


def test_a_large_array_is_sampled_and_the_event_counts_it():
    record = record_of_gradients("g", [step(3, weight=np.ones(1000, np.float32))], elements=10)
    (found,) = record.steps[0].parameters
    assert 5 <= found.gradient.measured <= 10
    (event,) = record.events
    assert (event.kind, event.step, event.detail) == ("sampled", 3, f"{found.gradient.measured} of 1000")


def test_nan_is_an_event_of_its_first_step_and_leaves_no_norm():
    bad = np.array([1.0, np.nan], np.float32)
    steps = [step(5, weight=np.ones(2, np.float32)), step(6, weight=bad), step(7, weight=bad)]
    record = record_of_gradients("g", steps)
    (event,) = record.events
    assert (event.kind, event.step, event.name, event.phase, event.times) == ("nonfinite", 6, "weight", "gradient", 2)
    assert [each.gradient_norm for each in record.steps] == [pytest.approx(2**0.5), None, None]


def test_steps_without_floating_point_arrays_are_refused():
    with pytest.raises(UserError, match="no floating-point array in 2 steps") as caught:
        record_of_gradients("g", [step(0, a=np.arange(3)), step(1, a=np.arange(3))])
    assert caught.value.slug == "no-gradients"
