"""`precreg bits`: numbers in a format, bit by bit, and what rounding does to them on their way through several."""

from __future__ import annotations

from collections.abc import Iterator
from math import copysign, isinf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.arithmetic import Anatomy, ConversionChain, Expression, FixedPoint, Format, RoundingErrors


FIXED_POINT_NAMES = {"int8": 8, "int16": 16, "int32": 32}


@click.command("bits", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="VALUE [+|-|*|/ VALUE]...")
@click.option("--format", "names", multiple=True, metavar="NAME", help="The format (float32); each next is a hop.")
@click.option("--rounding", "rounding", default="nearest_even", metavar="NAME", help="How (docs/formats.md).")
@click.option("--scale", metavar="NUMBER", help="How many steps of int8, int16 and int32 make 1 (1).")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of stochastic rounding.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_obj
def bits_command(
    _project: Path | None,
    /,
    words: tuple[str, ...],
    names: tuple[str, ...],
    rounding: str,
    scale: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show sign, exponent, mantissa, exact decimal, neighbours and rounding error of numbers in a format.

    A VALUE is a decimal, a ratio (1/3), a hexadecimal float (0x1.8p3), inf, nan, or a pattern of the first format
    (bits:0x3c7c). It is read exactly. Between two values, one of + - * / (in quotes: '*') computes, rounded once.
    Several formats are hops from one to the next.
    """
    from precreg.arithmetic import convert_through, rounding_named

    formats = names or ("float32",)
    if scale is not None and FIXED_POINT_NAMES.keys().isdisjoint(formats):
        came = f"scale={scale} with {', '.join(formats)}"
        raise UserError("bad-value", f"expected a scale beside {', '.join(FIXED_POINT_NAMES)} only but got {came}")
    targets = tuple(_target(name, scale or "1") for name in formats)
    routes = [convert_through(asked, targets, rounding_named(rounding), seed) for asked in _asked(words)]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(routes), indent=2))
    else:
        click.echo("\n\n".join("\n".join(_lines(shown, targets)) for shown in routes))


def _target(name: str, scale: str) -> Format | FixedPoint:
    if name not in FIXED_POINT_NAMES:
        from precreg.arithmetic import format_named

        return format_named(name)
    from precreg.arithmetic import FORMATS, FixedPoint, exact_round, parse_number

    return FixedPoint(FIXED_POINT_NAMES[name], exact_round(parse_number(scale), FORMATS["float64"]))


def _asked(words: tuple[str, ...]) -> Iterator[Expression]:
    """Yield values, and operations between two of them. Raises UserError (bad-value) for an operator with one side."""
    from precreg.arithmetic import OPERATORS, Expression

    left = [part for word in words for part in word.split()]
    if not left:
        raise UserError("bad-value", "expected at least one number")
    while left:
        first = left.pop(0)
        if first.startswith("--"):
            raise click.NoSuchOption(first, possibilities=["--format", "--rounding", "--scale", "--seed", "--json"])
        operator = left.pop(0) if left and left[0] in OPERATORS else ""
        if first in OPERATORS or (operator and (not left or left[0] in OPERATORS)):
            raise UserError("bad-value", f"expected a number on each side of {operator or first}")
        yield Expression(first, operator, left.pop(0)) if operator else Expression(first)
        if operator and left and left[0] in OPERATORS:
            raise UserError("bad-value", f"expected one operation at a time but got {left[0]} after it")


def _lines(shown: ConversionChain, targets: tuple[Format | FixedPoint, ...]) -> Iterator[str]:
    yield shown.asked
    for index, (hop, target) in enumerate(zip(shown.hops, targets, strict=True)):
        scale = getattr(target, "scale", None)
        steps = "" if scale is None else f", scale {scale:.17g}"
        yield f"{'then ' if index else ''}to {hop.format}{steps}, {shown.rounding}"
        if shown.operands and not index:
            yield f"  of        {' and '.join(shown.operands)}"
        yield from (f"  {name:9} {text}" for name, text in _facts(hop))
    if shown.direct is not None:
        same = ", the same" if shown.direct == shown.hops[-1].value else ", another number: hops round more than once"
        yield f"directly to {shown.hops[-1].format}: {shown.direct}{same}"


def _facts(hop: Anatomy) -> Iterator[tuple[str, str]]:
    """Yield what is to be said of a number, and its name."""
    yield "value", hop.value
    yield "class", hop.kind
    if hop.pattern is None or hop.sign is None or hop.mantissa is None:
        yield "bits", f"none: {hop.format} has no such pattern"
    else:
        yield "sign", hop.sign
        if hop.exponent is not None:
            yield "exponent", hop.exponent + ("" if hop.power is None else f"  2^{hop.power}")
        yield "mantissa", hop.mantissa
        yield "pattern", hop.pattern
    yield "below", hop.below or "none"
    yield "above", hop.above or "none"
    yield "error", _error(hop.error)


def _error(error: RoundingErrors) -> str:
    if error.absolute is None:
        return "not defined"
    if not (error.absolute or error.ulp or error.relative):
        return "0"
    figures = ((error.absolute, ""), (error.ulp, " ULP"), (error.relative, " relative"))
    return ", ".join(_figure(figure) + unit for figure, unit in figures if figure is not None)


def _figure(error: float) -> str:
    """Return an error that is not zero; of one that float64 takes for zero or infinity only bounds are known."""
    if not error:
        return "> -5e-324" if copysign(1, error) < 0 else "< 5e-324"
    if isinf(error):
        return "> 1.8e308" if error > 0 else "< -1.8e308"
    return f"{error:.6g}"
