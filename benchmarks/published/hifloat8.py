"""HiFloat8: how many binades and exponents it has, and how far off its numbers are.

Source: Luo et al., Ascend HiFloat8 Format for Deep Learning (2024, arXiv 2409.16626).
"""

from collections import Counter
from collections.abc import Iterator
from math import frexp, isfinite

import numpy as np

from precreg.arithmetic import FORMATS, Format, Rounding, format_named, round_to
from precreg.arithmetic.hifloat8 import decode_hifloat8, hifloat8_fields
from published import Figure


def figures() -> Iterator[Figure]:
    """Count the numbers of all 256 codes, and compare roundings with those of fp8."""
    numbers = [decode_hifloat8(code) for code in range(256)]
    # Those of infinity are among the fields: its exponent has one number.
    fields = [hifloat8_fields(code) for code in range(128)]
    normal = {(each.dot, each.exponent): len(each.mantissa) for each in fields if each.dot != "0000"}
    for bits, published in ((3, 7), (2, 8), (1, 16)):
        found = Counter(normal.values())[bits]
        yield Figure(f"exponents with {bits}-bit mantissa", f"{published}", f"{found}", found == published)
    in_binade = {frexp(number)[1] for number in numbers if isfinite(number) and number > 0}
    for what, published, count in (
        ("binades of normal numbers", 31, len(normal)),
        ("binades with denormal numbers", 38, len(in_binade)),
        ("binades of float16", 40, binades(FORMATS["float16"])),
        ("codes of zero", 1, sum(number == 0 for number in numbers)),
    ):
        yield Figure(what, f"{published}", f"{count}", count == published)
    for low, high in ((-3, 3), (-7, 7), (-15, 14)):
        worst = [f"{name} {largest_error(name, low, high):.2%}" for name in ("hif8", "float8_e4m3fn", "float8_e5m2")]
        yield Figure(f"largest relative error from 2^{low} to 2^{high + 1}", "", ", ".join(worst))
    yield Figure("accuracy of networks that train in it", "that of float16", "not checked")


def binades(known: Format) -> int:
    """Return the powers of two from the smallest number to the largest, both included."""
    return known.max_exponent - (frexp(known.smallest_subnormal)[1] - 1) + 1


def largest_error(name: str, low: int, high: int) -> float:
    """Return the largest relative error of rounding, half away from zero; values beyond the largest saturate."""
    x = np.exp2(np.linspace(low, high + 1, 200_001)[:-1]).astype(np.float32)
    rounded = round_to(x, format_named(f"{name}_sat"), Rounding.NEAREST_AWAY)
    return float(np.abs(rounded.astype(np.float64) / x - 1).max())
