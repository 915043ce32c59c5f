"""How well does `precreg drift --hindsight` find the changes of labelled series, with asv and Apache Otava beside it?

Draws series of 80 to 300 runs whose changes are known: steps of 3 to 12 standard deviations among noise of 0.3 % to
8 %, slopes that begin and end, and series without a change. A change counts as found if one reported change is at most
5 runs away, and each reported change finds one at most. F1 is 2 found / (reported + labelled), summed over all series.
Series with even seeds chose the constants of precreg; the figures are of odd seeds.

asv (`asv.step_detect.detect_steps`) and Otava (`otava.analysis.compute_change_points`) run with their defaults, and
print `not installed` if they are missing: pip install asv apache-otava.
Usage: python benchmarks/hindsight_study.py [SEEDS]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from precreg.history import HistoryPoint, HistoryRun, HistorySeries
from precreg.history.drift import HindsightChange, look_back

MARGIN = 5
# Two changes and the ends of a series are this far apart, so that the margins of two changes do not overlap.
GAP = 12
Random = np.random.Generator
Detector = Callable[[list[float]], Sequence[int]]


class Labelled(NamedTuple):
    """The values of one series, and the indexes of the first values after its changes."""

    values: list[float]
    changes: list[int]


class Score(NamedTuple):
    """How many labelled changes were found, and how many changes were reported and labelled."""

    found: int = 0
    reported: int = 0
    labelled: int = 0

    def plus(self, other: Score) -> Score:
        """Return the sum of two scores."""
        return Score(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall; 1 if nothing was labelled or reported."""
        total = self.reported + self.labelled
        return 2 * self.found / total if total else 1.0


def gauss(random: Random, count: int) -> np.ndarray:
    """Independent Gaussian noise."""
    return random.standard_normal(count)


def heavy(random: Random, count: int) -> np.ndarray:
    """Laplace noise or Student's t with 3 degrees of freedom, of standard deviation 1."""
    return random.standard_t(3, count) / 3**0.5 if random.random() < 0.5 else random.laplace(0, 0.5**0.5, count)


def outliers(random: Random, count: int) -> np.ndarray:
    """Return logarithms of factors of 1.5 to 10 for 3 in 100 runs, 0 for the others."""
    factors = np.log(random.uniform(1.5, 10, count)) * random.choice([-1, 1], count, p=[0.2, 0.8])
    return np.where(random.random(count) < 0.03, factors, 0.0)


def correlated(random: Random, count: int) -> np.ndarray:
    """AR(1) noise of standard deviation 1: neighbours have a correlation of 0.3 to 0.8."""
    lag, values = random.uniform(0.3, 0.8), random.standard_normal(count)
    for at in range(1, count):
        values[at] = lag * values[at - 1] + (1 - lag**2) ** 0.5 * values[at]
    return values


def places(random: Random, count: int, number: int) -> list[int]:
    """Draw the places of changes, at least GAP apart."""
    while True:
        drawn = np.sort(random.integers(GAP, count - GAP + 1, number))
        if number < 2 or np.diff(drawn).min() >= GAP:
            return drawn.tolist()


def stairs(random: Random, sigma: np.ndarray, least: float, most: float) -> tuple[np.ndarray, list[int]]:
    """Draw one to four steps of `least` to `most` standard deviations, and of 3 % at least."""
    level, at = np.zeros(len(sigma)), places(random, len(sigma), int(random.integers(1, 5)))
    for place in at:
        level[place:] += max(sigma[place] * random.uniform(least, most), np.log(1.03)) * random.choice(
            [-1, 1], p=[0.35, 0.65]
        )
    return level, at


def ramp(random: Random, sigma: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Draw a slope over 20 to 60 runs; it ends at a level or with the series, and its ends are the changes."""
    count, length = len(sigma), int(random.integers(20, 61))
    begin = count - length if random.random() < 0.5 else int(random.integers(GAP, count - length - GAP + 1))
    rise = max(sigma[0] * random.uniform(8, 20), 0.1)
    level = np.interp(np.arange(count), [begin - 1, begin + length - 1], [0, rise])
    return level, [begin] if begin + length == count else [begin, begin + length]


def draw(kind: str, seed: int) -> Labelled:
    """Draw one series of a kind of KINDS."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    count = int(random.integers(80, 300))
    sigma = np.full(count, np.exp(random.uniform(np.log(0.003), np.log(0.08))))
    shape, _, noise = kind.partition(", ")
    if noise == "growing noise":
        sigma *= np.geomspace(1 / 3, random.uniform(1, 3), count)
    level, changes = np.zeros(count), []
    if shape == "steps":
        # Correlated noise hides small steps from any method.
        level, changes = stairs(random, sigma, *((4, 12) if noise == "AR(1) noise" else (3, 10)))
    elif shape == "slope":
        level, changes = ramp(random, sigma)
    if noise == "coarse grid":
        unit = sigma[0] * random.uniform(0.7, 2)
        values = np.round((level + sigma * gauss(random, count)) / unit) * unit
    else:
        values = level + sigma * NOISES[noise](random, count)
    if noise == "outliers":
        values = values + outliers(random, count)
    return Labelled((0.01 * np.exp(values)).tolist(), changes)


NOISES: dict[str, Callable[[Random, int], np.ndarray]] = {
    "Gaussian noise": gauss,
    "heavy tails": heavy,
    "outliers": gauss,
    "AR(1) noise": correlated,
    "growing noise": gauss,
    "exact": lambda _, count: np.zeros(count),
}
KINDS = (
    "steps, Gaussian noise",
    "steps, heavy tails",
    "steps, outliers",
    "steps, AR(1) noise",
    "steps, growing noise",
    "steps, exact",
    "steps, coarse grid",
    "slope, Gaussian noise",
    "no change, Gaussian noise",
    "no change, outliers",
    "no change, AR(1) noise",
    "no change, growing noise",
)


def precreg(values: list[float]) -> list[int]:
    """Return the places that `precreg drift --hindsight` reports: each step, and both ends of each slope."""
    runs = [
        HistoryRun(at, f"{at:032}", f"{at:040x}", "main", False, "cpu", "a", {}, "", 0) for at in range(len(values))
    ]
    points = tuple(HistoryPoint(at, value, None) for at, value in enumerate(values))
    found, _ = look_back([HistorySeries("unit/study/case", "out", "mean_abs_error", points)], runs, 1.02)
    changes = [change for output in found for change in output.changes]
    return sorted({place for change in changes for place in _ends(change, len(values))})


def _ends(change: HindsightChange, count: int) -> list[int]:
    ends = [change.change.first_bad, *([] if change.until is None else [change.until + 1])]
    return [end for end in ends if 0 < end < count]


def asv(values: list[float]) -> list[int]:
    """Return the places of asv's steps."""
    from asv.step_detect import detect_steps

    return [step[0] for step in detect_steps(values)][1:]


def otava(values: list[float]) -> list[int]:
    """Return the places of Otava's change points."""
    from otava.analysis import compute_change_points

    return [int(point.index) for point in compute_change_points(list(values))[0]]


DETECTORS: dict[str, Detector] = {"precreg": precreg, "asv": asv, "Otava": otava}


def score(labelled: Labelled, reported: Sequence[int]) -> Score:
    """Match each labelled change with the nearest reported one that is within the margin and not yet matched."""
    left = list(reported)
    found = 0
    for change in labelled.changes:
        near = [place for place in left if abs(place - change) <= MARGIN]
        if near:
            left.remove(min(near, key=lambda place: abs(place - change)))
            found += 1
    return Score(found, len(reported), len(labelled.changes))


def study(kind: str, seeds: Sequence[int], detector: Detector) -> Score:
    """Sum the scores of all series of a kind."""
    total = Score()
    for seed in seeds:
        labelled = draw(kind, seed)
        total = total.plus(score(labelled, detector(labelled.values)))
    return total


def main(count: int) -> None:
    """Print F1 by kind and detector; for series without a change, the number of reported changes."""
    seeds = range(1, 2 * count, 2)
    totals: dict[str, list[Score]] = {name: [] for name in DETECTORS}
    print(f"{'':28}" + "".join(f"{name:>15}" for name in DETECTORS))
    for kind in KINDS:
        cells = []
        for name, detector in DETECTORS.items():
            try:
                found = study(kind, seeds, detector)
            except ImportError:
                cells.append("not installed")
                continue
            totals[name].append(found)
            cells.append(f"{found.f1:.3f}" if found.labelled else f"{found.reported} false")
        print(f"{kind:28}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
    for title, kinds in (("F1, all series", KINDS), ("F1, series with steps", [k for k in KINDS if k[:2] == "st"])):
        scores = [sum_scores(totals[name][: len(kinds)]) for name in DETECTORS]
        print(f"{title:28}" + "".join(f"{one.f1:15.3f}" for one in scores))


def sum_scores(scores: Sequence[Score]) -> Score:
    """Add scores up."""
    total = Score()
    for one in scores:
        total = total.plus(one)
    return total


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
