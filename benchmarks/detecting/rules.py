"""The rules that are compared: each judges the outputs of a change by those of the original, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf, log2, log10, sqrt
from statistics import fmean

from msgspec.structs import replace

from detecting.measured import Sample
from precreg.baseline import entry_from
from precreg.environment import detect_environment
from precreg.tolerance import SHIPPED_LAYERS, resolve_tolerance
from precreg.types import DEFAULT_SEEDS, Baseline, Case, Computation, Execution, Location, Outcome, Tolerance, Verdict
from precreg.verdict import Policy, judge_case

Rule = Callable[[Sequence[Sample], Sequence[Sample]], bool]

PROMISED = 600
"""The number of accepted baselines that the level of a case's errors is chosen by: that of a real project."""

_PLACE = Location("benchmarks/detection.py")
_NOTHING = Computation("python", "")
# With the seeds of a suite that states none.
CASE = Case("unit/detection/case", "unit", "detection", "case", _PLACE, "definition", "unit/detection/case",
            "definition", "suites/unit", _NOTHING, _NOTHING, "reference", {}, {}, {}, (), DEFAULT_SEEDS)  # fmt: skip
ENVIRONMENT = detect_environment("cpu")


def tolerance_of(dtype: str) -> Tolerance:
    """Give what precreg ships for a dtype, without bounds: they answer another question, is it accurate enough."""
    return replace(resolve_tolerance(SHIPPED_LAYERS, "out", dtype, ENVIRONMENT.chain), bounds=(), alternatives=())


def outcome_of(samples: Sequence[Sample]) -> Outcome:
    """Give samples the form in which precreg keeps them, as seeds from 0 on."""
    inputs = tuple(f"seed {seed}" for seed in range(len(samples)))
    execution = Execution(inputs, {"out": tuple(one.digest for one in samples)})
    comparisons = tuple(replace(one.comparison, seed=seed) for seed, one in enumerate(samples))
    return Outcome(CASE.id, CASE.definition, execution, comparisons)


def baseline_of(accepted: Sequence[Sample], fingerprint: str = ENVIRONMENT.fingerprint) -> Baseline:
    """Give what precreg keeps of the original when it is accepted, here or in another environment."""
    return Baseline(entry_from(outcome_of(accepted), fingerprint, ""), "exact", "baselines/cpu")


def verdict(current: Sequence[Sample], baseline: Baseline) -> Verdict:
    """Give precreg's verdict on a change."""
    tolerances = {"out": tolerance_of(current[0].comparison.dtype)}
    return judge_case(CASE, outcome_of(current), tolerances, baseline, ENVIRONMENT, Policy(baselines=PROMISED))


def strange(samples: Sequence[Sample]) -> bool:
    """Tell whether NaN or infinities are where they should not be: every rule is given credit for seeing them."""
    return any(one.comparison.counts["nan_mismatched"] + one.comparison.counts["inf_mismatched"] for one in samples)


def allclose(current: Sequence[Sample], accepted: Sequence[Sample]) -> bool:
    """Hold elements to assert_close's tolerances, tenfold as often as the original needs to pass."""
    needed = max(one.excess for one in accepted)
    allowed = 10.0 ** max(ceil(log10(needed)), 0) if needed > 0 else 1.0
    return strange(current) or max(one.excess for one in current) > allowed


def grown(metric: str, times: float = 1.1) -> Rule:
    """Hold the mean of a metric over the seeds to that of the original, with 10 % more."""

    def rule(current: Sequence[Sample], accepted: Sequence[Sample]) -> bool:
        now, then = (mean_of(samples, metric) for samples in (current, accepted))
        return strange(current) or now > times * then

    return rule


def mean_of(samples: Sequence[Sample], metric: str) -> float:
    """Give the mean of a metric over seeds: infinite where one has none."""
    return fmean(one.comparison.metrics.get(metric, inf) for one in samples)


def any_grown(current: Sequence[Sample], accepted: Sequence[Sample]) -> bool:
    """Hold three metrics to those of the original."""
    return any(grown(metric)(current, accepted) for metric in ("max_abs_error", "mean_abs_error", "max_rel_error"))


def other_bits(current: Sequence[Sample], accepted: Sequence[Sample]) -> bool:
    """Ask for the same bits."""
    return [one.digest for one in current] != [one.digest for one in accepted]


def by_elements(current: Sequence[Sample], accepted: Sequence[Sample]) -> bool:
    """Ask whether |d| grew by more than three standard errors, with every element a sample of its own."""
    del accepted
    pairs, growth, spread = (sum(one[at] for one in current) for at in (3, 4, 5))
    return strange(current) or (spread > 0 and growth / sqrt(max(spread - growth**2 / pairs, 1e-300)) > 3)


NARROW = {"mean_abs_error": 0.1, "rms_error": 0.1, "mean_ulp": 0.1}
WIDE = {"mean_abs_error": 0.5, "rms_error": 0.5, "mean_log2_ulp": 0.5, "max_abs_error": 3.0}


def fixed(current: Sequence[Sample], accepted: Sequence[Sample]) -> bool:
    """Hold averages to fixed thresholds by dtype, beyond 0.05 ULP of growth: precreg's first rule."""
    narrow = current[0].comparison.dtype in ("float16", "bfloat16")
    scale = mean_of(current, "ulp_scale")
    for metric, threshold in (NARROW if narrow else WIDE).items():
        now, then = mean_of(current, metric), mean_of(accepted, metric)
        allowed = log2(1 + threshold) if metric == "mean_log2_ulp" else threshold * abs(then)
        ulps = 1.0 if metric == "max_abs_error" else 0.05
        if now - then > max(allowed, ulps * (1.0 if metric.endswith("ulp") else scale)):
            return True
    return strange(current)


RULES: dict[str, Rule] = {
    "fixed thresholds": fixed,
    "allclose": allclose,
    "max_abs * 1.1": grown("max_abs_error"),
    "mean_abs * 1.1": grown("mean_abs_error"),
    "max_rel * 1.1": grown("max_rel_error"),
    "any of the three": any_grown,
    "elements, z > 3": by_elements,
    "other bits": other_bits,
}

# These are not among RULES, because they need more than two sets of samples: a baseline as it is stored, fresh seeds.
DEFAULT = "precreg"
ALONE = "precreg --pair off"
# The same, judged by baselines that another environment accepted.
DEFAULT_ELSEWHERE = "precreg, other baseline"
ALONE_ELSEWHERE = "--pair off, other baseline"
OURS = (DEFAULT, DEFAULT_ELSEWHERE, ALONE, ALONE_ELSEWHERE)
