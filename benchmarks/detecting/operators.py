"""Every operator that is changed, and which of them rules may be chosen on."""

from __future__ import annotations

import hashlib

from detecting import (
    activations,
    attention,
    elementary,
    integers,
    interpolation,
    logarithms,
    norms,
    optimisers,
    products,
    reductions,
    running,
    scaling,
    signals,
    softmaxes,
    solving,
    statistics,
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
OPERATORS: dict[str, Operator] = {operator.name: operator for module in MODULES for operator in module.OPERATORS}


def held_out() -> frozenset[str]:
    """Return every other operator in the order of a digest of their names: thresholds are chosen on the rest."""
    ordered = sorted(OPERATORS, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return frozenset(ordered[1::2])
