"""Every operator that is changed, and which of them rules may be chosen on."""

from __future__ import annotations

import hashlib

from detecting import activations, norms, products, reductions, softmaxes
from detecting.operator import Operator

MODULES = (reductions, norms, softmaxes, activations, products)
OPERATORS: dict[str, Operator] = {operator.name: operator for module in MODULES for operator in module.OPERATORS}


def held_out() -> frozenset[str]:
    """Return every other operator in the order of a digest of their names: thresholds are chosen on the rest."""
    ordered = sorted(OPERATORS, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return frozenset(ordered[1::2])
