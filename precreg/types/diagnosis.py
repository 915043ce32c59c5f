"""Which causes of a case's errors did a diagnosis find, and with which evidence?

A diagnosis alters one operation, input, param or output of a computation, runs it, and compares the result with the
result to explain. The altered computation is the base; the alteration is a rewrite.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from precreg.types.trace import Site

DIAGNOSIS_SCHEMA = "precreg-diagnosis/1"

# The computation that rewrites alter. Rewrites of the accepted version, the golden and the reference (called on inputs
# of the subject's dtypes) reproduce the subject's result. Rewrites of the subject restore the result of the oracle.
DiagnosisBase = Literal["accepted", "golden", "reference", "subject"]

# The part of a computation that a rewrite alters: one operation of the source or several, a named array or param, or a
# changed statement that is undone.
RewriteTarget = Literal["operation", "operations", "input", "param", "output", "statement"]

# - found: one cause reproduces the result, or most of its errors
# - several: two or more causes together do
# - partial: the best cause explains a part of the errors only
# - unknown: no rewrite explains the errors
# - passed: the case has no error to explain
# - nondeterministic: a second run differs; the cause is the operation at which it begins, if it is known
# - failed: the subject or its oracle raised an error, so no result exists to explain
DiagnosisStatus = Literal["found", "several", "partial", "unknown", "passed", "nondeterministic", "failed"]

# The split of an output's error: most of it is rounding of the right formula, or another formula.
ErrorKind = Literal["rounding", "formula", "unknown"]

# Shapes of an error that arrays alone show. `values` of a Fingerprint have these figures, those in brackets if known:
# - constant_factor: factor, [count: n of n / (n - 1), negative for (n - 1) / n]; or for each row: axis, least, most
# - constant_offset: offset; or for each row: axis, least, most
# - one_channel: axis, index, [indices]; axis, start, stop; or region, start_N, stop_N of each axis N; [ratio], elements
# - last_block: axis (-1: the flat array), start, length, [block: the smallest size that fits, blocks: all]
# - checkerboard: axis or axes, period, remainder, [ratio]
# - grid: rounding (of Rounding, or "unknown", "of_a_factor") with format, formats, [precision]; step, fraction_bits of
#   "fixed_point"; step, levels of "levels"
# - one_sign: direction (up, down, toward_zero, away_from_zero), elements, mean_ulp
# - growth: axis, direction (forward, backward), law (sqrt, linear, other), exponent, ratio
# - at_zeros: at (zero, near), elements; limit, ratio
# - at_large_values: limit, ratio
# - at_ties: elements, rule (nearest_away, toward_zero, up, down, unknown); or through: the first format of two
# - saturated: limit, [most, least], elements, [format]
# - wrapped: modulus, elements
# - flushed: limit, above, elements, [format, part: subnormals, underflow]
# - never_written: fill, elements
# - moved_elements: what (shift, rotation, flip, transposition, layout, permutation), elements; axis (-1: flat), shift,
#   start; or axes. Shifted by k, actual[i] is exact[i - k].
# - non_finite: what (nan_of_actual, nan_of_exact, inf_of_actual, inf_of_exact), elements
FingerprintKind = Literal[
    "constant_factor",
    "constant_offset",
    "one_channel",
    "last_block",
    "checkerboard",
    "grid",
    "one_sign",
    "growth",
    "at_zeros",
    "at_large_values",
    "at_ties",
    "saturated",
    "wrapped",
    "flushed",
    "never_written",
    "moved_elements",
    "non_finite",
]


# A program, arrays that precreg reads from files, or figures of a whole procedure, such as the losses of a training.
OpaqueForm = Literal["program", "recorded", "figures"]


class OpaqueSubject(Struct, frozen=True):
    """A subject whose operations precreg cannot see.

    `accepted` is the commit of the accepted version of a program with sources in the project; empty if git knows none.
    `arguments` are those of the precreg command that measures the parts of a procedure, for figures.
    """

    form: OpaqueForm
    accepted: str = ""
    arguments: tuple[str, ...] = ()


class Fingerprint(Struct, frozen=True):
    """The shape of one output's errors.

    `certainty`, from 0 to 1, is the share of the squared errors or of the wrong elements that has the shape.
    """

    kind: FingerprintKind
    output: str
    certainty: float
    # Figures and names, such as {"axis": 1, "index": 17, "ratio": 210.0} or {"format": "float16"}.
    values: dict[str, float | str] = field(default_factory=dict)


class RewrittenPlace(Struct, frozen=True):
    """The place that a rewrite alters: an operation at a line, or an input, param or output by its name."""

    target: RewriteTarget
    # The operation, such as "divide" or "add.reduce"; or the name of the input, param or output.
    name: str
    site: Site = Site()
    # The source of the operation alone, such as "(rate * m) / denominator", where Python knows it.
    expression: str = ""
    # The number of executed operations at this place.
    executions: int = 1


class Evidence(Struct, frozen=True):
    """The agreement of a rewritten base with the result to explain, over all outputs.

    Bits decide about the elements: `reproduced` elements of the rewritten base equal the result to explain,
    `differing` elements of the unaltered base do not, and `explained` of these do after the rewrite. For `nearer` of
    them at least a half of the error is explained.
    """

    elements: int
    reproduced: int
    differing: int
    explained: int
    nearer: int = 0
    # Correlation of the errors that the rewrite makes with the errors to explain, -1 to 1; 0 where it is not defined.
    correlation: float = 0.0
    # Root mean square of what the rewrite leaves over root mean square of the errors to explain. 0 explains all.
    remaining: float = 1.0


class Cause(Struct, frozen=True):
    """A rewrite at a place, with its evidence. `reverses` is true if it alters the failing subject itself."""

    # The name of a rewrite, such as "swapped_order".
    rewrite: str
    options: dict[str, float | str]
    place: RewrittenPlace
    base: DiagnosisBase
    evidence: Evidence
    # The place in the present version, for a rewrite of the accepted version.
    present: Site | None = None
    # The change since the accepted version touched the place.
    is_changed: bool = False

    @property
    def reverses(self) -> bool:
        """Return whether the rewrite undoes the cause in the subject."""
        return self.base == "subject"


class TriedBase(Struct, frozen=True):
    """A base, the number of its places and of the rewrites that ran; `problem` is the reason why it could not run."""

    base: DiagnosisBase
    commit: str = ""
    places: int = 0
    tried: int = 0
    # All rewrites at all places. Fewer were tried if the time was up, or a cause was exact.
    hypotheses: int = 0
    problem: str = ""


class UnitExplanation(Struct, frozen=True):
    """A unit case that explains the failure of a larger one.

    `share` is the part of the larger case's loss that goes if the shared kernel is the accepted one; None if unknown.
    """

    case: str
    # The functions that both cases run and that changed, as "file.py:function".
    shared: tuple[str, ...] = ()
    share: float | None = None


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The causes of one case's errors at one seed."""

    schema: str = DIAGNOSIS_SCHEMA
    case: str
    seed: int = 0
    commit: str = ""
    status: DiagnosisStatus
    error_kind: ErrorKind = "unknown"
    fingerprints: tuple[Fingerprint, ...] = ()
    # The best cause, or with "several" all that act together, the largest first.
    causes: tuple[Cause, ...] = ()
    # Other single rewrites that explain a part, the best first.
    runners_up: tuple[Cause, ...] = ()
    bases: tuple[TriedBase, ...] = ()
    explained_by: tuple[UnitExplanation, ...] = ()
    # Suspects that were altered without any effect on the error, such as a square root.
    cleared: tuple[RewrittenPlace, ...] = ()
    seconds: float = 0.0
    out_of_time: bool = False
    # The reason of a status "failed".
    problem: str = ""
    # Unset for a subject whose operations precreg sees.
    opaque: OpaqueSubject | UnsetType = UNSET
