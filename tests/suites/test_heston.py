"""Heston: the semi-analytic price against published ones, paths against 20 digits, a state of 16 bits."""

import mpmath
import numpy as np
import pytest

from tests.suites.kernel_files import load
from tests.suites.measured import largest

kernel = load("integration/kernels/heston")
oracles = load("integration/kernels/heston_oracles")

NAMES = ("spot", "strike", "rate", "kappa", "theta", "xi", "rho", "v0", "years")
ORDINARY = dict(zip(NAMES, (100, 100, 0.05, 2, 0.04, 0.3, -0.7, 0.04, 1), strict=True))
PUBLISHED = {
    "6.8061": (100, 100, 0.0319, 6.21, 0.019, 0.61, -0.7, 0.010201, 1),  # Broadie and Kaya, 2006, table 1
    "34.9998": (100, 100, 0.05, 2, 0.09, 1, -0.3, 0.09, 5),  # the same, table 2
    "5.785155": (100, 100, 0, 1.5768, 0.0398, 0.5751, -0.5711, 0.0175, 1),  # Fang and Oosterlee, 2008, table 4
}
EXACT = {"form": "corrected", "format": "float64", "rounding": "nearest_even", "compensation": "none"}


def normals(seed, steps=16, paths=500):
    return np.random.default_rng(seed).normal(size=(2, steps, paths))


class TestSemiAnalytic:
    @pytest.mark.parametrize("price", PUBLISHED)
    def test_gives_published_prices(self, price):
        digits = len(price.partition(".")[2])
        assert f"{oracles.call(dict(zip(NAMES, PUBLISHED[price], strict=True))):.{digits}f}" == price

    @pytest.mark.parametrize("model", [ORDINARY, dict(zip(NAMES, PUBLISHED["6.8061"], strict=True))])
    def test_more_nodes_and_a_longer_interval_change_nothing(self, model):
        assert oracles.call(model) == pytest.approx(oracles.call(model, end=900.0, nodes=24000), rel=1e-12)

    def test_without_volatility_of_variance_it_is_black_and_scholes(self):
        calm = ORDINARY | {"xi": 1e-5, "v0": 0.04, "theta": 0.04}
        d1 = (0.05 + 0.02) / 0.2
        expected = 100 * mpmath.ncdf(d1) - 100 * mpmath.exp(-0.05) * mpmath.ncdf(d1 - 0.2)
        assert oracles.call(calm) == pytest.approx(float(expected), rel=1e-5)

    def test_the_characteristic_function_is_a_martingales(self):
        forward = oracles.characteristic(np.array([-1j]), ORDINARY)[0]
        assert forward == pytest.approx(100 * np.exp(0.05), rel=1e-12)


class TestPaths:
    def test_one_path_by_20_digits(self):
        z1, e = normals(0, steps=4, paths=1)
        with mpmath.workdps(20):
            v, x, dt = mpmath.mpf(ORDINARY["v0"]), mpmath.mpf(0), mpmath.mpf(1) / 4
            for first, second in zip(z1[:, 0].tolist(), e[:, 0].tolist(), strict=True):
                before = max(v, mpmath.mpf(0))
                z2 = mpmath.mpf(-0.7) * first + mpmath.sqrt(1 - mpmath.mpf(-0.7) ** 2) * second
                x += (mpmath.mpf(0.05) - before / 2) * dt + mpmath.sqrt(before * dt) * z2
                v += 2 * (mpmath.mpf(0.04) - before) * dt + mpmath.mpf(0.3) * mpmath.sqrt(before * dt) * first
            stock = float(100 * mpmath.exp(x - mpmath.mpf(0.05)))
        for found in (
            kernel.price(z1, e, models={"m": ORDINARY}, model="m", **EXACT),
            oracles.paths(z1, e, models={"m": ORDINARY}, model="m"),
        ):
            assert found["stock"] == pytest.approx(stock, rel=1e-13)
            assert found["price"] == pytest.approx(max(stock - 100 * np.exp(-0.05), 0), rel=1e-11)

    @pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5])
    def test_variance_after_its_update_costs_half_rho_xi_t(self, rho):
        models = {"m": ORDINARY | {"rho": rho}}
        z1, e = normals(1, steps=32, paths=20000)
        stock = kernel.price(z1, e, models=models, model="m", **(EXACT | {"form": "published"}))["stock"]
        assert stock == pytest.approx(100 * np.exp(rho * 0.3 / 2), rel=0.01)
        assert kernel.price(z1, e, models=models, model="m", **EXACT)["stock"] == pytest.approx(100, rel=0.01)

    def test_where_the_variance_often_reaches_0_it_costs_less_until_steps_are_small(self):
        models = {"m": dict(zip(NAMES, PUBLISHED["6.8061"], strict=True))}
        worth = []
        for steps in (64, 512):
            z1, e = normals(2, steps=steps, paths=10000)
            worth.append(kernel.price(z1, e, models=models, model="m", **(EXACT | {"form": "published"}))["stock"])
        assert worth[0] == pytest.approx(83, abs=0.5)
        assert 100 * np.exp(-0.7 * 0.61 / 2) < worth[1] < worth[0] - 1

    def test_a_negative_variance_counts_as_none(self):
        z1, e = np.full((3, 2), -30.0), np.zeros((3, 2))
        wild = {"m": ORDINARY | {"xi": 5.0, "rate": 0.0}}
        assert np.isfinite(kernel.price(z1, e, models=wild, model="m", **EXACT)["stock"])


class TestStored:
    @pytest.mark.parametrize("format", ["float16", "bfloat16", "fixed16"])
    @pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero"])
    def test_many_small_changes_arrive_only_if_errors_are_carried(self, format, rounding):
        changes = np.full((4000, 1), 2.0**-16 * 1.1, np.float32)
        reached = {}
        for carries in (True, False):
            kept = kernel.Stored(
                np.full(1, 0.5, np.float32), 2.0**-13, format, kernel.Rounding(rounding), carries=carries
            )
            for change in changes:
                kept.add(change)
            reached[carries] = float(kept.value[0] - kept.error[0])
        assert reached[True] - 0.5 == pytest.approx(changes.sum(dtype=np.float64), rel=0.1)
        assert reached[False] == 0.5, "each change is less than half a unit in the last place"

    def test_fixed_point_saturates(self):
        kept = kernel.Stored(np.array([9.0, -9.0]), 2.0**-13, "fixed16", kernel.Rounding.NEAREST_EVEN, carries=False)
        assert kept.value.tolist() == [32767 / 8192, -4.0]


@pytest.mark.parametrize(
    ("case", "percent"),
    [
        ("ordinary-float16-toward_zero-none", 1.5),
        ("ordinary-fixed16-toward_zero-none", 1.8),
        ("ordinary-float16-toward_zero-carried", 0.014),
        ("fast_reverting-float16-toward_zero-carried", 0.0045),
        ("ordinary-bfloat16-toward_zero-carried", 0.14),
    ],
)
def test_prices_are_off_by_what_the_suite_says(case, percent):
    assert 100 * largest("integration/heston", case, "max_rel_error") == pytest.approx(percent, rel=0.05)
