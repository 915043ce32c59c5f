"""What Heston's Monte Carlo is held against: the same paths in float64, and the semi-analytic price. No kernel's code.

The call is S0 P1 - K exp(-r T) P2 with P_j = 1/2 + 1/pi integral of Re(exp(-i u log K) f_j(u) / (i u)) du from 0:
Heston, "A closed-form solution for options with stochastic volatility", 1993; the characteristic function in the form
that crosses no branch of the logarithm: Albrecher, Mayer, Schoutens and Tistaert, "The little Heston trap", 2007.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Parameters = dict[str, float]


def paths(
    z1: npt.NDArray[np.float64],
    e: npt.NDArray[np.float64],
    *,
    models: dict[str, Parameters],
    model: str,
    **params: object,
) -> dict[str, npt.NDArray]:
    """Simulate the stock itself, S *= exp(...), in float64. Further `params` are the subject's."""
    m = models[model]
    stock, v, dt = np.full(z1.shape[1], float(m["spot"])), np.full(z1.shape[1], m["v0"]), m["years"] / len(z1)
    for first, second in zip(z1, e, strict=True):
        variance = np.where(v > 0, v, 0)
        shock = np.sqrt(variance * dt)
        stock *= np.exp(
            (m["rate"] - 0.5 * variance) * dt + shock * (m["rho"] * first + (1 - m["rho"] ** 2) ** 0.5 * second)
        )
        v += m["kappa"] * (m["theta"] - variance) * dt + m["xi"] * shock * first
    discount = np.exp(-m["rate"] * m["years"])
    return {
        "price": discount * np.where(stock > m["strike"], stock - m["strike"], 0).mean(),
        "stock": discount * stock.mean(),
    }


def semi_analytic(
    z1: npt.NDArray, e: npt.NDArray, *, models: dict[str, Parameters], model: str, **params: object
) -> dict[str, float]:
    """Give the exact price; and what the discounted stock is worth, which is what it is today. No normals are used."""
    return {"price": np.float64(call(models[model])), "stock": np.float64(models[model]["spot"])}


def call(m: Parameters, end: float = 400.0, nodes: int = 8000) -> float:
    """Integrate by Gauss's rule with `nodes` in all, 40 on each interval of equal length up to `end`."""
    points, shares = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(0, end, nodes // 40 + 1)
    half = np.diff(edges)[:, None] / 2
    u = ((edges[:-1, None] + half) + half * points).ravel()
    shares = (half * shares).ravel()
    turn = np.exp(-1j * u * np.log(m["strike"])) / (1j * u)
    forward = m["spot"] * np.exp(m["rate"] * m["years"])
    p1 = 0.5 + (shares * (turn * characteristic(u - 1j, m) / forward).real).sum() / np.pi
    p2 = 0.5 + (shares * (turn * characteristic(u, m)).real).sum() / np.pi
    return m["spot"] * p1 - m["strike"] * np.exp(-m["rate"] * m["years"]) * p2


def characteristic(u: npt.NDArray, m: Parameters) -> npt.NDArray[np.complex128]:
    """Give E[exp(i u log S_T)]."""
    reverting = m["kappa"] - 1j * m["rho"] * m["xi"] * u
    root = np.sqrt(reverting**2 + m["xi"] ** 2 * (1j * u + u**2))
    ratio = (reverting - root) / (reverting + root)
    faded = np.exp(-root * m["years"])
    scale = (reverting - root) / m["xi"] ** 2
    drift = 1j * u * (np.log(m["spot"]) + m["rate"] * m["years"])
    mean = m["kappa"] * m["theta"] * (scale * m["years"] - 2 / m["xi"] ** 2 * np.log((1 - ratio * faded) / (1 - ratio)))
    return np.exp(drift + mean + scale * (1 - faded) / (1 - ratio * faded) * m["v0"])
