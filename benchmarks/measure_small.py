"""How long compare() takes beside numpy's own two checks, which give one bool each: ratios of medians in one run.

python benchmarks/measure_small.py
"""

from statistics import median
from time import perf_counter

import numpy as np

from precreg.measure.compare import compare

RTOL, ATOL = 1e-5, 1e-8


def assert_allclose(actual, reference):
    """Return what np.testing.assert_allclose says as a bool."""
    try:
        np.testing.assert_allclose(actual, reference, RTOL, ATOL)
    except AssertionError:
        return False
    return True


FORMS = {
    "compare": lambda actual, reference: compare(actual, reference, rtol=RTOL, atol=ATOL).metrics["match_ratio"] == 1,
    "assert_allclose": assert_allclose,
    "allclose": lambda actual, reference: np.allclose(actual, reference, RTOL, ATOL),
}


def arrays(n, error):
    """Return n float32 numbers and the float32 numbers they are held against, relative error up to `error`."""
    generator = np.random.default_rng(n)
    reference = generator.normal(size=n).astype(np.float32)
    return reference * (1 + generator.uniform(-error, error, n)).astype(np.float32), reference


def check_agreement(n):
    """Assert that the three forms say the same, of arrays that match and of arrays that do not."""
    for error in (1e-6, 1e-3):
        verdicts = {name: form(*arrays(n, error)) for name, form in FORMS.items()}
        assert set(verdicts.values()) == {error < RTOL}, verdicts


def medians(n, rounds):
    """Return the median seconds of each form, taken in turn so that a slow moment hits all of them."""
    pair, times = arrays(n, 1e-6), {name: [] for name in FORMS}
    for _ in range(rounds):
        for name, form in FORMS.items():
            start = perf_counter()
            form(*pair)
            times[name].append(perf_counter() - start)
    return {name: median(seconds) for name, seconds in times.items()}


def main():
    """Print one line per size."""
    print("elements  compare (us)  / assert_allclose  / allclose")
    for n, rounds in ((100, 3000), (1000, 2000), (10_000, 400), (1_000_000, 15)):
        check_agreement(n)
        time = medians(n, rounds)
        ratios = time["compare"] / time["assert_allclose"], time["compare"] / time["allclose"]
        print(f"{n:8}  {time['compare'] * 1e6:12.1f}  {ratios[0]:17.2f}  {ratios[1]:10.2f}")


if __name__ == "__main__":
    main()
