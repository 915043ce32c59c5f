"""Print digests of the core's results for thousands of hard pairs, so that a test can compare processes.

`python -m tests.measure.tallies` prints those of tallies, with `figures` those of comparisons by the selected backend.
"""

import hashlib
import sys

import ml_dtypes
import numpy as np

from precreg.measure.tally import MeasureRules

_FLOATS = ("float32", "float64", "float16")
_ML = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float6_e2m3fn", "float4_e2m1fn")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "bool")
DTYPES = [np.dtype(name) for name in (*_FLOATS, *_INTEGERS)] + [np.dtype(getattr(ml_dtypes, name)) for name in _ML]
LENGTHS = (1, 2, 7, 8, 63, 127, 128, 129, 255, 257, 640, 2049, 5000)
SMALL = ("float6_e2m3fn", "float4_e2m1fn")


def bits(generator, dtype, size):
    """Any bit patterns: of floats mostly numbers of any size, with subnormals, infinities and NaN among them."""
    raw = generator.integers(0, 256, size * dtype.itemsize, np.uint8)
    if dtype == np.bool_:
        return raw % 2 == 1
    if dtype.name in SMALL:
        return (raw % 16 / 4 - 2).astype(dtype)
    return raw.view(dtype)


def numbers(generator, dtype, size, kind):
    """Numbers as they come: of one magnitude, of many, huge, subnormal, sorted, constant, or mostly zeros."""
    values = generator.normal(size=size)
    values = {
        "plain": lambda: values,
        "wide": lambda: values * 10.0 ** generator.integers(-30, 30, size),
        "huge": lambda: values * 1e305,
        "tiny": lambda: values * 2.0 ** -generator.integers(1000, 1074, size),
        "small": lambda: values * 2.0 ** -generator.integers(120, 149, size),
        "sorted": lambda: np.sort(values),
        "constant": lambda: np.full(size, values[0]),
        "zeros": lambda: values * (generator.random(size) < 0.2),
    }[kind]()
    if dtype.kind in "iu" or dtype == np.bool_:
        return np.clip(values * 50, 0, 100).astype(dtype)
    return values.astype(dtype)


KINDS = ("plain", "wide", "huge", "tiny", "small", "sorted", "constant", "zeros")


def pairs():
    """Yield a name and a pair: every dtype, length and kind of numbers, against the same dtype and wider ones."""
    generator = np.random.default_rng(11)
    for dtype in DTYPES:
        for length in LENGTHS:
            yield f"{dtype} bits {length}", (bits(generator, dtype, length), bits(generator, dtype, length))
            for kind in KINDS:
                actual = numbers(generator, dtype, length, kind)
                other = np.dtype(("float32", "float64")[length % 2])
                near = actual.astype(np.float64) * (1 + generator.normal(size=length) * 1e-6)
                yield f"{dtype} {kind} {length} near", (actual, near.astype(other))
                yield f"{dtype} {kind} {length} apart", (actual, numbers(generator, dtype, length, kind))


def hard_pairs():
    """Return those of `pairs` of one length on which sums are hardest: few, because the readable form is slow."""
    with np.errstate(all="ignore"):
        chosen = [(name, pair) for name, pair in pairs() if pair[0].size == 255 and name.startswith(("float", "bf"))]
    return [(name, pair) for name, pair in chosen if not name.startswith(("float6", "float4"))]


def digest(found):
    return hashlib.blake2b(repr(found).encode(), digest_size=8).hexdigest()


def shape_of(size):
    return (size // 5, 5) if size % 5 == 0 else (size,)


def print_figures():
    """Print the backend, and digests of comparisons without sums of groups, which depend on the backend."""
    from precreg.measure import compare_arrays, select_backend

    print(select_backend().__name__)
    # Each dtype has 17 pairs of a length, so that these are of all kinds.
    for name, sides in list(pairs())[::3]:
        actual, reference = (side.reshape(shape_of(side.size)) for side in sides)
        found = compare_arrays(actual, reference, rtol=1e-3, atol=1e-5, worst=20)
        print(name, digest([getattr(found, of) for of in found.__struct_fields__ if of not in ("groups", "heat")]))


def main():
    from precreg.measure.native import MEASURE_INSTRUCTION_SET, tally_native
    from tests.measure.shadows import digests_of_shadows

    print(MEASURE_INSTRUCTION_SET)
    for name, (actual, reference) in pairs():
        size = actual.size
        found = tally_native(actual, reference, 0, shape_of(size), MeasureRules(1e-3, 1e-5, 20))
        print(name, digest(found))
        if actual.dtype in (np.float32, np.float64):
            print("shadows of", name, digests_of_shadows(actual, reference.astype(np.float64)))


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        (print_figures if "figures" in sys.argv else main)()
