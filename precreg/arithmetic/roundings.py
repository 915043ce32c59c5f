"""The ways a number between two neighbours of a format goes to one of them."""

from __future__ import annotations

from enum import StrEnum

from precreg.arithmetic.formats import Format
from precreg.errors import UserError, nearest


class Rounding(StrEnum):
    """Roundings of IEEE 754-2019, section 4.3, and three more: away, odd and stochastic.

    away goes to the neighbour of larger magnitude; odd goes to the one whose last bit is 1, unless the number is exact
    (Boldo and Melquiond, 2008); stochastic goes up in magnitude with the probability of its distance, in steps of
    2^-24.
    """

    NEAREST_EVEN = "nearest_even"
    NEAREST_AWAY = "nearest_away"
    TOWARD_ZERO = "toward_zero"
    UP = "up"
    DOWN = "down"
    AWAY = "away"
    ODD = "odd"
    STOCHASTIC = "stochastic"


def rounding_named(name: str) -> Rounding:
    """Return the rounding of that name. Raises UserError (unknown-rounding)."""
    try:
        return Rounding(name)
    except ValueError:
        known = [rounding.value for rounding in Rounding]
        message = f"expected one of {', '.join(known)} but got rounding={name}{nearest(name, known)}"
        raise UserError("unknown-rounding", message) from None


def beyond_largest(format: Format, rounding: Rounding) -> tuple[float, float]:
    """Return the magnitudes that finite numbers beyond the largest become: of negative ones, and of positive ones.

    A rounding that goes toward zero stays at the largest number, and so does odd; all others give `format.overflow`,
    stochastic too, once the draw has gone up to what would be the next number.
    """
    stays = {
        Rounding.TOWARD_ZERO: (True, True),
        Rounding.ODD: (True, True),
        Rounding.UP: (True, False),
        Rounding.DOWN: (False, True),
    }.get(rounding, (False, False))
    negative, positive = (format.largest if stay else format.overflow for stay in stays)
    return negative, positive
