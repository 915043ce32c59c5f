"""The operations on arrays against those on rationals: every pair of a short format, and what is hard in wide ones."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic import exact as exact_operations
from precreg.arithmetic import operations
from precreg.arithmetic.exact import exact_random_bits
from precreg.arithmetic.formats import FORMATS, Format, Rounding, format_named
from precreg.errors import UserError
from tests.arithmetic.hard_operands import assert_same, hard, near_ties
from tests.arithmetic.patterns import numbers

pytestmark = pytest.mark.usefixtures("every_form")

OPERANDS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}
NAMES = ("float16", "bfloat16", "tf32", "float32", "float32_m20", "float64", "float8_e4m3fn", "float8_e5m2fnuz")
SWITCHED = ("fp16_sat", "fp32_flush", "fp32_sat", "fp64_flush", "fp64_sat")
UNUSUAL = (
    Format("forty", 40, -200, 2.0**200),
    Format("fifty-two", 52, -1000, 2.0**1000),
    Format("narrow float64", 53, -100, 2.0**100),
    Format("deep", 11, -1000, 2.0**1000),
)
FORMATS_UNDER_TEST = [*map(format_named, (*NAMES, *SWITCHED)), *UNUSUAL]
BY_FORMAT = pytest.mark.parametrize("format", FORMATS_UNDER_TEST, ids=lambda format: format.name)
BY_ROUNDING = pytest.mark.parametrize("rounding", Rounding)


def one_by_one(name, operands, format, rounding, seed=0, start=0):
    """Compute as the array form does, on rationals."""
    columns = tuple(np.asarray(operand, np.float64).tobytes() for operand in operands)
    return on_rationals(name, columns, format, rounding, seed, start).copy()


@cache
def on_rationals(name, columns, format, rounding, seed, start):
    """Compute once for every form. Operands come as bytes, because 0.0 and -0.0 are equal keys."""
    exact = getattr(exact_operations, f"exact_{name}")
    rows = zip(*(np.frombuffer(column).tolist() for column in columns), strict=True)
    return np.array(
        [
            exact(*numbers, format, rounding, exact_random_bits(seed, start + index))
            for index, numbers in enumerate(rows)
        ]
    )


@cache
def every_pair(name, rounding):
    """Return all pairs of numbers of an eight-bit format, and what rational arithmetic makes of them.

    float64 holds their sums and products, and tells their quotients apart: each different one is computed once.
    """
    format = FORMATS["float8_e4m3fn"]
    known = np.concatenate([numbers(format.name), [-0.0, np.nan, np.inf, -np.inf]])
    x, y = (grid.ravel() for grid in np.meshgrid(known, known))
    with np.errstate(all="ignore"):
        results = getattr(np, name)(x, y).view(np.uint64)
    _, first, inverse = np.unique(results, return_index=True, return_inverse=True)
    exact = getattr(exact_operations, f"exact_{name}")
    each = np.array([exact(float(x[at]), float(y[at]), format, rounding, exact_random_bits(1, 0)) for at in first])
    return x, y, each[inverse]


@BY_ROUNDING
@pytest.mark.parametrize("name", ["add", "multiply", "divide"])
def test_every_pair_of_an_eight_bit_format(name, rounding):
    x, y, expected = every_pair(name, rounding)
    operands = x.astype(np.float32), y.astype(np.float32)
    seeded = {"seed": 1, "start": np.zeros(x.shape, np.uint64)} if rounding is Rounding.STOCHASTIC else {}
    actual = getattr(operations, name)(*operands, FORMATS["float8_e4m3fn"], rounding, **seeded)
    if rounding is Rounding.DOWN and name == "add":
        zeros = actual == 0
        np.testing.assert_array_equal(np.signbit(actual)[zeros], (np.signbit(x) | np.signbit(y))[zeros])
        actual, expected = np.abs(actual), np.abs(expected)
    assert_same(actual, expected)


@BY_ROUNDING
@BY_FORMAT
def test_hard_operands(format, rounding):
    generator = np.random.default_rng([FORMATS_UNDER_TEST.index(format), list(Rounding).index(rounding)])
    for name, count in OPERANDS.items():
        for dtype in (np.float32, np.float64):
            operands = [hard(dtype, 15, generator) for _ in range(count)]
            actual = getattr(operations, name)(*operands, format, rounding, seed=7, start=11)
            assert actual.dtype == operations.carrier_dtype(format)
            assert_same(actual.astype(np.float64), one_by_one(name, operands, format, rounding, 7, 11))


@BY_ROUNDING
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@BY_FORMAT
def test_sums_beside_ties_are_not_rounded_twice(format, dtype, rounding):
    generator = np.random.default_rng(list(Rounding).index(rounding))
    x, nothing = near_ties(format, dtype, 30, generator)
    assert_same(operations.add(x, nothing, format, rounding), one_by_one("add", (x, nothing), format, rounding))
    ones = np.ones_like(x)
    assert_same(
        operations.fma(nothing, ones, x, format, rounding), one_by_one("fma", (nothing, ones, x), format, rounding)
    )


@BY_ROUNDING
@pytest.mark.parametrize(
    "format", [*map(format_named, ("float64", "fp64_sat")), *UNUSUAL], ids=lambda format: format.name
)
def test_operands_near_the_ends_of_float64(format, rounding):
    """Where the rests of products, quotients and roots have left the range, or nearly so."""
    generator = np.random.default_rng(list(Rounding).index(rounding))
    for name, count in OPERANDS.items():
        ends = generator.choice([-1074, -1021, -960, -536, -484, 484, 536, 960, 1018], (3, 20))
        scales = np.ldexp(1.0, ends + generator.integers(-5, 6, ends.shape))
        operands = list(scales * generator.uniform(0.5, 1, ends.shape))[:count]
        assert_same(
            getattr(operations, name)(*operands, format, rounding), one_by_one(name, operands, format, rounding)
        )


@BY_ROUNDING
@pytest.mark.parametrize("k", [-3, -1, 1, 2])
def test_fused_products_beside_ties_are_not_rounded_twice(k, rounding):
    """x * y is 2**7 * (1 - k * k * 2**-104), next to nothing less than half the spacing of z = 2**60 + 2**8."""
    x, y, z = np.array([2.0**7 * (1 + k * 2.0**-52)]), np.array([1 - k * 2.0**-52]), np.array([2.0**60 + 2.0**8])
    for operands in ((x, y, z), (-x, y, z), (-x, y, -z)):
        expected = one_by_one("fma", operands, FORMATS["float64"], rounding)
        assert_same(operations.fma(*operands, FORMATS["float64"], rounding), expected)


def test_a_quotient_that_is_drawn_is_not_rounded_before():
    """In float64 the quotient is a whole step of 2**-24 of the spacing, and above the draw; the exact one is not."""
    operands = np.array([9767924.0], np.float32), np.array([13912263.0], np.float32)
    stochastic = FORMATS["float32"], Rounding.STOCHASTIC
    expected = one_by_one("divide", operands, *stochastic, start=5430)
    assert expected != one_by_one(
        "divide", (operands[0] / operands[1].astype(np.float64), [1.0]), *stochastic, start=5430
    )
    assert_same(operations.divide(*operands, *stochastic, start=5430), expected)


@given(
    st.lists(st.floats(width=64), min_size=3, max_size=3),
    st.sampled_from(FORMATS_UNDER_TEST),
    st.sampled_from(Rounding),
)
def test_any_doubles(operands, format, rounding):
    for name, count in OPERANDS.items():
        few = [np.array([operand]) for operand in operands[:count]]
        assert_same(getattr(operations, name)(*few, format, rounding), one_by_one(name, few, format, rounding))


@given(
    st.lists(st.floats(width=32), min_size=3, max_size=3),
    st.sampled_from(FORMATS_UNDER_TEST),
    st.sampled_from(Rounding),
)
def test_any_floats(operands, format, rounding):
    for name, count in OPERANDS.items():
        few = [np.array([operand], np.float32) for operand in operands[:count]]
        assert_same(getattr(operations, name)(*few, format, rounding), one_by_one(name, few, format, rounding))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_is_met_where_the_processor_rounds_so(name, dtype):
    generator = np.random.default_rng(3)
    x, y = hard(dtype, 20_000, generator), hard(dtype, 20_000, generator)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
        half = getattr(np, name)(x.astype(np.float16), y.astype(np.float16))
    assert_same(getattr(operations, name)(x, y, FORMATS[np.dtype(dtype).name]), expected)
    with np.errstate(all="ignore"):
        short = x.astype(np.float16).astype(dtype), y.astype(np.float16).astype(dtype)
    assert_same(getattr(operations, name)(*short, FORMATS["float16"]), half.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_and_broadcasting_change_no_bit(dtype, monkeypatch):
    generator = np.random.default_rng(4)
    x, y = hard(dtype, 4 * 7, generator).reshape(4, 1, 7), hard(dtype, 5, generator).reshape(5, 1)
    wide = [array.ravel() for array in np.broadcast_arrays(x, y)]
    for rounding in Rounding:
        whole = operations.add(x, y, FORMATS["bfloat16"], rounding, seed=5)
        assert whole.shape == (4, 5, 7)
        assert_same(whole.ravel(), one_by_one("add", wide, FORMATS["bfloat16"], rounding, 5))
        for chunk in (1, 6, 7, 50):
            with monkeypatch.context() as patch:
                patch.setattr(operations, "OPERATION_CHUNK", chunk)
                assert_same(operations.add(x, y, FORMATS["bfloat16"], rounding, seed=5), whole)


def test_draws_may_be_named_one_by_one():
    x = np.full(6, 1 + 2.0**-9, np.float32)
    drawn = operations.multiply(x, x, FORMATS["bfloat16"], Rounding.STOCHASTIC, seed=3, start=10)
    named = np.array([15, 14, 13, 12, 11, 10], np.uint64)
    again = operations.multiply(x, x, FORMATS["bfloat16"], Rounding.STOCHASTIC, seed=3, start=named)
    assert_same(again, drawn[::-1])
    assert len(set(drawn.tolist())) == 2
    signed = operations.multiply(x, x, FORMATS["bfloat16"], Rounding.STOCHASTIC, seed=3, start=named.astype(np.int64))
    assert_same(signed, again)


@pytest.mark.parametrize("start", [np.int64(5), np.uint64(5), np.array(5)])
def test_an_index_may_be_a_number_of_numpy(start):
    x = np.float32(1 + 2.0**-9)
    drawn = [
        operations.add(x, 0.0, FORMATS["bfloat16"], Rounding.STOCHASTIC, seed=seed, start=start) for seed in range(9)
    ]
    meant = [operations.add(x, 0.0, FORMATS["bfloat16"], Rounding.STOCHASTIC, seed=seed, start=5) for seed in range(9)]
    assert drawn == meant
    assert len(set(map(float, drawn))) == 2


def test_indices_below_zero_are_the_last_ones():
    x = np.full(50, 1 + 2.0**-9, np.float32)
    drawn = operations.add(x, x[:1] * 2**-9, FORMATS["bfloat16"], Rounding.STOCHASTIC, start=-20)
    assert_same(drawn, operations.add(x, x[:1] * 2**-9, FORMATS["bfloat16"], Rounding.STOCHASTIC, start=2**64 - 20))


def test_stochastic_rounding_goes_up_as_often_as_the_rest_says():
    x = np.full(100_000, 1 + 2.0**-9, np.float32)
    drawn = operations.add(x, np.float32(0), FORMATS["bfloat16"], Rounding.STOCHASTIC)
    assert np.mean(drawn == 1 + 2.0**-7) == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, np.float32) for name in ("float16", "bfloat16", "fp32_flush", "float32_m20")),
        *((name, np.float64) for name in ("float64", "fp64_sat")),
    ],
)
def test_the_carrier_has_every_number(name, dtype):
    format = format_named(name)
    assert operations.carrier_dtype(format) is dtype
    assert float(dtype(format.smallest_subnormal)) == format.smallest_subnormal
    assert float(dtype(format.largest)) == format.largest


def test_narrow_and_whole_numbers_are_widened():
    thirds = operations.divide(np.array([1, 2], np.float16), np.array([3, 3], np.int64), FORMATS["float64"])
    assert_same(thirds, np.array([1 / 3, 2 / 3]))
    assert operations.add(1.0, 2.0, FORMATS["float32"]).shape == ()


@pytest.mark.parametrize("operand", [np.ones(2, complex), None, "1", np.ones(2, "datetime64[s]")])
def test_what_holds_no_real_numbers_is_refused(operand):
    with pytest.raises(UserError, match="expected real numbers but got an array of dtype=") as caught:
        operations.add(operand, 1.0, FORMATS["float16"])
    assert caught.value.slug == "bad-value"


def test_a_rounding_may_be_named():
    x, y = np.float32(1.0), np.float32(2.0**-20)
    assert float(operations.add(x, y, FORMATS["bfloat16"], "up")) == 1 + 2.0**-7
    with pytest.raises(UserError, match="expected one of nearest_even") as caught:
        operations.add(x, y, FORMATS["bfloat16"], "upward")
    assert caught.value.slug == "unknown-rounding"


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="shape mismatch"):
        operations.add(np.ones(2), np.ones(3), FORMATS["float16"])
