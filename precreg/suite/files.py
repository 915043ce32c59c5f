"""What a suite file and suites/tolerances.yaml may hold, field by field; descriptions go to the editor's schema.

Fields of type Any hold small languages of their own (inputs, matrix, tolerance ...), which other modules check.

From plain data to structs, with every mistake a UserError: file, line, what was expected, and what came.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import fields

from precreg.errors import UserError, nearest
from precreg.measure import ANALYZER_NAME_PATTERN
from precreg.storage import KeyPath, Source, format_value

Text = Annotated[str, Meta(pattern=r"\S")]

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$(?!\n)")]

AnalyzerName = Annotated[str, Meta(pattern=rf"^{ANALYZER_NAME_PATTERN}$(?!\n)")]

Count = Annotated[int, Meta(ge=1, le=10_000)]

Positive = Annotated[float, Meta(gt=0)]


ABOUT_TOLERANCE = "Bounds on metrics, rtol, atol, standard and regression; by dtype, outputs and environments too"

ABOUT_COMPUTATION = "module:function found beside the suite, or {KIND: spec}"


class FilesEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Recorded outputs: patterns with {placeholder}s and one *, relative to the suite's folder."""

    actual: Annotated[Text, Meta(description="Outputs under test, such as outputs/{version}/*.npy")]
    reference: Annotated[Text | None, Meta(description="The same, computed in higher precision")] = None
    golden: Annotated[Text | None, Meta(description="Outputs to match, in the output dtype")] = None


class BudgetEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What a case may cost."""

    time_ratio: Annotated[Positive | None, Meta(description="Subject time as a multiple of the baseline's")] = None


class CaseEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What is different for the cases whose name matches a pattern."""

    match: Annotated[Text, Meta(description="Pattern on the case name, such as float16-*")]
    tolerance: Annotated[Any, Meta(description=ABOUT_TOLERANCE)] = field(default_factory=dict)
    tags: Annotated[tuple[Name, ...], Meta(description="Tags besides the suite's")] = ()
    seeds: Annotated[Count | None, Meta(description="Seeds in place of the suite's")] = None
    timeout: Annotated[Positive | None, Meta(description="Seconds in place of the suite's")] = None
    deterministic: Annotated[
        bool | None, Meta(description="Whether repeats must give the same bits, in place of the suite's")
    ] = None
    expect: Annotated[
        Literal["fail", "pass"] | None, Meta(description="fail: known to be bad; pass: not, unlike the suite")
    ] = None
    reason: Annotated[Text | None, Meta(description="Why they are known to be bad")] = None


class GrowthEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """How errors grow with the number of operations."""

    over: Annotated[Text, Meta(description="The parameter of the matrix that is the number of operations")]
    metric: Annotated[Text, Meta(description="The relative error that grows")] = "mean_rel_error"
    fit_to: Annotated[Count, Meta(description="The laws are fitted to cases of at most so many operations")] = 16


class NoteEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of one optimisation, beside what is measured."""

    use: Annotated[str, Meta(description="Where to use it")] = ""
    risk: Annotated[str, Meta(description="What it risks")] = ""


class TradeOffEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Precision against speed."""

    over: Annotated[Text, Meta(description="The parameter of the matrix that names the optimisation")]
    plain: Annotated[Text, Meta(description="Its value without any")]
    notes: Annotated[Any, Meta(description="Where to use each optimisation, and its risk")] = field(
        default_factory=dict
    )


class StudyEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What a suite's results are read for together."""

    growth: Annotated[GrowthEntry | None, Meta(description="Error growth with the number of operations")] = None
    trade_off: Annotated[TradeOffEntry | None, Meta(description="Precision against speed")] = None


class SuiteFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A suite: one computation, the points at which it runs, and how its results are judged."""

    suite: Annotated[Name, Meta(description="Name, unique in its tier")]
    about: Annotated[str, Meta(description="What the suite checks, in one line")] = ""
    category: Annotated[Name | None, Meta(description="Operator category, a layer of the tolerance pyramid")] = None
    subject: Annotated[Any, Meta(description=f"What is under test: {ABOUT_COMPUTATION}")] = None
    reference: Annotated[Any, Meta(description=f"The same in higher precision: {ABOUT_COMPUTATION}")] = None
    golden: Annotated[Any, Meta(description=f"What to match, in the output dtype: {ABOUT_COMPUTATION}")] = None
    device: Annotated[str | None, Meta(description="The simulated device on which the subject runs")] = None
    files: Annotated[FilesEntry | None, Meta(description="Recorded outputs in place of a subject")] = None
    matrix: Annotated[Any, Meta(description="Values per parameter; include adds rows, exclude removes rows")] = field(
        default_factory=dict
    )
    inputs: Annotated[Any, Meta(description="Arrays by argument name: shape, dtype, one distribution")] = field(
        default_factory=dict
    )
    params: Annotated[Any, Meta(description="Keyword arguments of subject and reference or golden")] = field(
        default_factory=dict
    )
    seeds: Annotated[Count, Meta(description="How often inputs are drawn")] = 1
    repeats: Annotated[Count, Meta(description="Runs per seed; any differing bit is nondeterministic")] = 1
    deterministic: Annotated[
        bool, Meta(description="false: repeats may give other bits; all of them together are judged by statistics")
    ] = True
    timeout: Annotated[Positive, Meta(description="Seconds per case")] = 300.0
    exact: Annotated[bool, Meta(description="Any bit that differs from the baseline is a regression")] = False
    analyzers: Annotated[
        tuple[AnalyzerName, ...], Meta(description="Installed analyzers that measure every output, too")
    ] = ()
    tolerance: Annotated[Any, Meta(description=ABOUT_TOLERANCE)] = field(default_factory=dict)
    cases: Annotated[tuple[CaseEntry, ...], Meta(description="What is different for some cases")] = ()
    expect: Annotated[Literal["fail"] | None, Meta(description="The suite is known to be bad")] = None
    reason: Annotated[Text | None, Meta(description="Why it is known to be bad")] = None
    baseline_of: Annotated[Any, Meta(description="Parameters of the case whose baseline judges")] = field(
        default_factory=dict
    )
    study: Annotated[StudyEntry | None, Meta(description="What reports read the results for together")] = None
    requires: Annotated[tuple[Text, ...], Meta(description="Packages and devices: numpy>=2, torch, device:npu")] = ()
    budget: Annotated[BudgetEntry, Meta(description="What a case may cost")] = BudgetEntry()
    tags: Annotated[tuple[Name, ...], Meta(description="Words to select cases by")] = ()


class TolerancesFile(Struct, frozen=True, forbid_unknown_fields=True):
    """suites/tolerances.yaml: the lower layers of the pyramid."""

    default: Annotated[Any, Meta(description=ABOUT_TOLERANCE)] = field(default_factory=dict)
    tiers: Annotated[Any, Meta(description="Tolerances by tier")] = field(default_factory=dict)
    categories: Annotated[Any, Meta(description="Tolerances by operator category")] = field(default_factory=dict)
    environments: Annotated[Any, Meta(description="Tolerances by environment label")] = field(default_factory=dict)
    allow_looser_thresholds: Annotated[
        bool, Meta(description="Let PRECISION_THRESHOLDS replace bounds, not only tighten them")
    ] = False


_T = TypeVar("_T")


_NESTED: dict[tuple[str, ...], type] = {
    ("files",): FilesEntry,
    ("budget",): BudgetEntry,
    ("cases",): CaseEntry,
    ("study",): StudyEntry,
    ("study", "growth"): GrowthEntry,
    ("study", "trade_off"): TradeOffEntry,
}
"""What stands below keys of a suite, by their path without the places in lists."""

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}

_UNKNOWN = "Object contains unknown field `"

_MISSING = "Object missing required field `"

_AT = " - at `$"

_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")


def convert_source(source: Source, kind: type[_T]) -> _T:
    """Return the file's data as a struct. Raises UserError: unknown-key, missing-key, bad-value."""
    if source.data is None:
        raise source.error("bad-value", "expected a mapping but the file is empty")
    try:
        return msgspec.convert(source.data, kind)
    except msgspec.ValidationError as error:
        raise _translated(source, kind, str(error)) from None


def _translated(source: Source, kind: type, message: str) -> UserError:
    """Make a UserError of a message of msgspec's, such as "Expected `int`, got `str` - at `$.cases[0].seeds`"."""
    complaint, place = message.rsplit(_AT, 1) if _AT in message else (message, "")
    path = _path(place)
    if complaint.startswith(_UNKNOWN):
        key = complaint.removeprefix(_UNKNOWN).removesuffix("`")
        return _unknown_key(source, path, key, _NESTED.get(_keys(path), kind))
    if complaint.startswith(_MISSING):
        key = complaint.removeprefix(_MISSING).removesuffix("`")
        return source.error("missing-key", f"expected {key}: but the key is not there", *path)
    name = ".".join(str(step) for step in path) or "file"
    came = format_value(_at(source.data, path))
    return source.error("bad-value", f"expected {_expected(complaint, path)} but got {name}={came}", *path)


def _unknown_key(source: Source, path: KeyPath, key: str, kind: type) -> UserError:
    known = [field.encode_name for field in fields(kind)]
    value = format_value(_at(source.data, (*path, key)))
    message = f"expected one of {', '.join(known)} but got {key}={value}{nearest(key, known)}"
    return source.error("unknown-key", message, *path, key)


def _expected(complaint: str, path: KeyPath) -> str:
    if complaint.startswith("Invalid enum value"):
        return "fail" if len(path) == 1 else "fail or pass"
    wanted = complaint.removeprefix("Expected ").partition(", got ")[0]
    words = re.sub(
        r"`([^`]+)`", lambda match: " or ".join(_WORDS.get(part, part) for part in match[1].split(" | ")), wanted
    )
    return words.replace(" or nothing", "")


def _path(text: str) -> KeyPath:
    return tuple(match["key"] or int(match["index"]) for match in _STEP.finditer(text))


def _keys(path: KeyPath) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))


def _at(value: Any, path: KeyPath) -> Any:
    for step in path:
        value = value[step]
    return value
