"""Values beside their shadows, for the tests of each instruction set of the core."""

import hashlib

import numpy as np


def digests_of_shadows(actual, exact):
    """Return the digest of the totals of values and shadows, and of operations on float32."""
    from precreg.measure import native

    own = exact * (1 + 2.0**-40)
    sums = native.ShadowSums(5 if actual.size % 5 == 0 and actual.size else max(actual.size, 1), 2.0**-126)
    errors = np.zeros(actual.size, np.float32)
    sums.add(actual, exact, own, errors)
    found = hashlib.blake2b(repr(sums.totals()).encode() + np.nan_to_num(errors).tobytes(), digest_size=8)
    if actual.size > 9:
        masked, beside = actual.copy(), exact.copy()
        masked[7::9], beside[7::9] = -np.inf, -1e39
        sums.add(masked, beside, own, errors)
        found.update(repr(sums.totals()).encode() + np.nan_to_num(errors).tobytes())
    if actual.dtype == np.float32 and actual.size:
        for operation in native.SHADOW_OPERATIONS:
            computed = computed_by_core(operation, (actual, actual[::-1].copy()), (exact, own), 1)
            found.update(repr(computed.totals).encode() + np.nan_to_num(computed.exact).tobytes())
    return found.hexdigest()


class Computed:
    """The results of one operation of the core on two operands of float32 and their shadows."""

    def __init__(self, totals, exact, own, errors):
        self.totals, self.exact, self.own, self.errors = totals, exact, own, errors


def computed_by_core(operation, low, exact, columns, repeated=("never", "never"), shape=None):
    """Compute an operation in the core; without `exact`, the shadows equal the values."""
    from precreg.measure import native

    with np.errstate(all="ignore"):
        actual = getattr(np, operation)(*low[:1] if operation == "sqrt" else low)
    shape = actual.shape if shape is None else shape
    results = [np.zeros(shape), np.zeros(shape), np.zeros(shape, np.float32)]
    operands = [
        native.ShadowOperand(values, None if exact is None else shadow, how)
        for values, shadow, how in zip(low, exact or low, repeated, strict=True)
    ]
    sums = native.ShadowSums(columns, 2.0**-126)
    sums.compute(
        operation,
        operands[:1] if operation == "sqrt" else operands,
        actual,
        results[0],
        own=results[1],
        errors=results[2],
        has_own=exact is not None,
    )
    return Computed(sums.totals(), *results)
