"""A run of a scaler, and clipping, equal torch's own on the same gradients."""

import numpy as np
import pytest
import torch

from precreg.arithmetic import format_named
from precreg.training.clipping import sweep_clipping
from precreg.training.magnitudes import format_limits
from precreg.training.scaler import run_scaler, summarize_scaler
from precreg.types import ScalerPoint
from tests.training.steps import MadeStep

BEYOND = format_limits(format_named("float16")).beyond
SCALES = (0.1, 1, 10, 3)
SIZES = [1.0, 0.5, 3.0, 1.0, 1.0, 0.01, 0.01, 2.5, 0.3, 0.3, 0.3, 1e-3, 70.0, 1e-6, 1e-6, 1e-6, 1.0, 65519.0, 65520.0]


def torch_points(sizes, exponent, interval):
    """Step torch.amp.GradScaler with gradients in float16, as a backward pass in float16 leaves them."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**exponent, growth_interval=interval)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    points = []
    for step, size in enumerate(sizes):
        scale = scaler.scale(torch.ones(())).item()
        half = (torch.tensor([size], dtype=torch.float64) * scale).to(torch.float16)
        weight.grad = half.float()
        scaler.step(optimizer)
        scaler.update()
        points.append(ScalerPoint(step, scale, bool(half.isinf().any())))
    return points, scaler.get_scale()


@pytest.mark.parametrize("exponent", [3, 10, 14, 16, 20])
@pytest.mark.parametrize("interval", [1, 2, 3, 2000])
def test_a_run_moves_as_gradscaler(exponent, interval):
    points, final = torch_points(SIZES, exponent, interval)
    ours, theirs = run_scaler(SIZES, BEYOND, exponent, interval), summarize_scaler(points)
    assert (ours.skipped, 2.0**ours.final) == (theirs.skipped, final)


def test_clipped_steps_and_sums_equal_clip_grad_norm():
    random = np.random.default_rng(5)
    arrays = [
        {"a": random.standard_normal(7) * size, "b": random.standard_normal(3) * size} for size in (0.1, 1, 10, 3)
    ]
    sweep = sweep_clipping((MadeStep(step, each) for step, each in enumerate(arrays)), [4.0])
    found = next(each for each in sweep.effects if each.kind == "global_norm" and each.quantile is None)
    clipped, count = np.zeros(10), 0
    for each in arrays:
        parameters = [torch.nn.Parameter(torch.zeros(part.size, dtype=torch.float64)) for part in each.values()]
        for parameter, part in zip(parameters, each.values(), strict=True):
            parameter.grad = torch.from_numpy(part.copy())
        count += torch.nn.utils.clip_grad_norm_(parameters, 4.0).item() > 4.0
        clipped += torch.cat([parameter.grad for parameter in parameters]).numpy()
    whole = sum(np.concatenate(list(each.values())) for each in arrays)
    cosine = clipped @ whole / np.linalg.norm(clipped) / np.linalg.norm(whole)
    assert found.clipped_steps == count == 2
    # torch adds 1e-6 to the norm before it divides.
    assert found.sum_cosine == pytest.approx(cosine, abs=1e-6)
