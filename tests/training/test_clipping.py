"""Effects of clipping equal those of torch's formulas in exact arithmetic, and a clip before unscaling is found."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precreg.training.clipping import ClippingGauge, find_clipped_before_unscale, sweep_clipping
from precreg.types import ClippedBeforeUnscale, ClippedStep
from tests.training.steps import MadeStep

RANDOM = np.random.default_rng(3)
SIZES = st.floats(-100, 100).filter(lambda size: size == 0 or abs(size) > 1e-3)


def steps_of(*steps):
    return [
        MadeStep(number, {name: np.asarray(each) for name, each in step.items()}) for number, step in enumerate(steps)
    ]


def effect_of(sweep, kind, limit):
    (found,) = [each for each in sweep.effects if each.kind == kind and each.limit == limit and each.quantile is None]
    return found


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


@given(st.lists(arrays(np.float64, 6, elements=SIZES), min_size=1, max_size=5), st.floats(0.01, 200))
def test_a_global_norm_equals_its_definition(gradients, limit):
    sweep = sweep_clipping(steps_of(*({"a": each[:2], "b": each[2:]} for each in gradients)), [limit])
    found = effect_of(sweep, "global_norm", limit)
    norms = [np.linalg.norm(each) for each in gradients]
    # A norm at the limit may fall on either side by a rounding.
    if min(abs(norm - limit) for norm in norms) > 1e-9:
        assert found.clipped_steps == sum(norm > limit for norm in norms)
    clipped = sum(each * min(1, limit / norm) for each, norm in zip(gradients, norms, strict=True) if norm)
    whole = sum(gradients)
    if np.linalg.norm(whole) > 1e-6 and np.linalg.norm(clipped) > 1e-6:
        assert found.sum_cosine == pytest.approx(cosine(clipped, whole), abs=1e-9)
        assert found.sum_length == pytest.approx(np.linalg.norm(clipped) / np.linalg.norm(whole), rel=1e-9)
    if any(norms):
        assert found.least_cosine == pytest.approx(1.0, abs=1e-12)


@given(st.lists(arrays(np.float64, 6, elements=SIZES), min_size=1, max_size=5), st.floats(0.01, 200))
def test_norms_of_parameters_and_values_turn_a_step(gradients, limit):
    sweep = sweep_clipping(steps_of(*({"a": each[:2], "b": each[2:]} for each in gradients)), [limit], [limit])
    by_kind = {
        "parameter_norm": lambda each: np.concatenate(
            [part * min(1, limit / max(np.linalg.norm(part), 1e-300)) for part in (each[:2], each[2:])]
        ),
        "value": lambda each: np.clip(each, -limit, limit),
    }
    for kind, clip in by_kind.items():
        cosines = [cosine(clip(each), each) for each in gradients if each.any()]
        found = effect_of(sweep, kind, limit)
        if cosines:
            assert found.step_cosine == pytest.approx(np.mean(cosines), abs=1e-9)
            assert found.least_cosine == pytest.approx(min(cosines), abs=1e-9)
        else:
            assert (found.step_cosine, found.least_cosine) == (None, None)


def test_clipping_turns_a_sum_of_steps_and_no_step():
    sweep = sweep_clipping(steps_of({"w": [1.0, 0.0]}, {"w": [0.0, 9.0]}), [1.0])
    found = effect_of(sweep, "global_norm", 1.0)
    assert (found.clipped_steps, found.step_cosine, found.least_cosine) == (1, 1.0, 1.0)
    # (1, 1) against (1, 9).
    assert found.sum_cosine == pytest.approx(10 / np.sqrt(2 * 82))
    assert found.sum_length == pytest.approx(np.sqrt(2 / 82))


def test_quantiles_of_the_observed_norms_are_limits():
    sweep = sweep_clipping(steps_of(*({"w": [float(size)]} for size in range(1, 12))))
    found = {each.quantile: each for each in sweep.effects if each.kind == "global_norm"}
    assert {quantile: each.limit for quantile, each in found.items()} == {0.1: 2.0, 0.5: 6.0, 0.75: 8.5, 0.9: 10.0}
    assert [each.clipped_steps for each in found.values()] == [9, 5, 3, 1]


def test_a_large_model_is_sampled_and_its_norms_are_of_all_elements():
    values = RANDOM.standard_normal((4, 50_000))
    sweep = sweep_clipping(steps_of(*({"w": each} for each in values)), [200.0, 1e9], kept=5_000)
    assert (sweep.elements, sweep.measured) == (50_000, 5_000)
    assert sweep.norms == pytest.approx(np.linalg.norm(values, axis=1))
    whole = sweep_clipping(steps_of(*({"w": each} for each in values)), [200.0], kept=50_000)
    sampled = effect_of(sweep, "global_norm", 200.0).sum_cosine
    assert sampled == pytest.approx(effect_of(whole, "global_norm", 200.0).sum_cosine, abs=0.01)


def test_a_parameter_without_a_gradient_in_some_steps_counts_as_zero():
    sweep = sweep_clipping(steps_of({"a": [3.0]}, {"a": [3.0], "b": [4.0]}, {"b": [4.0]}), [10.0])
    assert sweep.norms == (3.0, 5.0, 4.0)
    assert effect_of(sweep, "global_norm", 10.0).clipped_steps == 0


def test_steps_without_a_norm_are_counted_apart():
    sweep = sweep_clipping(steps_of({"w": [inf]}, {"w": [1.0]}), [0.5])
    assert (sweep.steps, sweep.nonfinite_steps, sweep.norms) == (2, 1, (1.0,))
    assert sweep_clipping([]).effects == ()
    assert sweep_clipping(steps_of({"w": [inf]})).effects == ()


def test_gradients_of_zero_have_no_direction():
    found = effect_of(sweep_clipping(steps_of({"w": [0.0]}), [1.0]), "global_norm", 1.0)
    assert (found.clipped_steps, found.sum_cosine, found.step_cosine) == (0, None, None)


def test_a_norm_beyond_float64_is_no_norm():
    assert sweep_clipping(steps_of({"w": [3e200, 4e200]})).nonfinite_steps == 1


def test_arrays_of_integers_are_named():
    gauge = ClippingGauge()
    gauge.add(MadeStep(0, {"n": np.arange(3), "w": np.ones(2)}))
    assert gauge.result().not_measured == ("n",)


def test_a_clip_before_unscaling_is_found_with_its_effective_limit():
    # The norm 3.0 was clipped at 1.0 while it was 3.0 * 1024, and 0.5 as well.
    clips = [ClippedStep(4, 3072.0, 1.0, 1024.0, True), ClippedStep(5, 512.0, 1.0, 1024.0, True)]
    late = ClippedStep(6, 3.0, 1.0, 512.0, False)
    assert find_clipped_before_unscale([*clips, late]) == ClippedBeforeUnscale(
        clippings=3,
        scaled=2,
        first_step=4,
        limit=1.0,
        effective_least=1 / 1024,
        effective_greatest=1 / 1024,
        clipped=2,
        clipped_after=1,
    )


@pytest.mark.parametrize("clips", [[], [ClippedStep(0, 3.0, 1.0, 512.0, False)], [ClippedStep(0, 3.0, 1.0, 1.0, True)]])
def test_a_clip_after_unscaling_or_without_a_scale_is_no_fault(clips):
    assert find_clipped_before_unscale(clips) is None
