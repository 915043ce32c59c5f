"""How much does precreg.probe cost without a trace, in nanoseconds a call beside an empty function of two arguments?

Usage: python benchmarks/shadow/probes.py [ROUNDS]
"""

from __future__ import annotations

import sys
from statistics import median
from timeit import repeat

import precreg

CALLS = 1_000_000


def nothing(name: str, value: object) -> object:
    """Return the value, as a probe does."""
    return value


def nanoseconds(statement: str, rounds: int) -> list[float]:
    """Return the time of one statement, for each round."""
    names = {"precreg": precreg, "nothing": nothing, "x": object()}
    return [1e9 * seconds / CALLS for seconds in repeat(statement, number=CALLS, repeat=rounds, globals=names)]


def main(rounds: int) -> None:
    """Print the medians, and the median ratio of neighbouring rounds."""
    # The first use imports the module of probes, once in a process.
    precreg.probe("first", None)
    empty, probed = [], []
    for _ in range(rounds):
        empty += nanoseconds("nothing('x', x)", 1)
        probed += nanoseconds("precreg.probe('x', x)", 1)
    ratio = median(one / other for one, other in zip(probed, empty, strict=True))
    print(f"empty function {median(empty):.0f} ns, precreg.probe {median(probed):.0f} ns, ratio {ratio:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
