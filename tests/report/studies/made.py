"""Records with studies in round figures: a chain that truncates, one that rounds, and an operator in three forms."""

from math import expm1, sqrt

from msgspec.structs import replace

from precreg.types.case import Growth, Note, Study, TradeOff
from precreg.types.outcome import Execution, Outcome
from tests.report.made import TOLERANCE, comparison, crashed, passed, run_of

DEPTHS = (1, 4, 16, 64, 256, 1024)
E, U = -1e-4, 2e-6
GROWTH = Study("unit/growth", growth=Growth("depth"))
TRADE_OFF = Study(
    "unit/forms", trade_off=TradeOff("form", "none", {"unrolled": Note("long sums", "the number of lanes")})
)


def measured(metrics, counts=None, seed=0, output="out"):
    """Return a comparison with these metrics and counts."""
    return replace(comparison(seed, 0.0, 0.0), output=output, metrics=metrics, counts=counts or {})


def case(suite, name, parameters, comparisons, duration_s=0.001, digest="d1"):
    """Return a case of a suite that passed, with what was measured of it."""
    outputs = {one.output: (digest,) for one in comparisons}
    outcome = Outcome(f"unit/{suite}/{name}", "1:d", Execution(("i",), outputs, duration_s), tuple(comparisons))
    fields = {"suite": suite, "parameters": parameters, "outcome": outcome, "tolerances": {"out": TOLERANCE}}
    return passed(name, id=f"unit/{suite}/{name}", **fields)


def link(device, depth, error, above, below):
    """Return one case of a chain."""
    counts = {"above": above, "below": below}
    parameters = {"device": device, "depth": depth}
    return case("growth", f"{device}-depth={depth}", parameters, [measured({"mean_rel_error": error}, counts)])


def truncating(depths=DEPTHS):
    """Return a chain each of whose operations takes away 1e-4 of what was there."""
    return [link("truncating", n, -expm1(n * E), 0, 100) for n in depths]


def rounding(depths=DEPTHS):
    """Return a chain whose errors are a random walk of steps of 2e-6."""
    return [link("rounding", n, U * sqrt(n), 50, 50) for n in depths]


def form(name, seconds, error, digest, ulp=2.0):
    """Return one form of an operator."""
    metrics = {"mean_abs_error": error, "mean_ulp": ulp, "match_ratio": 0.9375}
    return case("forms", name, {"form": name}, [measured(metrics)], seconds, digest)


def forms():
    """Return an operator plain, rearranged to the same bits in half the time, slower and worse, and not measured."""
    failed = crashed("broken", id="unit/forms/broken", suite="forms", parameters={"form": "broken"})
    return [
        form("unrolled", 0.005, 1e-6, "d1"),
        form("none", 0.01, 1e-6, "d1"),
        form("fp16", 0.04, 4e-3, "d2", 8000.0),
        failed,
    ]


def studied(*results, studies=(GROWTH, TRADE_OFF)):
    """Return a run with studies."""
    return run_of(*results, studies=tuple(studies), exit_code=0)


def both():
    """Return a run with everything above."""
    return studied(*truncating(), *rounding(), *forms())
