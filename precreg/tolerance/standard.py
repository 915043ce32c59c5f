"""Which parts has a published standard? Limits per dtype, alternatives, regions, and parameters that scale limits."""

from __future__ import annotations

from collections.abc import Mapping
from math import nextafter

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.errors import UserError, name_hint, nearest
from precreg.types import Location

# Limits by metric, rtol and atol; for a region, values by its constant.
Bounds = dict[str, float]


class DtypeLimits(Struct, frozen=True):
    """The limits of one dtype: all `bounds` must hold, and all bounds of one of the `alternatives`, if there are any.

    `regions` replaces constants of the regions in which precreg.measure counts violations.
    """

    bounds: Bounds = field(default_factory=dict)
    alternatives: tuple[Bounds, ...] = ()
    regions: Bounds = field(default_factory=dict)

    def scaled(self, names: tuple[str, ...], factor: float) -> DtypeLimits:
        """Return the limits with those in `names` multiplied by `factor`."""

        def times(bounds: Bounds) -> Bounds:
            return {name: limit * factor if name in names else limit for name, limit in bounds.items()}

        return DtypeLimits(times(self.bounds), tuple(map(times, self.alternatives)), times(self.regions))


class Parameter(Struct, frozen=True):
    """A number that a suite may give, at least `minimum` and below `below`.

    The limits named by `scales` apply at the default and grow in proportion to the parameter.
    """

    about: str
    default: float
    scales: tuple[str, ...]
    minimum: float
    below: float = float("inf")

    def admits(self, value: float) -> bool:
        """Return whether the parameter may have a value; NaN is never valid."""
        return self.minimum <= value < self.below


class Standard(Struct, frozen=True):
    """A published standard: limits per dtype, and `otherwise` for dtypes that it does not list, None if it has none."""

    name: str
    about: str
    source: str
    dtypes: dict[str, DtypeLimits]
    otherwise: DtypeLimits | None = None
    parameters: dict[str, Parameter] = field(default_factory=dict)
    # Differences from its publisher's program, for docs/standards.md.
    differs: tuple[str, ...] = ()

    def limits(self, dtype: str) -> DtypeLimits | None:
        """Return the limits of a dtype; None for a dtype that the standard leaves out."""
        return self.dtypes.get(dtype, self.otherwise)

    def given(self, values: Mapping[str, float]) -> Standard:
        """Return the standard with its limits scaled by values of its parameters, which must be valid."""
        # The limits at hand belong to the default, so they scale by the ratio to it.
        made = self
        for name, value in values.items():
            names, factor = self.parameters[name].scales, value / self.parameters[name].default
            dtypes = {dtype: limits.scaled(names, factor) for dtype, limits in made.dtypes.items()}
            otherwise = made.otherwise.scaled(names, factor) if made.otherwise else None
            made = replace(made, dtypes=dtypes, otherwise=otherwise)
        return made


def format_standard(name: str, values: Mapping[str, object]) -> str:
    """Format a standard and its parameters as the command line takes them: flaggems-1:reduced=768."""
    given = ",".join(f"{key}={value}" for key, value in values.items())
    return f"{name}:{given}" if given else name


def parse_standard(standards: Mapping[str, Standard], text: str, where: Location) -> Standard:
    """Return the standard of a name, with the parameters that follow a colon.

    Raises UserError: unknown-standard; bad-value for an unknown parameter or an invalid value.
    """
    name, _, given = text.partition(":")
    if name not in standards:
        message = f"expected the name of a standard but got standard={name}{nearest(name, standards)}"
        hint = name_hint(name, standards, "standard: ")
        raise UserError("unknown-standard", message, file=where.file, line=where.line, hint=hint)
    standard = standards[name]
    # An empty pair, or one without =, has an unknown name or an invalid value and is refused as such.
    pairs = [pair.partition("=") for pair in given.split(",")] if given else []
    return standard.given({key: _value(standard, key, value, where) for key, _, value in pairs})


def _value(standard: Standard, name: str, text: str, where: Location) -> float:
    parameter = standard.parameters.get(name)
    if parameter is None:
        known = f"a parameter of {standard.name} ({', '.join(standard.parameters) or 'it has none'})"
        message = f"expected {known} but got {name}={text}{nearest(name, standard.parameters)}"
        raise UserError(
            "bad-value",
            message,
            file=where.file,
            line=where.line,
            hint=f"write the name with a parameter that it has, or without: standard: {standard.name}",
        )
    # NaN is never valid, so a text that is not a number has the same error.
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not parameter.admits(value):
        below = "" if parameter.below == float("inf") else f" and below {parameter.below:g}"
        message = f"expected a number that is at least {parameter.minimum:g}{below} but got {name}={text}"
        raise UserError(
            "bad-value",
            message,
            file=where.file,
            line=where.line,
            hint=f"write such a number: standard: {standard.name}:{name}={parameter.minimum:g}",
        )
    return value


def close_limits(rtol: float, atol: float, match_ratio: float = 1.0) -> DtypeLimits:
    """Return limits that require a share of elements with |a-r| <= atol + rtol*|r|."""
    return DtypeLimits({"rtol": rtol, "atol": atol, "match_ratio": match_ratio})


def largest_below(limit: float) -> float:
    """Return the largest float64 below a limit."""
    # A bound admits its limit, and some standards require less than it.
    return nextafter(limit, 0.0)


def smallest_above(limit: float) -> float:
    """Return the smallest float64 above a limit."""
    # A region ends before its bound, and some standards include it.
    return nextafter(limit, float("inf"))


def for_dtypes(names: tuple[str, ...], limits: DtypeLimits) -> dict[str, DtypeLimits]:
    """Return the same limits for several dtypes."""
    return dict.fromkeys(names, limits)
