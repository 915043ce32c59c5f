"""Is there something to judge? Findings on missing, empty, misshapen or wrongly non-finite outputs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from precreg.types.records import BaselineEntry
from precreg.types.types import Comparison, Finding, Outcome, Positions, Reason, Role


def structural_findings(outcome: Outcome, role: Role, entry: BaselineEntry | None) -> Iterator[Finding]:
    """Yield what makes measurements meaningless, whatever the tolerance: absence never passes."""
    for name in outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, f"the subject gave no output {name!r}, which the {role} has", name)
    if not outcome.comparisons and not outcome.missing:
        yield _hard(Reason.MISSING_OUTPUT, "nothing was compared: neither side gave an output")
    for comparison in outcome.comparisons:
        yield from unmeasurable(comparison, role)
    if entry is not None:
        yield from _against_baseline(outcome, entry)


def unmeasurable(comparison: Comparison, role: Role) -> Iterator[Finding]:
    """Yield what makes the measurements of one pair meaningless: shape, dtype, NaN and infinities, nothing at all."""
    name, seed, counts = comparison.output, comparison.seed, comparison.counts
    if comparison.shape != comparison.reference_shape:
        message = f"expected shape {_shape(comparison.reference_shape)} but got shape={_shape(comparison.shape)}"
        yield _hard(Reason.SHAPE_MISMATCH, message, name, seed=seed)
        return
    if role == "golden" and comparison.dtype != comparison.reference_dtype:
        message = f"expected the golden's dtype {comparison.reference_dtype} but got dtype={comparison.dtype}"
        yield _hard(Reason.DTYPE_MISMATCH, message, name, seed=seed)
    mismatched = counts.get("nan_mismatched", 0) + counts.get("inf_mismatched", 0)
    if mismatched:
        message = f"{mismatched} of {counts['n']} elements differ in NaN or infinity{_first(comparison.non_finite)}"
        found = _hard(Reason.NON_FINITE_MISMATCH, message, name, seed=seed)
        yield replace(found, current=mismatched, limit=0)
    elif not counts.get("n", 0):
        yield _hard(Reason.EMPTY, f"shape {_shape(comparison.shape)} has no element", name, seed=seed)
    elif not counts.get("finite", 0):
        yield _hard(Reason.EMPTY, "not one pair of elements is finite, so nothing was measured", name, seed=seed)


def _against_baseline(outcome: Outcome, entry: BaselineEntry) -> Iterator[Finding]:
    current = {comparison.output: comparison for comparison in outcome.comparisons}
    for name, accepted in entry.outputs.items():
        if name not in current and name not in outcome.missing:
            yield _hard(Reason.MISSING_OUTPUT, f"the baseline has an output {name!r} that is gone", name)
        elif name in current and current[name].dtype != accepted.dtype:
            message = f"expected the baseline's dtype {accepted.dtype} but got dtype={current[name].dtype}"
            yield _hard(Reason.DTYPE_MISMATCH, message, name)
        elif name in current and current[name].shape != accepted.shape:
            message = f"expected the baseline's shape {_shape(accepted.shape)} but got {_shape(current[name].shape)}"
            yield _hard(Reason.SHAPE_MISMATCH, message, name)


def _hard(reason: Reason, message: str, output: str = "", *, seed: int | None = None) -> Finding:
    """Return a finding that no measure can make up for."""
    return Finding(reason, message, output, seed=seed, rule="hard")


def _first(positions: Positions | None) -> str:
    if positions is None or not positions.index:
        return ""
    return f", first at {positions.index[0]}: actual {positions.actual[0]}, reference {positions.reference[0]}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
