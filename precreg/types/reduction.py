"""Which part of a case's computation did a reduction keep, and where is its suite?

A reduction keeps some operations of a traced computation. Each of the other operations becomes exact, or its result is
stored as a tensor at the boundary.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from precreg.types.trace import Site, TraceEngine

REDUCTION_SCHEMA = "precreg-reduction/1"

# - reduced: fewer operations still break the case's bounds, and their suite fails
# - unproven: fewer operations break the bounds, and the suite made of them passes
# - whole: no part breaks the bounds, so the error is spread over all operations
# - passed: the case keeps its bounds at this seed
# - nondeterministic: repeats of the subject differ, so no search has a stable answer
# - formula: the error is no rounding, and nothing pairs the operations with those of the oracle
ReductionStatus = Literal["reduced", "unproven", "whole", "passed", "nondeterministic", "formula"]

# Rounding: operations lose precision. Formula: they compute something else than the oracle. Order: they take other
# steps than the golden, with the same exact result.
ReducedErrorKind = Literal["rounding", "formula", "order"]


# The limit that the case breaks: the bounds of its tolerance, or the errors that its baseline accepted.
BrokenLimitKind = Literal["tolerance", "baseline"]


class KeptOperation(Struct, frozen=True):
    """An operation that the reduction kept: its place among all operations, counted from 1, its name and its site."""

    number: int
    name: str
    site: Site = Site()


class BoundaryTensor(Struct, frozen=True):
    """A tensor at the boundary, and the file of its values, relative to the reduced project; empty for an output."""

    name: str
    role: Literal["input", "output"]
    dtype: str
    shape: tuple[int, ...]
    file: str = ""


class ReducedPart(Struct, frozen=True, kw_only=True):
    """The operations that one reduction kept, with the suite that runs them.

    All factors say how many times larger the errors are than the bounds allow; inf if no smaller error passes.
    """

    kept: tuple[KeptOperation, ...]
    # The case's outputs, if these operations alone round, and if all others do.
    alone: float
    others: float | None = None
    # The largest error of their results, in ULP of its dtype; None without floating-point results. Correct rounding
    # has at most half a ULP.
    max_ulp: float | None = None
    tensors: tuple[BoundaryTensor, ...] = ()
    # The id of the reduced case, its files, and the factor by which it fails; None if it passes.
    case: str = ""
    files: tuple[str, ...] = ()
    proof: float | None = None


class Reduction(Struct, frozen=True, kw_only=True):
    """The reduction of one case at one seed."""

    schema: str = REDUCTION_SCHEMA
    case: str
    seed: int = 0
    commit: str = ""
    status: ReductionStatus
    error_kind: ReducedErrorKind = "rounding"
    limit: BrokenLimitKind = "tolerance"
    engine: TraceEngine = "numpy"
    # The factor by which the case's errors exceed its bounds; below 1 it passes.
    factor: float = 0.0
    operations: int = 0
    # The number of operations with an own error.
    rounding: int = 0
    # The number of evaluated sets of operations. The search stops at its limit, and the result may not be smallest.
    runs: int = 0
    out_of_runs: bool = False
    parts: tuple[ReducedPart, ...] = ()
    # The reduced project.
    folder: str = ""
    seconds: float = 0.0
    # A fact of the engine that explains a status, such as the place where operations could not be paired.
    problem: str = ""
