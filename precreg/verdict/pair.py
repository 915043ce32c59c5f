"""Does the present version compute worse than the accepted one, on fresh inputs that both were given?

Each seed gives every output a pair of figures, and seeds are the sample. A look judges all seeds drawn so far. A case
is worse if one of its metrics grew significantly and relevantly. It is clear if the upper bound of every metric
excludes a relevant loss. The rules and their constants come from a study of operators (docs/detection.md), their error
level from docs/pair-test.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import comb, exp, fsum, inf, log
from typing import NamedTuple

from precreg.tolerance import DEFAULT_GROWTHS
from precreg.types import (
    PAIRED_LOSS,
    BetterOnFreshInputs,
    ClearOnFreshInputs,
    EndedBy,
    FailedOnFreshInputs,
    Finding,
    NonFiniteOnFreshInputs,
    PairedFigure,
    PairEnd,
    Reason,
    RoundingShare,
    SeedFigures,
    UnclearOnFreshInputs,
    Verdict,
    WorseOnFreshInputs,
)
from precreg.verdict.judge import Policy, verdict_of
from precreg.verdict.statistics import (
    CLEAR_ALPHA,
    MAX_LOG_RATIO,
    MeanRatio,
    log_ratio,
    mean_with_error,
    p_above,
    p_bias_grew,
    p_mean_grew,
    ratio_of_means,
    relative_bias,
    seeds_to_detect,
    t_quantile,
    upper_bias_growth,
    upper_bound,
)

# Averages, and figures that a few elements make. Averages of ULP see elements near zero, all others large ones.
AVERAGES = ("mean_abs_error", "rms_error", "mean_ulp", "rms_ulp")
TAILS = ("top_abs_error", "max_abs_error", "top_ulp", "max_ulp")
# With the sign of the error, and with the sign that it has away from zero: truncation shows in the second alone.
BIASES = ("bias", "outward_bias")

# The averages of outputs of up to FEW_ELEMENTS, as means over all seeds and not as mean logarithms. The logarithm of
# the error of one element varies so much that a loss of 1.5 times took 2.2 times the seeds with normal errors. Of four
# elements it took 1.2 times, and of eight 1.1 times.
SEED_MEANS = {"mean_abs_error_over_seeds": "mean_abs_error", "mean_ulp_over_seeds": "mean_ulp"}
FEW_ELEMENTS = 4

# Growth of a maximum, in multiples of an average's, that need not be excluded before a case is clear: maxima vary too
# much for a closer bound within a hundred seeds.
CLEAR_TAIL_FACTOR = 2

# A mean of fewer values has no standard error. An output that the subject gives at so few seeds stays open.
MIN_PAIRS = 2

# The two-sided confidence level of printed intervals is 1 - 2 * this.
_INTERVAL_ALPHA = 0.025


class SeedPair(NamedTuple):
    """The figures of one output by both versions at one seed, and whether its bits are the same."""

    accepted: SeedFigures
    present: SeedFigures
    same_bits: bool


class PairedOutput(NamedTuple):
    """One output of both versions, with a pair of figures for each seed.

    `min_loss` is the smallest relevant growth. `is_integer` says that errors in ULP are the errors themselves.
    """

    output: str
    dtype: str
    is_integer: bool
    min_loss: float
    pairs: Sequence[SeedPair]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that are tested: those that are distinct for the output's size and dtype.

        The shape determines them, and not the data, so that their number is known before the test.
        """
        size = self.pairs[0].present.size
        magnitudes: tuple[str, ...] = AVERAGES + TAILS
        over_seeds: tuple[str, ...] = tuple(SEED_MEANS) if size <= FEW_ELEMENTS else ()
        if self.is_integer:
            over_seeds = over_seeds[:1]
        if size == 1:
            # All figures of one element are one figure; in ULP it has the same unit for both versions.
            return ("mean_abs_error", *over_seeds, *BIASES)
        if size < 2 * 64:
            # The largest 1/64 are one element, the largest.
            magnitudes = tuple(name for name in magnitudes if not name.startswith("top_"))
        if self.is_integer:
            magnitudes = tuple(name for name in magnitudes if not name.endswith("ulp"))
        return (*magnitudes, *over_seeds, *BIASES)


class Look(NamedTuple):
    """The state of a case after a look: how it ended, or None if more seeds are needed; findings; figures."""

    end: PairEnd | None
    findings: tuple[Finding, ...]
    figures: tuple[PairedFigure, ...]
    shares: tuple[RoundingShare, ...]


def judge_look(outputs: Sequence[PairedOutput], alpha: float, commit: str) -> Look:
    """Judge all seeds drawn so far; `alpha` is the error level of one output at this look."""
    changed = _changed(outputs)
    if not changed:
        return Look("same_bits", (), (), ())
    is_complete = all(len(output.pairs) >= MIN_PAIRS for output in changed)
    changed = [output for output in changed if len(output.pairs) >= MIN_PAIRS]
    series = {output.output: _series(output) for output in changed}
    figures = tuple(figure for output in changed for figure in _figures(output, series[output.output]))
    shares = tuple(_rounding_share(output) for output in changed)
    worse = [found for output in changed for found in _worse(output, series[output.output], alpha, commit)]
    if worse:
        return Look("worse", tuple(worse), figures, shares)
    better = [found for output in changed for found in _better(output, series[output.output], alpha, commit)]
    is_clear = is_complete and all(_is_clear(output, series[output.output]) for output in changed)
    return Look("clear" if is_clear else None, tuple(better), figures, shares)


class _Series(NamedTuple):
    """One value a seed: the log ratio of a magnitude, or the present and the accepted value of any other metric."""

    present: list[float]
    # Empty for log ratios.
    accepted: list[float]


def _series(output: PairedOutput) -> dict[str, _Series]:
    return {metric: _one_series(output.pairs, metric) for metric in output.metrics}


def _one_series(pairs: Sequence[SeedPair], metric: str) -> _Series:
    present, accepted = _both_sides(pairs, metric)
    if metric in SEED_MEANS:
        return _Series(present, accepted)
    if metric not in BIASES:
        return _Series([log_ratio(new, old) for new, old in zip(present, accepted, strict=True)], [])
    units = _bias_units(pairs)
    return _Series(
        [relative_bias(value, unit) for value, unit in zip(present, units, strict=True)],
        [relative_bias(value, unit) for value, unit in zip(accepted, units, strict=True)],
    )


def _both_sides(pairs: Sequence[SeedPair], metric: str) -> tuple[list[float], list[float]]:
    return [_of(pair.present, metric) for pair in pairs], [_of(pair.accepted, metric) for pair in pairs]


def _bias_units(pairs: Sequence[SeedPair]) -> list[float]:
    """Return the mean |e| of both versions at each seed; for a few elements, which vary much, the mean of all seeds."""
    # Of both: in units of one version, whose error may be near 0 at a seed, the other has the larger mean.
    units = [(new + old) / 2 for new, old in zip(*_both_sides(pairs, "mean_abs_error"), strict=True)]
    return [fsum(units) / len(units)] * len(units) if pairs[0].present.size <= FEW_ELEMENTS else units


def _of(figures: SeedFigures, metric: str) -> float:
    return figures.metrics.get(SEED_MEANS.get(metric, metric), 0.0)


def _worse(output: PairedOutput, series: Mapping[str, _Series], alpha: float, commit: str) -> Iterator[Finding]:
    """Yield a finding for mismatched NaN and infinities, or for each metric that grew."""
    for seed, pair in enumerate(output.pairs):
        if pair.present.mismatched > pair.accepted.mismatched:
            counts = pair.accepted.mismatched, pair.present.mismatched
            more = NonFiniteOnFreshInputs(commit, seed, *counts)
            yield Finding(Reason.REGRESSED, output=output.output, rule="hard", fact=more)
            return
    for metric, values in series.items():
        # All metrics of an output share its level (Bonferroni).
        if len(series) * _p_value(metric, values, output.min_loss) <= alpha:
            fact = WorseOnFreshInputs(commit, len(output.pairs))
            yield _finding(output, metric, values, Reason.REGRESSED, fact)


def _better(output: PairedOutput, series: Mapping[str, _Series], alpha: float, commit: str) -> Iterator[Finding]:
    """Yield a finding for fewer mismatched NaN and infinities, and for each metric that shrank."""
    for seed, pair in enumerate(output.pairs):
        if pair.present.mismatched < pair.accepted.mismatched:
            counts = pair.accepted.mismatched, pair.present.mismatched
            fewer = NonFiniteOnFreshInputs(commit, seed, *counts)
            yield Finding(Reason.IMPROVED, output=output.output, rule="hard", fact=fewer)
            break
    for metric, values in series.items():
        if len(series) * _p_value(metric, _exchanged(values), output.min_loss) <= alpha:
            fact = BetterOnFreshInputs(commit, len(output.pairs))
            yield _finding(output, metric, values, Reason.IMPROVED, fact)


def _exchanged(values: _Series) -> _Series:
    """Return the series that the versions give in each other's place."""
    if values.accepted:
        return _Series(values.accepted, values.present)
    return _Series([-value for value in values.present], [])


def _p_value(metric: str, values: _Series, min_loss: float) -> float:
    if metric in BIASES:
        return p_bias_grew(values.present, values.accepted, min_loss)
    if metric in SEED_MEANS:
        return p_mean_grew(values.present, values.accepted, min_loss)
    return p_above(values.present, log(1 + min_loss))


def _finding(
    output: PairedOutput,
    metric: str,
    values: _Series,
    reason: Reason,
    fact: WorseOnFreshInputs | BetterOnFreshInputs,
) -> Finding:
    figure = _figure(output, metric, values)
    present, accepted = _mean_figures(output.pairs, metric)
    return Finding(
        reason,
        output=output.output,
        metric=metric,
        current=present,
        baseline=accepted,
        ratio=figure.ratio,
        limit=1 + output.min_loss,
        rule="statistic",
        lower=figure.lower,
        upper=figure.upper,
        fact=fact,
    )


def _mean_figures(pairs: Sequence[SeedPair], metric: str) -> tuple[float, float]:
    present, accepted = _both_sides(pairs, metric)
    return sum(value / len(pairs) for value in present), sum(value / len(pairs) for value in accepted)


def _figures(output: PairedOutput, series: Mapping[str, _Series]) -> Iterator[PairedFigure]:
    yield from (_figure(output, metric, values) for metric, values in series.items())


def _figure(output: PairedOutput, metric: str, values: _Series) -> PairedFigure:
    if metric in BIASES:
        return _bias_figure(output, metric, values)
    if metric in SEED_MEANS:
        found = _mean_ratio(values, _INTERVAL_ALPHA)
        log_mean = log_ratio(found.ratio, 1.0)
        bounds = found.ratio, found.lower, found.upper
        return PairedFigure(output.output, output.dtype, metric, *bounds, log_mean, found.log_error)
    mean, error = mean_with_error(values.present)
    half_width = t_quantile(_INTERVAL_ALPHA, len(values.present) - 1) * error
    ratio, lower, upper = exp(mean), exp(mean - half_width), exp(mean + half_width)
    return PairedFigure(output.output, output.dtype, metric, ratio, lower, upper, mean, error)


def _mean_ratio(values: _Series, alpha: float) -> MeanRatio:
    """Return the ratio of the means of a series, clipped as logarithms are: a record has no infinite numbers."""
    found, largest = ratio_of_means(values.present, values.accepted, alpha), exp(MAX_LOG_RATIO)
    ratio, lower, upper = (min(each, largest) for each in (found.ratio, found.lower, found.upper))
    return MeanRatio(ratio, lower, upper, min(found.log_error, MAX_LOG_RATIO))


def _bias_figure(output: PairedOutput, metric: str, values: _Series) -> PairedFigure:
    """Return the growth of the size of a bias, towards the sign that the present one has."""
    present, accepted = mean_with_error(values.present)[0], mean_with_error(values.accepted)[0]
    sign, against = (1 if present >= 0 else -1), (1 if accepted >= 0 else -1)
    growths = [sign * new - against * old for new, old in zip(values.present, values.accepted, strict=True)]
    mean, error = mean_with_error(growths)
    half_width = t_quantile(_INTERVAL_ALPHA, len(growths) - 1) * error
    ratio, lower, upper = (1 + value for value in (mean, mean - half_width, mean + half_width))
    return PairedFigure(output.output, output.dtype, metric, ratio, lower, upper, mean, error)


def _is_clear(output: PairedOutput, series: Mapping[str, _Series]) -> bool:
    return all(_headroom(output, metric, values) > 0 for metric, values in series.items())


def _headroom(output: PairedOutput, metric: str, values: _Series) -> float:
    """Return the distance of a metric's upper bound below the limit that makes it clear."""
    return _clear_limit(metric, output.min_loss) - _upper(metric, values)


def _clear_limit(metric: str, min_loss: float) -> float:
    # A limit below the default would keep nearly every case open: it may fail earlier, and is clear as by default.
    growth = max(min_loss, DEFAULT_GROWTHS[PAIRED_LOSS])
    if metric in BIASES:
        return CLEAR_TAIL_FACTOR * growth
    return log(1 + growth * (CLEAR_TAIL_FACTOR if metric in TAILS else 1))


def _upper(metric: str, values: _Series) -> float:
    if metric in BIASES:
        return upper_bias_growth(values.present, values.accepted, CLEAR_ALPHA)
    if metric in SEED_MEANS:
        upper = _mean_ratio(values, CLEAR_ALPHA).upper
        return log(upper) if upper > 0 else -inf
    return upper_bound(values.present, CLEAR_ALPHA)


# The loss for which an unclear case states the seeds that it needs.
DETECTABLE_LOSS = 1.2


def conclude_pair(first: Verdict, look: Look, outputs: Sequence[PairedOutput], commit: str) -> Verdict:
    """Return the verdict after a test on fresh inputs that ended; `first` is that on the case's own seeds.

    Figures of the fresh inputs replace figures of the few own seeds. An improvement in either stays one.
    """
    if look.end == "worse" or look.findings:
        return verdict_of([*look.findings], Policy(), ())
    if first.reason is Reason.IMPROVED:
        return first
    output, metric, upper = _largest_upper(outputs)
    seeds = max(len(each.pairs) for each in outputs)
    fact = ClearOnFreshInputs(commit, seeds, look.end == "same_bits", output, metric, upper)
    return verdict_of([Finding(Reason.WITHIN_TOLERANCE, fact=fact)], Policy(), ())


def unclear_verdict(
    first: Verdict,
    outputs: Sequence[PairedOutput],
    commit: str,
    ended_by: EndedBy,
    alpha: float,
    gains: Sequence[Finding] = (),
) -> Verdict:
    """Return the verdict on a case whose budget ended; `alpha` is the level of one output at one look.

    It has the gains of the last look, too.
    """
    if first.reason is Reason.IMPROVED:
        return first
    changed = [output for output in _changed(outputs) if len(output.pairs) >= MIN_PAIRS]
    seeds = max((len(output.pairs) for output in outputs), default=0)
    if not changed:
        return verdict_of([Finding(Reason.NOT_CLEAR, fact=UnclearOnFreshInputs(commit, seeds, ended_by))], Policy(), ())
    every = [(output, metric, values) for output in changed for metric, values in _series(output).items()]
    output, metric, values = min(every, key=lambda each: _headroom(*each))
    averages = max(exp(_upper(name, one)) for _, name, one in every if name in AVERAGES)
    fact = UnclearOnFreshInputs(
        commit,
        seeds,
        ended_by,
        output.output,
        metric,
        1 + _upper(metric, values) if metric in BIASES else exp(_upper(metric, values)),
        averages,
        DETECTABLE_LOSS,
        _needed(output, metric, values, alpha),
    )
    return verdict_of([Finding(Reason.NOT_CLEAR, output=output.output, fact=fact), *gains], Policy(), ())


def failed_verdict(reason: Reason, message: str, commit: str) -> Verdict:
    """Return the verdict on a case whose present version fails on an input that the accepted one computes."""
    return verdict_of([Finding(reason, fact=FailedOnFreshInputs(commit, message))], Policy(), ())


def _needed(output: PairedOutput, metric: str, values: _Series, alpha: float) -> int:
    """Return an estimate of the seeds that find a loss of DETECTABLE_LOSS."""
    limit, loss, spread = output.min_loss, DETECTABLE_LOSS - 1, values.present
    if metric in BIASES:
        spread = [new - old for new, old in zip(values.present, values.accepted, strict=True)]
    elif metric in SEED_MEANS:
        unit = fsum(values.accepted) / len(values.accepted) or 1.0
        spread = [(new - (1 + limit) * old) / unit for new, old in zip(values.present, values.accepted, strict=True)]
    else:
        limit, loss = log(1 + limit), log(1 + loss)
    if loss <= limit:
        return 0
    return seeds_to_detect(spread, limit, loss, alpha / len(output.metrics))


def _changed(outputs: Sequence[PairedOutput]) -> list[PairedOutput]:
    return [output for output in outputs if not all(pair.same_bits for pair in output.pairs)]


def _largest_upper(outputs: Sequence[PairedOutput]) -> tuple[str, str, float]:
    """Return the output, metric and ratio of the largest upper bound among magnitudes; ratio 1 if bits are the same."""
    found = [
        (exp(_upper(metric, values)), output.output, metric)
        for output in _changed(outputs)
        for metric, values in _series(output).items()
        if metric not in BIASES
    ]
    upper, name, metric = max(found, default=(1.0, "", ""))
    return name, metric, upper


def _rounding_share(output: PairedOutput) -> RoundingShare:
    """Compare the shares of correctly rounded elements, with an exact sign test over seeds."""
    before, now = (
        sum(side.correctly_rounded for side in sides) / sum(side.size for side in sides)
        for sides in ([pair.accepted for pair in output.pairs], [pair.present for pair in output.pairs])
    )
    lost = sum(pair.present.correctly_rounded < pair.accepted.correctly_rounded for pair in output.pairs)
    gained = sum(pair.present.correctly_rounded > pair.accepted.correctly_rounded for pair in output.pairs)
    return RoundingShare(output.output, before, now, lost, gained, sign_test(lost, gained))


def sign_test(lost: int, gained: int) -> float:
    """Return the probability of at least `lost` losses among all seeds that differ, if either way is as likely."""
    differ = lost + gained
    return sum(comb(differ, k) for k in range(lost, differ + 1)) / 2**differ if differ else 1.0
