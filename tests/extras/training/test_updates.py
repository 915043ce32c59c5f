"""Intended and lost updates equal those of exact rationals, and of the same optimizer in float64."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.training.observing.updates import twin_problem, update_figures, weights_before

OPTIMIZERS = {
    "SGD": lambda each: torch.optim.SGD(each, lr=1e-2, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "Adam": lambda each: torch.optim.Adam(each, lr=1e-3, amsgrad=True),
    "AdamW": lambda each: torch.optim.AdamW(each, lr=1e-3),
    "fused AdamW": lambda each: torch.optim.AdamW(each, lr=1e-3, fused=True),
    "foreach AdamW": lambda each: torch.optim.AdamW(each, lr=1e-3, foreach=True),
    "NAdam": lambda each: torch.optim.NAdam(each, lr=1e-3),
    "RAdam": lambda each: torch.optim.RAdam(each, lr=1e-3),
    "Adamax": lambda each: torch.optim.Adamax(each, lr=1e-3),
    "Adagrad": lambda each: torch.optim.Adagrad(each, lr=1e-2),
    "Adadelta": lambda each: torch.optim.Adadelta(each, lr=1.0),
    "RMSprop": lambda each: torch.optim.RMSprop(each, lr=1e-3, momentum=0.5, centered=True),
    "Rprop": lambda each: torch.optim.Rprop(each, lr=1e-3),
    "ASGD": lambda each: torch.optim.ASGD(each, lr=1e-2),
    "Adafactor": lambda each: torch.optim.Adafactor(each, lr=1e-2),
}


def step_once(optimizer, parameter, gradient, limit=None):
    parameter.grad = gradient
    before = weights_before(optimizer, {"w": parameter}, limit, has_twin=True)
    optimizer.step()
    return before["w"], update_figures(before["w"], parameter, limit)


numbers = st.floats(-4, 4, width=16)


@settings(deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12), st.sampled_from([0.5, 2.0**-9, 2.0**-13]))
def test_plain_sgd_agrees_with_exact_rationals(pairs, rate):
    parameter = torch.nn.Parameter(torch.tensor([weight for weight, _ in pairs], dtype=torch.float16))
    gradient = torch.tensor([slope for _, slope in pairs], dtype=torch.float16)
    optimizer = torch.optim.SGD([parameter], lr=rate)
    before, figures = step_once(optimizer, parameter, gradient)
    exact = [Fraction(weight) - Fraction(rate) * Fraction(slope) for weight, slope in pairs]
    assert [Fraction(float(each)) for each in before.intended] == exact
    intended = [after != Fraction(weight) for after, (weight, _) in zip(exact, pairs, strict=True)]
    stayed = [after == weight for after, (weight, _) in zip(parameter.tolist(), pairs, strict=True)]
    assert figures.intended == sum(intended)
    # A weight of -0.0 that becomes 0.0 has moved, although they are equal.
    same_bits = parameter.detach().view(torch.int16) == before.before.view(torch.int16)
    assert figures.lost == sum(wanted and bool(same) for wanted, same in zip(intended, same_bits, strict=True))
    assert figures.lost <= sum(wanted and stay for wanted, stay in zip(intended, stayed, strict=True))
    sizes = sorted(
        float(abs(after - Fraction(weight)) / spacing(weight))
        for after, (weight, _) in zip(exact, pairs, strict=True)
        if after != Fraction(weight)
    )
    if sizes:
        assert (figures.least_ulp, figures.greatest_ulp) == (sizes[0], sizes[-1])
        assert figures.median_ulp == sizes[(len(sizes) - 1) // 2]


def spacing(weight):
    """Return the ULP of a float16, from its bits."""
    bits = int(torch.tensor(weight, dtype=torch.float16).view(torch.int16)) & 0x7FFF
    exponent = max(bits >> 10, 1)
    return Fraction(2) ** (exponent - 25)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_intended_weight_is_that_of_the_optimizer_in_float64(name):
    torch.manual_seed(1)
    weight = torch.randn(6, 5)
    narrow, wide = torch.nn.Parameter(weight.clone()), torch.nn.Parameter(weight.double())
    mine, exact = OPTIMIZERS[name]([narrow]), OPTIMIZERS[name.split()[-1]]([wide])
    for _ in range(4):
        gradient = torch.randn(6, 5)
        # The same state before the step: the float64 one gets that of float32.
        exact.load_state_dict(mine.state_dict())
        exact.state[wide] = {
            key: value.double() if torch.is_tensor(value) and value.is_floating_point() else value
            for key, value in exact.state[wide].items()
        }
        for group in exact.param_groups:
            group.update({key: None for key in ("fused", "foreach") if key in group})
        wide.data = narrow.detach().double()
        wide.grad = gradient.double()
        before, figures = step_once(mine, narrow, gradient.clone())
        exact.step()
        assert before.intended.reshape(6, 5) == pytest.approx(wide.detach(), rel=1e-13, abs=1e-15)
        assert figures.has_twin


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "Adafactor"])
def test_a_sample_has_the_intended_weights_of_the_whole(name):
    torch.manual_seed(2)
    parameter = torch.nn.Parameter(torch.randn(40, 30))
    optimizer = OPTIMIZERS[name]([parameter])
    step_once(optimizer, parameter, torch.randn(40, 30))
    parameter.grad = torch.randn(40, 30)
    whole = weights_before(optimizer, {"w": parameter}, None, has_twin=True)["w"]
    sampled = weights_before(optimizer, {"w": parameter}, 100, has_twin=True)["w"]
    assert sampled.before.numel() <= 100
    stride = -(-1200 // 100)
    while 1200 % stride == 0 or torch.gcd(torch.tensor(stride), torch.tensor(1200)) > 1:
        stride += 1
    assert torch.equal(sampled.intended, whole.intended.reshape(-1)[::stride])


def test_a_step_of_the_twin_changes_neither_weights_nor_state():
    parameter = torch.nn.Parameter(torch.randn(8))
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    step_once(optimizer, parameter, torch.randn(8))
    parameter.grad = torch.randn(8)
    kept = {key: value.clone() for key, value in optimizer.state[parameter].items()}
    weight = parameter.detach().clone()
    weights_before(optimizer, {"w": parameter}, None, has_twin=True)
    assert torch.equal(parameter, weight)
    assert all(torch.equal(optimizer.state[parameter][key], value) for key, value in kept.items())
    assert list(optimizer.state) == [parameter]


def test_other_optimizers_have_no_twin():
    class Own(torch.optim.SGD):
        """Keeps tensors of its own."""

    parameter = [torch.nn.Parameter(torch.ones(2))]
    assert twin_problem(Own(parameter, lr=0.1)) == "Own is not of torch.optim"
    assert twin_problem(torch.optim.LBFGS(parameter)) == "LBFGS has no twin"
    assert twin_problem(torch.optim.SGD(parameter, lr=0.1)) == ""


def test_without_a_twin_an_update_is_intended_where_the_gradient_is_not_zero():
    parameter = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    parameter.grad = torch.tensor([0.0, 2.0**-10, 0.5, float("nan")], dtype=torch.bfloat16)
    before = weights_before(optimizer, {"w": parameter}, None, has_twin=False)["w"]
    optimizer.step()
    figures = update_figures(before, parameter, None)
    assert (figures.intended, figures.lost, figures.has_twin, figures.median_ulp) == (2, 1, False, None)
