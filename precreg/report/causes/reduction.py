"""How do people read a reduction: the kept operations, the tensors at their boundary, and the suite that fails?"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from pathlib import PurePath
from shlex import quote
from typing import Any

import msgspec

from precreg.report.trace import format_site
from precreg.types import BoundaryTensor, KeptOperation, ReducedPart, Reduction, format_distinct

# A part with more operations is not a small case, and the file has them all.
_SHOWN = 20
# ULP of a correctly rounded result. The exact one is rounded itself, by much less.
_CORRECT = 0.5001


def reduction_json(found: Reduction) -> bytes:
    """Return a reduction as JSON; an infinite factor is the text "inf"."""
    return msgspec.json.encode(_finite(msgspec.to_builtins(found))) + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and isinf(value):
        return "inf"
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def render_reduction(found: Reduction) -> str:
    """Return a reduction as text for a terminal."""
    return "\n".join(_lines(found))


def _lines(found: Reduction) -> Iterator[str]:
    yield f"{found.case}  seed {found.seed}"
    yield ""
    if found.status == "passed":
        yield f"nothing to reduce: the errors are {_times(found.factor)} the bounds of the case"
        return
    if found.limit == "baseline":
        yield f"the case keeps its bounds, but its errors are {_times(found.factor)} what its baseline allows"
    else:
        yield f"the case fails: its errors are {_times(found.factor)} its bounds"
    if found.status == "nondeterministic":
        yield "cannot reduce: two runs of the subject on the same inputs gave other bits"
        return
    if found.status == "formula":
        yield f"cannot reduce: the operations of {found.engine} round well, but compute something else than the oracle"
        yield f"to see where: precreg trace {quote(found.case)}"
        return
    yield from _searched(found)
    for number, part in enumerate(found.parts, 1):
        yield from _part(part, found, number)


def _searched(found: Reduction) -> Iterator[str]:
    limit = "; the limit of runs ended the search, so fewer operations may do: --runs" if found.out_of_runs else ""
    if found.status == "whole":
        shared = f"the {found.rounding} operations that round share the error"
        yield f"nothing smaller fails: {shared} ({found.runs} runs{limit})"
        return
    kept = len(found.parts[0].kept)
    if found.error_kind != "rounding":
        other = "compute something else than" if found.error_kind == "formula" else "take other steps than"
        reduced = f"{found.operations} operations reduced to {kept} ({found.engine}, {found.runs} runs)"
        yield f"{reduced}, which {other} the oracle"
        return
    yield f"{found.operations} operations reduced to {kept} ({found.engine}, {found.runs} runs{limit})"


def _part(part: ReducedPart, found: Reduction, number: int) -> Iterator[str]:
    yield ""
    if len(found.parts) > 1:
        yield f"part {number}: {len(part.kept)} operations"
    for each in part.kept[:_SHOWN]:
        yield f"  {_operation(each)}"
    if len(part.kept) > _SHOWN:
        yield f"  and {len(part.kept) - _SHOWN} more"
    if found.error_kind == "rounding":
        limit = "bounds of the case" if found.limit == "tolerance" else "error of the baseline"
        yield f"alone they make errors {_times(part.alone)} the {limit}"
        if number == len(found.parts) and part.others is not None:
            yield _others(part.others, len(found.parts), limit)
    if found.error_kind == "rounding" and part.max_ulp is not None and part.max_ulp <= _CORRECT:
        yield "each result is rounded correctly: its dtype has too few bits for this place"
    yield f"boundary: {', '.join(map(_tensor, part.tensors))}"
    yield from _proof(part, found.folder)


def _others(others: float, parts: int, limit: str) -> str:
    if others <= 1:
        return f"without them the case would pass: {_times(others)} the {limit}"
    again = f"--parts {parts + 1} reduces the other operations"
    return f"without them the case still fails: {_times(others)} the {limit}; {again}"


def _proof(part: ReducedPart, folder: str) -> Iterator[str]:
    yield f"written: {', '.join(str(PurePath(folder, file)) for file in part.files[:2])}"
    if part.proof is None:
        yield f"not proven: {part.case} passes, so these operations lose precision inside the whole case only"
        return
    yield f"proof: {part.case} fails, its errors are {_times(part.proof)} its bounds"
    yield f"run it with: precreg --project {quote(folder)} run {quote(part.case)}"


def _operation(kept: KeptOperation) -> str:
    return f"{kept.number:>4}  {kept.name}  {format_site(kept.site)}".rstrip()


def _tensor(tensor: BoundaryTensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return f"{tensor.name} {tensor.dtype} {shape}" + (" (output)" if tensor.role == "output" else "")


def _times(factor: float) -> str:
    return "beyond any multiple of" if isinf(factor) else f"{format_distinct([factor, 1.0], 3)[0]} times"
