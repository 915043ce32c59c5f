"""Heston's model by Monte Carlo: published prices, the published step and the corrected one, and 16 bits of state."""

from collections.abc import Iterator

import mpmath
import numpy as np

from published import Figure

STEPS, PATHS = 64, 16384
MODELS = {
    "ours": (100, 100, 0.05, 2, 0.04, 0.3, -0.7, 0.04, 1),
    "Broadie and Kaya, 2006": (100, 100, 0.0319, 6.21, 0.019, 0.61, -0.7, 0.010201, 1),
    "Fang and Oosterlee, 2008": (100, 100, 0, 1.5768, 0.0398, 0.5751, -0.5711, 0.0175, 1),
}
"""Spot, strike, rate, kappa, theta, xi, rho, v0, years."""
PRICES = {"Broadie and Kaya, 2006": "6.8061", "Fang and Oosterlee, 2008": "5.785155"}


def figures() -> Iterator[Figure]:
    """Compare integrals with published prices, and simulations with the integrals."""
    random = np.random.default_rng(0)
    z1, e = random.normal(size=(2, STEPS, PATHS))
    for name, model in MODELS.items():
        exact, published = float(call(*model)), PRICES.get(name, "")
        digits = len(published.partition(".")[2]) or 6
        text = f"{exact:.{digits}f}"
        yield Figure(
            f"{name}: semi-analytic price of the call", published, text, text == published if published else None
        )
        for form in ("corrected", "published"):
            price, spread, stock = simulated(z1, e, model, form)
            off = (price - exact) / spread
            yield Figure(f"{name}, {form}: Monte Carlo, in standard errors", "within 3", f"{off:+.1f}", abs(off) < 3)
            told = {("ours", "published"): 90, (name, "corrected"): 100}.get((name, form))
            what = f"{name}, {form}: discounted mean of the stock, 100 today"
            yield Figure(what, f"{told or ''}", f"{stock:.2f}", abs(stock - told) < 0.5 if told else None)
    full = simulated(z1, e, MODELS["ours"], "corrected")[0]
    for truncates in (False, True):
        for carries in (False, True):
            price = simulated(z1, e, MODELS["ours"], "corrected", lambda x, t=truncates: half(x, t), carries)[0]
            what = (
                f"float16 state, {'truncated' if truncates else 'nearest'}, errors {'' if carries else 'not '}carried"
            )
            yield Figure(
                f"{what}: pricing error", "below 0.1 %", f"{price / full - 1:.4%}", abs(price / full - 1) < 1e-3
            )


def simulated(z1, e, model, form, store=lambda x: x, carries=False):
    """Give the price, its standard error, and the discounted mean of the stock."""
    spot, strike, rate, kappa, theta, xi, rho, v0, years = model
    dt, z2 = years / STEPS, rho * z1 + np.sqrt(1 - rho**2) * e
    v, x = store(np.full(PATHS, float(v0))), np.zeros(PATHS)
    lost_v = lost_x = 0.0
    for first, second in zip(z1, z2, strict=True):
        before = np.maximum(v, 0)
        wanted = v + (kappa * (theta - before) * dt + xi * np.sqrt(before * dt) * first) - lost_v
        v = store(wanted)
        lost_v = store(v - wanted) if carries else 0.0
        used = np.maximum(v, 0) if form == "published" else before
        wanted = x + ((rate - used / 2) * dt + np.sqrt(used * dt) * second) - lost_x
        x = store(wanted)
        lost_x = store(x - wanted) if carries else 0.0
    stock = spot * np.exp(x - lost_x)
    payoff = np.exp(-rate * years) * np.maximum(stock - strike, 0)
    return payoff.mean(), payoff.std() / np.sqrt(PATHS), np.exp(-rate * years) * stock.mean()


def half(x: np.ndarray, truncates: bool) -> np.ndarray:
    """Round to float16, to nearest or toward zero."""
    near = x.astype(np.float16)
    if truncates:
        near = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float16(0)), near)
    return near.astype(np.float64)


def call(spot, strike, rate, kappa, theta, xi, rho, v0, years):
    """Integrate Heston's two probabilities with 20 digits: 1993, in the form of Albrecher et al., 2007."""

    def characteristic(u):
        reverting = kappa - rho * xi * 1j * u
        d = mpmath.sqrt(reverting**2 + xi**2 * (1j * u + u**2))
        g, faded = (reverting - d) / (reverting + d), mpmath.exp(-d * years)
        c = kappa * theta / xi**2 * ((reverting - d) * years - 2 * mpmath.log((1 - g * faded) / (1 - g)))
        drift = 1j * u * (mpmath.log(spot) + rate * years)
        return mpmath.exp(drift + c + (reverting - d) / xi**2 * (1 - faded) / (1 - g * faded) * v0)

    def probability(shift, scale):
        def density(u):
            return (mpmath.exp(-1j * u * mpmath.log(strike)) * characteristic(u - shift) / scale / (1j * u)).real

        return mpmath.mpf(1) / 2 + mpmath.quad(density, [0, 5, 20, 50, 100, 200, 400]) / mpmath.pi

    with mpmath.workdps(20):
        first = probability(mpmath.mpc(0, 1), characteristic(mpmath.mpc(0, -1)))
        return spot * first - strike * mpmath.exp(-rate * years) * probability(0, 1)
