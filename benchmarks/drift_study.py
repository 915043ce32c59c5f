"""What the drift monitor finds, when, and how often it is wrong: histories of 60 runs, judged again after every run.

Each commit runs twice. A third table has releases: 10 to 30 runs of one release each, whose figures mostly repeat.
Prints, per kind of history, in how many of the seeds drift is found, after which run (median, least and most), and
against what first. In histories without drift whatever is found is a false alarm; those are drawn ten times as often.
Every history has an accepted baseline: the level of its first run, or for noise a draw of its own; where a gain is
accepted it follows.
Usage: python benchmarks/drift_study.py [SEEDS]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from precreg.history import HistoryPoint, HistoryRun, HistorySeries
from precreg.history.drift import DriftContext, DriftSettings, DriftState, judge_metric

RUNS = 60
STEP_AT = 40
Draw = Callable[[np.random.Generator], np.ndarray]


class Scenario(NamedTuple):
    """How the logarithms of the values are drawn, for the baseline first and then for every run.

    `fingerprints` are those of the machines that take turns, `accepted` is what became of the accepted value.
    """

    name: str
    draw: Draw
    fingerprints: str = "a"
    accepted: Callable[[np.ndarray], np.ndarray] = np.zeros_like


class Told(NamedTuple):
    """The first run after which a history was found to drift, against what, and whether it was ever too noisy."""

    run: int | None
    against: str = ""
    too_noisy: bool = False


def gauss(size: float) -> Draw:
    """Independent Gaussian noise of a relative size."""
    return lambda random: size * random.standard_normal(RUNS + 1)


def laplace(size: float) -> Draw:
    """Independent Laplace noise of that standard deviation."""
    return lambda random: random.laplace(0, size / 2**0.5, RUNS + 1)


def student(size: float) -> Draw:
    """Independent noise of Student's t with 3 degrees of freedom, of that standard deviation."""
    return lambda random: size / 3**0.5 * random.standard_t(3, RUNS + 1)


def correlated(size: float, lag: float) -> Draw:
    """Noise of an AR(1) process: each value keeps a share of the one before."""

    def draw(random: np.random.Generator) -> np.ndarray:
        values = random.standard_normal(RUNS + 1)
        for at in range(1, RUNS + 1):
            values[at] = lag * values[at - 1] + (1 - lag**2) ** 0.5 * values[at]
        return size * values

    return draw


def plus(noise: float, shape: Callable[[np.ndarray], np.ndarray]) -> Draw:
    """Gaussian noise about a shape over the numbers of the runs; the baseline, at 0, has the first one's level."""
    return lambda random: shape(np.arange(RUNS + 1)) + noise * random.standard_normal(RUNS + 1)


def step(runs: np.ndarray) -> np.ndarray:
    """10 % more from a run on."""
    return np.where(runs >= STEP_AT, np.log(1.1), 0.0)


def slope(runs: np.ndarray) -> np.ndarray:
    """1 % more at each run."""
    return np.log(1.01) * np.maximum(runs - 1, 0)


def late_slope(runs: np.ndarray) -> np.ndarray:
    """1 % more at each run after run 20."""
    return np.log(1.01) * np.maximum(runs - 20, 0)


def stairs(runs: np.ndarray) -> np.ndarray:
    """1 % more at every fifth run."""
    return np.log(1.01) * (np.maximum(runs - 1, 0) // 5)


def gain(runs: np.ndarray) -> np.ndarray:
    """Half the error from a run on."""
    return np.where(runs >= STEP_AT, np.log(0.5), 0.0)


def outlier(at: int) -> Callable[[np.ndarray], np.ndarray]:
    """One run ten times as bad."""
    return lambda runs: np.where(runs == at, np.log(10.0), 0.0)


def turns(runs: np.ndarray) -> np.ndarray:
    """Two machines take turns, one of them 20 % worse: no drift."""
    return np.where((runs % 3 == 0) & (runs > 0), np.log(1.2), 0.0)


def growing(most: float) -> Draw:
    """Gaussian noise of 1 % at first and `most` times that at the end."""
    return lambda random: 0.01 * np.geomspace(1, most, RUNS + 1) * random.standard_normal(RUNS + 1)


def grid(size: float) -> Draw:
    """Gaussian noise about 1, rounded to tenths."""
    return lambda random: np.log(np.maximum(np.round(1 + size * random.standard_normal(RUNS + 1), 1), 0.1))


DRIFTING = (
    Scenario("step of 10 % at run 40, exact", plus(0, step)),
    Scenario("step of 10 % at run 40, noise 1 %", plus(0.01, step)),
    Scenario("step of 10 % at run 40, noise 2 %", plus(0.02, step)),
    Scenario("step of 10 % at run 40, noise 5 %", plus(0.05, step)),
    Scenario("slope of 1 % a run, exact", plus(0, slope)),
    Scenario("slope of 1 % a run, noise 1 %", plus(0.01, slope)),
    Scenario("slope of 1 % a run, noise 5 %", plus(0.05, slope)),
    Scenario("slope of 1 % a run after run 20, exact", plus(0, late_slope)),
    Scenario("slope of 1 % a run after run 20, noise 1 %", plus(0.01, late_slope)),
    Scenario("slope of 1 % every fifth run, exact", plus(0, stairs)),
)
STEADY = (
    Scenario("constant", plus(0, np.zeros_like)),
    Scenario("one outlier of 10 times at a rerun", plus(0, outlier(30))),
    Scenario("one outlier of 10 times at the end", plus(0, outlier(RUNS))),
    Scenario("one outlier of 10 times at a rerun, noise 1 %", plus(0.01, outlier(30))),
    Scenario("one outlier of 10 times at the end, noise 1 %", plus(0.01, outlier(RUNS))),
    Scenario("two machines take turns, one 20 % worse", plus(0, turns), fingerprints="baa"),
    Scenario("half the error, accepted with it at run 40, noise 5 %", plus(0.05, gain), accepted=gain),
    Scenario("Gaussian noise of 1 %", gauss(0.01)),
    Scenario("Gaussian noise of 5 %", gauss(0.05)),
    Scenario("Gaussian noise of 20 %", gauss(0.2)),
    Scenario("Laplace noise of 20 %", laplace(0.2)),
    Scenario("Student t3 noise of 20 %", student(0.2)),
    Scenario("AR(1) noise of 20 %, 0.3", correlated(0.2, 0.3)),
    Scenario("AR(1) noise of 20 %, 0.5", correlated(0.2, 0.5)),
    Scenario("AR(1) noise of 20 %, 0.8", correlated(0.2, 0.8)),
    Scenario("noise that grows from 1 % to 4 %", growing(4)),
    Scenario("noise that grows from 1 % to 20 %", growing(20)),
    Scenario("noise of 5 % on a grid of 10 %", grid(0.05)),
    Scenario("noise of 10 % on a grid of 10 %", grid(0.1)),
    Scenario("noise of 20 % on a grid of 10 %", grid(0.2)),
)


def history(scenario: Scenario, seed: int) -> tuple[HistorySeries, dict[int, HistoryRun]]:
    """Draw one history."""
    baseline, *values = (0.01 * np.exp(scenario.draw(np.random.default_rng(seed)))).tolist()
    accepted = (baseline * np.exp(scenario.accepted(np.arange(1, RUNS + 1)))).tolist()
    points = tuple(HistoryPoint(number, *pair) for number, pair in enumerate(zip(values, accepted, strict=True), 1))
    prints = scenario.fingerprints
    runs = {
        number: HistoryRun(
            number, "", f"{(number - 1) // 2:040x}", "main", False, "cpu", prints[number % len(prints)], {}, "", 0
        )
        for number in range(1, RUNS + 1)
    }
    return HistorySeries("unit/study/case", "out", "mean_abs_error", points), runs


def first_told(scenario: Scenario, seed: int) -> Told:
    """Judge a history after every run until something is found."""
    series, runs = history(scenario, seed)
    too_noisy = False
    for number in range(1, RUNS + 1):
        so_far = HistorySeries(series.case, series.output, series.metric, series.points[:number])
        found = judge_metric(so_far, DriftContext(runs, (), DriftSettings()))
        too_noisy = too_noisy or (found is not None and found.state is DriftState.TOO_NOISY)
        if found is not None and found.state is DriftState.DRIFT:
            against = ", ".join(f"{worse.against} ({worse.kind})" for worse in found.worsenings)
            return Told(number, against, too_noisy)
    return Told(None, "", too_noisy)


def study(scenario: Scenario, seeds: int) -> list[Told]:
    """Judge as many histories as asked for."""
    return [first_told(scenario, seed) for seed in range(seeds)]


def line(scenario: Scenario, told: list[Told]) -> str:
    """Sum up one kind of history."""
    when = sorted(one.run for one in told if one.run is not None)
    share = f"{len(when)} of {len(told)}"
    if not when:
        return f"{scenario.name:54} {share:>13} {0:7.2%}"
    against, _ = Counter(one.against for one in told if one.run is not None).most_common(1)[0]
    run = f"{median(when):g} ({when[0]} to {when[-1]})"
    return f"{scenario.name:54} {share:>13} {len(when) / len(told):7.2%}  {run:18} {against}"


class Releases(NamedTuple):
    """Of releases with a large step: how many were found at the right one, among how many; reports at other ones."""

    found: int
    steps: int
    elsewhere: int


def draw_releases(seed: int) -> tuple[list[float], set[int]]:
    """Draw the figures of 10 to 30 releases, and the numbers of those with a step above 1.5 times.

    15 % of the releases change the figure: half of those by 1.5 to 10 times, the others by up to 35 %; 70 % are worse.
    In a third of the series half of the releases move the figure by 1 %, too.
    """
    random = np.random.default_rng(seed)
    level, values, steps = 1.0, [], set()
    for number in range(1, int(random.integers(10, 31)) + 1):
        if number > 1 and random.random() < 0.15:
            factor = np.exp(random.uniform(*np.log((1.5, 10)) if random.random() < 0.5 else (0.005, 0.3)))
            is_worse = random.random() < 0.7
            level *= factor if is_worse else 1 / factor
            if is_worse and factor > 1.5:
                steps.add(number)
        moves = seed % 3 == 0 and random.random() < 0.5
        values.append(float(level * np.exp(0.01 * random.standard_normal() if moves else 0.0)))
    return values, steps


def judge_releases(seeds: int, confirm: int) -> Releases:
    """Judge every series after each release, without a baseline; a step is found where a report names its release."""
    found = steps_in_all = elsewhere = 0
    for seed in range(seeds):
        values, steps = draw_releases(seed)
        runs = {
            number: HistoryRun(number, "", f"{number:040x}", "main", False, "cpu", "a", {}, "", 0)
            for number in range(1, len(values) + 1)
        }
        points = tuple(HistoryPoint(number, value, None) for number, value in enumerate(values, 1))
        context = DriftContext(runs, (), DriftSettings(confirm=confirm))
        named = set()
        for number in runs:
            judged = judge_metric(HistorySeries("unit/s/a", "out", "mean_abs_error", points[:number]), context)
            named |= {worse.change.first_bad for worse in judged.worsenings} if judged is not None else set()
        found, steps_in_all = found + len(steps & named), steps_in_all + len(steps)
        elsewhere += len(named - steps)
    return Releases(found, steps_in_all, elsewhere)


def main(seeds: int) -> None:
    """Print both tables."""
    heading = f"{'':54} {'found in':>13} {'':7}  {'after run':18} mostly against"
    print(f"histories that drift, {seeds} seeds each\n{heading}")
    for scenario in DRIFTING:
        print(line(scenario, study(scenario, seeds)), flush=True)
    print(f"\nhistories that do not, {10 * seeds} seeds each: what is found is a false alarm\n{heading}")
    for scenario in STEADY:
        told = study(scenario, 10 * seeds)
        print(f"{line(scenario, told)}  too noisy {sum(one.too_noisy for one in told) / len(told):.1%}", flush=True)
    print(f"\nsteps above 1.5 times between releases, {seeds} series")
    for confirm in (1, 2, 3):
        found, steps, elsewhere = judge_releases(seeds, confirm)
        share = f"{found} of {steps} found at their release ({found / steps:.1%})"
        print(f"--confirm {confirm}: {share}, {elsewhere} other releases reported", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
