"""Every operator that is changed, and which of them rules may be chosen on."""

from __future__ import annotations

import hashlib

from detecting import (
    activations,
    aggregates,
    attention,
    channels,
    distributions,
    elementary,
    integers,
    interpolation,
    logarithms,
    losses,
    norms,
    optimisers,
    products,
    reductions,
    rotations,
    running,
    scaling,
    signals,
    softmaxes,
    solving,
    statistics,
    systems,
)
from detecting.operator import Operator

MODULES = (
    reductions,
    norms,
    scaling,
    softmaxes,
    logarithms,
    activations,
    elementary,
    products,
    attention,
    optimisers,
    statistics,
    solving,
    signals,
    running,
    interpolation,
    integers,
)
LATER = (losses, aggregates, distributions, channels, rotations, systems)
OPERATORS: dict[str, Operator] = {
    operator.name: operator for module in (*MODULES, *LATER) for operator in module.OPERATORS
}
GROUPS = ("chosen on", "held out", "written last")


def written_last() -> frozenset[str]:
    """Return the operators that were written when all rules were there, before any result of theirs was looked at."""
    return frozenset(operator.name for module in LATER for operator in module.OPERATORS)


def held_out() -> frozenset[str]:
    """Return every other one of the operators before, by a digest of their names: thresholds are chosen on the rest."""
    before = OPERATORS.keys() - written_last()
    ordered = sorted(before, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return frozenset(ordered[1::2])


def group_of(name: str) -> str:
    """Name the group of an operator."""
    if name in written_last():
        return "written last"
    return "held out" if name in held_out() else "chosen on"
