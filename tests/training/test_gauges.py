"""One pass feeds all gauges, and gives the results of each alone."""

import numpy as np

from precreg.training.clipping import sweep_clipping
from precreg.training.gauges import GradientGauges
from precreg.training.loss_scale import sweep_scales
from precreg.training.tensor_scale import sweep_tensor_scales
from precreg.types import ClippedStep, ScalerPoint
from tests.training.steps import MadeStep

STEPS = [
    MadeStep(step, {"w": (np.random.default_rng(step).standard_normal(50) * 1e-5).astype(np.float32)})
    for step in range(5)
]


def test_the_gauges_agree_with_the_sweeps():
    gauges = GradientGauges("float16", tensor_format="e5m2", norms=[1e-5])
    for step in STEPS:
        gauges.add(step)
    found = gauges.result()
    assert found.loss_scale == sweep_scales(STEPS)
    assert found.tensor_scales == sweep_tensor_scales(STEPS, "e5m2")
    assert found.clipping == sweep_clipping(STEPS, [1e-5])
    assert (found.clip_order, found.scaler) == (None, None)


def test_parts_that_nobody_chose_are_not_measured():
    gauges = GradientGauges()
    gauges.add(STEPS[0])
    found = gauges.result([ScalerPoint(0, 8.0, False)], [ClippedStep(0, 1.0, 1.0, 8.0, True)])
    assert (found.tensor_scales, found.clipping) == (None, None)
    assert found.scaler.steps == 1
    assert found.clip_order.effective_least == 0.125


def test_the_scales_of_the_steps_stand_for_a_history():
    gauges = GradientGauges()
    gauges.add(STEPS[0]._replace(scale=8.0))
    gauges.add(MadeStep(1, {"w": np.float32([np.inf])}, 16.0))
    found = gauges.result()
    assert found.scales == (ScalerPoint(0, 8.0, False), ScalerPoint(1, 16.0, True))
    assert (found.scaler.skipped, found.scaler.greatest) == (1, 16.0)
    assert gauges.result([ScalerPoint(0, 4.0, False)]).scaler.greatest == 4.0
