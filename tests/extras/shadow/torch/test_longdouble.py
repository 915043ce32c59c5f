"""Work in float64, whose shadow is longdouble, against exact rationals, mpmath and runs of numpy."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from torch.nn import functional

from precreg.shadow.recorder import Detail
from precreg.shadow.torch.twins import HAS_LONG

ROUNDOFF = 2.0**-53
pytestmark = pytest.mark.skipif(not HAS_LONG, reason="longdouble is float64 here")


def in_mpmath(array):
    """Return numbers of longdouble as numbers of mpmath, without a rounding."""
    high = np.asarray(array).astype(np.float64)
    low = (np.asarray(array) - high).astype(np.float64)
    return [mpmath.mpf(float(a)) + mpmath.mpf(float(b)) for a, b in zip(high.ravel(), low.ravel(), strict=True)]


ELEMENTS = {
    "exp": (torch.exp, mpmath.exp),
    "expm1": (torch.expm1, mpmath.expm1),
    "log": (lambda x: torch.log(x.abs()), lambda x: mpmath.log(abs(x))),
    "log1p": (lambda x: torch.log1p(x.abs()), lambda x: mpmath.log1p(abs(x))),
    "log2": (lambda x: torch.log2(x.abs()), lambda x: mpmath.log(abs(x), 2)),
    "tanh": (torch.tanh, mpmath.tanh),
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "sin": (torch.sin, mpmath.sin),
    "cos": (torch.cos, mpmath.cos),
    "rsqrt": (lambda x: torch.rsqrt(x.abs()), lambda x: 1 / mpmath.sqrt(abs(x))),
    "reciprocal": (torch.reciprocal, lambda x: 1 / x),
    "pow": (lambda x: x.abs() ** 2.3, lambda x: mpmath.power(abs(x), 2.3)),
    "erf": (torch.erf, mpmath.erf),
    "erfc": (torch.erfc, mpmath.erfc),
    "gelu": (functional.gelu, lambda x: x * mpmath.ncdf(x)),
    "silu": (functional.silu, lambda x: x / (1 + mpmath.exp(-x))),
    "quotient": (lambda x: x / 3.0, lambda x: x / 3),
    "clamp": (lambda x: (x * 0.1).clamp(-0.3, 0.2), lambda x: max(min(x * mpmath.mpf(0.1), 0.2), -0.3)),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_forms_of_elements_agree_with_mpmath(trace, name):
    low, exact = ELEMENTS[name]
    x = torch.tensor([*np.linspace(-6, 6, 38), 1e-9, -0.3, 0.999], dtype=torch.float64)
    traced = trace(low, x)
    assert not traced.events("not_shadowed")
    shadow = traced.engine.shadow_of(traced.result)
    assert shadow.dtype == np.longdouble
    with mpmath.workdps(40):
        expected = [exact(mpmath.mpf(float(each))) for each in x]
        errors = [abs(one - two) / abs(two) for one, two in zip(in_mpmath(shadow), expected, strict=True) if two]
        own = mpmath.norm([mpmath.mpf(float(one)) - two for one, two in zip(traced.result, expected, strict=True)])
        total = float(own / mpmath.norm(expected))
    # The shadow has at least six bits more than the result.
    assert max(errors) < ROUNDOFF / 64
    assert traced.operations[-1].total.relative == pytest.approx(total, rel=0.02)


def test_a_sum_has_the_error_of_exact_rationals(trace, draw):
    x = draw(1000).double() / 3
    traced = trace(lambda x: x.sum(), x)
    exact = sum(Fraction(float(each)) for each in x)
    error = abs(Fraction(float(traced.result)) - exact)
    (found,) = traced.operations
    assert found.own.max_abs == pytest.approx(float(error), rel=0.01, abs=1e-17)
    assert found.own == found.total
    assert traced.engine.shadow_dtype == "longdouble"


def test_own_and_inherited_errors_of_a_chain(trace, draw):
    """The own error of the product is that of exact rationals on the rounded factor, and the total one on the exact."""
    x, w = draw(6, 5).double(), draw(5, 4, seed=2).double()
    inputs = []

    def run(x):
        inputs.append(x / 3.0)
        return inputs[0] @ w

    traced = trace(run, x)
    rows = [[Fraction(float(each)) for each in row] for row in x]
    rounded = [[Fraction(float(each)) for each in row] for row in inputs[0]]
    columns = [[Fraction(float(each)) for each in column] for column in w.t()]

    def relative(rows, factor):
        exact = [sum(a * b for a, b in zip(row, column, strict=True)) / factor for row in rows for column in columns]
        errors = [Fraction(float(one)) - two for one, two in zip(traced.result.flatten(), exact, strict=True)]
        return float(mpmath.norm([mpmath.mpf(each.numerator) / each.denominator for each in errors])) / float(
            mpmath.norm([float(each) for each in exact])
        )

    found = traced.operations[-1]
    assert found.name == "aten.mm"
    assert found.own.relative == pytest.approx(relative(rounded, 1), rel=0.02)
    assert found.total.relative == pytest.approx(relative(rows, 3), rel=0.02)
    assert found.inherited.relative > ROUNDOFF / 8
    shares = traced.engine.shares({"out": traced.result})["out"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert all(abs(each) > 0.001 for each in shares.values())


def test_views_and_writes_share_one_shadow(trace, draw):
    """The function below on longdouble is the expected shadow, bit for bit."""
    x = draw(4, 6).double()

    def run(x, third):
        y = x / third
        y[:, ::2] *= third
        y[1].add_(y[2])
        y.t()[0] = x[:, 1] / third
        return y

    traced = trace(lambda x: run(x, 3.0), x)

    wide = x.numpy().astype(np.longdouble)
    expected = wide / np.longdouble(3)
    expected[:, ::2] *= 3
    expected[1] += expected[2]
    expected.T[0] = wide[:, 1] / np.longdouble(3)
    assert np.array_equal(traced.engine.shadow_of(traced.result), expected)
    assert np.array_equal(traced.engine.shadow_of(traced.result[1, 2:]), expected[1, 2:])


def test_moves_carry_the_shadow_along(trace, draw):
    x, index = draw(4, 6).double(), torch.tensor([3, 0, 0])

    def run(x):
        y = x / 3.0
        picked = torch.cat([y[index], y.flip(0)])
        return functional.pad(torch.stack([picked, picked.roll(1, 1)]), (1, 1), value=0.1)

    traced = trace(run, x)
    y = x.numpy().astype(np.longdouble) / 3
    picked = np.concatenate([y[index.numpy()], y[::-1]])
    stacked = np.stack([picked, np.roll(picked, 1, 1)])
    expected = np.pad(stacked, ((0, 0), (0, 0), (1, 1)), constant_values=np.longdouble(0.1))
    assert np.array_equal(traced.engine.shadow_of(traced.result), expected)
    assert all(each.own.relative == 0 for each in traced.operations[1:])


KERNEL = torch.linspace(-1, 1, 60, dtype=torch.float64).view(6, 2, 5, 1)
NETWORKS = {
    "softmax": lambda x: (x * 3.1).softmax(-1),
    "log_softmax": lambda x: (x * 3.1).log_softmax(-1),
    "layer_norm": lambda x: functional.layer_norm(x * 3.1, (6,), torch.linspace(1, 2, 6, dtype=torch.float64)),
    "variance": lambda x: (x * 3.1).var(-1) + (x / 3.0).std(0).mean(),
    "norms": lambda x: (x * 3.1) / (x * 3.1).norm(dim=-1, keepdim=True),
    "extremes": lambda x: (x * 3.1).amax(-1) - torch.minimum(x / 3.0, x.t()[:1, :1]).amin(-1),
    "cumsum": lambda x: (x * 3.1).cumsum(-1).where(x > 0, 0.1),
    "products": lambda x: torch.einsum("ij,kj->ik", x * 3.1, x / 3.0) + torch.dot(x[0] / 3, x[1]),
    "convolution": lambda x: functional.conv2d(
        (x / 3).repeat(4, 3).view(2, 4, 5, 9), KERNEL, KERNEL[:, 0, 0, 0], (2, 1), (1, 2), (1, 2), 2
    ),
    "convolution of one axis": lambda x: functional.conv1d(x[None] / 3, KERNEL.view(-1, 5, 2)[:3]),
    "writes by places": lambda x: (x / 3).index_put((torch.tensor([0, 0]),), x[1:3] / 7, accumulate=True),
    "extremes of rows": lambda x: (x / 3).max(-1)[0] - (x / 7).min(0, keepdim=True)[0].sum(),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None] / 3, x[None] / 7, x[None] * 1.1),
    "linear": lambda x: functional.linear(x / 3, torch.ones(2, 6).double() / 3, torch.ones(2).double() / 7),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_operation_is_measured_and_shares_add_up(trace, draw, name):
    traced = trace(NETWORKS[name], draw(5, 6).double())
    assert not traced.events("not_shadowed")
    assert all(each.total is not None and each.total.relative < 1e-14 for each in traced.operations if each.note == "")
    shares = traced.engine.shares({"out": traced.result})["out"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.02)


def test_a_backward_pass_in_float64(trace, draw):
    x = draw(5, 6).double().requires_grad_()

    def run(x):
        loss = ((x * 3.1).tanh() @ torch.ones(6, 2).double() / 7).softmax(-1).square().sum()
        loss.backward()
        return x.grad

    traced = trace(run, x)
    assert not traced.events("not_shadowed")
    shadow = traced.engine.shadow_of(traced.result)
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(each)) for each in row] for row in x.detach()]

        def loss(row):
            score = [mpmath.fsum(mpmath.tanh(each * 3.1) for each in row) / 7] * 2
            return mpmath.fsum((mpmath.exp(each) / mpmath.fsum(map(mpmath.exp, score))) ** 2 for each in score)

        assert all(abs(loss(row) - 0.5) < 1e-30 for row in rows)
    # Both columns are equal, so that the gradient is 0 in exact arithmetic.
    assert float(np.abs(shadow).max()) < 1e-17


STEPS = {
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "layer_norm": lambda x: functional.layer_norm(x, (6,), torch.ones(6).double() / 3, torch.ones(6).double() / 7),
    "log_softmax": lambda x: x.log_softmax(-1),
}


@pytest.mark.parametrize("name", STEPS)
def test_gradients_have_shadows(trace, draw, name):
    x = draw(5, 6).double().requires_grad_()

    def run(x):
        (STEPS[name](x / 3.0) * torch.arange(6.0, dtype=torch.float64)).square().sum().backward()
        return x.grad

    traced = trace(run, x)
    assert not traced.events("not_shadowed")
    assert all(each.total.relative < 1e-14 for each in traced.operations if each.note == "")
    shadow = torch.from_numpy(traced.engine.shadow_of(traced.result).astype(np.float64))
    # Differences along one direction are independent of the formulas.
    weights = torch.arange(6.0, dtype=torch.float64)
    direction = torch.cos(weights)
    with torch.no_grad():
        ahead, behind = (
            (STEPS[name]((x + each * 1e-6 * direction) / 3) * weights).square().sum(-1) for each in (1, -1)
        )
    expected = (ahead - behind) / 2e-6
    assert torch.allclose((shadow * direction).sum(-1), expected, rtol=1e-5, atol=1e-8)


def test_an_operation_without_a_form_is_named_and_its_result_unknown(trace, draw):
    traced = trace(lambda x: torch.lgamma(x / 3.0) * 2.5, draw(7).double())
    assert [(each.name, each.detail) for each in traced.events("not_shadowed")] == [("lgamma", "float64")]
    quotient, gamma, product = traced.operations
    assert quotient.total.relative > 0
    assert (gamma.own, gamma.inherited, gamma.total) == (None, None, None)
    assert product.own.relative > 0
    assert (product.inherited, product.total) == (None, None)
    assert traced.engine.shadow_of(traced.result) is None
    assert traced.engine.shares({"out": traced.result}) == {}


def test_narrower_results_know_the_error_of_float64_work(trace, draw):
    traced = trace(lambda x: ((x + 1e16) - 1e16).float(), draw(6).double())
    assert traced.operations[-1].total.relative > 0.01
    assert traced.engine.shadow_dtype == "float64"


def test_values_that_lost_their_shadow_come_to_nothing_exact(trace, draw):
    """Complex numbers, narrower ones and writes: none of them makes an unknown value a known one."""

    def turn(x):
        y = (x / 3.0).contiguous()
        torch.view_as_complex(y.view(-1, 2)).mul_(2j)
        return y * 1.5

    for run in (
        turn,
        lambda x: torch.fft.fft(x / 3.0).abs(),
        lambda x: (x / 3.0 * 1j).imag,
        lambda x: (x / 3.0).float().sum(dtype=torch.float64) * 1.1,
    ):
        traced = trace(run, draw(4, 6).double())
        shadow = traced.engine.shadow_of(traced.result)
        assert shadow is None or shadow.dtype == np.float64
        assert traced.events("not_shadowed")


def test_a_narrower_tensor_beside_float64_is_exact(trace, draw):
    x, other = draw(4, 6).double(), draw(6)
    traced = trace(lambda x: (x / 3.0).add_(other) * other, x)
    wide = x.numpy().astype(np.longdouble) / 3 + other.numpy()
    assert np.array_equal(traced.engine.shadow_of(traced.result), wide * other.numpy())


def test_a_sum_of_narrower_numbers_in_float64(trace, draw):
    x = draw(1000)
    traced = trace(lambda x: x.exp().sum(dtype=torch.float64), x)
    assert traced.operations[-1].total.relative > 1e-12
    traced = trace(lambda x: x.sum(dtype=torch.float64), x)
    assert traced.engine.shadow_of(traced.result) == x.numpy().astype(np.longdouble).sum()


def test_a_decision_of_the_shadow_is_a_flip(trace):
    x = torch.tensor([1.0, 0.5], dtype=torch.float64)
    traced = trace(lambda x: x + 2.0**-55 > 1, x)
    assert [(each.name, each.changed, each.elements) for each in traced.events("flip")] == [("gt", 1, 2)]


def test_items_and_details(trace, draw):
    traced = trace(lambda x: (x / 3).sum().item(), draw(6).double())
    assert [each.name for each in traced.events("cut")] == ["item"]
    traced = trace(lambda x: x / 3.0, draw(6).double(), detail=Detail.ELEMENTS)
    assert 0 < traced.operations[0].own.max_ulp <= 0.5
    traced = trace(lambda x: x / 3.0, draw(6).double(), detail=Detail.OUTPUTS)
    assert traced.engine.shadow_of(traced.result).dtype == np.longdouble
