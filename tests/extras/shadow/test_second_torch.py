"""How far a shadow of torch can be trusted: a second one that rounds otherwise, against exact arithmetic of mpmath."""

import mpmath
import numpy as np
import pytest
import torch

from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.second import with_shadow_errors
from precreg.shadow.torch.twins import HAS_LONG
from precreg.shadow.tracer import Tracer

WIDTH = 24


def variances(x):
    return (x * x).mean(-1) - x.mean(-1) ** 2


def exact_variance(row):
    values = [mpmath.mpf(float(each)) for each in row]
    return sum(each * each for each in values) / WIDTH - (sum(values) / WIDTH) ** 2


def products(x):
    """A product of matrices whose terms cancel."""
    return torch.cat([x, x.flip(-1)], -1) @ torch.cat([x.sin()[0], -x.sin()[0].flip(-1) * (1 + 2**-12)])


def exact_product(row, first):
    forward = [mpmath.sin(mpmath.mpf(float(each))) for each in first]
    back = [-each * (1 + mpmath.mpf(2) ** -12) for each in reversed(forward)]
    values = [mpmath.mpf(float(each)) for each in row]
    return sum(one * two for one, two in zip(values + values[::-1], forward + back, strict=True))


def spreads(x):
    """The logarithm of a sum of exponentials, less its largest term."""
    return torch.logsumexp(x, -1) - x.amax(-1)


def exact_spread(row):
    values = [mpmath.mpf(float(each)) for each in row]
    return mpmath.log(sum(mpmath.exp(each) for each in values)) - max(values)


CASES = {
    "variances": (variances, lambda row, _: exact_variance(row), 1000.0),
    "products": (products, exact_product, 0.0),
    "spreads": (spreads, lambda row, _: exact_spread(row), 300.0),
}


def traced(function, x, detail=Detail.OWN):
    tracer = Tracer(Recorder(detail))
    tracer.call(function, (torch.from_numpy(x),), {})
    tracer.outputs = with_shadow_errors(tracer, lambda second: second.call(function, (torch.from_numpy(x),), {}))
    return tracer


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_two_shadows_differ_by_about_the_error_of_one(name, seed):
    function, exact, mean = CASES[name]
    x = (np.random.default_rng(seed).standard_normal((40, WIDTH)) + mean).astype(np.float32)
    tracer = traced(function, x)
    (output,) = tracer.outputs
    with mpmath.workdps(50):
        expected = [exact(row, x[0]) for row in x]
        errors = [mpmath.mpf(float(one)) - two for one, two in zip(tracer.shadows[output.name], expected, strict=True)]
        error = float(mpmath.norm(errors) / mpmath.norm(expected))
    assert 1e-16 < error < 1e-6
    # Roundings of both shadows are random in size: 40 rows leave a factor of a few.
    assert error / 8 < output.shadow_error < error * 30


def steps(x):
    """Integers in floating numbers, at the edge of the next step and of a domain."""
    halves = (x * 3.0).floor() + torch.remainder(x * 2.0, 1.0)
    return halves + torch.acos(x / x) + torch.sqrt(1 - (x / x) ** 2)


def test_a_second_shadow_stays_on_the_steps_of_the_first():
    (output,) = traced(steps, np.arange(1, 9, dtype=np.float32)).outputs
    assert output.shadow_error < 1e-7


def test_random_draws_of_the_program_stay_its_own():
    def noisy(x):
        torch.manual_seed(5)
        return torch.nn.functional.dropout(x.exp(), 0.5) + torch.rand(4)

    (output,) = traced(noisy, np.linspace(0, 1, 4, dtype=np.float32)).outputs
    assert 0 < output.shadow_error < 1e-15


@pytest.mark.parametrize("detail", [Detail.OUTPUTS, Detail.OWN])
def test_the_shadow_of_torch_is_wider_than_its_numbers(detail):
    assert traced(torch.exp, np.ones(3, np.float32), detail).shadow == "float64"
    assert traced(torch.exp, np.ones(3), detail).shadow == ("longdouble" if HAS_LONG else "float64")


def test_work_in_float64_has_a_second_shadow_in_longdouble():
    (output,) = traced(lambda x: torch.exp(x).sum(-1), np.linspace(0, 1, 50)).outputs
    if not HAS_LONG:
        assert (output.rounding, output.shadow_error) == (None, None)
        return
    assert 0 < output.shadow_error < 2**-60
    assert output.rounding.relative > 4 * output.shadow_error
