"""float64 to float32 to float16: the published values, with all their decimals and bits."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from published import Figure


def figures() -> Iterator[Figure]:
    """Round 1.12156456132 twice, and add 1.125 and 0.12457275390625 in two formats."""
    single = np.float32(1.12156456132)
    half = np.float16(single)
    yield exactly("1.12156456132 in float32", "1.12156450748443603515625", single)
    yield exactly("1.12156456132 in float32, then in float16", "1.12109375", half)
    yield Figure("its float32 bits: sign exponent mantissa", "", bits(int(single.view(np.uint32)), 8, 23))
    yield Figure("its float16 bits: sign exponent mantissa", "", bits(int(half.view(np.uint16)), 5, 10))
    yield exactly("1.125 + 0.12457275390625 in float16", "1.25", np.float16(1.125) + np.float16(0.12457275390625))
    yield exactly(
        "1.125 + 0.12457275390625 in float32", "1.24957275390625", np.float32(1.125) + np.float32(0.12457275390625)
    )


def exactly(what: str, published: str, value: np.floating) -> Figure:
    """Compare a binary number with published decimals as rational numbers."""
    measured = Fraction(float(value))
    digits = max(measured.denominator.bit_length() - 1, 1)  # of a fraction with denominator 2^k, k decimals
    return Figure(what, published, f"{float(value):.{digits}f}".rstrip("0"), measured == Fraction(published))


def bits(pattern: int, exponent: int, mantissa: int) -> str:
    """Write a pattern as sign, exponent and mantissa."""
    text = f"{pattern:0{1 + exponent + mantissa}b}"
    return f"{text[0]} {text[1 : 1 + exponent]} {text[1 + exponent :]}"
