"""Values that tests of calibration are made of."""

from precreg.types.case import Bound, Location, LongSum, Noise, Tolerance
from precreg.types.outcome import Comparison, Execution, Failure, Outcome
from precreg.types.verdict import Reason

HERE = Location("suites/unit/s.yaml", 7)


def bound(metric, limit):
    return Bound(metric, limit, "suite", HERE)


def tolerance(*bounds, rtol=0.0, atol=0.0, alternatives=()):
    return Tolerance(bound("rtol", rtol), bound("atol", atol), bounds, {}, alternatives=alternatives)


def comparison(seed=0, output="out", dtype="float32", **metrics):
    return Comparison(output, seed, dtype, (4, 4), "float64", (4, 4), metrics)


def outcome(name, *comparisons, shares=None, longest=None, inputs=None):
    """Return an outcome whose inputs and outputs have bits of their own, unless others are given."""
    bits = tuple(inputs or (f"in {name}",))
    outputs = {each.output: (f"out {name}",) for each in comparisons}
    noise = Noise({"out": shares or (0.5,) * len(comparisons)}, longest and LongSum(*longest))
    return Outcome(name, "1:0", Execution(bits, outputs), comparisons, (), noise)


def failed(name, reason=Reason.SUBJECT_ERROR, message="ValueError: no"):
    return Outcome(name, "1:0", Execution(failure=Failure(reason, message)))
