"""Fixed-point kernels at every edge, against Python's integers and fractions; data without a scale is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.errors import UserError
from tests.suites.kernel_files import load
from tests.suites.measured import largest

rationals = load("rationals")
instructions = load("unit/kernels/instructions")
adaptive = load("unit/kernels/adaptive_quantization")
matmul = load("unit/kernels/matmul_int32")

INT32 = st.integers(-(2**31), 2**31 - 1)
FORMS = ["published", "less_one", "clipped", "double"]


class TestRounding:
    @given(st.fractions(-(2**130), 2**130))
    def test_to_float32_as_numpy_rounds_what_float64_holds(self, number):
        held = Fraction(float(number))
        with np.errstate(all="ignore"):
            assert float(rationals.rounded(held)) == float(np.float32(float(held))) or abs(held) > 2**127

    @pytest.mark.parametrize("exponent", [-149, -140, -127, -126, 0, 100])
    def test_at_and_beside_halves(self, exponent):
        last = Fraction(2) ** max(exponent - 23, -149)
        start = Fraction(2) ** exponent
        for steps in (Fraction(1, 2), Fraction(3, 2), Fraction(499, 1000), Fraction(501, 1000)):
            number = start + steps * last
            expected = start + round(steps if start / last % 2 == 0 else steps + 1) * last
            expected -= 0 if start / last % 2 == 0 else last
            assert rationals.rounded(number) == expected
            assert rationals.rounded(-number) == -expected
            assert rationals.rounded(number, truncated=True) == start + int(steps) * last


class TestInstructions:
    @given(INT32, INT32)
    def test_scale_takes_the_upper_word(self, n, s):
        n, s = np.array([n], np.int32), np.array([s], np.int32)
        assert instructions.scale(n, s, shift="floor").tolist() == [int(n[0]) * int(s[0]) // 2**32]
        assert instructions.scale(n, s, shift="floor").dtype == np.int32

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100))
    def test_compensate_rounds_twice(self, m):
        n, m = np.float32([1.5]), np.float32([m])
        product = rationals.rounded(Fraction(float(m[0])) * Fraction(float(np.float32(0.1))))
        expected = rationals.rounded(Fraction(1.5) + product)
        assert Fraction(float(instructions.compensate(n, m, alpha=0.1, pipelines="separate")[0])) == expected

    def test_a_fused_pipeline_differs(self):
        n, m = np.float32([-0.1]), np.float32([1.0000001])
        separate, fused = (instructions.compensate(n, m, alpha=0.1, pipelines=p) for p in ("separate", "fused"))
        assert separate[0] != fused[0]

    @given(st.lists(st.tuples(INT32, INT32), min_size=1, max_size=2))
    def test_accumulate_adds_whole_products(self, pairs):
        a, b = (np.array(side, np.int32)[:, None] for side in zip(*pairs, strict=True))
        exact = sum(x * y for x, y in pairs)
        found = instructions.accumulate(np.zeros(1, np.int64), a, b, product="int64")[0]
        assert found == (exact + 2**63) % 2**64 - 2**63
        if -(2**63) <= exact < 2**63:
            assert found == instructions.accumulate_by_integers(np.zeros(1, np.int64), a, b, product="int64")[0]

    def test_the_suite_sums_up_to_both_ends_of_int64(self):
        for case in ("near_the_top-int64", "near_the_bottom-int64"):
            mean, most = (largest("unit/accumulate_instruction", case, f"{of}_magnitude") for of in ("mean", "max"))
            assert 0.998 < mean / 2**63 < most / 2**63 < 1


class TestAdaptiveQuantization:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("bad", [[1.0, np.nan], [np.inf, 1.0], [0.0, -0.0], [-np.inf]])
    def test_what_has_no_scale_is_refused(self, form, bad):
        with pytest.raises(UserError) as told:
            adaptive.quantize(np.array(bad, np.float32), form=form)
        assert told.value.slug == "bad-scale"

    @given(
        st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=20).filter(
            lambda x: max(map(abs, x)) > 1e-30
        )
    )
    @settings(max_examples=60)
    def test_no_code_wraps_and_each_is_the_nearest(self, x):
        x = np.array(x, np.float32)
        codes = adaptive.quantize(x, form="double")["codes"]
        largest = max(map(abs, map(float, x)))
        scale = Fraction((2**31 - 1) / largest)
        assert np.abs(codes.astype(np.int64)).max() == 2**31 - 1
        for value, code in zip(x.tolist(), codes.tolist(), strict=True):
            assert abs(Fraction(value) * scale - code) <= Fraction(1, 2) or abs(code) == 2**31 - 1

    @pytest.mark.parametrize("form", ["published", "less_one"])
    @pytest.mark.parametrize("largest", [2.0, 3.0, 4.0, 1000.0, 3e38])
    def test_published_forms_wrap_the_largest_number(self, form, largest):
        x = np.array([largest, -1.0], np.float32)
        assert adaptive.quantize(x, form=form)["codes"][0] == -(2**31)
        assert adaptive.quantize(x, form="clipped")["codes"][0] == 2147483520
        assert adaptive.quantize(x, form="double")["codes"][0] == 2**31 - 1

    @pytest.mark.parametrize(("low", "high", "share"), [(0.001, 1.0, 0.0), (1.0, 2.0, 0.05), (2.0, 1e6, 0.86)])
    def test_how_often_the_published_form_wraps_is_as_its_suite_says(self, low, high, share):
        alone = np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(high), (2000, 1))).astype(np.float32)
        wrapped = [adaptive.quantize(x, form="published")["codes"][0] == -(2**31) for x in alone]
        assert np.mean(wrapped) == pytest.approx(share, abs=0.015)

    def test_the_largest_float32_below_2_to_31(self):
        assert np.nextafter(np.float32(2**31), np.float32(0)) == 2147483520
        assert np.float32(2**31 - 1) == 2**31


class TestMatmul:
    @given(st.integers(1, 70), st.integers(0, 2**32 - 1))
    @settings(max_examples=40)
    def test_no_sum_leaves_int64(self, k, seed):
        random = np.random.default_rng(seed)
        a = random.choice(np.array([-(2**31), 2**31 - 1], np.int32), (2, k))
        b = random.choice(np.array([-(2**31), 2**31 - 1], np.int32), (k, 2))
        one = np.float64(1)
        exact = matmul.by_fractions(a, b, one, one, headroom="headroom")
        found = matmul.matmul(a, b, one, one, headroom="headroom")
        assert np.abs(found - exact).max() <= k * 2.0**62 * 2.0**-22

    def test_three_products_near_2_to_62_wrap_without_headroom(self):
        a, b = np.full((1, 3), 2**31 - 1, np.int32), np.full((3, 1), 2**31 - 1, np.int32)
        assert 3 * (2**31 - 1) ** 2 > 2**63
        one = np.float64(1)
        assert matmul.matmul(a, b, one, one, headroom="none") < 0
        assert matmul.matmul(a, b, one, one, headroom="headroom") == np.float32(3 * (2**31 - 1) ** 2)
