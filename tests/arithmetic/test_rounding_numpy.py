"""Every form of rounding to every format: against what others round, against the neighbours, and against each other."""

import gfloat
import gfloat.formats
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.exact import exact_random_bits, exact_round
from precreg.arithmetic.formats import FORMATS, NAMED_FORMATS, Rounding, format_named, numpy_dtype, parse_format
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.rounding_numpy import BIT_ROUNDING_CHUNK, random_bits, round_bits, round_scaled
from tests.arithmetic.patterns import SMALL_FORMATS, between, everything, hard_values, numbers
from tests.arithmetic.test_rounding import assert_same

FORMS = pytest.mark.parametrize("form", [round_bits, round_scaled])
ROUNDINGS = pytest.mark.parametrize("rounding", Rounding)
DERIVED = [
    "fp16_sat",
    "fp16_flush",
    "bf16_flush_sat",
    "e4m3fn_sat",
    "e5m2_sat",
    "fp32_sat",
    "fp32_flush",
    "fp64_flush_sat",
]
DEFINED = {
    "coarse": {"precision": 2, "min_exponent": -1, "max_exponent": 1, "overflow": "nan", "negative_zero": False},
    "wide": {"precision": 5, "min_exponent": -300, "max_exponent": 300},
    "long": {"precision": 30, "min_exponent": -10, "max_exponent": 20, "subnormals": False},
}
TARGETS = {name: format_named(name) for name in (*NAMED_FORMATS, *DERIVED)} | {
    name: parse_format(name, definition) for name, definition in DEFINED.items()
}


def rounded(form, values, format, rounding, seed=0):
    return form(values, format, rounding, seed, 0)


@FORMS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_every_pattern_of_every_small_format_is_rounded_as_numpy_and_ml_dtypes_do(name, dtype, form):
    values = everything().astype(dtype)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float32).astype(numpy_dtype(name)).astype(dtype)
    if FORMATS[name].overflow == FORMATS[name].largest:
        expected[np.isnan(values)] = np.nan
    assert_same(rounded(form, values, FORMATS[name], Rounding.NEAREST_EVEN), expected)


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_every_pattern_is_rounded_alike_by_rational_arithmetic(name):
    """All of them in the formats of 8 bits and below, the others in turns; every pattern by one of the roundings."""
    values = everything()[SMALL_FORMATS.index(name) :: 1 if name in ("float16", "bfloat16") else 16]
    for turn, rounding in enumerate(Rounding):
        mine = values[turn :: len(Rounding)]
        assert_same(round_each(mine, FORMATS[name], rounding), rounded(round_bits, mine, FORMATS[name], rounding))


def round_each(values, format, rounding, seed=0):
    draws = random_bits(seed, 0, len(values)).tolist()
    return np.array(
        [exact_round(value, format, rounding, draw) for value, draw in zip(values.tolist(), draws, strict=True)]
    )


def expected_between(name, rounding, sign, seed):
    """Choose between the neighbours by the words of docs/formats.md; return the values, too."""
    values, low, high, parity = between(name)
    share = (values - low) / (high - low)
    draws = random_bits(seed, 0, len(values))
    is_high = {
        Rounding.NEAREST_EVEN: (share > 0.5) | ((share == 0.5) & (parity == 1)),
        Rounding.NEAREST_AWAY: share >= 0.5,
        Rounding.TOWARD_ZERO: share > 1,
        Rounding.UP: share > (0 if sign > 0 else 1),
        Rounding.DOWN: share > (0 if sign < 0 else 1),
        Rounding.AWAY: share > 0,
        Rounding.ODD: parity == 0,
        Rounding.STOCHASTIC: np.floor(share * 2.0**24) > draws,
    }[rounding]
    expected = np.where(is_high, high, low)
    return sign * values, sign * expected if FORMATS[name].negative_zero else sign * expected + 0.0


@ROUNDINGS
@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_between_all_neighbours_the_right_one_is_taken(name, rounding):
    for sign in (1.0, -1.0):
        values, expected = expected_between(name, rounding, sign, seed=7)
        for form in (round_bits, round_scaled):
            assert_same(rounded(form, values, FORMATS[name], rounding, seed=7), expected)
        few = slice(None, None if len(values) < 500 else 400)
        assert_same(round_each(values[few], FORMATS[name], rounding, seed=7), expected[few])


GFLOAT_FORMATS = {
    "float16": gfloat.formats.format_info_binary16,
    "bfloat16": gfloat.formats.format_info_bfloat16,
    "float8_e4m3fn": gfloat.formats.format_info_ocp_e4m3,
    "float8_e5m2": gfloat.formats.format_info_ocp_e5m2,
    "float6_e2m3fn": gfloat.formats.format_info_ocp_e2m3,
    "float6_e3m2fn": gfloat.formats.format_info_ocp_e3m2,
    "float4_e2m1fn": gfloat.formats.format_info_ocp_e2m1,
}
GFLOAT_ROUNDINGS = {
    Rounding.NEAREST_EVEN: gfloat.RoundMode.TiesToEven,
    Rounding.NEAREST_AWAY: gfloat.RoundMode.TiesToAway,
    Rounding.TOWARD_ZERO: gfloat.RoundMode.TowardZero,
    Rounding.UP: gfloat.RoundMode.TowardPositive,
    Rounding.DOWN: gfloat.RoundMode.TowardNegative,
}


@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("rounding", GFLOAT_ROUNDINGS)
@pytest.mark.parametrize("name", GFLOAT_FORMATS)
def test_gfloat_rounds_alike(name, rounding, saturates):
    """Numbers, what lies between, and what overflows; a format without NaN can only saturate, and is not given it."""
    values = hard_values(name)
    format = FORMATS[name]
    if format.overflow == format.largest:
        values, saturates = values[~np.isnan(values)], True
    target = format_named(f"{name}_sat") if saturates else format
    with np.errstate(all="ignore"):
        expected = gfloat.round_ndarray(GFLOAT_FORMATS[name], values, GFLOAT_ROUNDINGS[rounding], sat=saturates)
    assert_same(rounded(round_bits, values, target, rounding), expected)


def wide_values(dtype):
    """Return every pattern's neighbourhood that matters: random patterns of all sizes, and hard ones."""
    generator = np.random.default_rng(5)
    unsigned = f"u{np.dtype(dtype).itemsize}"
    patterns = generator.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), 20_000, dtype=unsigned).view(dtype)
    ends = [FORMATS[name].largest for name in ("float16", "float32")] + [2.0**-126, 2.0**-149, 2.0**-14, 2.0**-24, 1.0]
    near = np.concatenate([np.array(ends) * (1 + step * np.finfo(dtype).eps) for step in range(-3, 4)])
    scaled = generator.standard_normal(20_000) * 2.0 ** generator.integers(-150, 128, 20_000)
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([patterns, near.astype(dtype), -near.astype(dtype), scaled.astype(dtype)])


@pytest.mark.parametrize("rounding", GFLOAT_ROUNDINGS)
def test_gfloat_rounds_alike_to_float32(rounding):
    values = wide_values(np.float64)
    with np.errstate(all="ignore"):
        expected = gfloat.round_ndarray(gfloat.formats.format_info_binary32, values, GFLOAT_ROUNDINGS[rounding])
    assert_same(rounded(round_bits, values, FORMATS["float32"], rounding), expected)


@FORMS
def test_truncation_to_20_bits_is_a_mask_and_a_flush(form):
    values = wide_values(np.float32)
    values = values[np.isfinite(values)]
    kept = (values.view(np.uint32) & np.uint32(0xFFFFFFF8)).view(np.float32)
    expected = np.where(np.abs(kept) < np.float32(2.0**-126), np.copysign(np.float32(0), kept), kept)
    assert_same(rounded(form, values, format_named("fp32_m20"), Rounding.TOWARD_ZERO), expected)


@FORMS
def test_tf32_has_the_significands_of_float16(form):
    values = wide_values(np.float32)
    values = values[np.isfinite(values) & (np.abs(values) >= 2.0**-126)]
    significands, exponents = np.frexp(values.astype(np.float64))
    expected = np.ldexp(significands.astype(np.float16).astype(np.float64), exponents)
    expected[np.abs(expected) >= 2.0**128] *= np.inf
    assert_same(rounded(form, values, format_named("tf32"), Rounding.NEAREST_EVEN), expected)


@ROUNDINGS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_forms_give_the_same_bits_for_any_pattern(dtype, rounding):
    values = wide_values(dtype)
    # A tapered format has binades without a last bit of the significand: round_scaled alone serves it.
    for name, format in TARGETS.items():
        if format.taper:
            continue
        bits = rounded(round_bits, values, format, rounding, seed=3)
        if dtype is np.float32 and format.precision > 24:
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = rounded(round_scaled, values.astype(np.float64), format, rounding, seed=3).astype(np.float32)
            scaled[np.isnan(values)] = values[np.isnan(values)]
        else:
            scaled = rounded(round_scaled, values, format, rounding, seed=3)
        unsigned = f"u{bits.itemsize}"
        np.testing.assert_array_equal(bits.view(unsigned), scaled.view(unsigned), err_msg=name)


@given(
    st.one_of(st.floats(width=64), st.floats(width=32), st.floats(-500, 500)),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from(Rounding),
)
def test_any_number_is_rounded_as_rational_arithmetic_says(value, name, rounding):
    expected = exact_round(value, TARGETS[name], rounding, exact_random_bits(3, 11))
    assert_same(round_to(np.array([value]), TARGETS[name], rounding, seed=3, start=11), np.array([expected]))


@FORMS
def test_what_is_beyond_the_largest_number_by_rounding(form):
    values = np.array([65504.1, 1e9, -1e9, np.inf, -np.inf])
    largest = 65504.0
    kept = [largest, largest, -largest]
    expected = {
        Rounding.NEAREST_EVEN: [largest, np.inf, -np.inf],
        Rounding.NEAREST_AWAY: [largest, np.inf, -np.inf],
        Rounding.TOWARD_ZERO: kept,
        Rounding.UP: [np.inf, np.inf, -largest],
        Rounding.DOWN: [largest, largest, -np.inf],
        Rounding.AWAY: [np.inf, np.inf, -np.inf],
        Rounding.ODD: kept,
        Rounding.STOCHASTIC: [largest, np.inf, -np.inf],
    }
    for rounding, finite in expected.items():
        assert_same(rounded(form, values, FORMATS["float16"], rounding), np.array([*finite, np.inf, -np.inf]))
        saturated = rounded(form, values, format_named("fp16_sat"), rounding)
        assert_same(saturated, np.array([largest, largest, -largest, largest, -largest]))


@FORMS
def test_a_draw_is_what_a_share_must_be_above(form):
    """Shares of exactly as many steps as were drawn stay; one step more goes up: a number that is exact never does."""
    draws = random_bits(4, 0, 500).astype(np.float64)
    for steps, expected in ((draws, 1.0), (draws + 1, 1 + 2.0**-10)):
        values = 1 + 2.0**-34 * steps
        assert set(rounded(form, values, FORMATS["float16"], Rounding.STOCHASTIC, seed=4)) == {expected}
        assert set(round_each(values, FORMATS["float16"], Rounding.STOCHASTIC, seed=4)) == {expected}


@FORMS
@ROUNDINGS
def test_without_subnormals_what_is_rounded_to_one_is_zero(form, rounding):
    format = format_named("fp16_flush")
    smallest, step = format.smallest_normal, format.smallest_subnormal
    values = np.array([smallest, smallest - step, step / 2, 0.0]) * np.array([[1.0], [-1.0]])
    expected = np.array([[smallest, 0, 0, 0], [-smallest, -0.0, -0.0, -0.0]])
    assert_same(rounded(form, values, format, rounding), expected)
    assert_same(round_each(values.ravel(), format, rounding), expected.ravel())


@FORMS
@pytest.mark.parametrize("name", ["fp16", "e4m3fnuz", "bf16_flush_sat", "fp32_sat"])
def test_a_nan_keeps_all_its_bits(name, form):
    patterns = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0xFF812345], np.uint32)
    for rounding in Rounding:
        result = rounded(form, patterns.view(np.float32), format_named(name), rounding)
        np.testing.assert_array_equal(result.view(np.uint32), patterns)


@pytest.mark.parametrize("name", ["bf16", "e4m3fn", "fp32_m20"])
def test_chunks_and_strides_make_no_difference(name):
    values = np.random.default_rng(0).standard_normal((3, BIT_ROUNDING_CHUNK + 5)).astype(np.float32)
    format = format_named(name)
    whole = rounded(round_bits, values, format, Rounding.STOCHASTIC)
    parts = [round_bits(row, format, Rounding.STOCHASTIC, 0, at * row.size) for at, row in enumerate(values)]
    np.testing.assert_array_equal(whole, parts)
    turned = round_bits(np.asfortranarray(values), format, Rounding.STOCHASTIC)
    np.testing.assert_array_equal(whole, turned)
    indices = np.arange(values.size, dtype=np.uint64).reshape(values.shape)
    np.testing.assert_array_equal(
        whole[:, ::-3], round_bits(values[:, ::-3], format, Rounding.STOCHASTIC, 0, indices[:, ::-3])
    )


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_shapes_are_kept(shape):
    for rounding in Rounding:
        assert round_to(np.ones(shape, np.float32), FORMATS["float16"], rounding).shape == shape


def test_a_result_is_never_the_array_that_was_given():
    values = np.ones(3, np.float32)
    for name in ("float32", "float64", "float16"):
        assert not np.shares_memory(round_to(values, FORMATS[name]), values)


def test_a_carrier_too_small_for_a_number_has_an_infinity_for_it():
    largest = np.array([FORMATS["float32"].largest], np.float32)
    assert round_to(largest, TARGETS["wide"], Rounding.UP)[0] == np.inf
    assert round_to(largest.astype(np.float64), TARGETS["wide"], Rounding.UP)[0] == 2.0**128


@ROUNDINGS
def test_a_format_of_one_bit_has_powers_of_two(rounding):
    format = parse_format("powers", {"precision": 1, "min_exponent": -3, "max_exponent": 3})
    values = np.array([*numbers("float8_e4m3fn"), 0.0625 + 1e-9])
    result = round_to(values, format, rounding, seed=1)
    assert set(np.abs(result)) <= {0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, np.inf}
    assert_same(result, round_each(values, format, rounding, seed=1))


@pytest.mark.parametrize("precision", [1, 2])
def test_an_infinity_becomes_what_the_format_has_for_it_where_float32_is_narrower(precision):
    format = parse_format("wide", {"precision": precision, "min_exponent": -3, "max_exponent": 200, "overflow": "nan"})
    assert np.isnan(round_to(np.array([np.inf, -np.inf], np.float32), format)).all()


def test_draws_are_those_of_the_published_generator():
    """SplitMix64 from state 0 begins 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f."""
    expected = [0xE220A8, 0x6E789E, 0x06C45D]
    assert random_bits(0, 0, 3).tolist() == expected
    assert [exact_random_bits(0, index) for index in range(3)] == expected


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**40))
def test_draws_of_one_index_are_those_of_many(seed, index):
    assert random_bits(seed, index, 3)[2] == exact_random_bits(seed, index + 2)


def test_stochastic_rounding_goes_up_as_often_as_it_should():
    values = np.full(100_000, 1 + 2.0**-10 * 0.3)
    up = np.mean(round_to(values, FORMATS["float16"], Rounding.STOCHASTIC, seed=9) > 1)
    assert abs(up - 0.3) < 5 * np.sqrt(0.21 / values.size)
