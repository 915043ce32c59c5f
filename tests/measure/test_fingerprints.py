"""Planted shapes are found with their figures, and results that are rounded right, or as sums are, have none."""

from fractions import Fraction
from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from precreg.errors import UserError
from precreg.measure.fingerprints import find_fingerprints
from precreg.measure.fingerprints.sample import sample_indices
from precreg.measure.fingerprints.thresholds import FINGERPRINT_THRESHOLDS

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)


def drawn(shape=(32, 203), seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def found(actual, exact, **options):
    return find_fingerprints("y", actual, exact, **options)


def one(actual, exact, kind, **options):
    """Return the fingerprint of a kind, which is among the surest."""
    prints = found(actual, exact, **options)
    chosen = [each for each in prints if each.kind == kind]
    assert len(chosen) == 1, prints
    assert chosen[0].certainty >= prints[0].certainty - 0.15
    assert 0 < chosen[0].certainty <= 1
    assert chosen[0].output == "y"
    return chosen[0].values


def kinds(actual, exact, **options):
    return {each.kind for each in found(actual, exact, **options)}


# Factors and offsets


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16])
@pytest.mark.parametrize("factor", [0.9, 1.05, 2.0, -1.0])
@pytest.mark.parametrize("shape", [(40,), (32, 203), (3, 17, 5)])
def test_a_common_factor(factor, dtype, shape):
    exact = drawn(shape)
    values = one((exact * factor).astype(dtype), exact, "constant_factor")
    assert values["factor"] == pytest.approx(factor, rel=float(ml_dtypes.finfo(dtype).eps))


@pytest.mark.parametrize("count", [9, 64, 768])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_factor_of_counts_has_its_count(count, dtype):
    exact = abs(drawn((4, 100))) + 0.1
    assert one((exact * count / (count - 1)).astype(dtype), exact, "constant_factor")["count"] == count
    assert one((exact * (count - 1) / count).astype(dtype), exact, "constant_factor")["count"] == -count


def test_a_factor_without_a_count_has_none():
    assert "count" not in one((drawn() * 1.2345).astype(np.float32), drawn(), "constant_factor")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(16, 64), (2, 12, 100), (300, 12)])
def test_a_factor_for_each_row(shape, dtype):
    exact = drawn(shape)
    factors = 1 + np.random.default_rng(1).uniform(1e-4, 3e-4, (*shape[:-1], 1))
    values = one((exact * factors).astype(dtype), exact, "constant_factor")
    assert values["axis"] == len(shape) - 1
    assert values["least"] == pytest.approx(factors.min(), abs=1e-6)
    assert values["most"] == pytest.approx(factors.max(), abs=1e-6)


@pytest.mark.parametrize("eps", [1e-5, 1e-3])
@pytest.mark.parametrize("shape", [(8, 16, 96), (40, 768)])
def test_an_epsilon_that_was_dropped_is_a_factor_and_no_accumulation(shape, eps):
    x = drawn(shape)
    center, variance = x - x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    values = one((center / np.sqrt(variance)).astype(np.float32), center / np.sqrt(variance + eps), "constant_factor")
    # sqrt(1 + eps / variance) of each row, of about 1.
    assert values.get("factor", values.get("most")) - 1 == pytest.approx(eps / 2, rel=1)
    assert kinds((center / np.sqrt(variance)).astype(np.float32), center / np.sqrt(variance + eps)) == {
        "constant_factor"
    }


@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e-3), (np.float64, -1e-9), (np.float16, 0.5), (BF16, -1)])
@pytest.mark.parametrize("shape", [(50,), (32, 203)])
def test_a_common_offset(shape, dtype, offset):
    exact = drawn(shape)
    values = one((exact + offset).astype(dtype), exact, "constant_offset")
    assert values["offset"] == pytest.approx(offset, rel=0.05)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_a_wrong_zero_point_of_integers_is_an_offset(dtype):
    exact = np.random.default_rng(0).integers(-100, 100, (20, 30)).astype(dtype)
    assert one(exact + dtype(1), exact, "constant_offset")["offset"] == 1


@pytest.mark.parametrize("shape", [(16, 64), (2, 12, 100), (30, 12)])
def test_an_offset_for_each_row(shape):
    exact = drawn(shape)
    offsets = np.random.default_rng(1).uniform(1e-3, 3e-3, (*shape[:-1], 1))
    values = one((exact + offsets).astype(np.float32), exact, "constant_offset")
    assert (values["axis"], values["most"]) == (len(shape) - 1, pytest.approx(offsets.max(), abs=1e-6))


# Places


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize(("axis", "index"), [(0, 0), (0, 13), (1, 202), (1, 50)])
def test_one_channel(axis, index, dtype):
    exact = drawn()
    wrong = exact.copy()
    wrong[(slice(None),) * axis + (index,)] *= 1.3
    values = one(wrong.astype(dtype), exact, "one_channel")
    assert (values["axis"], values["index"]) == (axis, index)
    # The wrong elements are 30 % off, the others half a unit at most.
    assert values["ratio"] > 0.3 / float(ml_dtypes.finfo(dtype).eps) / 2


def test_one_channel_of_equal_bits_elsewhere_has_no_ratio():
    golden = drawn().astype(np.float32)
    wrong = golden.copy()
    wrong[:, 7] += 1
    assert "ratio" not in one(wrong, golden, "one_channel")


@pytest.mark.parametrize("seed", range(3))
def test_a_tile_of_two_axes(seed):
    exact = drawn((64, 128), seed)
    wrong = exact.copy()
    wrong[16:32, 64:96] += np.random.default_rng(seed + 9).standard_normal((16, 32)) / 9
    values = one(wrong.astype(np.float32), exact, "one_channel")
    assert values["region"] == "[16:32, 64:96]"
    assert [values[name] for name in ("start_0", "stop_0", "start_1", "stop_1")] == [16, 32, 64, 96]


@pytest.mark.parametrize(("start", "stop"), [(3, 9), (10, 12)])
def test_a_block_within_an_axis(start, stop):
    exact = drawn()
    wrong = exact.copy()
    wrong[start:stop] *= 1 + abs(drawn((stop - start, 203), 5))
    values = one(wrong.astype(np.float32), exact, "one_channel")
    assert (values["axis"], values["start"], values["stop"]) == (0, start, stop)


def test_a_few_channels():
    exact = drawn()
    wrong = exact.copy()
    wrong[:, [17, 60, 111]] *= 1.5
    assert one(wrong.astype(np.float32), exact, "one_channel")["indices"] == "17, 60, 111"


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("shape", "axis", "block", "blocks"),
    [
        ((32, 203), 1, 16, "16, 32, 64"),
        ((1000,), 0, 256, "256"),
        ((70, 9), 0, 8, "8"),
        ((4, 130, 5), 1, 64, "8, 16, 32, 64, 128"),
    ],
)
def test_a_last_block(shape, axis, block, blocks, dtype):
    exact = drawn(shape)
    start = (shape[axis] - 1) // block * block
    tail = (slice(None),) * axis + (slice(start, None),)
    wrong = exact.copy()
    wrong[tail] += np.random.default_rng(5).standard_normal(wrong[tail].shape) / 4
    values = one(wrong.astype(dtype), exact, "last_block")
    assert (values["axis"], values["start"], values["length"]) == (axis, start, shape[axis])
    if start in (192, 768):
        assert values["blocks"] == blocks
    assert str(block) in values["blocks"].split(", ")


def test_a_last_block_of_the_flat_array():
    exact = drawn((13, 77))
    wrong = exact.reshape(-1).copy()
    wrong[13 * 77 // 64 * 64 :] += 0.5 * drawn((13 * 77 % 64,), 3)
    values = one(wrong.reshape(13, 77).astype(np.float32), exact, "last_block")
    assert (values["axis"], values["start"], values["length"]) == (-1, 960, 1001)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("period", [2, 4, 32])
def test_every_nth_index(period, dtype):
    exact = drawn((24, 200))
    wrong = exact.copy()
    wrong[:, period - 1 :: period] *= 1.2
    values = one(wrong.astype(dtype), exact, "checkerboard")
    assert (values["axis"], values["period"], values["remainder"]) == (1, period, period - 1)


@pytest.mark.parametrize("shape", [(16, 16), (3, 20, 31)])
def test_a_checkerboard(shape):
    exact = drawn(shape)
    parity = np.add.outer(np.arange(shape[-2]), np.arange(shape[-1])) % 2 == 1
    values = one(np.where(parity, exact * 1.1, exact).astype(np.float32), exact, "checkerboard")
    assert values["axes"] == f"{len(shape) - 2}, {len(shape) - 1}"
    assert (values["period"], values["remainder"]) == (2, 1)


# Grids and roundings


@pytest.mark.parametrize(
    ("narrow", "dtype"),
    [(np.float16, np.float32), (BF16, np.float32), (np.float32, np.float64), (E4M3, np.float16), (E5M2, np.float32)],
)
@pytest.mark.parametrize("shape", [(200,), (32, 203)])
def test_a_conversion_of_the_results(narrow, dtype, shape):
    exact = drawn(shape)
    values = one(exact.astype(dtype).astype(narrow).astype(dtype), exact.astype(dtype), "grid")
    assert np.dtype(narrow).name in values["formats"].split(", ")
    assert values["rounding"] == "nearest_even"


def test_a_range_beyond_float16_is_that_of_tf32():
    exact = np.exp(9 * drawn()).astype(np.float32)
    # 13 bits of float32 are lost in tf32; adding and subtracting a multiple rounds to nearest (Dekker).
    high = exact * np.float32(8193)
    values = one(high - (high - exact), exact, "grid")
    assert values["formats"] == "tf32"


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 8), (np.float32, 11), (np.float64, 24)])
def test_a_conversion_that_truncates(dtype, bits):
    exact = drawn().astype(dtype)
    mask = ~((1 << (np.finfo(dtype).nmant + 1 - bits)) - 1)
    integer = np.dtype(f"i{np.dtype(dtype).itemsize}").type
    values = one((exact.view(integer) & integer(mask)).view(dtype), exact, "grid")
    assert (values["precision"], values["rounding"]) == (bits, "toward_zero")


@pytest.mark.parametrize("fraction", [4, 8, 12])
@pytest.mark.parametrize(
    ("function", "rounding"), [(np.rint, "nearest_even"), (np.trunc, "toward_zero"), (np.floor, "down")]
)
def test_fixed_point(fraction, function, rounding):
    exact = 3 * drawn()
    values = one((function(exact * 2**fraction) / 2**fraction).astype(np.float32), exact, "grid")
    assert (values["format"], values["fraction_bits"], values["rounding"]) == ("fixed_point", fraction, rounding)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_levels_of_a_quantization(bits, dtype):
    exact = drawn((64, 203))
    scale = abs(exact).max() / (2 ** (bits - 1) - 1)
    values = one((np.rint(exact / scale) * scale).astype(dtype), exact, "grid")
    assert values["format"] == "levels"
    assert values["step"] == pytest.approx(scale, rel=1e-5)
    assert values["levels"] <= 2**bits


def truncated(value, dtype):
    """Return a number as `dtype` has it toward zero, by exact rational comparison."""
    near = np.array(value).astype(dtype)[()]
    if abs(Fraction(float(near))) > abs(Fraction(float(value))):
        near = np.nextafter(near, dtype(0))
    return near


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("seed", range(2))
def test_truncation_to_the_outputs_own_dtype(dtype, seed):
    exact = drawn((400,), seed)
    values = one(np.array([truncated(value, dtype) for value in exact]), exact, "grid")
    assert (values["format"], values["rounding"]) == (np.dtype(dtype).name, "toward_zero")


@pytest.mark.parametrize(("function", "rounding"), [(np.trunc, "toward_zero"), (np.floor, "down"), (np.ceil, "up")])
def test_integers_that_are_not_rounded_to_nearest(function, rounding):
    exact = 30 * drawn()
    assert one(function(exact).astype(np.int8), exact, "grid")["rounding"] == rounding


@pytest.mark.parametrize(("narrow", "name"), [(np.float16, "float16"), (BF16, "bfloat16")])
@pytest.mark.parametrize("factor", [1.7, -0.3])
def test_a_factor_that_passed_through_a_narrower_format(narrow, name, factor):
    x = drawn().astype(np.float32)
    actual = x.astype(narrow).astype(np.float32) * np.float32(factor)
    values = one(actual, x.astype(np.float64) * float(np.float32(factor)), "grid")
    assert (values["format"], values["rounding"]) == (name, "of_a_factor")


@pytest.mark.parametrize("seed", range(5))
def test_a_cast_of_an_input_of_a_sum_is_not_taken_for_anything_else(seed):
    a, b = drawn((40, 300), seed).astype(np.float32), drawn((300, 50), seed + 50).astype(np.float32)
    actual = a.astype(np.float16).astype(np.float32) @ b
    assert found(actual, a.astype(np.float64) @ b.astype(np.float64)) == ()


@pytest.mark.parametrize("seed", range(3))
def test_ties_away_from_zero(seed):
    exact = np.random.default_rng(seed).integers(-1000, 1000, 4000) / 2
    away = np.copysign(np.floor(abs(exact) + 0.5), exact)
    values = one(away.astype(np.int32), exact, "at_ties")
    assert values["rule"] == "nearest_away"
    assert values["elements"] == np.count_nonzero(away != np.rint(exact))


@pytest.mark.parametrize("size", [3000, 20000])
def test_ties_of_a_float_format(size):
    # Odd numbers beyond 2**11 are ties of float16, whose spacing is 2 there.
    exact = np.random.default_rng(1).integers(8192, 16384, size) / 4
    up = (np.floor((exact + 1) / 2) * 2).astype(np.float16)
    assert one(up, exact, "at_ties")["rule"] in ("nearest_away", "up")


@pytest.mark.parametrize(("through", "dtype"), [(np.float16, BF16), (np.float16, E4M3), (BF16, E5M2)])
def test_double_rounding(through, dtype):
    exact = drawn((300, 400)).astype(np.float64)
    values = one(exact.astype(through).astype(dtype), exact, "at_ties")
    # tf32 has float16's precision, and gives the same results.
    assert np.dtype(through).name in values["through"]


# Signs and growth


@pytest.mark.parametrize("direction", ["up", "down", "toward_zero", "away_from_zero"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_errors_of_one_sign(direction, dtype):
    exact = drawn()
    sizes = np.random.default_rng(3).uniform(3, 40, exact.shape) * np.spacing(abs(exact).astype(dtype)).astype(float)
    signs = {"up": 1, "down": -1, "toward_zero": -np.sign(exact), "away_from_zero": np.sign(exact)}[direction]
    assert one((exact + signs * sizes).astype(dtype), exact, "one_sign")["direction"] == direction


@pytest.mark.parametrize("seed", range(3))
def test_errors_that_grow_along_an_axis(seed):
    random = np.random.default_rng(seed)
    steps = random.standard_normal((40, 320)) * 1e-4
    exact = drawn((40, 320), seed + 7)
    values = one((exact + np.cumsum(steps, 1)).astype(np.float32), exact, "growth")
    assert (values["axis"], values["law"], values["direction"]) == (1, "sqrt", "forward")
    linear = one(
        (exact + np.arange(320) * np.sign(exact) * random.random((40, 320)) * 1e-5).astype(np.float32), exact, "growth"
    )
    assert (linear["axis"], linear["law"]) == (1, "linear")
    backward = one((exact + np.cumsum(steps, 1)[:, ::-1]).astype(np.float32), exact, "growth")
    assert (backward["axis"], backward["direction"]) == (1, "backward")


# Special places of the numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_errors_at_zeros(dtype):
    exact = drawn()
    exact[:, ::5] = 0
    wrong = exact.astype(dtype)
    wrong[exact == 0] = 0.1 * abs(drawn(wrong[exact == 0].shape, 8))
    prints = found(wrong, exact)
    assert any(each.kind == "at_zeros" and each.values["at"] == "zero" for each in prints) or "checkerboard" in {
        each.kind for each in prints
    }
    exact = np.where(drawn(seed=4) > 1, 0, drawn())
    wrong = np.where(exact == 0, 1e-3 * abs(drawn(seed=9)), exact).astype(dtype)
    assert one(wrong, exact, "at_zeros")["elements"] == np.count_nonzero(exact == 0)


@pytest.mark.parametrize("limit", [1e-3, 1e-2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_that_grow_toward_zero(limit, dtype):
    exact = drawn((100, 200))
    wrong = exact + limit / (abs(exact) + limit / 9) * 1e-3
    assert one(wrong.astype(dtype), exact, "at_zeros")["at"] == "near"


@pytest.mark.parametrize("power", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_at_large_values(power, dtype):
    exact = np.exp(drawn((64, 200)))
    noise = np.random.default_rng(2).standard_normal(exact.shape)
    wrong = exact * (1 + 1e-3 * noise * (exact / exact.max()) ** power)
    assert one(wrong.astype(dtype), exact, "at_large_values")["ratio"] > 8


@pytest.mark.parametrize(
    ("dtype", "largest"), [(np.float16, 65504.0), (np.float32, 448.0), (np.float32, 57344.0), (np.int8, 127.0)]
)
def test_saturation(dtype, largest):
    exact = largest / 2 * drawn()
    if dtype == np.int8:
        exact = np.rint(exact)
    values = one(np.clip(exact, -largest, largest).astype(dtype), exact, "saturated")
    assert values["limit"] in (largest, -largest)
    assert values["format"] in ("float16", "float8_e4m3fn", "float8_e5m2", "int8", "float8_e5m2fnuz")


@pytest.mark.parametrize("limit", [0.75, 2.0])
def test_a_clip_of_the_tail_is_no_last_block(limit):
    exact = np.geomspace(0.01, 4, 400)
    values = one(np.minimum(exact, limit).astype(np.float32), exact, "saturated")
    assert values["most"] == limit
    assert values["elements"] == np.count_nonzero(exact.astype(np.float32) > limit)


def test_saturation_in_place_of_infinity():
    exact = np.geomspace(1, 1e6, 200)
    with np.errstate(over="ignore"):
        actual = np.minimum(exact.astype(np.float16), np.float16(65504))
    values = one(actual, exact, "saturated")
    assert (values["limit"], values["format"]) == (65504, "float16")
    assert values["elements"] == np.count_nonzero(exact >= 65520)


@pytest.mark.parametrize(("dtype", "modulus"), [(np.int8, 256), (np.uint8, 256), (np.int16, 65536)])
def test_integers_that_wrap_around(dtype, modulus):
    exact = np.random.default_rng(0).integers(0, modulus, 3000) + (0 if dtype == np.uint8 else -modulus // 4)
    exact[::7] += modulus // 2
    assert one(exact.astype(dtype), exact, "wrapped")["modulus"] == modulus


@pytest.mark.parametrize(
    ("dtype", "size", "name"),
    [(np.float32, 1e-37, "float32"), (np.float16, 1e-4, "float16"), (np.float64, 1e-307, "float64")],
)
def test_subnormals_that_are_flushed(dtype, size, name):
    exact = size * drawn()
    actual = exact.astype(dtype)
    subnormal = (abs(actual) < np.finfo(dtype).smallest_normal) & (actual != 0)
    actual[subnormal] = 0
    values = one(actual, exact if dtype != np.float64 else exact.astype(np.float64), "flushed")
    assert (values["format"], values["part"]) == (name, "subnormals")
    assert values["elements"] == np.count_nonzero(subnormal)


def test_flushed_results_are_not_said_to_be_missing():
    exact = np.geomspace(1e-6, 1e-3, 400)
    actual = exact.astype(np.float16)
    actual[actual < np.float16(2.0**-14)] = 0
    assert kinds(actual, exact) == {"flushed"}


@pytest.mark.parametrize("fill", [0.0, 1.0, -7.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_results_that_were_never_written(fill, dtype):
    exact = drawn()
    actual = exact.astype(dtype)
    actual[5, 3:180] = fill
    values = one(actual, exact, "never_written")
    assert values["fill"] == fill
    assert values["elements"] == pytest.approx(177, abs=12)


@pytest.mark.parametrize("what", ["nan_of_actual", "nan_of_exact", "inf_of_actual"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_non_finite_results(what, dtype):
    exact, number = drawn(), {"nan": np.nan, "inf": np.inf}[what[:3]]
    actual = exact.astype(dtype)
    (actual if what.endswith("actual") else exact)[3, 2:7] = number
    assert one(actual, exact, "non_finite") == {"what": what, "elements": 5}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("exact", [np.nan, np.inf, 1e6])
def test_outputs_without_a_finite_pair_have_no_other_shape(exact):
    for actual in (np.nan, np.inf, 65504.0):
        prints = kinds(np.full((4, 9), actual, np.float16), np.full((4, 9), exact))
        assert prints <= {"non_finite", "saturated"}


def test_an_overflow_of_the_output_alone_is_right():
    exact = np.geomspace(1, 1e6, 200)
    with np.errstate(over="ignore"):
        assert found(exact.astype(np.float16), exact) == ()


# Moved elements


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize(("axis", "shift"), [(0, 1), (1, -1), (1, 37), (0, -5)])
def test_shifted_elements(axis, shift, dtype):
    exact = (1e6 if dtype == np.int32 else 1) * drawn()
    moved = np.roll(exact, shift, axis).astype(dtype)
    values = one(moved, exact, "moved_elements")
    assert (values["what"], values["axis"]) == ("rotation", axis)
    assert (values["shift"] - shift) % exact.shape[axis] == 0
    # Without the elements that came in again.
    edge = (slice(None),) * axis + (slice(0, shift) if shift > 0 else slice(shift, None),)
    moved[edge] = 0
    values = one(moved, exact, "moved_elements")
    assert (values["what"], values["axis"], values["shift"]) == ("shift", axis, shift)


@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("seed", range(3))
def test_a_misaligned_tail_is_a_shift_in_the_last_block(block, seed):
    exact = drawn(seed=seed)
    actual, start = exact.astype(np.float32), 203 // block * block
    actual[:, start:] = exact[:, start - 1 : -1]
    prints = {each.kind: each.values for each in found(actual, exact)}
    assert set(prints) == {"moved_elements", "last_block"}
    assert (prints["moved_elements"]["shift"], prints["moved_elements"]["start"]) == (1, start)
    assert prints["last_block"]["start"] == start


def test_a_stale_block_has_the_results_of_the_block_before():
    exact = drawn((96, 40))
    actual = exact.astype(np.float32)
    actual[64:80] = actual[48:64]
    prints = {each.kind: each.values for each in found(actual, exact)}
    assert (prints["moved_elements"]["axis"], prints["moved_elements"]["shift"]) == (0, 16)
    assert (prints["one_channel"]["start"], prints["one_channel"]["stop"]) == (64, 80)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32])
def test_transposed_elements(dtype):
    exact = 100 * drawn((3, 24, 24))
    assert one(exact.swapaxes(1, 2).astype(dtype), exact, "moved_elements")["what"] == "transposition"
    exact = 100 * drawn((24, 40))
    values = one(exact.T.copy().reshape(24, 40).astype(dtype), exact, "moved_elements")
    assert (values["what"], values["axes"]) == ("layout", "0, 1")


@pytest.mark.parametrize("axis", [0, 1])
def test_flipped_elements(axis):
    values = one(np.flip(drawn(), axis).astype(np.float32), drawn(), "moved_elements")
    assert (values["what"], values["axis"]) == ("flip", axis)


@pytest.mark.parametrize("shape", [(500,), (32, 203), (3, 5, 7)])
def test_permuted_elements(shape):
    exact = drawn(shape)
    actual = np.random.default_rng(1).permutation(exact.reshape(-1)).reshape(shape).astype(np.float32)
    assert one(actual, exact, "moved_elements")["what"] == "permutation"


def test_moved_elements_with_rounding_noise_are_found():
    exact = drawn()
    noise = 1 + 1e-6 * drawn(seed=5)
    assert one((np.roll(exact, 3, 1) * noise).astype(np.float32), exact, "moved_elements")["shift"] == 3


# No false alarm


WAYS = {
    "normal": drawn,
    "exponential": lambda shape, seed: np.exp(3 * drawn(shape, seed)),
    "one binade": lambda shape, seed: 1 + np.random.default_rng(seed).random(shape),
    "sparse": lambda shape, seed: np.where(drawn(shape, seed + 1) > 0, drawn(shape, seed), 0),
    "sorted": lambda shape, seed: np.sort(drawn(shape, seed).reshape(-1)).reshape(shape),
}
SHAPES = [(20,), (1000,), (32, 63), (7, 12, 65), (300, 4)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, E4M3])
@pytest.mark.parametrize("shape", SHAPES)
def test_correct_rounding_has_no_shape(shape, dtype, way):
    for seed in range(3):
        exact = WAYS[way](shape, seed)
        if np.dtype(dtype).itemsize == 1:
            exact = exact.astype(np.float16).astype(np.float64)  # ml_dtypes rounds float64 twice
        with np.errstate(over="ignore"):
            assert [one for one in found(exact.astype(dtype), exact) if one.kind != "non_finite"] == []


ELEMENTWISE = {
    "exp": np.exp,
    "tanh": np.tanh,
    "square": np.square,
    "3x - x": lambda x: x * 3 - x,
    "x / (|x| + 1)": lambda x: x / (abs(x) + 1),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * x.dtype.type(0.5) * (1 + np.tanh(x.dtype.type(0.797) * (x + x * x * x))),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_few_roundings_have_no_shape(name, dtype):
    for seed, shape in enumerate(SHAPES):
        x = drawn(shape, seed).astype(dtype)
        wide = x.astype(np.float64)
        constants = float(np.dtype(dtype).type(0.797))
        exact = wide * 0.5 * (1 + np.tanh(constants * (wide + wide**3))) if name == "gelu" else ELEMENTWISE[name](wide)
        assert found(ELEMENTWISE[name](x), exact) == ()


def layer_norm(x, eps):
    center = x - x.mean(-1, keepdims=True)
    return center / np.sqrt((center * center).mean(-1, keepdims=True) + x.dtype.type(eps))


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def naive_sum(x):
    total = np.zeros(x.shape[0], x.dtype)
    for column in x.T:
        total = total + column
    return total


REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "sum of positives": lambda x: abs(x).sum(-1),
    "naive sum": naive_sum,
    "matmul": lambda x: x @ x.T,
    "layer norm": lambda x: layer_norm(x, 2.0**-17),
    "softmax": softmax,
    "variance": lambda x: x.var(-1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(50, 1000), (200, 30), (20, 4000)])
def test_rounding_noise_of_sums_has_no_shape(name, shape):
    for seed in range(3):
        x = drawn(shape, seed).astype(np.float32)
        assert found(REDUCTIONS[name](x), REDUCTIONS[name](x.astype(np.float64))) == ()


@settings(max_examples=60, deadline=None)
@given(
    exact=arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 30)), elements=st.floats(-1e6, 1e6)),
    dtype=st.sampled_from([np.float16, np.float32, BF16]),
)
def test_no_correctly_rounded_array_has_a_shape(exact, dtype):
    with np.errstate(over="ignore"):
        assert found(exact.astype(np.float32).astype(dtype), exact.astype(np.float32)) == ()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    ulps=st.floats(0.01, 1000),
    spread=st.floats(0, 5),
)
def test_independent_errors_of_both_signs_have_no_shape(seed, shape, ulps, spread):
    random = np.random.default_rng(seed)
    exact = random.standard_normal(shape) * np.exp(spread * random.standard_normal(shape))
    errors = random.standard_normal(shape) * np.spacing(abs(exact).astype(np.float32)).astype(np.float64) * ulps
    assert found((exact + errors).astype(np.float32), exact) == ()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(2, 40), terms=st.integers(2, 400), positive=st.booleans())
def test_sums_of_any_size_have_no_shape(seed, rows, terms, positive):
    x = np.random.default_rng(seed).standard_normal((rows, terms)).astype(np.float32)
    x = abs(x) if positive else x
    assert found(naive_sum(x), x.astype(np.float64).sum(1)) == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_single_wrong_element_is_no_shape(seed):
    exact = drawn(seed=seed)
    actual = exact.astype(np.float32)
    actual[-1, -1] += 1
    assert found(actual, exact) == ()


@pytest.mark.parametrize("seed", range(5))
def test_last_bits_at_random_elements_have_no_shape(seed):
    golden, random = drawn(seed=seed).astype(np.float32), np.random.default_rng(seed + 50)
    actual = golden.copy()
    chosen = random.random(golden.shape) < 0.004
    actual[chosen] = np.nextafter(golden[chosen], np.where(random.random(chosen.sum()) < 0.5, -9, 9).astype(np.float32))
    assert found(actual, golden) == ()
    integers = (40 * golden).astype(np.int8)
    assert (
        found(integers + (chosen * np.where(random.random(golden.shape) < 0.5, -1, 1)).astype(np.int8), integers) == ()
    )


def test_the_order_of_a_division_has_no_shape():
    m, v = drawn().astype(np.float32), abs(drawn(seed=1)).astype(np.float32)
    rate, eps = np.float32(0.01), np.float32(1e-8)
    assert found((rate * m) / (np.sqrt(v) + eps), rate * (m / (np.sqrt(v) + eps))) == ()


# All arrays


EXTREME = [0.0, -0.0, 5e-324, 1e-310, 1e-30, 1.0, -3.0, 1e30, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "longdouble", "complex64", "int8", "uint64", "bool", BF16]
)
@pytest.mark.parametrize("size", [(0,), (1,), (40,), (300,), (20, 40), (9, 8, 7)])
def test_any_arrays_have_fingerprints_of_finite_figures(size, dtype):
    random = np.random.default_rng(prod(size))
    for _ in range(5):
        numbers = EXTREME[: random.integers(1, len(EXTREME) + 1)]
        with np.errstate(all="ignore"):
            actual, exact = (random.choice(numbers, size).astype(dtype) for _ in range(2))
        for each in found(actual, exact):
            assert 0 < each.certainty <= 1
            assert all(isinstance(value, str) or np.isfinite(value) for value in each.values.values()), each


@pytest.mark.parametrize("factor", [1.5, 0.5 + 2j])
def test_complex_results(factor):
    exact = drawn() + 1j * drawn(seed=1)
    if factor == 1.5:
        assert one((exact * factor).astype(np.complex64), exact, "constant_factor")["factor"] == pytest.approx(1.5)
    wrong = exact.copy()
    wrong[:, 9] *= factor
    assert one(wrong.astype(np.complex64), exact, "one_channel")["index"] == 9
    assert found(exact.astype(np.complex64), exact) == ()


def test_long_doubles_show_the_roundings_of_float64():
    exact = drawn().astype(np.longdouble) / 3
    assert found(exact.astype(np.float64), exact) == ()
    assert one((exact * (1 + np.longdouble(2) ** -48)).astype(np.float64), exact, "constant_factor")


def test_simulated_results_are_judged_by_their_format():
    exact = drawn()
    simulated = exact.astype(np.float16).astype(np.float64)
    assert found(simulated, exact, dtype="float16") == ()
    assert one(simulated, exact, "grid")["format"] == "float16"
    with pytest.raises(UserError, match="float17"):
        found(simulated, exact, dtype="float17")


def test_other_arrays_than_numbers_are_refused():
    with pytest.raises(UserError):
        found(np.array(["a", "b"]), np.array(["a", "c"]))


def test_arrays_of_different_shapes_have_no_fingerprint():
    assert found(np.zeros(3), np.zeros(4)) == ()


def test_booleans_have_places_alone():
    exact = drawn() > 0
    wrong = exact.copy()
    wrong[:, 9] ^= True
    assert kinds(wrong, exact) == {"one_channel"}
    assert kinds(~exact, exact) == set()


# Samples of large arrays


@pytest.mark.parametrize("shape", [(1024, 1024), (1 << 21,), (64, 127, 131), (3, 1000, 500)])
def test_a_sample_covers_every_axis_evenly(shape):
    index = sample_indices(prod(shape), 2**16)
    assert len(np.unique(index)) == 2**16
    assert index.min() >= 0
    assert index.max() < prod(shape)
    for axis, length in enumerate(shape):
        parts = min(length, 64)
        counts = np.bincount(np.unravel_index(index, shape)[axis] * parts // length)
        whole = np.bincount(np.arange(length) * parts // length)
        assert (counts / whole).min() > 0.8 * 2**16 / length


def test_shapes_of_large_arrays_are_found_in_a_sample():
    exact = drawn((1200, 1000))
    assert exact.size > FINGERPRINT_THRESHOLDS["sample"].value
    actual = exact.astype(np.float32)
    for axis, index in ((0, 1111), (1, 3)):
        wrong = actual.copy()
        wrong[(slice(None),) * axis + (index,)] *= np.float32(1.1)
        values = one(wrong, exact, "one_channel")
        assert (values["axis"], values["index"]) == (axis, index)
    assert one(np.roll(actual, 16, 1), exact, "moved_elements")["shift"] == 16
    assert one((exact * 1.001).astype(np.float32), exact, "constant_factor")
    wrong = actual.copy()
    wrong[:, 960:] += np.float32(0.1) * drawn((1200, 40), 3).astype(np.float32)
    assert one(wrong, exact, "last_block")["start"] == 960
    assert found(actual, exact) == ()
    assert found(actual[:, ::-1], exact[:, ::-1]) == ()


def test_every_threshold_has_its_reason():
    assert all(threshold.why for threshold in FINGERPRINT_THRESHOLDS.values())
