"""How is a trace stored and read back, in a bounded size?

A file is the JSON of a `Trace`. JSON has no infinities and NaN: they are the texts "inf", "-inf" and "nan".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.shadow.ledger import find_first_loss
from precreg.storage import read_json_record, replace_file, report_write_errors
from precreg.types import TRACE_SCHEMA, Operation, Site, SiteTotals, Trace

# About 10 MB of JSON.
MAX_STORED_OPERATIONS = 20_000
_MAX_SITES = 1_000
_MAX_BYTES = 256 << 20


def write_trace(trace: Trace, path: Path, limit: int = MAX_STORED_OPERATIONS) -> Trace:
    """Write a trace in one step, with at most `limit` operations, and return the written trace.

    Raises:
        UserError: not-writable.
    """
    bounded = bound_trace(trace, limit)
    with report_write_errors(str(path)):
        replace_file(path, encode_trace(bounded))
    return bounded


def encode_trace(trace: Trace) -> bytes:
    """Return a trace as one line of JSON with a newline."""
    return msgspec.json.encode(_finite(msgspec.to_builtins(trace))) + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def read_trace(path: Path) -> Trace:
    """Read a stored trace; unknown fields are ignored.

    Raises:
        UserError: missing-file, unreadable-record, future-schema; each names the file.
    """
    trace = read_json_record(path, Trace, TRACE_SCHEMA, "a stored trace", max_bytes=_MAX_BYTES, strict=False)
    if problem := _problem(trace):
        raise UserError("unreadable-record", f"expected a stored trace but got {problem}", file=str(path))
    return trace


def _problem(trace: Trace) -> str:
    """Return the first value that no trace has; reports would show nonsense for it."""
    last = 0
    for operation in trace.operations:
        if operation.number <= last:
            return f"operation {operation.number} after operation {last}"
        last = operation.number
        shapes = (operation.shape, *(array.shape for array in operation.inputs))
        if any(length < 0 for shape in shapes for length in shape):
            return f"operation {operation.number} with a negative shape"
    names = [output.name for output in trace.outputs]
    repeated = next((name for at, name in enumerate(names) if name in names[:at]), None)
    return "" if repeated is None else f"two outputs of name={repeated!a}"


def bound_trace(trace: Trace, limit: int = MAX_STORED_OPERATIONS) -> Trace:
    """Return a trace with at most `limit` operations: the worst, the first, and every nth of the others.

    The totals of those left out are kept by site.
    """
    if len(trace.operations) <= limit:
        return trace
    kept = _kept_numbers(trace, limit)
    left = [operation for operation in trace.operations if operation.number not in kept]
    return replace(
        trace,
        operations=tuple(operation for operation in trace.operations if operation.number in kept),
        left_out=trace.left_out + len(left),
        left_out_sites=_site_totals(left),
    )


def _kept_numbers(trace: Trace, limit: int) -> set[int]:
    first = find_first_loss(trace)
    named = [output.number for output in trace.outputs if output.number is not None]
    kept = dict.fromkeys(([first.operation.number] if first else []) + named)
    measures: tuple[Callable[[Operation], float], ...] = (
        lambda each: max(map(abs, each.shares.values()), default=0.0),
        lambda each: each.own.relative if each.own else 0.0,
        lambda each: each.total.relative if each.total else 0.0,
        lambda each: each.amplification or 0.0,
    )
    for measure in measures:
        worst = sorted(trace.operations, key=measure, reverse=True)[: limit // 8]
        kept |= dict.fromkeys(each.number for each in worst)
    others = [each.number for each in trace.operations if each.number not in kept]
    room = max(0, limit - len(kept))
    # Evenly, so that the curve of errors over the computation keeps its shape.
    kept |= dict.fromkeys(others[at * len(others) // room] for at in range(room))
    return set(list(kept)[:limit])


def _site_totals(operations: Sequence[Operation]) -> tuple[SiteTotals, ...]:
    """Return the totals of each site, the largest first; those beyond _MAX_SITES are one entry of an empty site."""
    members: dict[Site, list[Operation]] = {}
    for operation in operations:
        members.setdefault(operation.site, []).append(operation)
    totals = sorted(
        (_total(site, each) for site, each in members.items()),
        key=lambda each: -max(map(abs, each.shares.values()), default=each.own),
    )
    kept = totals[: _MAX_SITES - 1] if len(totals) > _MAX_SITES else totals
    named = {each.site for each in kept}
    others = [operation for operation in operations if operation.site not in named]
    return (*kept, *([_total(Site(), others)] if others else []))


def _total(site: Site, operations: Sequence[Operation]) -> SiteTotals:
    shares: dict[str, float] = {}
    for operation in operations:
        for output, share in operation.shares.items():
            shares[output] = shares.get(output, 0.0) + share
    computed = [each for each in operations if each.note not in ("created", "moved", "random", "probe")]
    return SiteTotals(
        site=site,
        operations=len(operations),
        without_own=sum(each.own is None for each in computed),
        not_shadowed=sum(each.note in ("not_shadowed", "opaque") for each in computed),
        without_share=sum(not each.shares for each in computed),
        own=_largest(each.own for each in operations),
        total=_largest(each.total for each in operations),
        shares=shares,
    )


def _largest(sizes: Iterable[Any]) -> float:
    return max((size.relative for size in sizes if size is not None), default=0.0)
