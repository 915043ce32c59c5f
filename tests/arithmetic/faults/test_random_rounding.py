"""Random rounding: exact rationals and mpmath give the two neighbours, and the probabilities of each."""

from fractions import Fraction
from math import sqrt

import ml_dtypes
import mpmath
import numpy as np
import pytest

from precreg.arithmetic.devices import NumpyArithmetic, simulate_array
from precreg.arithmetic.devices.array import plain_array
from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.arithmetic.devices.device import device_named
from precreg.arithmetic.faults.fault import ArithmeticLayer
from precreg.arithmetic.faults.planting import plant_fault
from precreg.arithmetic.faults.random_rounding import RandomRounding, move_by_one_place
from precreg.arithmetic.faults.table import fault_named

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)
HALVES = HALVES[np.isfinite(HALVES)]


def noisy(x, seed=1, inner=None):
    """Return a view of an array whose operations round at random."""
    return simulate_array(np.asarray(x), RandomRounding(inner or NumpyArithmetic(), seed))


def plain(result):
    return np.asarray(plain_array(result))


def neighbours(exact, dtype):
    """Return the numbers of a dtype below and above exact values in float64, which may be equal."""
    nearest = exact.astype(dtype)
    wide = nearest.astype(np.float64)
    infinity = np.asarray(np.inf, dtype)
    below = np.where(wide > exact, np.nextafter(nearest, -infinity), nearest)
    above = np.where(wide < exact, np.nextafter(nearest, infinity), nearest)
    return below, above


@np.errstate(all="ignore")
@pytest.mark.parametrize("other", [1.0, -0.3333, 7.5, 2.0**-20])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_every_half_gives_a_neighbour_of_the_exact_result(name, other):
    """Sums and products of two halves are exact in float64; a quotient is no half unless it is exact there."""
    function, y = getattr(np, name), np.float16(other)
    found = plain(function(noisy(HALVES), y))
    exact = function(HALVES.astype(np.float64), np.float64(y))
    below, above = neighbours(exact, np.float16)
    inside = np.abs(exact) <= np.finfo(np.float16).max
    assert found.dtype == np.float16
    assert np.all(((found == below) | (found == above))[inside])
    between = inside & (below != above)
    # By 1 every product and quotient is a half itself.
    exact_pairs = other == 1.0 and name in ("multiply", "divide")
    if between.any():
        assert 0.02 < np.mean(found[between] == above[between]) < 0.98  # both happen
    else:
        assert exact_pairs or (name, other) == ("divide", 2.0**-20)


@np.errstate(all="ignore")
@pytest.mark.parametrize("function", [np.sqrt, np.exp, np.tanh, np.square, np.reciprocal])
def test_every_half_gives_a_neighbour_of_a_function(function):
    found = plain(function(noisy(HALVES)))
    exact = function(HALVES.astype(np.float64))
    below, above = neighbours(exact, np.float16)
    inside = np.abs(exact) <= np.finfo(np.float16).max
    assert np.all(((found == below) | (found == above))[inside])


@np.errstate(all="ignore")
@pytest.mark.parametrize("function", [np.negative, np.abs, np.rint, np.floor, np.sign, np.spacing])
def test_exact_functions_stay_exact(function):
    assert plain(function(noisy(HALVES))).tobytes() == function(HALVES).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_probability_is_the_distance(dtype):
    """1 + e, with e a share of the distance of two numbers, goes up in this share of 2^16 elements."""
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    ulp = float(np.spacing(np.ones((), dtype)))
    for share in (1 / 16, 0.25, 0.5, 0.875):
        small = np.full(2**16, share * ulp).astype(dtype)
        found = plain(noisy(np.ones(2**16, dtype)) + small).astype(np.float64)
        assert set(found) == {1.0, 1.0 + ulp}
        ups = np.mean(found > 1)
        assert abs(ups - share) < 5 * sqrt(share * (1 - share) / 2**16)


def test_products_are_unbiased():
    """The mean of x * y over many samples has the exact product within five standard errors, for random operands."""
    rng = np.random.default_rng(5)
    for x, y in rng.uniform(1, 2, size=(20, 2)).astype(np.float32):
        exact = Fraction(float(x)) * Fraction(float(y))
        found = plain(noisy(np.full(2**14, x), seed=int(x * 1e6)) * y)
        ulp = Fraction(float(np.spacing(found.min())))
        mean = sum(Fraction(int((found == value).sum()), found.size) * Fraction(float(value)) for value in set(found))
        assert abs(mean - exact) / ulp < Fraction(5, 2) / 2**7


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "log1p", "cbrt"])
def test_functions_of_float64_give_the_neighbours_of_mpmaths_value(name):
    # A longdouble has 11 more bits, whose own error may pass a neighbour that is as near as that. Where it is float64,
    # the platform's result moves by one place at most.
    slack = 2.0**-9 if np.finfo(np.longdouble).nmant > 52 else 1
    x = np.random.default_rng(2).uniform(0.5, 3, size=200)
    found = plain(getattr(np, name)(noisy(x)))
    ups = 0
    with mpmath.workdps(60):
        for argument, result in zip(x, found, strict=True):
            exact = getattr(mpmath, name)(mpmath.mpf(float(argument)))
            distance = mpmath.mpf(float(result)) - exact
            assert abs(distance) < float(np.spacing(abs(result))) * (1 + slack)
            ups += distance > 0
    assert 60 < ups < 140


def test_casts_round_at_random_and_widening_is_exact():
    x = np.full(2**14, 1 + 2.0**-13, np.float32)  # an eighth of the way
    found = plain(noisy(x).astype(np.float16)).astype(np.float64)
    assert set(found) == {1.0, 1 + 2.0**-10}
    assert abs(np.mean(found > 1) - 1 / 8) < 5 * sqrt(7 / 64 / 2**14)
    assert plain(noisy(HALVES).astype(np.float64)).tobytes() == HALVES.astype(np.float64).tobytes()


def test_constants_of_the_source_are_no_results():
    """0.1 is rounded to float32 once, to nearest, so that 0 + 0.1 is the same everywhere."""
    found = plain(noisy(np.zeros(1000, np.float32)) + 0.1)
    assert set(found) == {np.float32(0.1)}


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    x = np.random.default_rng(0).normal(size=(50, 20)).astype(np.float32)

    def computed(seed):
        y = noisy(x, seed)
        return plain((np.exp(y) / np.exp(y).sum(axis=0)) @ y.T).tobytes()

    assert computed(3) == computed(3)
    assert computed(3) != computed(4)


def test_backends_draw_alike(monkeypatch):
    x = np.random.default_rng(0).normal(size=(40, 33)).astype(np.float32)

    def computed():
        y = noisy(x, 9)
        return plain((y * y - y / 3).sum(axis=1) @ y + y.mean(axis=0)).tobytes()

    expected = computed()
    monkeypatch.setenv("PRECREG_FORM", "numpy")
    assert computed() == expected


def test_each_operation_draws_anew():
    x = noisy(np.full(4096, 1.0, np.float32))
    half = np.float32(2.0**-24)
    first, second = plain(x + half) > 1, plain(x + half) > 1
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08  # five standard errors


def test_a_loop_and_numpys_folds_err_as_the_theory_of_random_rounding_says():
    """Each addition errs by f (1 - f) of a squared ULP on average 1/6: naive sums as sqrt(n), and pairs far less."""
    n, samples = 1024, 60
    x = np.random.default_rng(1).uniform(1, 2, size=n).astype(np.float32)
    exact = float(np.sum(x.astype(np.float64)))

    def spread(total):
        return np.std([float(plain(total(noisy(x, seed * 999_983)))) - exact for seed in range(samples)])

    partial = np.cumsum(x.astype(np.float64))[1:]
    ulps = np.spacing(partial.astype(np.float32)).astype(np.float64)
    predicted = sqrt(np.sum(ulps**2) / 6)
    for total in (lambda y: sum(y[1:], y[0]), lambda y: np.cumsum(y)[-1], lambda y: y[:, None].repeat(2, 1).sum(0)[0]):
        assert 0.6 < spread(total) / predicted < 1.5
    assert spread(np.sum) < predicted / 8


def test_sums_of_halves_have_numpys_accumulator():
    """numpy adds float16 along rows in float32 and rounds at the end: 2,048 and one more is no tie on the way."""
    x = np.ones((1, 4097), np.float16)
    assert set(plain(noisy(x).sum(axis=1)).astype(float)) <= {4096.0, 4100.0}
    along_columns = plain(noisy(np.ones((4097, 3), np.float16)).sum(axis=0)).astype(float)
    assert np.all(along_columns > 2500)  # to nearest it stops at 2,048


def test_products_of_matrices_err_little_and_at_random():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 300)).astype(np.float32), rng.normal(size=(300, 10)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 300 * 2.0**-23 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    results = [plain(noisy(a, seed) @ b) for seed in (1, 2)]
    results += [plain(np.einsum("ij,jk->ik", noisy(a, 3), b)), plain(np.dot(noisy(a, 4), b))]
    assert len({result.tobytes() for result in results}) == 4
    for result in results:
        assert np.all(np.abs(result - exact) <= bound)


@pytest.mark.parametrize("function", [np.linalg.inv, np.fft.fft, lambda x: np.linalg.qr(x)[0], np.linalg.det])
def test_compiled_functions_move_by_one_place(function):
    x = np.random.default_rng(0).normal(size=(6, 6))
    found, own = plain(function(noisy(x))), np.asarray(function(x))
    parts = [(found.real, own.real), (found.imag, own.imag)] if found.dtype.kind == "c" else [(found, own)]
    for moved, before in parts:
        assert np.all(np.abs(moved - before) <= np.spacing(np.abs(before)))
    assert function is np.linalg.det or found.tobytes() != own.tobytes()


def test_a_place_is_moved_in_a_quarter_of_the_elements():
    x = np.concatenate([np.full(2**15, 1.5, np.float32), np.float32([0, np.nan, np.inf, -np.inf])])
    moved = move_by_one_place(x, 3)
    assert moved[-4:].tobytes() == x[-4:].tobytes()
    ups, downs = np.mean(moved[:-4] > 1.5), np.mean(moved[:-4] < 1.5)
    assert abs(ups - 1 / 8) < 0.01
    assert abs(downs - 1 / 8) < 0.01
    largest = np.full(1000, np.finfo(np.float32).max)
    smallest = np.full(1000, np.float32(1e-45))
    assert np.isfinite(move_by_one_place(largest, 1)).all()
    assert (move_by_one_place(smallest, 1) != 0).all()


def test_longdoubles_move_too():
    third = np.full(1000, np.longdouble(1) / 3)
    assert len(set(plain(noisy(third) + third))) == 3
    assert len({plain(noisy(third, seed).sum()).tobytes()[:10] for seed in range(40)}) == 3


@pytest.mark.parametrize("name", ["ascend", "mlu370", "gpu-tf32", "cpu"])
def test_on_a_device_results_are_the_devices_numbers(name):
    inner = DeviceArithmetic(device_named(name))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 4000)).astype(np.float32)
    exact, own = x.astype(np.float64) * y, plain(simulate_array(x, inner) * y)
    entry = inner.device.elementwise.get("float32")
    formats = [] if entry is None else [each for each in (entry.format, entry.input) if each is not None]
    precision = min((each.precision for each in formats), default=24)
    found = plain(noisy(x, inner=inner) * y)
    ulp = np.ldexp(1.0, np.frexp(exact)[1] - precision)
    # Reading an operand errs by up to its last place, which is up to two of the product.
    reads = 0 if entry is None or entry.input is None else 4
    assert np.all(np.abs(found - exact) <= (1 + reads) * ulp * (1 + 2.0**-20) + 1e-30)
    assert np.mean(found != own) > 0.2
    total = plain(noisy(x, inner=inner).sum())
    assert abs(float(total) - x.astype(np.float64).sum()) < 1.0


def test_a_fault_lies_over_random_rounding():
    x = np.random.default_rng(0).uniform(1, 2, size=500).astype(np.float32)
    layer = plant_fault(RandomRounding(NumpyArithmetic(), 5), fault_named("truncated_casts"))
    assert isinstance(layer, ArithmeticLayer)
    # Truncated to float16 before the cast below rounds, which then rounds nothing.
    found = plain(simulate_array(x, layer).astype(np.float16)).astype(np.float32)
    assert np.all((found <= x) & (x - found < 2.0**-10))
    assert np.any(plain(noisy(x, 5).astype(np.float16)) > x)
