"""Hash all figures of a spread of arrays, with each instruction set, each number of threads, and other cuts.

Prints a digest for each instruction set of this processor; all must be equal. With --python, the interpreter of another
environment measures the same arrays: so you see whether a change of the core keeps each bit. The exit status is 1 if
two digests differ, and the first arrays with other figures are printed.

Usage: python benchmarks/measure_bits.py [--python OTHER/.venv/bin/python] [--elements N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Digests = dict[str, str]

INSTRUCTION_SETS = ("generic", "avx2", "avx512")
THREADS = (1, 2, 3, 4)
TOLERANCES = ((1e-6, 1e-9), (0.0, 0.0), (1e-2, 1e-3))
DTYPES = [
    ("float32", "float32"),
    ("float32", "float64"),
    ("float64", "float64"),
    ("float64", "float32"),
    ("float16", "float16"),
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float8_e4m3fn", "float32"),
    ("int32", "int32"),
    ("uint8", "float32"),
]
# Around the runs of 128 pairs and the blocks of 1024 of the core, and every number of axes that it has groups for.
SHAPES = [
    (1,),
    (7,),
    (127,),
    (129,),
    (1023,),
    (1025,),
    (5000,),
    (50, 100),
    (625, 8),
    (8, 625),
    (5, 10, 100),
    (2, 3, 5, 128),
]
# Sums of groups are ordinary ones, which depend on the cuts.
CUT = ("groups", "heat")
FIELDS = ("metrics", "counts", "worst", "non_finite", "histogram", "places")


class Other(NamedTuple):
    """The digests of one process: the instruction set that served there, and the file of its package."""

    instruction_set: str
    package: str
    digests: Digests


def near(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw pairs up to eight ULPs of float32 apart."""
    reference = random.standard_normal(n)
    return reference * (1 + random.uniform(-1e-6, 1e-6, n)), reference


def at_the_limit(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw pairs with errors of at most 64 half ULPs of float32: the limit of near pairs is 63."""
    reference = random.standard_normal(n).astype(np.float32)
    steps = random.integers(-64, 65, n) * (random.random(n) < 0.05)
    return reference + steps * 0.5 * np.spacing(np.abs(reference)).astype(np.float64), reference.astype(np.float64)


def far(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw pairs a percent apart."""
    reference = random.standard_normal(n)
    return reference * (1 + random.uniform(-1e-2, 1e-2, n)), reference


def unrelated(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw both sides by themselves, of many magnitudes: the ratios are huge."""
    first, second = (random.standard_normal(n) * 10.0 ** random.integers(-30, 30, n) for _ in range(2))
    return first, second


def identical(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw numbers of float32 for both sides."""
    values = random.standard_normal(n).astype(np.float32).astype(np.float64)
    return values, values


def zeros(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw near pairs, half of them zeros of both signs."""
    actual, reference = near(random, n)
    zero = random.random(n) < 0.5
    actual[zero], reference[zero] = random.choice((-0.0, 0.0), (2, int(zero.sum())))
    return actual, reference


def subnormal(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw pairs around the smallest normal number of float32."""
    actual, reference = near(random, n)
    return actual * 2.0**-130, reference * 2.0**-130


def at_the_ends(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw pairs of all magnitudes of float64: squares overflow and underflow, numbers of float32 do, too."""
    actual, reference = near(random, n)
    scale = 10.0 ** random.integers(-320, 306, n)
    return actual * scale, reference * scale


def special(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw near pairs, some with NaN or an infinity on one side or both."""
    sides = near(random, n)
    for side in sides:
        places = random.random(n) < 0.05
        side[places] = random.choice((np.nan, np.inf, -np.inf, 0.0, 1e30), int(places.sum()))
    return sides


def one_rare(random: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw near pairs; one pair of each run of 128 is far apart, infinite or tiny."""
    actual, reference = near(random, n)
    for side in (actual, reference):
        places = np.arange(random.integers(128), n, 128)
        side[places] = random.choice((np.inf, np.nan, 1e-45, 1e-13, 1e30, 0.0), places.size)
    return actual, reference


KINDS: tuple[Callable[[np.random.Generator, int], tuple[Array, Array]], ...] = (
    near,
    at_the_limit,
    far,
    unrelated,
    identical,
    zeros,
    subnormal,
    at_the_ends,
    special,
    one_rare,
)


def dtype_named(name: str) -> np.dtype[Any]:
    """Return a dtype of numpy or of ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, name))


def cast(side: Array, dtype: np.dtype[Any]) -> Array:
    """Round to a dtype; integers are parts of a hundredth, without special values."""
    if dtype.kind in "iu":
        side = np.clip(np.nan_to_num(side) * 100, 0, 255)
    rounded: Array = side.astype(dtype)
    return rounded


def small_pairs() -> Iterator[tuple[str, Array, Array]]:
    """Yield a name and a pair for each kind, pair of dtypes and shape."""
    for kind in KINDS:
        for actual_name, reference_name in DTYPES:
            for shape in SHAPES:
                n = int(np.prod(shape))
                actual, reference = kind(np.random.default_rng(n), n)
                name = f"{kind.__name__} {actual_name} against {reference_name} {shape}"
                sides = cast(actual, dtype_named(actual_name)), cast(reference, dtype_named(reference_name))
                yield name, sides[0].reshape(shape), sides[1].reshape(shape)


def digest(*parts: object) -> str:
    """Return a digest of figures; the text of a float gives its bits, apart from those of a NaN."""
    return blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def figures(found: Any, fields: tuple[str, ...]) -> list[object]:
    """Return some fields of a Comparison; dictionaries in the order of their names."""
    values = [getattr(found, field) for field in fields]
    return [sorted(value.items()) if isinstance(value, dict) else value for value in values]


def small_digests() -> Digests:
    """Measure each small pair with each tolerance."""
    from precreg.measure import compare_arrays

    return {
        f"{name} {rtol} {atol}": digest(figures(compare_arrays(*pair, rtol=rtol, atol=atol), (*FIELDS, *CUT)))
        for name, *pair in small_pairs()
        for rtol, atol in TOLERANCES
    }


def long_digests(elements: int) -> Digests:
    """Measure long pairs with each number of threads, in chunks of two sizes.

    Arrays in the byte order of the machine are read where they are. Others are copied, in smaller chunks. Raises
    SystemExit if figures depend on the threads or the chunks.
    """
    from precreg.measure import compare_arrays

    digests: Digests = {}
    for kind in KINDS:
        for names in DTYPES[:4]:
            drawn = kind(np.random.default_rng(elements), elements)
            pair = [cast(side, dtype_named(name)) for side, name in zip(drawn, names, strict=True)]
            swapped = [side.astype(side.dtype.newbyteorder()) for side in pair]
            seen: Digests = {}
            for order, sides in (("in place", pair), ("copied", swapped)):
                for threads in THREADS:
                    found = compare_arrays(*sides, rtol=1e-6, atol=1e-9, threads=threads)
                    name = f"long {kind.__name__} {' against '.join(names)}, {order}, {threads} threads"
                    seen[name] = digest(figures(found, FIELDS))
                    digests[f"groups of {name}"] = digest(figures(found, CUT))
            if len(set(seen.values())) > 1:
                raise SystemExit("\n".join(["figures depend on threads or chunks:", *map(" ".join, seen.items())]))
            digests |= seen
    return digests


def child(elements: int) -> None:
    """Print the instruction set, the file of the package, and all digests of this process."""
    import precreg
    from precreg.measure.native import MEASURE_INSTRUCTION_SET

    with np.errstate(all="ignore"):
        digests = small_digests() | long_digests(elements)
    print(json.dumps(Other(MEASURE_INSTRUCTION_SET, str(precreg.__file__), digests)))


def measured(python: str, instruction_set: str, elements: int) -> Other:
    """Return the digests of a process of that interpreter, with that instruction set.

    Raises SystemExit if the process fails: a core without the instruction set refuses to measure.
    """
    command = [python, str(Path(__file__)), "--child", "--elements", str(elements)]
    done = subprocess.run(
        command, env=os.environ | {"PRECREG_ISA": instruction_set}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{python} with PRECREG_ISA={instruction_set}: exit status {done.returncode}\n{done.stdout}")
    return Other(*json.loads(done.stdout))


def differences(one: Digests, other: Digests) -> list[str]:
    """Return the names of the arrays with other figures, or with figures in one of the two only."""
    return [name for name in one | other if one.get(name) != other.get(name)]


def sets_of_this_processor() -> tuple[str, ...]:
    """Return the instruction sets up to the widest, which serves if PRECREG_ISA is not set."""
    from precreg.measure.native import MEASURE_INSTRUCTION_SET

    return INSTRUCTION_SETS[: INSTRUCTION_SETS.index(MEASURE_INSTRUCTION_SET) + 1]


def main() -> int:
    """Print the digests; return 1 if two differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="interpreter of another environment")
    parser.add_argument(
        "--elements",
        type=int,
        default=300_000,
        help="of long arrays; above 1,048,576 those read in place are cut, too (default: %(default)s)",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.elements)
        return 0
    first: Other | None = None
    status = 0
    for python in (sys.executable, *asked.python):
        for instruction_set in sets_of_this_processor():
            found = measured(python, instruction_set, asked.elements)
            first = first or found
            whole = digest(sorted(found.digests.items()))
            print(f"{whole}  {found.instruction_set:8} {len(found.digests):,} digests  {found.package}", flush=True)
            wrong = differences(first.digests, found.digests)
            if wrong or found.instruction_set != instruction_set:
                status = 1
                print(f"  {len(wrong):,} differ from the first line:", *wrong[:5], sep="\n  ")
    return status


if __name__ == "__main__":
    sys.exit(main())
