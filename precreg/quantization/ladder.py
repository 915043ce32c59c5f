"""Which format does a layer get next, after a sample of its errors?

A layer stands on a ladder of formats, from narrow to wide. It goes up at once when its error exceeds its budget. It
goes down one rung when the next narrower format has stayed far below the budget for some samples in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from precreg.types import FormatChangeReason


class Rules(NamedTuple):
    """Hold the budget of relative errors, and how calm a narrower format must be before a layer goes down to it.

    `margin` is the share of the budget that its error may have; `patience` counts samples in a row.
    """

    budget: float
    margin: float
    patience: int


class Position(NamedTuple):
    """Hold the index of a layer's format, and for how many samples in a row the next narrower one was calm."""

    rung: int
    calm: int = 0


class Move(NamedTuple):
    """Hold the next position, and why it is another format: None if it is the same."""

    position: Position
    error: float
    new_error: float
    reason: FormatChangeReason | None = None
    # True: the error exceeds the budget in every wider format.
    is_unmet: bool = False


def next_move(position: Position, top: int, rules: Rules, error_of: Callable[[int], float]) -> Move:
    """Return the move after a sample. `error_of(rung)` measures the layer in a format; NaN and inf are never allowed.

    Wider formats are measured only if the present one exceeds the budget, and the next narrower one only otherwise.
    """
    error = _known(error_of(position.rung))
    if error > rules.budget:
        return _up(position, top, rules, error, error_of)
    if position.rung == 0:
        return Move(Position(0), error, error)
    below = _known(error_of(position.rung - 1))
    if below > rules.margin * rules.budget:
        return Move(Position(position.rung), error, error)
    calm = position.calm + 1
    if calm < rules.patience:
        return Move(Position(position.rung, calm), error, error)
    return Move(Position(position.rung - 1), error, below, "calm")


def _up(position: Position, top: int, rules: Rules, error: float, error_of: Callable[[int], float]) -> Move:
    """Go to the narrowest wider format that keeps within the budget, or to the best one if none does."""
    reason: FormatChangeReason = "non_finite" if error == inf else "over_budget"
    best, least = position.rung, error
    for rung in range(position.rung + 1, top + 1):
        found = _known(error_of(rung))
        if found < least:
            best, least = rung, found
        if found <= rules.budget:
            return Move(Position(rung), error, found, reason)
    changed = best != position.rung
    return Move(Position(best), error, least, reason if changed else None, is_unmet=True)


def _known(error: float) -> float:
    # NaN compares with nothing: as an infinity it exceeds every budget.
    return inf if error != error else error
