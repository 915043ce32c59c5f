"""What no fault changes: inputs, what the oracle gives, what the subject gives without, remembered of one case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from precreg.types.types import Case

_T = TypeVar("_T")


_kept: dict[tuple[str, int], Any] = {}

_kept_of: tuple[Path, Case] | None = None


def remembered(what: str, case: Case, seed: int, project: Path, compute: Callable[[], _T]) -> _T:
    """Return `compute()`, or what it gave for the same case with another fault, which nobody may write to.

    Cases without a fault are computed anew, and nothing is kept of them. Cases of one definition that differ in
    anything else (tolerance, repeats, analyzers, ...) are two: each has memories of its own.
    """
    global _kept_of
    if case.fault is None:
        return compute()
    of = (project, replace(case, id="", fault=None))
    if of != _kept_of:
        _kept.clear()
        _kept_of = of
    if (what, seed) not in _kept:
        _kept[what, seed] = compute()
    found: _T = _kept[what, seed]
    return found
