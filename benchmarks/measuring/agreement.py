"""Whether others find what we find on the same arrays, before anybody is timed."""

from __future__ import annotations

from math import isclose
from typing import NamedTuple

from measuring.peers import Figures


class Tolerance(NamedTuple):
    """How far two figures may lie apart."""

    relative: float
    absolute: float = 0.0
    why: str = ""


COUNTED = Tolerance(1 / 64, why="ours come from counts by size, at most 1/128 above")
IN_FLOAT64 = Tolerance(1e-6, 1e-12, why="terms are added in another order")
PRINTED = Tolerance(1e-4, why="six digits are printed, of a difference in float32")
IN_FLOAT32 = Tolerance(1e-4, 1e-12, why="means in float32, cosine rounded to six digits")
LOGARITHM = Tolerance(0.0, 1 / 64, why="of ULP that are rounded up by at most 1/128")


def tolerance(name: str, peer: str) -> Tolerance:
    """Return how closely a figure of a peer has to agree."""
    if name == "mean_log2_ulp":
        return LOGARITHM
    if name.startswith("p") and name[1].isdigit():
        return COUNTED
    if peer.startswith(("np.testing", "torch")):
        return PRINTED
    return IN_FLOAT32 if peer.startswith(("msprobe", "Polygraphy")) else IN_FLOAT64


def disagreements(peer: str, theirs: Figures, ours: Figures) -> list[str]:
    """Return a line for every figure of a peer that is not ours."""
    n = ours["n"]
    said = {**ours, "within": ours["match_ratio"] == 1, "beyond": round(n * (1 - ours["match_ratio"]))}
    lines = []
    for name, value in theirs.items():
        allowed = tolerance(name, peer)
        if name not in said:
            lines.append(f"{peer}: {name} is {value!r}, and we have none")
        elif not isclose(said[name], value, rel_tol=allowed.relative, abs_tol=allowed.absolute):
            lines.append(f"{peer}: {name} is {value!r}, and ours is {said[name]!r}")
    return lines
