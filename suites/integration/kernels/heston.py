"""A European call under Heston's model by Monte Carlo, its state stored in few bits, its errors carried or not.

    dv = kappa (theta - v+) dt + xi sqrt(v+ dt) z1        full truncation, v+ = max(v, 0)
    dx = (r - v+ / 2) dt + sqrt(v+ dt) z2                 x = log(S / S0), with v of the step before
    z2 = rho z1 + sqrt(1 - rho^2) e

Lord, Koekkoek and van Dijk, "A comparison of biased simulation schemes for stochastic volatility models", 2010. As
published the price's step takes v after its update, which is correlated with z2: as steps get smaller, the discounted
stock tends to exp(rho xi T / 2) of its worth. Steps are computed in the inputs' dtype; v and x are stored between them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from precreg.arithmetic import FORMATS, Rounding, round_to

Form = Literal["corrected", "published"]
Compensation = Literal["carried", "none"]
FIXED_STEPS = {"v": 2.0**-15, "x": 2.0**-13}
"""One code of the 16-bit fixed-point format: variances go to 1, logarithms to 4."""

FINER = 2.0**-15
"""An error is less than one code, so its own codes are as much finer."""


class Model(NamedTuple):
    """Heston's model, 1993, and the call: v0, theta are variances, kappa and xi rates a year, `years` to maturity."""

    spot: float
    strike: float
    rate: float
    kappa: float
    theta: float
    xi: float
    rho: float
    v0: float
    years: float


class Stored:
    """A variable that is stored in a format, and what was lost the last time, in such a format, if it is carried."""

    def __init__(self, start: npt.NDArray, step: float, format: str, rounding: Rounding, *, carries: bool) -> None:
        self.step, self.format, self.rounding, self.carries = step, format, rounding, carries
        self.value = self.rounded(start, step)
        self.error = np.zeros_like(start)

    def add(self, change: npt.NDArray) -> None:
        """Store value + change, less the error of the time before where it is carried."""
        wanted = self.value + (change - self.error)
        self.value = self.rounded(wanted, self.step)
        if self.carries:
            self.error = self.rounded(self.value - wanted, self.step * FINER)

    def rounded(self, values: npt.NDArray, step: float) -> npt.NDArray:
        """Round to the format, in the dtype of values; `fixed16` has codes of 16 bits of a step, and saturates."""
        if self.format != "fixed16":
            return round_to(values, FORMATS[self.format], self.rounding)
        unit = values.dtype.type(step)
        codes = {Rounding.TOWARD_ZERO: np.trunc, Rounding.NEAREST_EVEN: np.rint}[self.rounding](values / unit)
        return np.clip(codes, -32768, 32767) * unit


def price(
    z1: npt.NDArray,
    e: npt.NDArray,
    *,
    models: dict[str, dict[str, float]],
    model: str,
    form: Form = "corrected",
    format: str,
    rounding: str,
    compensation: Compensation,
) -> dict[str, npt.NDArray]:
    """Simulate with normals z1 and e (steps, paths). Gives the call's price and the discounted mean of the stock."""
    chosen = Model(**models[model])
    v, x = (
        Stored(
            np.full_like(z1[0], start), FIXED_STEPS[name], format, Rounding(rounding), carries=compensation == "carried"
        )
        for name, start in (("v", chosen.v0), ("x", 0.0))
    )
    for first, second in zip(z1, e, strict=True):
        step(v, x, first, second, chosen, len(z1), form)
    stock = chosen.spot * np.exp((x.value - x.error).astype(np.float64))
    discount = np.exp(-chosen.rate * chosen.years)
    return {"price": discount * np.maximum(stock - chosen.strike, 0).mean(), "stock": discount * stock.mean()}


def step(v: Stored, x: Stored, z1: npt.NDArray, e: npt.NDArray, model: Model, steps: int, form: Form) -> None:
    """Go on by one step in time, in the dtype of z1."""
    real = z1.dtype.type
    dt, zero = real(model.years / steps), real(0)
    z2 = real(model.rho) * z1 + real(np.sqrt(1 - model.rho**2)) * e
    before = np.maximum(v.value, zero)
    v.add(real(model.kappa) * (real(model.theta) - before) * dt + real(model.xi) * np.sqrt(before * dt) * z1)
    variance = before if form == "corrected" else np.maximum(v.value, zero)
    x.add((real(model.rate) - variance / 2) * dt + np.sqrt(variance * dt) * z2)
