"""Own errors of linear operations, whose inputs' errors pass through them in float32, against float64."""

import pytest
import torch
from torch.nn import functional

from precreg.shadow.sizes import error_size

W = torch.randn(48, 32, generator=torch.Generator().manual_seed(7)) / 6
KERNEL = torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(8)) / 6
# Exact in bfloat16.
BIAS = torch.arange(48) / 8 - 3
OPERATIONS = {
    "mm": (lambda x, w: x @ w.t(), W, (8, 32)),
    "mm of an exact first factor": (lambda x, w: w @ x, W, (32, 8)),
    "addmm": (lambda x, w: functional.linear(x, w, BIAS.to(x.dtype)), W, (8, 32)),
    "scaled addmm": (lambda x, w: torch.addmm(BIAS.to(x.dtype), x, w.t(), beta=0.5, alpha=-3), W, (8, 32)),
    "inexact bias": (lambda x, w: torch.addmm(x[0, :1] * 1.1, x, w.t()), W, (8, 32)),
    "convolution": (lambda x, w: functional.conv2d(x, w, BIAS[:6].to(x.dtype), 2, 1), KERNEL, (2, 4, 9, 9)),
    "transposed convolution": (lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1), KERNEL, (2, 6, 9, 9)),
    "groups": (lambda x, w: functional.conv2d(x, w, None, 1, 0, 1, 2), KERNEL, (2, 8, 9, 9)),
}


def values(size):
    return (size.relative, size.worst_row, size.max_abs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_own_errors_of_linear_operations(trace, draw, name, dtype):
    operation, factor, shape = OPERATIONS[name]
    factor, x = factor.to(dtype), draw(*shape, dtype=dtype)
    inputs = []

    def run(x):
        inputs.append(torch.tanh(x))
        return operation(inputs[0], factor)

    traced = trace(run, x)
    own = operation(inputs[0].double(), factor.double())
    if name == "inexact bias":
        own = torch.addmm((inputs[0][0, :1] * 1.1).double(), inputs[0].double(), factor.double().t())
    found = traced.operations[-1]
    assert 0 < found.inherited.relative < 10 * torch.finfo(dtype).eps
    expected = error_size(traced.result.double().numpy(), own.numpy())
    assert values(found.own) == pytest.approx(values(expected), rel=1e-3)


def test_an_operation_that_rounds_nothing_has_no_own_error(trace, draw):
    order = torch.eye(16)[torch.randperm(16, generator=torch.Generator().manual_seed(1))]
    found = trace(lambda x: torch.tanh(x) @ order, draw(4, 16)).operations[-1]
    assert found.inherited.relative > 0
    assert found.own.relative == 0


def test_large_errors_of_inputs_hide_no_own_error(trace, draw):
    x, inputs = draw(8, 32), []

    def run(x):
        # The bits of the sum are lost, so the input of the product is 0 where its shadow is not.
        inputs.append((x + 1e7) - 1e7)
        return inputs[0] @ W.t()

    traced = trace(run, x)
    found = traced.operations[-1]
    assert found.inherited.relative > 0.1
    own = inputs[0].double() @ W.double().t()
    assert values(found.own) == pytest.approx(values(error_size(traced.result.numpy(), own.numpy())), rel=1e-3)


def test_products_that_torch_may_round_to_bfloat16_take_no_part(trace, draw):
    usual = torch.get_float32_matmul_precision()
    plain = trace(lambda x: torch.tanh(x) @ W.t(), draw(8, 32)).operations[-1]
    try:
        torch.set_float32_matmul_precision("medium")
        traced = trace(lambda x: torch.tanh(x) @ W.t(), draw(8, 32))
    finally:
        torch.set_float32_matmul_precision(usual)
    assert values(traced.operations[-1].inherited) == pytest.approx(values(plain.inherited), rel=1e-3)
