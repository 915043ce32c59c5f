"""What a run was asked for, in words; and what several runs were asked for together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from precreg.types.types import TIERS

Selection = dict[str, Any]
"""What was asked for by name, as a run's record has it; a whole project where it is empty."""


_SHARD, _TIERS, _ANY = "shard", "tiers", "any"

_WORDS = {"patterns": "pattern", _TIERS: "tier", "suites": "suite", "tags": "tag", "changed_since": "changed since"}


def without_shard(selection: Selection) -> Selection:
    """Return what all shards of a run were asked for together."""
    return {name: value for name, value in selection.items() if name != _SHARD}


def key(selection: Selection) -> bytes:
    """Return the same for selections that are equal, before they are written and after they are read."""
    return msgspec.json.encode(selection, order="sorted")


def united(selections: Iterable[Selection]) -> Selection:
    """Return what the runs were asked for together; empty if that is everything. Order and grouping do not matter.

    Tiers add up. Selections that differ in something else stand side by side under `any`.
    """
    tiers: dict[bytes, set[str]] = {}
    for part in _parts(selections):
        named = _tiers(part)
        rest = part if named is None else {name: value for name, value in part.items() if name != _TIERS}
        tiers.setdefault(key(rest), set()).update(TIERS if named is None else named)
    together = [_with_tiers(msgspec.json.decode(rest), names) for rest, names in sorted(tiers.items())]
    if {} in together or not together:
        return {}
    return together[0] if len(together) == 1 else {_ANY: together}


def said(selection: Selection) -> str:
    """Say what was selected but for the shard, as in `tier unit; tag fast`; nothing of a whole project."""
    return " or ".join("; ".join(_said(name, value) for name, value in part.items()) for part in _parts([selection]))


def _parts(selections: Iterable[Selection]) -> Iterator[Selection]:
    for selection in selections:
        parts = selection.get(_ANY)
        if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
            yield from map(without_shard, parts)
        else:
            yield without_shard(selection)


def _tiers(selection: Selection) -> list[str] | None:
    """Return the tiers that a selection names; None where it names none, or other than texts."""
    named = selection.get(_TIERS)
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        return None
    return list(named)


def _with_tiers(rest: Selection, names: set[str]) -> Selection:
    order = [tier for tier in TIERS if tier in names] + sorted(names - set(TIERS))
    return rest if names >= set(TIERS) else {_TIERS: order, **rest}


def _said(name: str, value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return f"{_WORDS.get(name, name)} {', '.join(map(str, values))}"
