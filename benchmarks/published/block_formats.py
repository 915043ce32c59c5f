"""Formats of blocks with scales: OCP Microscaling v1.0 (2023), and NVFP4 (2025), on made-up data.

Sources: OCP Microscaling Formats (MX) Specification v1.0. Rouhani et al., With Shared Microexponents, A Little Shifting
Goes a Long Way (2023). NVIDIA, Introducing NVFP4 (2025), and Pretraining Large Language Models with NVFP4 (2025). Chen
et al., INT v.s. FP (2025, arXiv 2510.25602). NVIDIA, Parallel Thread Execution ISA 8.7 (2025).
"""

from collections.abc import Iterator
from math import ceil, frexp, log2, log10

import numpy as np
import numpy.typing as npt

from precreg.arithmetic import FORMATS, Format, block_operand_named, round_blocks, round_to
from precreg.arithmetic.block_operand import LEAST_SCALE, MOST_SCALE, BlockOperand, ScaleRule
from precreg.arithmetic.devices import device_named
from published import Figure

# The largest, the smallest normal and the smallest subnormal number of an element, and bits per value, as published.
ELEMENTS = {
    "mxfp8_e4m3": ("448, 2^-6, 2^-9", "8.25"),
    "mxfp8_e5m2": ("57344, 2^-14, 2^-16", "8.25"),
    "mxfp6_e2m3": ("7.5, 2^0, 2^-3", "6.25"),
    "mxfp6_e3m2": ("28, 2^-2, 2^-4", "6.25"),
    "mxfp4": ("6, 2^0, 2^-1", "4.25"),
    "nvfp4": ("6, 2^0, 2^-1", "4.5"),
}


def figures() -> Iterator[Figure]:
    """Compare limits and sizes, then errors, then the claims about NVFP4 and about the hardware."""
    yield from limits()
    yield from errors()
    yield from nvfp4_claims()
    for name, published in (("mxfp4", 32), ("mxfp8_e4m3", 32), ("nvfp4", 16)):
        blocks = device_named("gpu-blackwell").operand_unit(name).blocks
        yield Figure(
            f"Blackwell's matrix unit, {name}: values of a block",
            f"{published}",
            f"{blocks.length}",
            blocks.length == published,
        )


def limits() -> Iterator[Figure]:
    """Compare the largest and smallest elements, and the bits of a value with its share of the scale."""
    for name, (published, published_bits) in ELEMENTS.items():
        operand = block_operand_named(name)
        element = operand.element
        found = f"{element.largest:g}, {power(element.smallest_normal)}, {power(element.smallest_subnormal)}"
        yield Figure(f"{name}: largest element, smallest normal and subnormal", published, found, found == published)
        bits = f"{bits_of(operand):g}"
        yield Figure(f"{name}: bits of a value", published_bits, bits, bits == published_bits)
    bits = f"{bits_of(block_operand_named('mxint8')):g}"
    yield Figure("mxint8: bits of a value", "8.25", bits, bits == "8.25")
    scales = f"{power(2.0**LEAST_SCALE)} to {power(2.0**MOST_SCALE)}"
    yield Figure("e8m0 scales of MX formats", "2^-127 to 2^127", scales, scales == "2^-127 to 2^127")


def errors() -> Iterator[Figure]:
    """Compare ratios of signal to noise on standard normal values, and the largest errors of the largest of a block."""
    ratios = {name: noise_ratio(block_operand_named(name)) for name in (*ELEMENTS, "mxint8", "fp8_1x128")}
    for name, ratio in ratios.items():
        yield Figure(f"{name}: normal values, signal over noise", "", f"{ratio:.1f} dB")
    for name in ELEMENTS:
        worst = error_of_largest(block_operand_named(name)).max()
        yield Figure(f"{name}: largest relative error of the largest of a block", "", f"{worst:.2%}")
    integers = {bits: noise_ratio(block_of_integers(bits)) for bits in (4, 8)}
    slope = (integers[8] - integers[4]) / 4
    yield Figure(
        "blocks of integers: signal over noise, for each bit", "6.02 dB", f"{slope:.2f} dB", abs(slope - 6.02) < 0.1
    )
    yield Figure(
        "8 bits in blocks of 32: signal over noise, integers / e4m3",
        "integers are better",
        f"{ratios['mxint8']:.1f} / {ratios['mxfp8_e4m3']:.1f} dB",
        ratios["mxint8"] > ratios["mxfp8_e4m3"],
    )
    yield Figure(
        "4 bits in blocks of 32: signal over noise, integers / e2m1",
        "e2m1 is often better",
        f"{integers[4]:.1f} / {ratios['mxfp4']:.1f} dB",
        ratios["mxfp4"] > integers[4],
    )
    yield Figure("MX9, MX6 and MX4 of shared microexponents: signal over noise", "published", "not checked")


def nvfp4_claims() -> Iterator[Figure]:
    """Compare the claims about NVFP4's size, its largest values and its errors beside MXFP4's."""
    bits = bits_of(block_operand_named("nvfp4"))
    for other, width, published in (("float16", 16, 3.5), ("fp8", 8, 1.8)):
        factor = width / bits
        yield Figure(
            f"nvfp4: smaller than {other} by",
            f"{published} times",
            f"{factor:.2f} times",
            abs(factor - published) < 0.1,
        )
    ours, theirs = (error_of_largest(block_operand_named(name)).mean() for name in ("nvfp4", "mxfp4"))
    grid = np.linspace(1, 2, 4001, dtype=np.float32)
    fp8 = np.abs(round_to(grid, FORMATS["float8_e4m3fn"]) / grid - 1).mean()
    yield Figure(
        "nvfp4: mean relative error of the largest of 16 (6.25 % of values), nvfp4 / fp8 e4m3",
        "near 1",
        f"{ours / fp8:.2f}",
        bool(0.8 < ours / fp8 < 1.25),
    )
    yield Figure("the same, mxfp4 / nvfp4", "more than 1", f"{theirs / ours:.2f}", bool(theirs > ours))
    samples = {"normal values": values(), "values of Student's t, 3 degrees of freedom": values(heavy=True)}
    for what, x in samples.items():
        ratio = squared_error(x, block_operand_named("mxfp4")) / squared_error(x, block_operand_named("nvfp4"))
        yield Figure(f"{what}: squared error, mxfp4 / nvfp4", "more than 1", f"{ratio:.2f}", bool(ratio > 1))
    shorter = BlockOperand("mxfp4 of 16", FORMATS["float4_e2m1fn"], 16)
    ratio = squared_error(values(), shorter) / squared_error(values(), block_operand_named("nvfp4"))
    yield Figure("normal values: squared error, mxfp4 with blocks of 16 / nvfp4", "", f"{ratio:.2f}")


def block_of_integers(bits: int) -> BlockOperand:
    """Return blocks of 32 symmetric integers with a scale that is a power of two, as mxint8 with fewer bits."""
    largest = (2 ** (bits - 1) - 1) / 2 ** (bits - 2)
    return BlockOperand(f"mxint{bits}", Format(f"int{bits}", bits - 1, 0, largest, overflow=largest), 32)


def bits_of(operand: BlockOperand) -> float:
    """Return the bits of a value, with its share of the bits of a scale. A scale of the tensor counts as none."""
    if operand.rule is ScaleRule.RATIO:
        scale = 32 if operand.scale.name == "float32" else element_bits(operand.scale)
    else:
        scale = ceil(log2(MOST_SCALE - LEAST_SCALE + 1))
    return element_bits(operand.element) + scale / operand.length


def element_bits(element: Format) -> int:
    """Return the bits that name the numbers of a format and their signs."""
    half = 2 ** (element.precision - 1)
    # The numbers of the last binade end at the largest one.
    last = int((element.largest / 2.0**element.max_exponent - 1) * half) + 1
    return 1 + ceil(log2(half + (element.max_exponent - element.min_exponent) * half + last))


def values(*, heavy: bool = False) -> npt.NDArray[np.float32]:
    """Draw 2^20 values, standard normal ones or ones with heavy tails."""
    random = np.random.default_rng(0)
    drawn = random.standard_t(3, (256, 4096)) if heavy else random.standard_normal((256, 4096))
    return drawn.astype(np.float32)


def squared_error(x: npt.NDArray[np.float32], operand: BlockOperand) -> float:
    """Return the sum of squared errors of values that are rounded in blocks."""
    return float(np.square(round_blocks(x, operand).astype(np.float64) - x).sum())


def noise_ratio(operand: BlockOperand) -> float:
    """Return the signal over the noise of standard normal values, in decibels."""
    x = values()
    return 10 * log10(float(np.square(x.astype(np.float64)).sum()) / squared_error(x, operand))


def error_of_largest(operand: BlockOperand) -> npt.NDArray[np.float64]:
    """Return relative errors of the largest of a block, from 1 to 2, in a tensor whose largest value is 1024."""
    grid = np.linspace(1, 2, 4001, dtype=np.float32)
    blocks = np.zeros((grid.size + 1, operand.length), np.float32)
    blocks[:-1, 0], blocks[-1, 0] = grid, 1024
    return np.abs(round_blocks(blocks, operand)[:-1, 0].astype(np.float64) / grid - 1)


def power(value: float) -> str:
    """Return the text of a power of two, such as 2^-6; other numbers as they are."""
    mantissa, exponent = frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 else f"{value:g}"
