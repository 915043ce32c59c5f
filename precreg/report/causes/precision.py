"""How does a terminal show the smallest set of parts that need a wider dtype?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

import msgspec

from precreg.report.describe import strip_controls
from precreg.report.layout import format_columns
from precreg.types import PrecisionBisection, PrecisionPart, PrecisionTrial

# More rows say little: their shares are small.
MAX_PARTS = 12
_NOUNS = {"modules": ("module", "modules"), "nodes": ("group of nodes", "groups of nodes"), "lines": ("line", "lines")}


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
        verb = "keeps" if len(found.kept) == 1 else "keep"
        yield f"{len(found.kept)} of {_count(found, count)} in {found.wide} {verb} the bound: {', '.join(found.kept)}"
        yield _values(plain, found.proof or found.trials[-1])
        if found.kind != "lines":
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
    proof = ", and 1 to prove the configuration" if found.proof is not None else ""
    return f"{_plural(found.trials, 'run')} of the case{proof}; {found.traces} trace{'s' * (found.traces != 1)}"


def _plural(items: Sequence[object], noun: str) -> str:
    return f"{len(items)} {noun}{'s' * (len(items) != 1)}"


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
    yield f"largest shares of the error, and the static costs of {found.wide} in the trace"
    columns = _columns(found)
    rows = [[column(part) for column in columns.values()] for part in found.parts[:MAX_PARTS]]
    yield from format_columns([*columns], rows, MAX_PARTS)
    if len(found.parts) > MAX_PARTS:
        yield f"and {len(found.parts) - MAX_PARTS} more"


def _columns(found: PrecisionBisection) -> dict[str, Callable[[PrecisionPart], str]]:
    """Return the cells of a part by the name of their column; a wider unit of a device needs no memory."""
    memory: dict[str, Callable[[PrecisionPart], str]] = {
        "parameters": lambda part: f"{part.parameters:,}",
        "weights": lambda part: f"+{part.weight_bytes:,} B",
        "results": lambda part: f"+{part.result_bytes:,} B",
    }
    return {
        "kept": lambda part: "yes" if part.name in found.kept else "",
        "share": _share,
        "operations": lambda part: f"{part.operations:,}",
        "elements": lambda part: f"{part.elements:,}",
        **({} if found.kind == "lines" else memory),
        _NOUNS[found.kind][0]: _name,
    }


def _share(part: PrecisionPart) -> str:
    if not isfinite(part.own):
        return "overflow"
    return "-" if part.share is None else f"{100 * part.share:.1f} %"


def _name(part: PrecisionPart) -> str:
    if part.members == (part.name,):
        return (
            f"{part.name} `{part.site.code}`"
            if part.site.file and part.name.endswith(f":{part.site.line}")
            else part.name
        )
    return f"{part.name} ({_plural(part.members, 'node')})"
