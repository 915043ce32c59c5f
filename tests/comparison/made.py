"""Comparison records for the tests of their reports: measured from small arrays by compare() itself."""

import numpy as np
from msgspec.structs import replace

from precreg.measure.comparison import compare_arrays
from precreg.measure.fingerprints import find_fingerprints
from precreg.types.case import Bound, Location, Tolerance
from precreg.types.comparison import COMPARISON_SCHEMA, ComparedPair, ComparisonRecord, ComparisonSettings
from precreg.types.verdict import Finding, Reason, Status, Verdict
from precreg.types.warning import RtolBelowUlp, StoredText, ToleranceWarning

LIMITS = Location("the command line")
TOLERANCE = Tolerance(
    rtol=Bound("rtol", 1e-3, "--rtol", LIMITS),
    atol=Bound("atol", 1e-5, "--atol", LIMITS),
    bounds=(Bound("match_ratio", 1.0, "shipped", Location("precreg:standards/torch-2.13")),),
    regression={},
)


def measured(actual, reference):
    return compare_arrays(actual, reference, rtol=1e-3, atol=1e-5)


def rounded(shape=(4, 6, 10), seed=0):
    """Return a float16 array beside what it was rounded from."""
    reference = np.random.default_rng(seed).standard_normal(shape)
    return reference.astype(np.float16), reference


def passed(name="layer0/out"):
    verdict = Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE, "within tolerance")
    return ComparedPair(name, f"a/{name}.npy", f"r/{name}.npy", verdict, measured(*rounded()), TOLERANCE)


def failed(name="layer1/out", ratio=2.5, seed=1):
    """Return a pair with a block of wrong elements, one of them NaN."""
    actual, reference = rounded(seed=seed)
    actual[:, 2:4, 5:8] *= np.float16(1.05)
    actual[3, 5, 9] = np.nan
    comparison = measured(actual, reference)
    share = comparison.metrics["match_ratio"]
    message = f"{share:.4g} of the elements match; all have to"
    finding = Finding(
        Reason.OUT_OF_TOLERANCE,
        message,
        metric="match_ratio",
        current=share,
        ratio=ratio,
        limit=1.0,
        source=Location("precreg:standards/torch-2.13"),
    )
    verdict = Verdict(Status.FAILED, Reason.OUT_OF_TOLERANCE, message, (finding,))
    pair = ComparedPair(name, f"a/{name}.npy", f"r/{name}.npy", verdict, comparison, TOLERANCE)
    return replace(pair, fingerprints=find_fingerprints(name, actual, reference))


def missing(name="layer2/out"):
    message = "expected an actual but there is none"
    verdict = Verdict(Status.FAILED, Reason.MISSING_OUTPUT, message, (Finding(Reason.MISSING_OUTPUT, message),))
    return ComparedPair(name, None, f"r/{name}.npy", verdict)


def reshaped(name="layer3/out"):
    message = "expected shape (4, 6) but got shape=(4, 5)"
    verdict = Verdict(Status.FAILED, Reason.SHAPE_MISMATCH, message, (Finding(Reason.SHAPE_MISMATCH, message),))
    comparison = measured(np.zeros((4, 5), np.float32), np.zeros((4, 6), np.float32))
    return ComparedPair(name, f"a/{name}.npy", f"r/{name}.npy", verdict, comparison, TOLERANCE)


def identical(name="layer4/out"):
    verdict = Verdict(Status.PASSED, Reason.IDENTICAL, "every bit is the same")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    return ComparedPair(name, f"a/{name}.npy", f"r/{name}.npy", verdict, measured(array, array), TOLERANCE)


def single(name="loss"):
    verdict = Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE, "within tolerance")
    return ComparedPair(
        name, "a.npz:loss", "r.npz:loss", verdict, measured(np.float32(1.1), np.float64(1.1)), TOLERANCE
    )


def record_of(*pairs, **changes):
    fields = {
        "schema": COMPARISON_SCHEMA,
        "precreg": "0.1.0",
        "started": "2026-11-22T00:30:00+00:00",
        "duration_s": 1.25,
        "settings": ComparisonSettings("a", "r", limits={"rtol": 1e-3, "atol": 1e-5}),
        "pairs": tuple(pairs),
        "exit_code": int(any(pair.verdict.status is Status.FAILED for pair in pairs)),
    }
    return ComparisonRecord(**(fields | changes))


def everything():
    """Return a record that has each kind of pair."""
    below = RtolBelowUlp(1e-4, Location("command line"), "float16", 2**-10)
    warned = (ToleranceWarning("pair", below), StoredText("rtol 1e-3 is below the unit roundoff of float16"))
    pairs = (passed(), failed(), missing(), reshaped(), identical(), single())
    return record_of(*pairs, warnings=warned)
