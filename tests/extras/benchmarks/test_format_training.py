"""The trainings of benchmarks/format_training beside torch's own optimizer and casts."""

import pytest
import torch
from torch.nn import functional

from benchmarks.format_training.arithmetic import ARITHMETICS, Storage
from benchmarks.format_training.loop import BETAS, EPS, Adam, train
from benchmarks.format_training.tasks import TASKS, Perceptron, Task, teacher

SHORT = Task(teacher, Perceptron, 32, 12, 1e-3)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_storage_rounds_as_torch_casts(name):
    x = torch.randn(1000) * torch.logspace(-30, 30, 1000, base=2)
    expected = x.to(getattr(torch, name)).float()
    assert torch.equal(Storage(name).round(x), expected)


def test_scaled_storage_overflows_never_and_keeps_powers_of_two():
    x = torch.randn(1000) * 1e-6
    rounded = Storage("float8_e4m3fn", is_scaled=True).round(x)
    assert float(rounded.abs().max()) > 0.9 * float(x.abs().max())
    assert torch.equal(Storage("float8_e4m3fn", is_scaled=True).round(x * 1024), rounded * 1024)
    assert torch.equal(Storage("float8_e4m3fn", is_scaled=True).round(torch.zeros(3)), torch.zeros(3))


def test_adam_is_torch_adam():
    torch.manual_seed(0)
    ours, theirs = Perceptron(), Perceptron()
    theirs.load_state_dict(ours.state_dict())
    x, y = torch.randn(64, 32), torch.randint(10, (64,))
    optimizer = Adam(list(ours.parameters()), ARITHMETICS["float32"], 1e-3)
    exact = torch.optim.Adam(theirs.parameters(), 1e-3, betas=BETAS, eps=EPS)
    for _ in range(20):
        functional.cross_entropy(ours(x, ARITHMETICS["float32"]), y).backward()
        optimizer.step()
        exact.zero_grad()
        functional.cross_entropy(theirs(x, ARITHMETICS["float32"]), y).backward()
        exact.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5)


def test_an_overflow_skips_the_step_and_halves_the_scale():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = Adam([parameter], ARITHMETICS["float16 scaled"], 1e-3)
    parameter.grad = torch.tensor([1.0, float("inf"), 0.0])
    optimizer.step()
    assert (optimizer.skipped, optimizer.scale) == (1, 2.0**14)
    assert torch.equal(parameter.detach(), torch.ones(3))


@pytest.mark.parametrize("name", ARITHMETICS)
def test_every_arithmetic_trains(name):
    first = train(SHORT, ARITHMETICS[name], 0, has_curve=True)
    assert first == train(SHORT, ARITHMETICS[name], 0, has_curve=True)
    assert first.training_loss < first.curve[0][0]
    assert first.curve[-1] == (first.training_loss, first.held_loss)


def test_narrow_weights_lose_updates():
    narrow, wide = (train(SHORT, ARITHMETICS[name], 0) for name in ("bfloat16 weights", "bfloat16"))
    assert narrow.training_loss > wide.training_loss


@pytest.mark.parametrize("name", TASKS)
def test_the_data_of_a_seed_are_the_same(name):
    first, second = (TASKS[name].data(torch.Generator().manual_seed(3)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
