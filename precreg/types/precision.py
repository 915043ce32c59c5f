"""Which parts of a computation need a wider dtype for a bound to hold, and what does each cost?

A part is a module of torch, a node of ONNX or a group of them, or a line whose operations a simulated device computes.
A trial runs the case with some of its parts in the wider dtype.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from precreg.types.trace import Site

PRECISION_SCHEMA = "precreg-precision/1"

# - found: few parts are enough, and each of them is needed
# - passed: the bound holds without any
# - spread: more than half of the parts are needed, so no part dominates the error
# - insufficient: the bound is broken with every part in the wider dtype, too
PrecisionStatus = Literal["found", "passed", "spread", "insufficient"]
PartKind = Literal["modules", "nodes", "lines"]


class PrecisionPart(Struct, frozen=True, kw_only=True):
    """A part that can compute in the wider dtype, its share of the error, and its static costs.

    `share` is None where the trace has no share, as in an error that is not finite: then `own` ranks, the largest own
    error of an operation.
    """

    name: str
    # The names that a configuration takes for it.
    members: tuple[str, ...]
    site: Site = Site()
    share: float | None = None
    own: float = 0.0
    # Executed operations, and the elements of their results.
    operations: int = 0
    elements: int = 0
    # Elements of its weights.
    parameters: int = 0
    # The bytes by which its weights and results grow.
    weight_bytes: int = 0
    result_bytes: int = 0


class PrecisionTrial(Struct, frozen=True, kw_only=True):
    """One run of the case with some parts in the wider dtype.

    `output`, `metric`, `value` and `limit` are those of the worst broken bound. `problem` is the reason why the run
    gave nothing to judge.
    """

    kept: tuple[str, ...]
    holds: bool
    output: str = ""
    metric: str = ""
    value: float | None = None
    limit: float | None = None
    seed: int = 0
    seconds: float = 0.0
    problem: str = ""


class PrecisionConfiguration(Struct, frozen=True, kw_only=True):
    """The configuration that keeps parts in the wider dtype, as a suite or a table of a device takes it.

    `proved` is true if a run with the written text kept the bound. `file` is the one that --write wrote.
    """

    # The key and value, as YAML.
    text: str
    # The file that the key belongs to, relative to the project.
    place: str
    file: str = ""
    proved: bool = False


class PrecisionBisection(Struct, frozen=True, kw_only=True):
    """The smallest set of parts of one case that must compute in a wider dtype for its bounds to hold."""

    schema: str = PRECISION_SCHEMA
    case: str
    seed: int = 0
    commit: str = ""
    status: PrecisionStatus
    kind: PartKind
    # The dtype or the device of the computation, and the wider dtype of the kept parts.
    narrow: str
    wide: str
    # A bound of the command line that replaces the case's; empty for the case's own.
    bound: str = ""
    # All parts, by their share of the error.
    parts: tuple[PrecisionPart, ...] = ()
    kept: tuple[str, ...] = ()
    # The first trial has no part in the wider dtype. The proof of the configuration is not a trial of the search.
    trials: tuple[PrecisionTrial, ...] = ()
    proof: PrecisionTrial | None = None
    traces: int = 0
    configuration: PrecisionConfiguration | None = None
    # True if the runtime computes chains of narrow nodes in a wider dtype by itself.
    widened_by_runtime: bool = False
    facts: dict[str, str] = field(default_factory=dict)
