"""What would be caught? The smallest loss that the rules would tell from noise, from what a baseline keeps.

The paired standard error of a change is not known before there is one. That of two independent draws is: the one of the
baseline's own mean, over its groups and seeds, times sqrt(2). The rule takes the smaller of both, so what is told here
is the cautious side. docs/power.md derives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import exp, inf, isfinite, log, prod
from statistics import NormalDist, fmean

from msgspec import Struct, field
from msgspec.structs import replace

from precreg.arith.formats import FORMATS
from precreg.measure import kept_groups
from precreg.records import AxisSums, BaselineEntry, BaselineOutput
from precreg.types import RULES, STATISTIC, Role, Tolerance
from precreg.verdict.growth import FLOOR_ULP, MAXIMA, MIN_ELEMENTS, allowed_ratio
from precreg.verdict.paired import DOUBT, REDRAWN, TESTS
from precreg.verdict.regression import ELSEWHERE
from precreg.verdict.sample import LEAST, MEANS, Measure, Sample
from precreg.verdict.spread import Spread, redrawn, widest
from precreg.verdict.student import quantile

POWER = 0.9
"""The chance with which the loss that is told would be caught."""

SCALING = tuple(measure for measure in MEANS if measure.metric != "mean_log2_ulp")
"""The averages that grow as every error does; a mean of log2(ULP + 1/4) grows by less, where errors are small."""

MOST_GROUPS = 16
"""Of an axis, as AxisGroups has them."""

NARROW = 11
"""The most significant bits of a format that hides most of what differs between environments."""

_REACH = 5
_STEPS = 16
_HALVINGS = 30


class Loss(Struct, frozen=True):
    """The smallest loss of one output that would be caught: so many times the baseline's errors, with chance POWER.

    `metric` is the average that catches it, by `rule`, from `units` samples along `axis` (None: seeds), and `error` is
    the standard error of the logarithm of its ratio. `ratio` is None where no figure can be told, and `why` says it;
    it is 1 where any error is caught. `bounds` are the metrics with a bound, and `guards` the ratios to the baseline
    beyond which other metrics are caught, 1 for any loss.
    """

    output: str
    ratio: float | None
    why: str
    metric: str = ""
    rule: str = ""
    units: int = 0
    axis: int | None = None
    error: float | None = None
    bounds: tuple[str, ...] = ()
    guards: dict[str, float] = field(default_factory=dict)


class Power(Struct, frozen=True):
    """What would be caught of one case, output by output; `why` says where nothing can be told of it."""

    case: str
    losses: tuple[Loss, ...] = ()
    why: str = ""

    @property
    def worst(self) -> float | None:
        """The largest of the smallest losses of its outputs, None where an output has none."""
        ratios = [loss.ratio for loss in self.losses]
        known = [ratio for ratio in ratios if ratio is not None]
        return max(known) if known and len(known) == len(ratios) else None


class Terms(Struct, frozen=True):
    """How one output is judged: seeds that both sides have, the error level of one change, and the tolerance.

    `alike` tells that the baseline was accepted on the same fingerprint, so that no rounding of libraries differs, and
    `by_chance` that runs need not repeat, so that seeds must be a sample, too.
    """

    seeds: int
    level: float
    tolerance: Tolerance
    role: Role
    alike: bool = True
    by_chance: bool = False


def losses(
    entry: BaselineEntry,
    tolerances: Mapping[str, Tolerance],
    role: Role,
    *,
    seeds: int,
    level: float,
    alike: bool = True,
    by_chance: bool = False,
) -> tuple[Loss, ...]:
    """Return the smallest loss of each output that would be caught; `level` is the case's error level."""
    share = level / (TESTS * len(entry.outputs))
    both = min(seeds, len(entry.inputs))
    terms = {name: Terms(both, share, tolerances[name], role, alike, by_chance) for name in entry.outputs}
    return tuple(
        _loss(name, accepted, entry.groups.get(name, ()), terms[name]) for name, accepted in entry.outputs.items()
    )


def _loss(name: str, accepted: BaselineOutput, groups: Sequence[AxisSums], terms: Terms) -> Loss:
    alternatives = (bound for branch in terms.tolerance.alternatives for bound in branch)
    bounds = tuple(dict.fromkeys(bound.metric for bound in (*terms.tolerance.bounds, *alternatives)))
    errors = _metric(accepted, "mean_abs_error", terms.seeds)
    if errors and not any(errors):
        beyond = "" if terms.alike else f" above {FLOOR_ULP:g} ULP"
        return Loss(name, 1.0, f"exact: any error{beyond} is caught", rule="hard", bounds=bounds)
    found = [loss for measure in SCALING for loss in _of_measure(name, measure, accepted, groups, terms)]
    told = min(found, key=lambda loss: loss.ratio or inf, default=Loss(name, None, _nothing(accepted, groups, terms)))
    return replace(told, bounds=bounds, guards=_guards(terms))


def _guards(terms: Terms) -> dict[str, float]:
    """Return the ratios beyond which the growth of single metrics is caught; of a golden any lost match is."""
    others = {metric: growth for metric, growth in terms.tolerance.regression.items() if metric not in RULES}
    if terms.role == "golden" and not terms.by_chance:
        others = {metric: others[metric] for metric in others.keys() - MAXIMA} | {"match_ratio": 0.0}
    return {metric: allowed_ratio(metric, growth) for metric, growth in sorted(others.items())}


def _nothing(accepted: BaselineOutput, groups: Sequence[AxisSums], terms: Terms) -> str:
    """Say why no figure can be told."""
    if terms.by_chance and terms.seeds < LEAST:
        return f"runs need not repeat, and of fewer than {LEAST} seeds their spread is not kept"
    units = [len(sums) for measure in SCALING for _, sums, _ in samples(measure, accepted, groups, terms.seeds)]
    if units and max(units) < LEAST:
        return f"fewer than {LEAST} samples: bounds and guards alone"
    if STATISTIC not in terms.tolerance.regression:
        return "the statistic is off: bounds and guards alone"
    return "no spread is known: bounds and guards alone"


def _of_measure(
    name: str, measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], terms: Terms
) -> Iterator[Loss]:
    """Yield what the statistic of a measure catches, and what a threshold on it does, where there is one."""
    spreads = [spread(measure, accepted, groups, terms.seeds)]
    if terms.by_chance:
        spreads.append(spread(measure, accepted, (), terms.seeds))
    known = [each for each in spreads if each is not None]
    if len(known) < len(spreads):
        return
    regression, floor = terms.tolerance.regression, _floor(accepted, terms.seeds)
    if STATISTIC in regression and measure.metric in REDRAWN:
        least = 0.0 if terms.alike else floor
        material = log(1 + _material(accepted.dtype, terms))
        shifts = [(needed(error, units - 1, terms.level, material, least), error) for error, units, _ in known]
        (shift, _), (error, units, axis) = max(zip(shifts, known, strict=True))
        yield Loss(name, _ratio(shift), "", measure.metric, "statistic", units, axis, error)
    error, units, axis = max(known, key=lambda each: each[0])
    if measure.metric in regression and prod(accepted.shape) * terms.seeds >= MIN_ELEMENTS:
        least = max(log(1 + regression[measure.metric]), floor)
        shift = least + NormalDist().inv_cdf(POWER) * error
        yield Loss(name, _ratio(shift), "", measure.metric, "guard", units, axis, error)


def _material(dtype: str, terms: Terms) -> float:
    """Return the growth that is not yet material: elsewhere what another environment explains, as in a verdict."""
    material = terms.tolerance.regression[STATISTIC]
    number_format = FORMATS.get(dtype)
    width = "narrow" if number_format is not None and number_format.precision <= NARROW else "wide"
    return material if terms.alike else max(material, ELSEWHERE[width])


def _ratio(shift: float) -> float | None:
    return exp(shift) if shift < 700 else None


def _floor(accepted: BaselineOutput, seeds: int) -> float:
    """Return the logarithm of the growth that is rounding: exact for mean_ulp, and about that for the other means."""
    ulps = _metric(accepted, "mean_ulp", seeds)
    mean = fmean(ulps) if ulps else 0.0
    return log(1 + FLOOR_ULP / mean) if mean > 0 else 0.0


def _metric(accepted: BaselineOutput, metric: str, seeds: int) -> list[float]:
    """Return a metric seed by seed; nothing where a seed leaves it undefined."""
    values = accepted.metrics.get(metric, [])[:seeds]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def spread(measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], seeds: int) -> Spread | None:
    """Return the standard error of the logarithm of a ratio of two draws of the baseline's errors, as in a verdict.

    None where there are too few samples, or no errors.
    """
    known = [
        redrawn(Sample(axis, sums, sums, n, sums), measure)
        for axis, sums, n in samples(measure, accepted, groups, seeds)
        if len(sums) >= LEAST
    ]
    errors = [each for each in known if each is not None and isfinite(each.error)]
    return widest(errors) if known and len(errors) == len(known) else None


def samples(
    measure: Measure, accepted: BaselineOutput, groups: Sequence[AxisSums], seeds: int
) -> Iterator[tuple[int | None, list[float], list[int]]]:
    """Yield axis, sums and numbers of elements along each axis that is kept; seed by seed where none is."""
    if not groups:
        means = _metric(accepted, measure.metric, seeds)
        yield None, [mean ** (1 / measure.power) for mean in means], [1] * len(means)
    for kept in groups:
        read = [kept_groups.read(kept, seed, measure.sums) for seed in range(seeds)]
        known = [sums for sums in read if sums is not None]
        if known and len(known) == len(read):
            n = _sizes(accepted.shape, kept)
            yield kept.axis, [number for sums in known for number in sums], n * len(known)


def _sizes(shape: Sequence[int], kept: AxisSums) -> list[int]:
    """Return how many elements the joined groups of an axis have."""
    length = shape[kept.axis]
    groups = min(length, MOST_GROUPS)
    edges = [*(group * length // groups for group in range(0, groups, kept.joined)), length]
    across = prod(shape) // length
    return [(end - start) * across for start, end in pairwise(edges)]


def needed(error: float, freedom: int, level: float, material: float, least: float) -> float:
    """Return the logarithm of the smallest ratio that is caught with chance POWER.

    It is caught if it exceeds what noise reaches with chance `level`, if its lower confidence bound is above
    `material`, and if it is above `least`; all but `level` are logarithms of ratios. What a run must exceed is known,
    as `error` is that of the baseline; what it draws about the true ratio, in units of `error`, is Student's t.
    """
    significant, doubt = quantile(level, freedom) * error, quantile(DOUBT / TESTS, freedom) * error
    return max(significant, material + doubt, least) + quantile(1 - POWER, freedom) * error
