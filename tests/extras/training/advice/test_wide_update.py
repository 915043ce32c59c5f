"""Optimizers that update narrow weights from float32."""

import pytest
import torch

from precreg.training.advice.other_dtype import bfloat16_for_float16
from precreg.training.advice.wide_update import sum_in_float32, widen_update
from precreg.training.recipe import Recipe


def made(dtype=torch.bfloat16, lr=1e-3):
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64, bias=False).to(dtype)
    return Recipe(model, torch.optim.SGD(model.parameters(), lr=lr), [], torch.nn.functional.mse_loss)


def train(recipe, gradients):
    for gradient in gradients:
        recipe.optimizer.zero_grad()
        (recipe.model.weight * gradient).sum().backward()
        recipe.optimizer.step()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_master_weights_are_those_of_a_float32_optimizer(dtype):
    recipe = made(dtype)
    expected = torch.nn.Parameter(recipe.model.weight.detach().float().clone())
    optimizer = torch.optim.SGD([expected], lr=1e-3)
    widen_update(recipe, "masters", seed=0)
    gradients = [torch.randn(64, 64).to(dtype) for _ in range(20)]
    train(recipe, gradients)
    for gradient in gradients:
        expected.grad = gradient.float()
        optimizer.step()
    assert torch.equal(recipe.model.weight, expected.to(dtype))


def test_state_in_float32_rounds_each_step():
    recipe = made()
    expected = recipe.model.weight.detach().clone()
    widen_update(recipe, "state", seed=0)
    gradients = [torch.randn(64, 64).bfloat16() for _ in range(20)]
    train(recipe, gradients)
    for gradient in gradients:
        expected = torch.add(expected.float(), gradient.float(), alpha=-1e-3).bfloat16()
    assert torch.equal(recipe.model.weight, expected)


def test_stochastic_rounding_keeps_the_mean_of_updates_that_nearest_loses():
    recipe, nearest = made(lr=1e-5), made(lr=1e-5)
    start = recipe.model.weight.detach().double()
    widen_update(recipe, "stochastic", seed=0)
    gradients = [torch.ones(64, 64).bfloat16()] * 50
    train(recipe, gradients)
    train(nearest, gradients)
    moved = (recipe.model.weight.double() - start).mean()
    # The spacing is at most 2**-10 for weights below 1/8. 4 standard errors of 50 roundings of 4,096 weights.
    assert abs(moved + 5e-4) < 4 * (5e-4 * 2.0**-10 / 4096) ** 0.5
    assert abs((nearest.model.weight.double() - start).mean()) < 1e-4


def test_gradients_are_summed_in_float32():
    recipe, plain = made(), made()
    sum_in_float32(recipe)
    gradients = [1 + torch.rand(64, 64).bfloat16() for _ in range(600)]
    for each in (recipe, plain):
        for gradient in gradients:
            (each.model.weight * gradient).sum().backward()
    exact = torch.stack(gradients).double().sum(0)
    assert torch.equal(recipe.model.weight.grad, exact.float().bfloat16())
    assert ((plain.model.weight.grad.double() - exact).abs() > 0.1 * exact).any()


def test_the_sum_starts_again_after_a_step():
    recipe = made()
    sum_in_float32(recipe)
    train(recipe, [torch.ones(64, 64).bfloat16()] * 2)
    recipe.optimizer.zero_grad()
    (recipe.model.weight * 3).sum().backward()
    assert torch.equal(recipe.model.weight.grad, torch.full((64, 64), 3.0).bfloat16())


def test_code_that_names_float16_computes_in_bfloat16():
    x = torch.tensor([1e6])
    with bfloat16_for_float16():
        assert x.half().dtype == x.to(torch.float16).dtype == torch.bfloat16
        with torch.autocast("cpu", dtype=torch.float16):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert x.half().dtype == torch.float16
