"""What a suite's results are read for together: how errors grow with a parameter, and what an optimisation costs.

A study judges nothing: verdicts and digests do not know of it. It travels in the record of a run, and all that reports
show of it is made from the record's results.

The vocabulary: frozen values that travel suite -> case -> execution -> comparison -> verdict -> run record.

Terms: `actual` is the result under test; `reference` is the same computation in higher precision; `golden` is a named
implementation or stored output in the output dtype; `baseline` is what was accepted earlier. They are never synonyms.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field


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


class LongSum(Struct, frozen=True):
    """A sum of so many terms, or of products of them, and the bits of precision of what added them up."""

    terms: int
    precision: int
    products: bool


class Noise(Struct, frozen=True):
    """What a replicate tells besides: per output and seed the largest |d| / (atol + rtol |r|), and the longest sum.

    A share is infinite where a NaN or an infinity has no counterpart. The sum is that of the largest terms times unit
    roundoff; None where none was recorded.
    """

    shares: dict[str, tuple[float, ...]]
    longest: LongSum | None = None


Tier = Literal["unit", "integration", "model"]

TIERS: tuple[Tier, ...] = ("unit", "integration", "model")

Role = Literal["reference", "golden"]

Override = Literal["tighter", "always"]

Scalar = float | int | str
"""A number in a record; values JSON has no number for (complex, longdouble, NaN, infinities) as their repr."""


class Location(Struct, frozen=True):
    """A place in a file: path relative to the project (POSIX slashes), line counted from 1."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Computation(Struct, frozen=True):
    """Something that can be run: the kind of subject (an entry point) and what that kind is told."""

    kind: str
    spec: Any


class Layer(Struct, frozen=True):
    """One layer of the tolerance pyramid: settings by metric (or rtol, atol, standard), and where it was written.

    `dtype` and `output` restrict the layer to outputs of that dtype or name; None admits all. `lines` gives the line
    of each key, where it is known. `regression` holds, per metric, the growth that is allowed against the
    baseline (0.1 is 10 %), or None where the metric is not judged. A layer with an `override` comes after all others,
    and its bounds take hold always, or only where they are tighter than what holds.
    """

    name: str
    source: Location
    bounds: dict[str, float | str]
    regression: dict[str, float | None] = field(default_factory=dict)
    dtype: str | None = None
    output: str | None = None
    environment: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    override: Override | None = None


class Bound(Struct, frozen=True):
    """One limit on one metric, and the layer (file:line) that set it."""

    metric: str
    limit: float
    layer: str
    source: Location


STATISTIC, CUMULATIVE_LOSS = RULES = ("statistic", "creep")
"""What `regression` may name besides metrics: growth of averages not yet material, and what losses may add up to."""


class Tolerance(Struct, frozen=True):
    """The resolved pyramid for one output: |a - r| <= atol + rtol * |r| for elements, and bounds on metrics.

    All of `bounds` must hold, and all bounds of at least one of the `alternatives`, where there are any. `regions`
    takes the place of constants of measure/regions.py while the output is measured. `regression` maps a metric, or one
    of RULES, to its allowed growth against the baseline; what is not named is not judged.
    """

    rtol: Bound
    atol: Bound
    bounds: tuple[Bound, ...]
    regression: dict[str, float]
    standard: str | None = None
    alternatives: tuple[tuple[Bound, ...], ...] = ()
    regions: dict[str, float] = field(default_factory=dict)


class Budget(Struct, frozen=True):
    """What a case may cost: subject time as a ratio to the baseline's, judged on the same fingerprint alone."""

    time_ratio: float | None = None


class Case(Struct, frozen=True):
    """One point of a suite's matrix: everything needed to run it, measure it, and find its baseline.

    `id` is tier/suite/name. `definition` is the digest of what is computed (subject and reference names, params,
    inputs), not of how it is judged. `baseline_id` and `baseline_definition` differ from them only where the suite
    says `baseline_of`. `directory` is the suite's folder, relative to the project.
    """

    id: str
    tier: Tier
    suite: str
    name: str
    source: Location
    definition: str
    baseline_id: str
    baseline_definition: str
    directory: str
    subject: Computation
    oracle: Computation
    role: Role
    inputs: dict[str, dict[str, Any]]
    params: dict[str, Any]
    parameters: dict[str, Any]
    layers: tuple[Layer, ...]
    seeds: int = 1
    repeats: int = 1
    timeout_s: float = 300.0
    exact: bool = False
    deterministic: bool = True
    """Whether repeats must give the same bits; where they need not, all of them together are judged by statistics."""
    category: str | None = None
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    budget: Budget = Budget()
    analyzers: tuple[str, ...] = ()
    expect_failure: str | None = None
    """Why the case is known to be bad; None where it is expected to pass."""
    device: str | None = None
    """The simulated device that computes the subject's operations; None leaves them to numpy."""
    study: Study | None = None
    """What reports read the suite's results for together; no verdict and no digest knows of it."""
