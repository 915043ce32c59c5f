"""`python -m tests.arithmetic.computed`: what the core of arithmetic makes of many formats and units, a digest each.

What it computes from is shared with the tests that hold the core to numpy's form.
"""

import hashlib
import itertools

import numpy as np

from precreg.arithmetic.formats import FORMATS, NAMED_FORMATS, Format, Rounding, format_named
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.unit import Order, Unit
from tests.arithmetic.hard_operands import hard

ODD_FORMATS = (
    Format("wide in float32", 24, -14, 65504.0),
    Format("short of float32", 24, -126, 1e10),
    Format("float32 flushed", 24, -126, FORMATS["float32"].largest, subnormals=False),
    Format("one binade from the end", 12, -125, 2.0**100),
    Format("two bits", 2, -126, 2.0**127),
    Format("saturates", 10, -14, 59968.0, overflow=59968.0),
    Format("between float32 and float64", 30, -200, 2.0**150, subnormals=False, negative_zero=False),
)
ALL = (*NAMED_FORMATS.values(), *ODD_FORMATS)
# The elements of the OCP formats of blocks: MXINT8 has steps of 2**-6 below 127/64.
BLOCK_ELEMENTS = (
    format_named("e4m3fn_sat"),
    format_named("e5m2_sat"),
    FORMATS["float8_e5m2"],
    FORMATS["float6_e2m3fn"],
    FORMATS["float6_e3m2fn"],
    FORMATS["float4_e2m1fn"],
    FORMATS["float8_e4m3fnuz"],
    Format("int8", 7, 0, 127 / 64, overflow=127 / 64),
)
BLOCK_ROUNDINGS = (Rounding.NEAREST_EVEN, Rounding.NEAREST_AWAY, Rounding.TOWARD_ZERO)
ORDERS = (
    *((Order.SEQUENTIAL, 1), (Order.BLOCKS, 4), (Order.BLOCKS, 16), (Order.BLOCKS, 1000)),
    *((Order.LANES, 3), (Order.LANES, 8), (Order.PAIRWISE, 1)),
)
_INPUTS = ("fp16", "bf16", "fp32", "fp8_e4m3fn", "fp64")
_PRODUCTS = (None, "fp32", "fp16", "bf16", "float32_m20", "fp64")
_ACCUMULATORS = (
    *map(format_named, ("fp32", "float32_m20", "tf32", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp64")),
    *(ODD_FORMATS[i] for i in (0, 2, 5, 6)),
)


def values(dtype):
    """Return hard values, and every number of float16 and bfloat16 with those beside it."""
    patterns = np.arange(2**16, dtype=np.uint16)
    halves = patterns.view(np.float16).astype(dtype)
    with np.errstate(all="ignore"):
        brains = (patterns.astype(np.uint32) << 16).view(np.float32).astype(dtype)
        beside = [np.nextafter(halves[::8], dtype(side)) for side in (-np.inf, np.inf)]
        ties = brains[::8] * dtype(1 + 2.0**-8)
    return np.concatenate([halves, brains, *beside, ties, hard(dtype, 5003, np.random.default_rng(4))])


def units(count, seed):
    """Return some of the many units there are."""
    every = list(itertools.product(_INPUTS, _ACCUMULATORS, _PRODUCTS, Rounding, ORDERS))
    for which in np.random.default_rng(seed).choice(len(every), count, replace=False):
        read, accumulator, product, rounding, (order, width) = every[which]
        made = None if product is None else format_named(product)
        yield Unit(
            format_named(read), accumulator, accumulator, made, rounding, order=order, width=width, seed=int(which)
        )


def matrices(unit, generator):
    """Return two batches of matrices of numbers of a unit's input: ordinary or of any size, with some specials."""
    batch = ((), (3,), (2, 3))[generator.integers(3)]
    rows, terms, columns = generator.integers(1, (6, 40, 40))
    terms = int(generator.integers(60, 200)) if generator.random() < 0.15 else terms
    single = (1,) * len(batch) if generator.random() < 0.5 else batch
    shapes = (*batch, rows, terms), (*single, terms, columns)
    return tuple(_numbers(shape, unit.input, generator) for shape in shapes)


def _numbers(shape, format, generator):
    numbers = generator.normal(size=shape)
    kind = generator.integers(4)
    if kind:
        low, high = ((-8, 8), (-160, 130), (-70, -66))[kind - 1]
        numbers *= 2.0 ** generator.integers(low, high, shape)
    if generator.random() < 0.3:
        numbers.flat[generator.integers(numbers.size)] = generator.choice([np.inf, -np.inf, np.nan, 0.0, -0.0])
    if generator.random() < 0.3:
        numbers[..., :1] = -numbers[..., -1:]
    with np.errstate(all="ignore"):
        return round_to(numbers.astype(np.float64 if format.precision > 24 else np.float32), format)


def results(native):
    """Yield a name and an array for each of many things that a module computes."""
    for dtype, format, rounding in itertools.product((np.float32, np.float64), ALL, Rounding):
        if native.can_round_native(np.dtype(dtype), format):
            yield f"{format.name} {rounding}", native.round_native(values(dtype)[::3], format, rounding, 3, 5)
    generator = np.random.default_rng(6)
    for unit in units(400, 7):
        a, b = matrices(unit, generator)
        if native.can_sum_native(unit):
            yield repr(unit), native.matmul_native(a, b, unit)
            yield repr(unit), native.total_native(a, unit)
    generator = np.random.default_rng(12)
    for name, count in {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}.items():
        for format, rounding, dtype in itertools.product(ALL[::3], Rounding, (np.float32, np.float64)):
            array = native.compute_native(
                name, [hard(dtype, 203, generator) for _ in range(count)], format, rounding, 3, 5
            )
            if array is not None:
                yield f"{name} {format.name} {rounding} {array.dtype}", array
    yield from blocks(native)


def blocks(native):
    """Yield a name and an array for each of many formats of blocks."""
    numbers = values(np.float32)
    numbers = numbers[np.isfinite(numbers)][: 2**16].reshape(64, -1)
    for element, rounding, rule in itertools.product(BLOCK_ELEMENTS, BLOCK_ROUNDINGS, native.SCALE_RULES):
        for length in (7, 16, 32, 128):
            largest = native.block_maxima_native(numbers, length)
            divisors = np.maximum(largest / np.float32(element.largest), np.float32(2.0**-60))
            name = f"{element.name} {rounding} quotients of {length}"
            if rule == "floor":
                yield name, native.round_quotients_native(numbers, divisors, divisors, element, rounding, length)
            plan = native.block_plan(element, rounding, rule, (-127, 127), length)
            yield f"{element.name} {rounding} {rule} {length}", native.round_blocks_native(numbers, plan)[0]


def main():
    from precreg.arithmetic import native

    print(native.ARITHMETIC_INSTRUCTION_SET)
    for name, array in results(native):
        canonical = np.where(np.isnan(array), array.dtype.type(np.nan), array)  # which NaN it is, is nobody's promise
        print(name, hashlib.blake2b(canonical.tobytes(), digest_size=8).hexdigest())


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
