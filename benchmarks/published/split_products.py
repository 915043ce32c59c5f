"""Products of float32 as sums of narrow parts: bfloat16x2 and x3, TF32x3, and parts of float16.

Sources: Henry, Tang and Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations (2019, arXiv 1904.06376). Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while
surpassing the FP32 theoretical peak performance (2022). CUTLASS, example 27 (3xTF32).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from precreg.arithmetic import FORMATS, Rounding, Unit, matmul
from precreg.arithmetic.devices import device_named
from precreg.arithmetic.split_operands import split_values
from precreg.arithmetic.unit import Split, split_products
from published import Figure

TERMS = 1024
FLOAT32 = FORMATS["float32"]


def figures() -> Iterator[Figure]:
    """Compare errors against float64 with those of a sum in float32, all relative to the norm of the result."""
    a, b = operands()
    plain = error(matmul(a, b, Unit(FLOAT32, FLOAT32, FLOAT32)), a, b)
    yield Figure("float32 products, one after the other: relative error", "", f"{plain:.1e}")
    yield from of_bfloat16(a, b, plain)
    yield from of_tf32(a, b, plain)
    yield from of_float16(a, b)
    yield Figure("speed of any of these", "published", "not checked")


def of_bfloat16(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], plain: float) -> Iterator[Figure]:
    """Compare splits into two and three parts of bfloat16 (Henry et al.)."""
    parts = split_values(a, FORMATS["bfloat16"], 3)
    kept = float(np.mean(sum(part.astype(np.float64) for part in parts) == a))
    yield Figure("three parts of bfloat16: float32 values that they hold exactly", "all", f"{kept:.2%}", kept == 1.0)
    counts = {(parts, count): error(matmul(a, b, bfloat16_unit(parts, count)), a, b) for parts, count in SPLITS}
    for (number, count), found in counts.items():
        yield Figure(f"bfloat16x{number}, {count} products: error over float32's", "", f"{found / plain:.3g}")
    yield Figure(
        "bfloat16x3: error with 6 products / with 9",
        "1: six suffice",
        f"{counts[3, 6] / counts[3, 9]:.2f}",
        counts[3, 6] < 1.1 * counts[3, 9],
    )
    yield Figure(
        "bfloat16x3, 6 products, the smallest first: as accurate as float32",
        "yes",
        f"{counts[3, 6] / plain:.2f} times its error",
        counts[3, 6] <= plain,
    )
    largest_first = error(matmul(a, b, bfloat16_unit(3, 6, smallest_first=False)), a, b)
    yield Figure("the same, the largest first", "", f"{largest_first / plain:.2f} times its error")


SPLITS = ((2, 3), (2, 4), (3, 3), (3, 6), (3, 9))


def bfloat16_unit(parts: int, count: int, *, smallest_first: bool = True) -> Unit:
    """Return a unit that adds products of parts of bfloat16 in float32."""
    split = Split(parts, split_products(parts, count, smallest_first=smallest_first))
    return Unit(FORMATS["bfloat16"], FLOAT32, FLOAT32, split=split)


def of_tf32(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], plain: float) -> Iterator[Figure]:
    """Compare 3xTF32 with one product, with sums that are cut off, and with sums to nearest outside of the unit."""
    hopper = device_named("gpu-hopper")
    unit, outside = hopper.operand_unit("tf32x3"), hopper.operand_unit("tf32x3_nearest")
    all_four = replace(outside, split=replace(outside.split, products=split_products(2, 4)))
    instruction = replace(outside, promotion=replace(outside.promotion, rounding=Rounding.TOWARD_ZERO))
    units = (replace(outside, split=None), outside, all_four, instruction, unit)
    one, nearest, four, once, each = (error(matmul(a, b, unit), a, b) for unit in units)
    yield Figure("sums to nearest: error of 1xTF32 / of 3xTF32", "more than 1", f"{one / nearest:.3g}", one > nearest)
    yield Figure(
        "3xTF32: error with small x small / without",
        "1: they are too small",
        f"{four / nearest:.3f}",
        abs(four / nearest - 1) < 0.01,
    )
    for what, found in (("addition", each), ("instruction of 8 terms", once)):
        yield Figure(
            f"3xTF32 with sums cut off at each {what}: error over float32's",
            "more than 1",
            f"{found / plain:.3g}",
            found > plain,
        )
    yield Figure(
        "3xTF32 with sums to nearest outside of the unit: error over float32's",
        "about 1",
        f"{nearest / plain:.2f}",
        nearest < 1.25 * plain,
    )


def of_float16(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> Iterator[Figure]:
    """Compare operands of several sizes: parts of float16 underflow, those of TF32 do not."""
    split = Split(2, split_products(2, 3))
    half = Unit(FORMATS["float16"], FLOAT32, FLOAT32, split=split)
    wide = device_named("gpu-hopper").operand_unit("tf32x3_nearest")
    errors = {}
    for exponent in (0, -12):
        x = np.ldexp(a, exponent)
        errors[exponent] = [error(matmul(x, b, unit), x, b) for unit in (half, wide)]
        what = f"operands of size 2^{exponent}, two parts each: relative error, float16 / TF32"
        yield Figure(what, "", " / ".join(f"{found:.1e}" for found in errors[exponent]))
    grown = [small / large for small, large in zip(errors[-12], errors[0], strict=True)]
    yield Figure(
        "error at 2^-12 over that at 2^0, float16 / TF32",
        "float16 has a limited range",
        f"{grown[0]:.3g} / {grown[1]:.3g}",
        grown[0] > 2 > grown[1],
    )


def operands() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Draw standard normal operands."""
    random = np.random.default_rng(0)
    left, right = random.standard_normal((64, TERMS)), random.standard_normal((TERMS, 64))
    return left.astype(np.float32), right.astype(np.float32)


def error(actual: npt.NDArray, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    """Return the norm of the error over that of the product in float64."""
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(actual.astype(np.float64) - expected) / np.linalg.norm(expected))
