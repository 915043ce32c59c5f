"""What publishers ask, in plain Python numbers: a actual, r reference, b another implementation's result."""

from math import frexp, fsum, ldexp, log10, sqrt


def close(rtol, atol, share=0.0):
    """|a-r| <= atol + rtol*|r|, but for a share of the elements."""

    def formula(a, r, b):
        wrong = sum(not abs(x - y) <= atol + rtol * abs(y) for x, y in zip(a, r, strict=True))
        return wrong / len(a) <= share

    return formula


def relative_share(limit):
    """The share of RE > limit is below limit."""

    def formula(a, r, b):
        return sum(abs(x - y) / abs(y) > limit for x, y in zip(a, r, strict=True)) / len(a) < limit

    return formula


def floored(a, r, epsilon=1e-7):
    return [abs(x - y) / (abs(y) + epsilon) for x, y in zip(a, r, strict=True)]


def mean(terms):
    return fsum(terms) / len(terms)


def rmse(a, r):
    return sqrt(mean([(x - y) ** 2 for x, y in zip(a, r, strict=True)]))


def mere_mare(threshold):
    def formula(a, r, b):
        errors = floored(a, r)
        return mean(errors) < threshold and max(errors) < 10 * threshold

    return formula


def opbase(threshold, small, error, cancellation):
    """MERE and MARE; else no error above 10 T but in the regions, where the benchmark's errors are the yardstick."""

    def counts(a, r):
        pairs = list(zip(a, r, strict=True))
        in_small = sum(abs(y) < small and abs(x - y) > error for x, y in pairs)
        above = [abs(y) for x, y in pairs if abs(x - y) > 10 * threshold * abs(y)]
        in_cancellation = sum(small <= y < cancellation for y in above)
        return in_small, in_cancellation, sum(y >= cancellation for y in above)

    def formula(a, r, b):
        if mere_mare(threshold)(a, r, b):
            return True
        if b is None:
            return False
        device, other = counts(a, r), counts(b, r)
        return device[2] == 0 and all(device[i] / max(other[i], 1) <= 2 for i in (0, 1))

    return formula


def thresholds(bound, rtol, atol):
    """msprobe: no |a-r| > atol where |r| <= bound, none > rtol*|r| elsewhere."""

    def formula(a, r, b):
        return not any(abs(x - y) > (atol if abs(y) <= bound else rtol * abs(y)) for x, y in zip(a, r, strict=True))

    return formula


def balance(a, r):
    return abs(sum(x > y for x, y in zip(a, r, strict=True)) - sum(x < y for x, y in zip(a, r, strict=True))) / len(a)


def accumulated(bound, most=1.0):
    def formula(a, r, b):
        return thresholds(1.0, bound, bound)(a, r, b) and balance(a, r) <= most

    return formula


def benchmark(floor_, largest, average):
    """|device error| / max(|benchmark error|, floor): maximum, mean and RMSE."""

    def formula(a, r, b):
        ratio = [device / max(other, floor_) for device, other in zip(figures(a, r), figures(b, r), strict=True)]
        return ratio[0] <= largest and ratio[1] <= average and ratio[2] <= average

    def figures(a, r):
        errors = floored(a, r)
        return max(errors), mean(errors), rmse(a, r)

    return formula


def ulps(a, r, precision, least):
    """|a-r| in the spacing of numbers of that precision and smallest exponent at r."""
    return [abs(x - y) / ldexp(1.0, max(frexp(y)[1] - 1, least) - precision + 1) for x, y in zip(a, r, strict=True)]


def ulp_share(precision, least):
    def formula(a, r, b):
        return sum(u > 1 for u in ulps(a, r, precision, least)) / len(a) < 1e-3

    return formula


def ulp_single(a, r, b):
    errors = ulps(a, r, 24, -126)
    return mean(errors) < 64 or sum(u > 32 for u in errors) / len(a) < 0.05


def equal(a, r, b):
    return a == r


def diffs(limit):
    """Cambricon's diff1 and diff2."""

    def formula(a, r, b):
        pairs = list(zip(a, r, strict=True))
        diff1 = fsum(abs(x - y) for x, y in pairs) / (fsum(map(abs, r)) + 1e-9)
        diff2 = sqrt(fsum((x - y) ** 2 for x, y in pairs) / (fsum(y * y for y in r) + 1e-9))
        return diff1 <= limit and diff2 <= limit

    return formula


def diff4(a, r, b):
    """Cambricon's bias: ignored below 100 unequal pairs, bad only at 0 or 1."""
    unequal = [x < y for x, y in zip(a, r, strict=True) if x != y]
    return len(unequal) < 100 or 0 < sum(unequal) / len(unequal) < 1


def either_tolerance(a, r, b):
    """Polygraphy's elementwise check: wrong is what exceeds both tolerances."""
    return not any(abs(x - y) > 1e-5 and (y == 0 or abs(x - y) / abs(y) > 1e-5) for x, y in zip(a, r, strict=True))


def cosine(limit):
    def formula(a, r, b):
        product = fsum(x * y for x, y in zip(a, r, strict=True))
        return product / sqrt(fsum(x * x for x in a) * fsum(y * y for y in r)) >= limit

    return formula


def snr(limit):
    def formula(a, r, b):
        noise = fsum((x - y) ** 2 for x, y in zip(a, r, strict=True))
        return noise == 0 or 10 * log10(fsum(y * y for y in r) / noise) >= limit

    return formula


def psnr(limit):
    def formula(a, r, b):
        noise = rmse(a, r)
        return noise == 0 or 20 * log10(max(map(abs, r)) / noise) >= limit

    return formula


def dynamo(tol, multiple):
    def formula(a, r, b):
        return close(tol, tol)(a, r, b) or (b is not None and rmse(a, r) <= multiple * rmse(b, r) + tol / 10)

    return formula
