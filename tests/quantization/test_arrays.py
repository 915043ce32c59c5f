"""quantize_array: its figures equal exact rationals, over formats, granularities and scales."""

from fractions import Fraction
from math import log10, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import precreg
from precreg.errors import UserError
from precreg.quantization.arrays import OUTLIER_RATIO, code_places, measure_array, quantize_values
from precreg.quantization.codes import FLOAT_CODES, INTEGER_FORMATS, Scales, codes_named, make_quantizer
from tests.quantization.plain import code_values, figures, nearest_code, plain_quantize

NARROW = [name for name in FLOAT_CODES if name != "float16"]
SMALL = st.floats(-100, 100, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)


def integers(name):
    bits = int(name.removeprefix("int"))
    return [Fraction(each) for each in range(-(2 ** (bits - 1)), 2 ** (bits - 1))]


def matrix(rows, columns, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


def assert_equal_figures(found, signal, noise):
    assert found.relative_error == pytest.approx(sqrt(noise / signal), rel=1e-12)
    expected = None if noise == 0 else 10 * log10(signal / noise)
    assert found.sqnr_db == (None if expected is None else pytest.approx(expected, rel=1e-12))


@pytest.mark.parametrize("name", [name for name in INTEGER_FORMATS if name != "int16"])
@given(values=arrays_of.arrays(np.float32, 7, elements=SMALL))
def test_integers_with_one_scale_are_those_of_rationals(name, values):
    codes = integers(name)
    plain, scale = plain_quantize(values, float(np.abs(values).max()), codes, len(codes) // 2 - 1)
    found = quantize_values(values, make_quantizer(name))
    assert [Fraction(each) for each in found.values] == plain
    assert found.figures.codes == len(codes)
    assert found.figures.codes_used == len({each / scale for each in plain})
    if np.any(values):
        assert_equal_figures(found.figures, *figures(values, plain))


@pytest.mark.parametrize("name", ["int2", "int4", "int8", "int16"])
@given(values=arrays_of.arrays(np.float32, 6, elements=SMALL))
def test_zero_points_are_those_of_rationals(name, values):
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    found = quantize_values(values, make_quantizer(name, zero_point=True))
    if low == high:
        assert not found.values.any()
        return
    plain, _ = plain_quantize(values, 0, [], 0, low=low, high=high, size=2 ** int(name.removeprefix("int")))
    assert [Fraction(each) for each in found.values] == plain
    assert_equal_figures(found.figures, *figures(values, plain))


@pytest.mark.parametrize("name", NARROW)
@given(values=arrays_of.arrays(np.float32, 5, elements=SMALL))
def test_floating_codes_with_a_scale_are_those_of_rationals(name, values):
    codes = code_values(name)
    # The precision of HiFloat8 tapers: 15 is the largest number of the binades with 4 bits.
    largest = 15.0 if name == "hif8" else float(codes[-1])
    plain, _ = plain_quantize(values, float(np.abs(values).max()), codes, largest)
    found = quantize_values(values, make_quantizer(name))
    assert [Fraction(each) for each in found.values] == plain


@pytest.mark.parametrize("name", FLOAT_CODES)
def test_a_floating_format_has_as_many_codes_as_finite_patterns(name):
    assert codes_named(name).size == len(code_values(name))


def test_every_number_of_hifloat8_is_its_own_code():
    codes = np.array([float(each) for each in code_values("hif8")])
    # A threshold of 15 has scale 1.
    found = quantize_values(codes, make_quantizer("hif8"), np.array([15.0]))
    assert np.array_equal(found.values, codes)
    assert (found.figures.codes_used, found.figures.codes, found.figures.clipped) == (253, 253, 0)


def test_hifloat8_has_its_most_precise_binades_at_the_maximum_and_clips_beyond_its_largest_number():
    values = matrix(64, 128)
    found = quantize_values(values, make_quantizer("hif8"))
    largest = float(np.abs(values).max())
    assert found.scales.scale[0] == float(np.float32(largest / 15))
    assert (
        found.figures.sqnr_db > quantize_values(values, make_quantizer("hif8"), np.array([largest / 8])).figures.sqnr_db
    )
    beyond = quantize_values(np.array([1.0, 1.2, 1.3, -1.3]) * 2.0**15, make_quantizer("hif8"), np.array([15.0]))
    assert (beyond.values / 2**15).tolist() == [1.0, 1.0, 1.0, -1.0]
    assert beyond.figures.clipped == 2


def test_channels_and_groups_have_scales_of_their_own():
    values = matrix(3, 10)
    values[1] *= 50
    codes = integers("int4")
    by_channel = quantize_values(values, make_quantizer("int4", granularity="channel"))
    by_group = quantize_values(values, make_quantizer("int4", granularity="group", group=4))
    for row in range(3):
        plain, _ = plain_quantize(values[row], float(np.abs(values[row]).max()), codes, 7)
        assert [Fraction(each) for each in by_channel.values[row]] == plain
        # The last group is shorter: 4, 4 and 2 elements.
        for part in (slice(0, 4), slice(4, 8), slice(8, 10)):
            plain, _ = plain_quantize(values[row, part], float(np.abs(values[row, part]).max()), codes, 7)
            assert [Fraction(each) for each in by_group.values[row, part]] == plain
    assert by_group.figures.elements == 30
    assert len(by_group.scales.scale) == 9


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_the_axis_of_channels_chooses_the_rows(axis):
    values = np.random.default_rng(1).standard_normal((4, 3, 5)).astype(np.float32)
    found = quantize_values(values, make_quantizer("int8", granularity="channel", axis=axis))
    for at in range(values.shape[axis]):
        channel, quantized = np.take(values, at, axis), np.take(found.values, at, axis)
        alone = quantize_values(channel, make_quantizer("int8"))
        assert np.array_equal(quantized, alone.values)


def test_elements_beyond_the_largest_code_saturate_and_are_counted():
    values = np.array([1, 2, 3, 4, -4, 100], np.float32)
    found = quantize_values(values, make_quantizer("int8"), np.array([4.0]))
    assert found.figures.clipped == 1
    assert found.values[-1] == pytest.approx(4.0)
    found = quantize_values(values, make_quantizer("e4m3fn"), np.array([4.0]))
    assert (found.figures.clipped, found.values[-1]) == (1, pytest.approx(4.0))


@given(values=arrays_of.arrays(np.float32, (4, 6), elements=SMALL))
def test_no_error_exceeds_half_a_step(values):
    for granularity in ("tensor", "channel", "group"):
        quantizer = make_quantizer("int8", granularity=granularity, group=3 if granularity == "group" else None)
        found = quantize_values(values, quantizer)
        # Half the coarsest step, with the rounding of the scale to float32.
        assert np.abs(found.values - values).max() <= found.scales.scale.max() * 0.5 * (1 + 2**-20)


def test_quantized_values_are_quantized_to_themselves():
    once = quantize_values(matrix(8, 64), make_quantizer("int8", granularity="channel"))
    again = quantize_values(once.values.astype(np.float32), make_quantizer("int8", granularity="channel"))
    assert again.figures.relative_error < 1e-7


def test_finer_granularity_has_a_smaller_error_where_channels_differ():
    values = matrix(16, 256) * np.geomspace(1, 100, 16, dtype=np.float32)[:, None]
    found = precreg.quantize_array(values, "int4")
    errors = [each.figures.relative_error for each in found.granularities]
    assert [(each.granularity, each.group) for each in found.granularities] == [
        ("tensor", None),
        ("channel", None),
        ("group", 32),
        ("group", 64),
        ("group", 128),
    ]
    tensor, channel, *groups = errors
    assert tensor > channel > max(groups)
    assert groups == sorted(groups)
    bits = [each.bits for each in found.granularities]
    assert bits[2:] == [4 + 32 / 32, 4 + 32 / 64, 4 + 32 / 128]


def test_a_planted_outlier_channel_is_named():
    values = matrix(32, 64)
    values[7] *= 40
    spread = precreg.quantize_array(values).spread
    assert [each.channel for each in spread.outliers] == [7]
    maxima = np.abs(values.astype(float)).max(axis=1)
    assert spread.ratio == pytest.approx(maxima[7] / np.median(maxima))
    assert spread.ratio > OUTLIER_RATIO
    flat = values.astype(float).ravel()
    assert spread.kurtosis == pytest.approx(((flat - flat.mean()) ** 4).mean() / flat.var() ** 2)


def test_zeros_have_no_relative_error_and_no_error():
    found = precreg.quantize_array(np.zeros((4, 4), np.float32))
    assert (found.figures.relative_error, found.figures.sqnr_db, found.figures.codes_used) == (None, None, 1)


@pytest.mark.parametrize("unit", [1e-35, 1e-30, 1e30, 1e38])
def test_sizes_at_the_ends_of_float32_have_the_same_figures(unit):
    values = matrix(4, 32).astype(np.float64)
    expected = quantize_values(values, make_quantizer("int8")).figures.relative_error
    found = quantize_values((values * unit).astype(np.float32), make_quantizer("int8")).figures
    assert found.relative_error == pytest.approx(expected, rel=0.05)


def test_a_scale_below_the_normal_numbers_of_float32_becomes_the_smallest_of_them():
    values = (matrix(4, 32) * 1e-38).astype(np.float32)
    assert quantize_values(values, make_quantizer("int8")).scales.scale[0] == 2.0**-126
    assert quantize_values(values.astype(np.float64), make_quantizer("int8")).figures.relative_error < 0.01


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.array([1.0, np.nan]), "1 of 2 that are not, first array\\[1\\]=nan"),
        (np.array([[np.inf]]), "first array\\[0, 0\\]=inf"),
        (np.array([], np.float32), "shape=\\(0,\\)"),
        (np.arange(3), "dtype=int64"),
        (np.array(["a"]), "dtype=<U1"),
    ],
)
def test_arrays_that_cannot_be_quantized_are_refused(values, words):
    with pytest.raises(UserError, match=words):
        precreg.quantize_array(values)


@pytest.mark.parametrize(
    ("options", "slug", "words"),
    [
        ({"format": "int9"}, "unknown-format", "int9"),
        ({"format": "bfloat16"}, "unknown-format", "bfloat16"),
        ({"granularity": "row"}, "bad-value", "granularity=row"),
        ({"calibration": "mean"}, "bad-value", "calibration=mean"),
        ({"group": 32}, "bad-value", "group=32, granularity=tensor"),
        ({"granularity": "group", "group": 1}, "bad-value", "group=1"),
        ({"format": "e4m3fn", "zero_point": True}, "bad-value", "float8_e4m3fn"),
        ({"granularity": "channel", "calibration": "entropy"}, "bad-value", "granularity=channel"),
    ],
)
def test_options_that_contradict_are_refused(options, slug, words):
    with pytest.raises(UserError, match=words) as caught:
        precreg.quantize_array(matrix(4, 4), **options)
    assert caught.value.slug == slug


def test_channels_need_two_axes():
    with pytest.raises(UserError, match=r"shape=\(5,\)"):
        precreg.quantize_array(np.ones(5), granularity="channel")


def test_the_histogram_counts_all_elements_and_has_the_codes_between_the_ends():
    values = matrix(8, 8)
    found = measure_array(values, make_quantizer("int4"))
    assert sum(found.histogram.counts) == 64
    used = np.unique(quantize_values(values, make_quantizer("int4")).values)
    low, high = float(values.min()), float(values.max())
    assert {float(each) for each in used if low <= each <= high} <= set(found.histogram.codes)
    assert all(low <= each <= high for each in found.histogram.codes)


def test_codes_of_a_floating_format_are_drawn_where_its_numbers_are():
    found = precreg.quantize_array(matrix(8, 8), "float4_e2m1fn")
    places = np.array(found.histogram.codes)
    scale = float(np.float32(np.abs(matrix(8, 8)).max() / 6))
    expected = [float(each) for each in code_values("float4_e2m1fn")]
    assert all(min(abs(place / scale - each) for each in expected) < 1e-9 for place in places)
    assert nearest_code(Fraction(1), code_values("float4_e2m1fn")) == 1


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float8_e4m3fn", "hif8"])
def test_all_codes_of_a_floating_format_are_places(name):
    numbers = [float(each) for each in code_values(name)]
    places = code_places(make_quantizer(name), Scales(np.array([0.5]), np.array([0.0])))
    assert places == [each / 2 for each in numbers]
