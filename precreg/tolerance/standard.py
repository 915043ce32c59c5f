"""What a published standard is made of: limits per dtype, alternatives, regions, and parameters that scale limits."""

from __future__ import annotations

from collections.abc import Mapping
from math import nextafter

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.errors import UserError, nearest
from precreg.types import Location

Bounds = dict[str, float]
"""Limits by metric, rtol and atol; for a region by its constant in measure/regions.py."""


class DtypeLimits(Struct, frozen=True):
    """What is asked of one dtype: all `bounds`, and all of at least one of the `alternatives`, where there are any.

    `regions` takes the place of constants of measure/regions.py while the output is measured.
    """

    bounds: Bounds = field(default_factory=dict)
    alternatives: tuple[Bounds, ...] = ()
    regions: Bounds = field(default_factory=dict)

    def scaled(self, names: tuple[str, ...], factor: float) -> DtypeLimits:
        """Return the same with the named limits multiplied."""

        def times(bounds: Bounds) -> Bounds:
            return {name: limit * factor if name in names else limit for name, limit in bounds.items()}

        return DtypeLimits(times(self.bounds), tuple(map(times, self.alternatives)), times(self.regions))


class Parameter(Struct, frozen=True):
    """A number that a suite may give: the limits named by `scales` are those at the default, and grow in proportion.

    It is at least `least` and below `below`.
    """

    about: str
    default: float
    scales: tuple[str, ...]
    least: float
    below: float = float("inf")

    def admits(self, value: float) -> bool:
        """Tell whether the parameter may have this value; NaN it may not."""
        return self.least <= value < self.below


class Standard(Struct, frozen=True):
    """Limits per dtype; `otherwise` holds for dtypes that are not listed, None where it has nothing to say."""

    name: str
    about: str
    source: str
    dtypes: dict[str, DtypeLimits]
    otherwise: DtypeLimits | None = None
    parameters: dict[str, Parameter] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    """Where it is not to the letter what its publisher's program does."""

    def limits(self, dtype: str) -> DtypeLimits | None:
        """Return what is asked of an output of that dtype; None for a dtype left out."""
        return self.dtypes.get(dtype, self.otherwise)

    def given(self, values: Mapping[str, float]) -> Standard:
        """Return the standard with values for its parameters, each of which it has and admits."""
        made = self
        for name, value in values.items():
            names, factor = self.parameters[name].scales, value / self.parameters[name].default
            dtypes = {dtype: limits.scaled(names, factor) for dtype, limits in made.dtypes.items()}
            otherwise = made.otherwise.scaled(names, factor) if made.otherwise else None
            made = replace(made, dtypes=dtypes, otherwise=otherwise)
        return made


def format_standard(name: str, values: Mapping[str, object]) -> str:
    """Write a standard and its parameters as the command line takes them: flaggems-1:reduced=768."""
    given = ",".join(f"{key}={value}" for key, value in values.items())
    return f"{name}:{given}" if given else name


def parse_standard(standards: Mapping[str, Standard], text: str, where: Location) -> Standard:
    """Return the standard of that name, with the parameters given behind a colon.

    Raises UserError: unknown-standard; bad-value for a parameter that it does not have or does not admit.
    """
    name, _, given = text.partition(":")
    if name not in standards:
        message = f"expected the name of a standard but got standard={name}{nearest(name, standards)}"
        raise UserError("unknown-standard", message, file=where.file, line=where.line)
    standard = standards[name]
    pairs = [pair.partition("=") for pair in given.split(",")] if given else []
    return standard.given({key: _value(standard, key, value, where) for key, _, value in pairs})


def _value(standard: Standard, name: str, text: str, where: Location) -> float:
    parameter = standard.parameters.get(name)
    if parameter is None:
        known = f"a parameter of {standard.name} ({', '.join(standard.parameters) or 'it has none'})"
        message = f"expected {known} but got {name}={text}{nearest(name, standard.parameters)}"
        raise UserError("bad-value", message, file=where.file, line=where.line)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not parameter.admits(value):
        below = "" if parameter.below == float("inf") else f" and below {parameter.below:g}"
        message = f"expected a number that is at least {parameter.least:g}{below} but got {name}={text}"
        raise UserError("bad-value", message, file=where.file, line=where.line)
    return value


def close_limits(rtol: float, atol: float, match_ratio: float = 1.0) -> DtypeLimits:
    """Ask for a share of elements with |a-r| <= atol + rtol*|r|."""
    return DtypeLimits({"rtol": rtol, "atol": atol, "match_ratio": match_ratio})


def largest_below(limit: float) -> float:
    """Return the largest float64 below a limit: a bound admits its limit, and some standards ask for less."""
    return nextafter(limit, 0.0)


def smallest_above(limit: float) -> float:
    """Return the smallest float64 above a limit: regions end before their bound, and some standards include it."""
    return nextafter(limit, float("inf"))


def for_dtypes(names: tuple[str, ...], limits: DtypeLimits) -> dict[str, DtypeLimits]:
    """Return the same limits for several dtypes."""
    return dict.fromkeys(names, limits)
