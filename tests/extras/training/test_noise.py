"""The noise scale is that of its definition, from micro-batches and from steps."""

import numpy as np
import pytest
import torch
from torch import nn

import precreg
from precreg.training.observing.noise import noise_scale


def test_the_estimate_is_unbiased_in_its_parts():
    random = np.random.default_rng(5)
    gradient, size, samples = random.standard_normal(50), 3.0, 4
    traces, squares = [], []
    for _ in range(4000):
        drawn = gradient + size * random.standard_normal((samples, 50))
        small, big = float((drawn**2).sum(1).mean()), float((drawn.mean(0) ** 2).sum())
        # Numerator and denominator of noise_scale, whose ratio is biased.
        traces.append((small - big) / (1 - 1 / samples))
        squares.append((samples * big - small) / (samples - 1))
        ratio = noise_scale(small, big, samples)
        assert ratio is None if squares[-1] <= 0 else ratio == pytest.approx(traces[-1] / squares[-1])
    assert np.mean(traces) == pytest.approx(50 * size**2, rel=0.02)
    assert np.mean(squares) == pytest.approx(float((gradient**2).sum()), rel=0.06)


@pytest.mark.parametrize("is_averaged", [True, False])
def test_micro_batches_give_the_noise_of_their_gradients(is_averaged):
    torch.manual_seed(0)
    model, batches = nn.Linear(5, 1, bias=False, dtype=torch.float64), torch.randn(3, 4, 8, 5, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with precreg.observe(model, optimizer, every=1) as observer:
        for micro in batches:
            optimizer.zero_grad()
            for x in micro:
                (model(x).square().mean() / (4 if is_averaged else 1)).backward()
            optimizer.step()
    trace = square = 0.0
    for micro in batches:
        found = []
        for x in micro:
            (each,) = torch.autograd.grad(model(x).square().mean(), [model.weight])
            found.append(each.reshape(-1))
        small, big = torch.stack(found).square().sum(1).mean(), torch.stack(found).mean(0).square().sum()
        trace += float(small - big) / (1 - 1 / 4)
        square += float(4 * big - small) / 3
    whole, weight = observer.record.noise
    assert (whole.parameter, whole.source, whole.samples) == ("", "micro_batches", 12)
    # Norms of float64 gradients are computed in float32.
    assert weight.scale == pytest.approx(trace / square, rel=1e-4)


def test_without_micro_batches_the_steps_give_it():
    torch.manual_seed(0)
    model = nn.Linear(5, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    found = []
    with precreg.observe(model, optimizer, every=2) as observer:
        for step in range(8):
            optimizer.zero_grad()
            (model(torch.randn(8, 5)) - 3.0).square().mean().backward()
            if step % 2 == 0:
                found.append(model.weight.grad.double().reshape(-1))
            optimizer.step()
    stacked = torch.stack(found)
    expected = noise_scale(float(stacked.square().sum(1).mean()), float(stacked.mean(0).square().sum()), 4)
    whole, weight = observer.record.noise
    assert (whole.source, whole.samples) == ("steps", 4)
    assert weight.scale == (None if expected is None else pytest.approx(expected, rel=1e-9))
