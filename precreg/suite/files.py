"""Which fields may a suite file and suites/tolerances.yaml have?

The descriptions of the fields go into the schema for editors. Fields of type Any hold small languages of their own
(inputs, matrix, tolerance), which other modules check.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from precreg.measure import ANALYZER_NAME_PATTERN
from precreg.types import DEFAULT_SEEDS, DigitsCentre, DigitsError, DigitsMethod, StochasticNoise

Text = Annotated[str, Meta(pattern=r"\S")]
# Names become parts of case ids and file names, so they have no slash and no blank. In Python `$` also matches before
# a final newline, and (?!\n) excludes it; editors read the same pattern in the JSON Schema, which has no \Z.
# File systems allow 255 bytes, and a temporary file adds about 20.
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}$(?!\n)")]
AnalyzerName = Annotated[str, Meta(pattern=rf"^{ANALYZER_NAME_PATTERN}$(?!\n)")]
# The upper bound catches slips of the keyboard: 10,000 draws or runs of one case would take hours.
Count = Annotated[int, Meta(ge=1, le=10_000)]
Positive = Annotated[float, Meta(gt=0)]

# Several fields share these descriptions.
ABOUT_TOLERANCE = "Bounds on metrics, rtol, atol, standard and regression; by dtype, outputs and environments too"
ABOUT_COMPUTATION = "module:function found beside the suite, or {KIND: spec}"


class FilesEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Name recorded outputs by patterns with {placeholder}s and one *, relative to the suite's folder."""

    actual: Annotated[Text, Meta(description="Outputs under test, such as outputs/{version}/*.npy")]
    reference: Annotated[Text | None, Meta(description="The same, computed in higher precision")] = None
    golden: Annotated[Text | None, Meta(description="Outputs to match, in the output dtype")] = None
    benchmark: Annotated[Text | None, Meta(description="Outputs of a second implementation")] = None
    dtype: Annotated[Text | None, Meta(description="The dtype of raw .bin files, or a $placeholder")] = None
    reference_dtype: Annotated[Text | None, Meta(description="The dtype of the oracle's raw files")] = None
    shape: Annotated[Any, Meta(description="The shape of raw files: [4, 64], 4x64 or a $placeholder")] = None
    byte_order: Annotated[Literal["little", "big"] | None, Meta(description="Of raw files; default: little")] = None


class TableEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Name a table of recorded figures, such as a sweep on hardware: every row is a case."""

    file: Annotated[Text, Meta(description="CSV or Parquet file, relative to the suite's folder")]
    name: Annotated[
        tuple[Text, ...], Meta(min_length=1, description="Columns that name a row; they are the case's parameters")
    ]
    metrics: Annotated[Any, Meta(description="Columns of figures by metric; own ones with better: lower or higher")]
    count: Annotated[Text | None, Meta(description="The column with the number of elements behind the figures")] = None
    dtype: Annotated[Text | None, Meta(description="The dtype of all rows, or its column; default: column dtype")] = (
        None
    )
    dtypes: Annotated[Any, Meta(description="The dtype of each other spelling in that column")] = field(
        default_factory=dict
    )
    delimiter: Annotated[
        Literal["comma", "semicolon", "tab"] | None, Meta(description="Of a CSV file; the header shows it otherwise")
    ] = None


class BudgetEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Limit the cost of a case."""

    time_ratio: Annotated[Positive | None, Meta(description="Subject time as a multiple of the baseline's")] = None


# Between 0 and 1, without the ends: certainty needs infinitely many samples.
Chance = Annotated[float, Meta(gt=0, lt=1)]


class StochasticEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Count the digits of the results that stay the same under random noise, in further runs of the subject."""

    # Two samples have one degree of freedom, whose spread says next to nothing.
    samples: Annotated[int, Meta(ge=3, le=10_000, description="Further runs for each seed")] = 30
    noise: Annotated[
        StochasticNoise | None,
        Meta(description="rounding: of each operation of a Python subject; inputs: moved last bits; default: by kind"),
    ] = None
    method: Annotated[DigitsMethod, Meta(description="The distribution of errors: normal, or general for any")] = (
        "normal"
    )
    against: Annotated[DigitsCentre, Meta(description="The samples' mean, or the reference or golden")] = "mean"
    error: Annotated[DigitsError, Meta(description="relative, or absolute in units of a power of two")] = "relative"
    probability: Annotated[Chance, Meta(description="The share of results that have the digits")] = 0.95
    confidence: Annotated[Chance, Meta(description="The confidence of this statement")] = 0.95


ABOUT_STOCHASTIC = "Significant digits of the results under random noise: {samples: 30}"


class CaseEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Override settings of the suite for the cases whose names match a pattern."""

    match: Annotated[Text, Meta(description="Pattern on the case name, such as float16-*")]
    tolerance: Annotated[Any, Meta(description=ABOUT_TOLERANCE)] = field(default_factory=dict)
    tags: Annotated[tuple[Name, ...], Meta(description="Tags besides the suite's")] = ()
    seeds: Annotated[Count | None, Meta(description="Seeds in place of the suite's")] = None
    timeout: Annotated[Positive | None, Meta(description="Seconds in place of the suite's")] = None
    deterministic: Annotated[
        bool | None, Meta(description="Repeats must give the same bits; replaces the suite's setting")
    ] = None
    stochastic: Annotated[StochasticEntry | None, Meta(description=ABOUT_STOCHASTIC)] = None
    expect: Annotated[
        Literal["fail", "pass"] | None, Meta(description="fail: a known failure; pass: passes, unlike the suite")
    ] = None
    reason: Annotated[Text | None, Meta(description="The reason of the known failure")] = None


class GrowthEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Fit the growth of errors over the number of operations."""

    over: Annotated[Text, Meta(description="The parameter of the matrix that is the number of operations")]
    metric: Annotated[Text, Meta(description="The relative error that grows")] = "mean_rel_error"
    fit_to: Annotated[Count, Meta(description="The laws are fitted to cases of at most so many operations")] = 16


class NoteEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Describe one optimisation beside its measurements."""

    use: Annotated[str, Meta(description="Where to use it")] = ""
    risk: Annotated[str, Meta(description="The risk of using it")] = ""


class TradeOffEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Compare the precision of optimisations with their speed."""

    over: Annotated[Text, Meta(description="The parameter of the matrix that names the optimisation")]
    plain: Annotated[Text, Meta(description="Its value without any")]
    notes: Annotated[Any, Meta(description="Where to use each optimisation, and its risk")] = field(
        default_factory=dict
    )


class StudyEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Evaluate the results of a suite together."""

    growth: Annotated[GrowthEntry | None, Meta(description="Error growth with the number of operations")] = None
    trade_off: Annotated[TradeOffEntry | None, Meta(description="Precision against speed")] = None


class SuiteFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Define a suite: one computation, its matrix of parameters and its acceptance criteria."""

    suite: Annotated[Name, Meta(description="Name, unique in its tier")]
    about: Annotated[str, Meta(description="Purpose of the suite, in one line")] = ""
    category: Annotated[Name | None, Meta(description="Operator category, a layer of the tolerance pyramid")] = None
    subject: Annotated[Any, Meta(description=f"The computation under test: {ABOUT_COMPUTATION}")] = None
    reference: Annotated[Any, Meta(description=f"The same in higher precision: {ABOUT_COMPUTATION}")] = None
    reference_dtype: Annotated[
        Any, Meta(description="The dtype of the reference's inputs: float64, longdouble, mpmath, or {mpmath: DIGITS}")
    ] = None
    golden: Annotated[Any, Meta(description=f"Values to match, in the output dtype: {ABOUT_COMPUTATION}")] = None
    benchmark: Annotated[Any, Meta(description=f"A second implementation for ratios: {ABOUT_COMPUTATION}")] = None
    device: Annotated[str | None, Meta(description="The simulated device on which the subject runs")] = None
    files: Annotated[FilesEntry | None, Meta(description="Recorded outputs in place of a subject")] = None
    onnx_tests: Annotated[
        Any, Meta(description="A folder of ONNX backend tests, or {folder: PATH, include: [...], exclude: [...]}")
    ] = None
    table: Annotated[TableEntry | None, Meta(description="Recorded figures in place of a subject")] = None
    matrix: Annotated[Any, Meta(description="Values per parameter; include adds rows, exclude removes rows")] = field(
        default_factory=dict
    )
    inputs: Annotated[Any, Meta(description="Arrays by argument name: shape, dtype, one distribution")] = field(
        default_factory=dict
    )
    params: Annotated[Any, Meta(description="Keyword arguments of subject and reference or golden")] = field(
        default_factory=dict
    )
    ranges: Annotated[Any, Meta(description="The valid range of inputs, [low, high] by name: precreg search")] = field(
        default_factory=dict
    )
    seeds: Annotated[
        Count | None, Meta(description=f"How often inputs are drawn: {DEFAULT_SEEDS} times, or once if none is random")
    ] = None
    repeats: Annotated[Count, Meta(description="Runs per seed; any differing bit is nondeterministic")] = 1
    deterministic: Annotated[
        bool, Meta(description="false: repeats may give other bits; all of them together are judged by statistics")
    ] = True
    stochastic: Annotated[StochasticEntry | None, Meta(description=ABOUT_STOCHASTIC)] = None
    timeout: Annotated[Positive, Meta(description="Seconds per case")] = 300.0
    exact: Annotated[bool, Meta(description="Any bit that differs from the baseline is a regression")] = False
    analyzers: Annotated[
        tuple[AnalyzerName, ...], Meta(description="Installed analyzers that measure every output, too")
    ] = ()
    tolerance: Annotated[Any, Meta(description=ABOUT_TOLERANCE)] = field(default_factory=dict)
    cases: Annotated[tuple[CaseEntry, ...], Meta(description="Overrides for some cases")] = ()
    expect: Annotated[Literal["fail"] | None, Meta(description="The suite fails for a known reason")] = None
    reason: Annotated[Text | None, Meta(description="The reason of the known failure")] = None
    baseline_of: Annotated[Any, Meta(description="Parameters of the case whose baseline judges")] = field(
        default_factory=dict
    )
    study: Annotated[StudyEntry | None, Meta(description="Reports over all results of the suite")] = None
    requires: Annotated[
        tuple[Text, ...], Meta(description="Packages, devices, memory: numpy>=2, torch, device:npu, memory:8GB")
    ] = ()
    budget: Annotated[BudgetEntry, Meta(description="Limits on the cost of a case")] = BudgetEntry()
    tags: Annotated[tuple[Name, ...], Meta(description="Words to select cases by")] = ()
    depends: Annotated[
        tuple[Text, ...], Meta(description="Other files behind the results: paths beside the suite, with * ? [] and **")
    ] = ()


class TolerancesFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Define the lower layers of the tolerance pyramid (suites/tolerances.yaml)."""

    default: Annotated[Any, Meta(description=ABOUT_TOLERANCE)] = field(default_factory=dict)
    tiers: Annotated[Any, Meta(description="Tolerances by tier")] = field(default_factory=dict)
    categories: Annotated[Any, Meta(description="Tolerances by operator category")] = field(default_factory=dict)
    environments: Annotated[Any, Meta(description="Tolerances by environment label")] = field(default_factory=dict)
    allow_looser_thresholds: Annotated[
        bool, Meta(description="Let PRECISION_THRESHOLDS replace bounds, not only tighten them")
    ] = False
