"""What a suite's results are read for together: how errors grow with a parameter, and what an optimisation costs.

A study judges nothing: verdicts and digests do not know of it. It travels in the record of a run, and all that reports
show of it is made from the record's results.
"""

from __future__ import annotations

from msgspec import Struct, field

RELATIVE_ERRORS = (
    "mean_rel_error",
    "max_rel_error",
    "p50_rel_error",
    "p90_rel_error",
    "p95_rel_error",
    "p99_rel_error",
    "p99.9_rel_error",
    "mere",
    "mare",
    "diff1",
    "diff2",
)
"""The metrics whose growth can be studied: |d_n / d_0 - 1|, of a computed quantity d_n that should be d_0."""


class Growth(Struct, frozen=True):
    """How a relative error grows with the number of operations, which is the parameter `over`.

    Two laws are fitted to the cases of at most `fit_to` operations, and say what the others should be.
    """

    over: str
    metric: str = "mean_rel_error"
    fit_to: int = 16


class Note(Struct, frozen=True):
    """What is said, not measured, of one optimisation: where to use it, and what it risks."""

    use: str = ""
    risk: str = ""


class TradeOff(Struct, frozen=True):
    """Precision against speed: each case against the one whose parameter `over` is `plain`, the others equal.

    `notes` are by the value of `over` as a case's name writes it.
    """

    over: str
    plain: str
    notes: dict[str, Note] = field(default_factory=dict)


class Study(Struct, frozen=True):
    """The studies of one suite, whose id is tier/suite."""

    suite: str
    growth: Growth | None = None
    trade_off: TradeOff | None = None
