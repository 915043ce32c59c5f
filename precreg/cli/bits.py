"""Which bits does a number have in a format, and how do conversions through several formats round it?"""

from __future__ import annotations

from collections.abc import Iterator
from math import copysign, isinf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.arithmetic import (
        Anatomy,
        BlockOperand,
        ConversionChain,
        Expression,
        FixedPoint,
        Format,
        RoundingErrors,
    )

# Widths in bits of the integer formats, which need a scale.
FIXED_POINT_NAMES = {"int8": 8, "int16": 16, "int32": 32}


@click.command("bits", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="VALUE [+|-|*|/ VALUE]...")
@click.option("--format", "names", multiple=True, metavar="NAME", help="The format (float32); more convert in turn.")
@click.option("--rounding", default="nearest_even", metavar="NAME", help="The rounding mode (docs/formats.md).")
@click.option("--scale", metavar="NUMBER", help="Steps of int8, int16 and int32 that make 1 (1).")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of stochastic rounding.")
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
    Several formats are conversions from one to the next.
    """
    from precreg.arithmetic import convert_through, rounding_named

    formats = names or ("float32",)
    # A scale that no format uses is a mistake, not a detail to ignore.
    if scale is not None and FIXED_POINT_NAMES.keys().isdisjoint(formats):
        received = f"scale={scale} with {', '.join(formats)}"
        raise UserError(
            "bad-value",
            f"expected a scale beside {', '.join(FIXED_POINT_NAMES)} only but got {received}",
            hint="leave out --scale, or name such a format: precreg bits 1.12 --format int8 --scale 0.05",
        )
    targets = tuple(_target(name, scale or "1") for name in formats)
    expressions = _parse_expressions(words)
    chains = [convert_through(each, targets, rounding_named(rounding), seed) for each in expressions]
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(chains), indent=2))
    else:
        click.echo("\n\n".join("\n".join(_describe(chain, targets)) for chain in chains))


def _target(name: str, scale: str) -> Format | FixedPoint:
    if name not in FIXED_POINT_NAMES:
        from precreg.arithmetic import BLOCK_OPERANDS, format_named

        if name in BLOCK_OPERANDS:
            elements = _element_option(BLOCK_OPERANDS[name])
            raise UserError(
                "unknown-format",
                f"expected a format of single numbers but got format={name}, whose numbers share a scale in blocks",
                hint=f"name the format of its elements: precreg bits 1.5 --format {elements}",
            )
        return format_named(name)
    from precreg.arithmetic import FORMATS, FixedPoint, exact_round, parse_number

    # Read exactly and rounded once, so that a scale such as 1/3 is the nearest float64.
    return FixedPoint(FIXED_POINT_NAMES[name], exact_round(parse_number(scale), FORMATS["float64"]))


def _element_option(operand: BlockOperand) -> str:
    """Return the value of --format for the elements of a format of blocks."""
    from precreg.arithmetic import FORMATS

    element = operand.element
    if element.name.removesuffix("_sat") in FORMATS:
        return element.name
    # The elements of mxint8 are multiples of 2**-6: 8-bit integers, of which 64 stand for 1.
    return f"int8 --scale {round(1 / element.smallest_subnormal)}"


def _parse_expressions(words: tuple[str, ...]) -> Iterator[Expression]:
    """Yield values, and operations on two values. Raises UserError (bad-value) for an operator with one side."""
    from precreg.arithmetic import OPERATORS, Expression

    # The shell may pass '1.5 + 2' as one word or as three.
    left = [part for word in words for part in word.split()]
    if not left:
        raise UserError(
            "bad-value", "expected at least one number", hint="write one: precreg bits 1.12 --format float16"
        )
    while left:
        first = left.pop(0)
        # The command ignores unknown options, so that negative numbers are values; misspelt options arrive here.
        if first.startswith("--"):
            raise click.NoSuchOption(first, possibilities=["--format", "--rounding", "--scale", "--seed", "--json"])
        operator = left.pop(0) if left and left[0] in OPERATORS else ""
        if first in OPERATORS or (operator and (not left or left[0] in OPERATORS)):
            raise UserError(
                "bad-value",
                f"expected a number on each side of {operator or first}",
                hint=f"write both numbers: precreg bits '1.5 {operator or first} 2'",
            )
        yield Expression(first, operator, left.pop(0)) if operator else Expression(first)
        if operator and left and left[0] in OPERATORS:
            raise UserError(
                "bad-value",
                f"expected one operation at a time but got {left[0]} after it",
                hint="write one operation, and the next one in a call of its own: precreg bits '1.5 + 2'",
            )


def _describe(chain: ConversionChain, targets: tuple[Format | FixedPoint, ...]) -> Iterator[str]:
    """Yield the lines of one chain: each conversion with its facts, and the direct conversion for comparison."""
    yield chain.asked
    for index, (conversion, target) in enumerate(zip(chain.hops, targets, strict=True)):
        scale = getattr(target, "scale", None)
        steps = "" if scale is None else f", scale {scale:.17g}"
        yield f"{'then ' if index else ''}to {conversion.format}{steps}, {chain.rounding}"
        if chain.operands and not index:
            yield f"  of        {' and '.join(chain.operands)}"
        yield from (f"  {name:9} {text}" for name, text in _facts(conversion))
    if chain.direct is not None:
        # A chain of conversions may round twice, and only the direct conversion shows it.
        is_same = chain.direct == chain.hops[-1].value
        remark = "the same" if is_same else "another number: every conversion rounds"
        yield f"directly to {chain.hops[-1].format}: {chain.direct}, {remark}"


def _facts(conversion: Anatomy) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact about a converted number."""
    yield "value", conversion.value
    yield "class", conversion.kind
    if conversion.pattern is None or conversion.sign is None or conversion.mantissa is None:
        yield "bits", f"none: {conversion.format} has no such pattern"
    else:
        yield "sign", conversion.sign
        if conversion.exponent is not None:
            yield "exponent", conversion.exponent + ("" if conversion.power is None else f"  2^{conversion.power}")
        yield "mantissa", conversion.mantissa
        yield "pattern", conversion.pattern
    yield "below", conversion.below or "none"
    yield "above", conversion.above or "none"
    yield "error", _error(conversion.error)


def _error(error: RoundingErrors) -> str:
    if error.absolute is None:
        return "not defined"
    if not (error.absolute or error.ulp or error.relative):
        return "0"
    figures = ((error.absolute, ""), (error.ulp, " ULP"), (error.relative, " relative"))
    return ", ".join(_figure(figure) + unit for figure, unit in figures if figure is not None)


def _figure(error: float) -> str:
    """Return the text of a nonzero error; if it underflows or overflows in float64, return a bound."""
    # The exact error is nonzero, but float64 has no number below 5e-324 or above 1.8e308.
    if not error:
        return "> -5e-324" if copysign(1, error) < 0 else "< 5e-324"
    if isinf(error):
        return "> 1.8e308" if error > 0 else "< -1.8e308"
    return f"{error:.6g}"
