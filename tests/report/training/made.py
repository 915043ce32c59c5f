"""A view of a training with every part, made from gradients that shrink from layer to layer."""

import numpy as np

from precreg.arithmetic import format_named
from precreg.report.charts.binades import BinadeCounts
from precreg.report.charts.name_map import NameMap
from precreg.report.training.page import FlowMap, SizeHistogram, TrainingView
from precreg.training.clipping import find_clipped_before_unscale, sweep_clipping
from precreg.training.loss_scale import sweep_scales
from precreg.training.scaler import summarize_scaler
from precreg.training.tensor_scale import sweep_tensor_scales
from precreg.types import ClippedStep, ScalerPoint
from tests.training.steps import MadeStep

NAMES = ("embed.weight", *(f"blocks.{place}.attention.weight" for place in range(8)), "head.bias")


def gradients(steps=12, names=NAMES):
    """Return the gradients of steps: 10 times smaller from name to name, and growing over the steps."""
    random = np.random.default_rng(21)
    return [
        MadeStep(
            step,
            {
                name: (random.standard_normal(300) * 10.0 ** (-(place % 10) - 1) * (1 + step / 4)).astype(np.float32)
                for place, name in enumerate(names)
            },
        )
        for step in range(steps)
    ]


SCALER = [ScalerPoint(step, 2.0 ** (16 - min(step, 3) + (step > 8)), step < 3 or step == 9) for step in range(12)]
CLIPS = [ClippedStep(step, 40.0 * 2**13, 1.0, 2.0**13, True) for step in range(4)]


def counts_of(steps, name):
    values = np.concatenate([step.arrays[name] for step in steps])
    exponents = np.floor(np.log2(np.abs(values[values != 0]))).astype(int)
    least = int(exponents.min())
    return BinadeCounts(least, np.bincount(exponents - least).tolist())


def full_view(name="tiny transformer", names=NAMES):
    steps = gradients(names=names)
    sweep = sweep_scales(steps)
    columns = [str(step.step) for step in steps]
    means = [[float(np.exp2(np.mean(np.log2(np.abs(step.arrays[each]))))) for step in steps] for each in names]
    lost = [[float(np.mean(np.abs(step.arrays[each]) < 2.0**-25)) for step in steps] for each in names]
    return TrainingView(
        model=name,
        answer=f"{name} loses gradients in float16",
        facts=[("steps", "12 steps, all sampled"), ("cost", "a sampled step takes 1.2 times the time of another")],
        limits=[f"{name}: 3 steps were left out"],
        advice=[(f"Raise the loss scale of {name}", [f"measured: {name} 12 % to 0 %", "not measured: bfloat16"])],
        maps=[
            FlowMap("size", NameMap(names, columns, means, "geometric mean of |gradient|"), "sizes"),
            FlowMap("share lost", NameMap(names, columns, lost, "share of gradients that become zero"), "shares"),
        ],
        losses=[(step, 2.5 * 0.9**step if step != 5 else None) for step in range(12)],
        scales=SCALER,
        scaler=summarize_scaler(SCALER),
        sweep=sweep,
        tensor_scales=sweep_tensor_scales(steps),
        clipping=sweep_clipping(steps, [1.0], [0.1]),
        clip_order=find_clipped_before_unscale(CLIPS),
        histograms=[SizeHistogram(each, counts_of(steps, each), format_named("float16")) for each in names],
    )
