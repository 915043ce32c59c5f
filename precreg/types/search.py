"""Which inputs of a case did a search find with large errors, and by which strategy?

A trial is one independent computation: an element, a row or a column of the inputs, or the whole inputs. The page
docs/search.md explains the strategies.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from precreg.types.case import Scalar

SEARCH_SCHEMA = "precreg-search/1"

SearchStrategy = Literal[
    "drawn",
    "exhaustive",
    "special_values",
    "exponents",
    "structures",
    "cancellation",
    "roots",
    "ties",
    "zoom",
    "climb",
    "random",
]

# The figures of one element that a search can maximise: metrics of docs/metrics.md, and the share of the tolerance.
SEARCH_METRICS = ("max_ulp", "max_rel_error", "max_abs_error", "tolerance")


class SearchedRange(Struct, frozen=True):
    """The range of one input: its ends in the input's dtype, and the origin of the range.

    `origin` is "declared", "suite" for `ranges:` of the suite, or the distribution of the input. `least` is the
    smallest magnitude, 0 without a gap around zero. `special` names infinity and nan where they are admitted.
    """

    input: str
    dtype: str
    low: float
    high: float
    origin: str
    least: float = 0.0
    special: tuple[str, ...] = ()


class StrategyResult(Struct, frozen=True):
    """The trials of one strategy, its largest error, and whether it raised the largest error of the search."""

    strategy: SearchStrategy
    trials: int
    error: float
    raised: bool


class WorstValue(Struct, frozen=True):
    """One element of the worst inputs: its value, and its bits as hexadecimal digits."""

    input: str
    index: tuple[int, ...]
    value: Scalar
    bits: str


class RandomTrials(Struct, frozen=True):
    """The random trials beside a search: the case's own draws, or uniform numbers of a declared range.

    `error` is the largest error of as many trials as the search had. `seed` is the seed of its inputs.
    """

    trials: int
    error: float
    seed: int


class Search(Struct, frozen=True, kw_only=True):
    """The worst inputs of one case. `error` was measured on the whole arrays that the search found.

    `place` is the element of `output` with the largest error. `actual` and `exact` are its values.
    """

    schema: str = SEARCH_SCHEMA
    case: str
    definition: str
    commit: str = ""
    seed: int
    metric: str
    error: float
    # The largest finite error of any trial, because one infinite error hides all others.
    finite_error: float
    output: str
    place: tuple[int, ...]
    actual: Scalar
    exact: Scalar
    # The largest |error| / (atol + rtol |exact|) of the arrays found.
    tolerances: float
    strategy: SearchStrategy
    random: RandomTrials
    ranges: tuple[SearchedRange, ...]
    # Inputs that keep the values of the seed.
    held: tuple[str, ...] = ()
    # The shape of the independent trials within the arrays; empty if all elements make one trial.
    trial_shape: tuple[int, ...] = ()
    trials: int
    strategies: tuple[StrategyResult, ...]
    # All values of the ranges were tried.
    exhaustive: bool = False
    # The values of the trial with the largest error; the first ones if there are many.
    values: tuple[WorstValue, ...]
    value_count: int
    # Calls in which the subject or its reference raised an error, and the first message.
    failed_calls: int = 0
    failure: str = ""
    seconds: float = 0.0
    # The suite that was written, relative to the project.
    suite: str = ""

    @property
    def ratio(self) -> float | None:
        """Return the error over the random trials' error; None where no ratio is defined."""
        return self.error / self.random.error if 0 < self.random.error < float("inf") else None
