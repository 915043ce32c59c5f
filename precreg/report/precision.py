"""How does a terminal show the smallest set of parts that need a wider dtype?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import msgspec

from precreg.report.describe import format_columns, list_some, strip_controls
from precreg.types import PrecisionBisection, PrecisionPart, PrecisionTrial

# More rows say little: their shares are small.
MAX_PARTS = 12
MAX_NAMES = 6
_NOUNS = {"modules": ("module", "modules"), "nodes": ("node", "nodes"), "lines": ("line", "lines")}


def render_precision(found: PrecisionBisection) -> str:
    """Return the text of a bisection: the answer, the runs and the configuration, then the parts by their shares."""
    lines = [f"{found.case}  seed {found.seed}  {found.narrow}, wider {found.wide}", "", *_answer(found)]
    lines += [*_configuration(found), *_parts(found)]
    return strip_controls("\n".join(lines))


def precision_json(found: PrecisionBisection) -> bytes:
    """Return a bisection as one line of JSON. Infinities are the text "inf", because JSON has none."""
    return msgspec.json.encode(_finite(msgspec.to_builtins(found))) + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _answer(found: PrecisionBisection) -> Iterator[str]:
    count = len(found.parts)
    plain = found.trials[0]
    if found.status == "passed":
        yield f"The bounds hold in {found.narrow}: no {_NOUNS[found.kind][0]} needs {found.wide}."
    elif found.status == "found":
        yield f"{_count(found, len(found.kept))} of {count} in {found.wide} keep the bound: {', '.join(found.kept)}"
        yield _values(plain, found.proof or found.trials[-1])
        yield _time(plain, found.proof or found.trials[-1])
    elif found.status == "spread":
        yield f"No {_NOUNS[found.kind][0]} dominates the error: half of the {_count(found, count)} in {found.wide}"
        yield "break the bound, and all together keep it. A few exceptions do not help; compute all of it wider."
        yield _values(plain, found.trials[-1])
    else:
        yield f"The bound is broken with all {_count(found, count)} in {found.wide}, too: the error comes from the"
        yield "inputs, the weights, the formula or the dtype of the output."
        yield _values(plain, found.trials[-1])
    yield _runs(found)
    if found.widened_by_runtime:
        yield "ONNX Runtime computes chains of these nodes in float32 on its CPU provider, so they round once at their"
        yield "end. round_nodes: true beside the model rounds the result of each node, as hardware does."


def _count(found: PrecisionBisection, number: int) -> str:
    return f"{number} {_NOUNS[found.kind][number != 1]}"


def _values(before: PrecisionTrial, after: PrecisionTrial) -> str:
    if before.value is None or after.metric != before.metric:
        return f"{before.output}: {before.metric} before; {after.metric or 'all bounds hold'} after"
    limit = "" if before.limit is None else f" (limit {before.limit:.4g})"
    reached = "undefined" if after.value is None else f"{after.value:.4g}"
    return f"{before.output}: {before.metric} {before.value:.4g}{limit} became {reached}"


def _time(before: PrecisionTrial, after: PrecisionTrial) -> str:
    ratio = after.seconds / before.seconds if before.seconds else 1.0
    return f"time: {ratio:.2f}x ({before.seconds * 1e3:.3g} ms became {after.seconds * 1e3:.3g} ms, measured once here)"


def _runs(found: PrecisionBisection) -> str:
    proof = " and 1 to prove the configuration" if found.proof is not None else ""
    return f"{len(found.trials)} run{'s' * (len(found.trials) != 1)} of the case{proof}, {found.traces} traces"


def _configuration(found: PrecisionBisection) -> Iterator[str]:
    made = found.configuration
    if made is None:
        return
    yield ""
    proved = "a run with this text kept the bound" if made.proved else "a run with this text broke the bound"
    yield f"in {made.place} ({proved}):"
    yield from (f"  {line}" for line in made.text.rstrip().splitlines())
    if made.file:
        yield f"written: {made.file}"


def _parts(found: PrecisionBisection) -> Iterator[str]:
    if not found.parts:
        return
    yield ""
    names = ["kept", "share", "parameters", "weights", "results", "operations", _NOUNS[found.kind][0]]
    yield f"largest shares of the error, and what {found.wide} costs: bytes more, from the trace"
    yield from format_columns(names, [_row(part, found.kept) for part in found.parts[:MAX_PARTS]], MAX_PARTS)
    if len(found.parts) > MAX_PARTS:
        yield f"and {len(found.parts) - MAX_PARTS} more"


def _row(part: PrecisionPart, kept: Sequence[str]) -> list[str]:
    share = "-" if part.share is None else f"{100 * part.share:.1f} %"
    return [
        "yes" if part.name in kept else "",
        share if isfinite(part.own) else "overflow",
        f"{part.parameters:,}",
        f"{part.weight_bytes:,} B",
        f"{part.result_bytes:,} B",
        f"{part.operations:,}",
        f"{part.name}{f' ({list_some(part.members, MAX_NAMES)})' if part.members != (part.name,) else ''}",
    ]
