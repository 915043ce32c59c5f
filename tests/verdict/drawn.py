"""Outcomes with the bits of real arrays, whose errors are drawn: how large, how alike inside a row, for each seed."""

import numpy as np

from precreg.baseline.entry import entry_from
from precreg.measure.comparison import compare_arrays
from precreg.types.case import STATISTIC, Tolerance
from precreg.types.outcome import Execution, Outcome
from precreg.types.record import Baseline
from tests.verdict.made import bound

SHAPE = (32, 48)
FINGERPRINT = "f00d"


def errors(seed, *, scale=1.0, shape=SHAPE, shared=0.0, draw=0):
    """Return errors of normal size; `shared` is the share of the spread that all elements of a row have together."""
    own, rows = (np.random.default_rng([seed, draw, kind]) for kind in (0, 1))
    row = rows.standard_normal(shape[:1] + (1,) * (len(shape) - 1))
    return 1e-4 * scale * (np.sqrt(1 - shared) * own.standard_normal(shape) + np.sqrt(shared) * row)


def comparison(seed, error):
    reference = np.random.default_rng([seed, 99]).uniform(1, 2, error.shape)
    return compare_arrays(reference + error, reference, seed=seed, rtol=0.1, atol=0.1)


def outcome(of_seed, seeds=3, name="a"):
    """Return what running a case gave, with the errors that `of_seed` tells for each seed; bits are called by name."""
    ran = Execution(
        inputs=tuple(f"i{seed}" for seed in range(seeds)),
        outputs={"out": tuple(f"{name}{seed}" for seed in range(seeds))},
        duration_s=1.0,
    )
    return Outcome("unit/s/a", "1:d", ran, tuple(comparison(seed, of_seed(seed)) for seed in range(seeds)))


def accepted(given, fingerprint=FINGERPRINT):
    return Baseline(entry_from(given, fingerprint, "c0"), "generic", "baselines/generic/unit/s.json")


def tolerance(**growths):
    wide = bound("rtol", 1.0), bound("atol", 1.0)
    return Tolerance(*wide, bounds=(), regression={STATISTIC: 0.02, "max_abs_error": 3.0, **growths})
