"""The formats of 8 bits: ranges, sums with 14 bits, and scales for each tensor or each 128 values.

Sources: Micikevicius et al., FP8 Formats for Deep Learning (2022, arXiv 2209.05433). DeepSeek-V3 Technical Report
(2024, arXiv 2412.19437), section 3.3.2.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from precreg.arithmetic import FORMATS, Unit, block_operand_named, matmul, round_blocks, round_to
from precreg.arithmetic.devices import device_named, multiply_as
from precreg.training import StepGradients, sweep_tensor_scales
from published import Figure
from published.block_formats import power
from published.hifloat8 import binades

TERMS = 4096


def figures() -> Iterator[Figure]:
    """Compare the ranges, then the sums, then the scales."""
    yield from ranges()
    yield from sums()
    yield from scales()


def ranges() -> Iterator[Figure]:
    """Compare the limits of e4m3 and e5m2, and the binades that they cover."""
    for name, published in (("float8_e4m3fn", "448, 2^-6, 2^-9"), ("float8_e5m2", "57344, 2^-14, 2^-16")):
        known = FORMATS[name]
        found = f"{known.largest:g}, {power(known.smallest_normal)}, {power(known.smallest_subnormal)}"
        yield Figure(f"{name}: largest, smallest normal and subnormal", published, found, found == published)
    for what, name, published in (
        ("e4m3 with IEEE 754's infinities: binades", "float8_e4m3", 17),
        ("e4m3 without infinities: binades", "float8_e4m3fn", 18),
        ("e5m2: binades", "float8_e5m2", 32),
    ):
        found = binades(FORMATS[name])
        yield Figure(what, f"{published}", f"{found}", found == published)


def sums() -> Iterator[Figure]:
    """Compare sums of 4096 products on the simulated H800, for terms of one sign and of both, and other groups."""
    unit = device_named("gpu-hopper").operand_unit("float8_e4m3fn")
    accumulator = unit.promotion.format
    yield Figure("bits of a total of fp8 products, a setting of gpu-hopper", "about 14", f"{accumulator.precision}")
    a, b = operands(both_signs=True)
    _, relative = error(matmul(a, b, unit), exact(a, b))
    yield Figure(f"{TERMS} terms of both signs: largest error over the norm of results", "", f"{relative:.2%}")
    a, b = operands(both_signs=False)
    for group in (32, 16, 8, 4):
        worst, _ = error(matmul(a, b, in_groups(unit, group)), exact(a, b))
        what = f"{TERMS} positive terms, {group} added before the cut to 14 bits: largest relative error"
        yield Figure(what, "nearly 2 %", f"{worst:.2%}", 0.015 <= worst <= 0.0225)
    blocks = block_operand_named("fp8_1x128")
    rounded = exact(round_blocks(a, blocks), round_blocks(np.ascontiguousarray(b.T), blocks).T)
    worst, _ = error(multiply_as(a, b, "fp8_1x128", "gpu-hopper"), rounded)
    yield Figure(
        f"{TERMS} positive terms, to float32 after 128: largest relative error",
        "less than nearly 2 %",
        f"{worst:.3%}",
        worst < 0.015,
    )


def in_groups(unit: Unit, length: int) -> Unit:
    """Return the unit with another number of terms that are added before the sum is cut off."""
    return replace(unit, promotion=replace(unit.promotion, length=length))


def scales() -> Iterator[Figure]:
    """Compare scales on values with one outlier in 2000, and delayed scaling on gradients that grow."""
    random = np.random.default_rng(2)
    x = random.standard_normal((64, 4096)).astype(np.float32)
    x[random.random(x.shape) < 1 / 2000] *= 1000
    steps = [StepGradients(0, None, 1.0, {"x": x}, {})]
    tensor = sweep_tensor_scales(steps, "float8_e4m3fn").tensors[0]
    small = np.abs(x) < 10
    factor = np.float32(tensor.largest / FORMATS["float8_e4m3fn"].largest)
    whole = (round_to(x / factor, FORMATS["float8_e4m3fn"]) * factor)[small]
    ours = round_blocks(x, block_operand_named("fp8_1x128"))[small]
    zero = [float(np.mean(each == 0)) for each in (whole, ours)]
    squares = [float(np.square(each.astype(np.float64) - x[small]).sum()) for each in (whole, ours)]
    yield Figure(
        "one outlier in 2000, the other values: squared error, a scale for 128 / for the tensor",
        "less than 1",
        f"{squares[1] / squares[0]:.3f}",
        squares[1] < squares[0],
    )
    yield Figure("the same: zeros, a scale for the tensor / for 128", "", f"{zero[0]:.2%} / {zero[1]:.2%}")
    steps = [StepGradients(step, None, 1.0, {"x": gradient(step)}, {}) for step in range(33)]
    tensor = sweep_tensor_scales(steps, "float8_e5m2").tensors[0]
    for name in ("delayed", "amax"):
        beyond = tensor.scalings[name].beyond / tensor.measured
        yield Figure(f"gradients that double every 4 steps, {name} scales: share that saturates", "", f"{beyond:.4%}")


def gradient(step: int) -> npt.NDArray[np.float32]:
    """Draw a gradient whose size doubles every four steps."""
    random = np.random.default_rng((3, step))
    return (random.standard_normal((64, 256)) * 1e-4 * 2 ** (step / 4)).astype(np.float32)


def operands(*, both_signs: bool) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Draw normal operands that are numbers of e4m3, or uniform ones from 0 to 1."""
    random = np.random.default_rng(1)
    drawn = [
        random.standard_normal(shape) if both_signs else random.random(shape) for shape in ((32, TERMS), (TERMS, 32))
    ]
    left, right = (round_to(each.astype(np.float32), FORMATS["float8_e4m3fn"]) for each in drawn)
    return left.astype(np.float32), right.astype(np.float32)


def exact(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the product in float64. fp8 products are exact there, and so are their sums up to the last bits."""
    return a.astype(np.float64) @ b.astype(np.float64)


def error(actual: npt.NDArray, expected: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the largest relative error, and the largest error over the root mean square of the results."""
    off = np.abs(actual.astype(np.float64) - expected)
    return float((off / np.abs(expected)).max()), float(off.max() / np.sqrt(np.square(expected).mean()))
