"""Newton's square root, x0 = n/2 and x <- (x + n/x)/2: how many steps it takes to the last bit of float64."""

import math
from collections.abc import Iterator

from published import Figure


def figures() -> Iterator[Figure]:
    """Count steps until x is within an ULP of the correctly rounded root."""
    moderate = [steps(n / 8) for n in range(4, 129)]  # 0.5 to 16
    yield Figure(
        "steps for n from 0.5 to 16, least and most",
        "5-6 for moderate n",
        f"{min(moderate)} to {max(moderate)}",
        max(moderate) <= 6,
    )
    wide = max(steps(10 ** (power / 8)) for power in range(-28, 37))  # 3e-4 to 3e4
    yield Figure("steps for n from 3e-4 to 3e4, most", "10 taken", f"{wide}", wide <= 10)
    for n in (1e20, 1e-20, 1e300, 1e-300):
        yield Figure(f"steps for n = {n:g}", "many more", f"{steps(n)}", steps(n) > 10)


def steps(n: float) -> int:
    """Iterate until the root is found."""
    x, taken, root = n / 2, 0, math.sqrt(n)
    while abs(x - root) > math.ulp(root):
        x, taken = (x + n / x) / 2, taken + 1
    return taken
