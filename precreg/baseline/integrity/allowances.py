"""baselines/allow.yaml: what a merge request says it changes about how it is judged, case by case, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.baseline.integrity.side import Change
from precreg.errors import nearest
from precreg.storage.paths import inside
from precreg.storage.yaml_source import Source, expect_mapping, read, shown
from precreg.types.records import Kind, RunFinding
from precreg.types.types import Location

FILE = "baselines/allow.yaml"


_LIST = "allow"

_KEYS = ("case", "change", "reason")


ALLOWABLE = tuple(kind for kind in Kind if kind not in (Kind.CASE_INTRODUCED, Kind.ALLOWANCE_UNUSED))
"""What may be named: all that binds."""


COMPUTED = frozenset({Kind.CREEP, Kind.COMBINED_LOSS})
"""What only a run finds, with or without a base: two commits do not tell whether it was needed."""


class Allowance(Struct, frozen=True):
    """One entry with its place. `spent` ones stood in the base already: what they were for is merged."""

    case: str
    kind: Kind
    reason: str
    source: Location
    spent: bool = False

    def names(self, about: str) -> bool:
        """Tell whether the entry is about a case or a file: it is called so, in a suite that is, or matches."""
        return about == self.case or about.startswith(f"{self.case}/") or fnmatchcase(about, self.case)


def read_allowances(project: Path) -> tuple[Allowance, ...]:
    """Return the entries of baselines/allow.yaml; none where there is no such file, or it is empty.

    Raises UserError: bad-allowance, outside-project, and what reading YAML does.
    """
    path = project / FILE
    if not path.exists():
        return ()
    inside(project, FILE, file=FILE)
    source = read(path, FILE)
    if source.data is None:
        return ()
    expect_mapping(source, source.data)
    for key in source.data:
        if key != _LIST:
            raise source.error("bad-allowance", f"expected {_LIST}: alone but got {key}{nearest(key, (_LIST,))}", key)
    entries = source.data.get(_LIST)
    if not isinstance(entries, list):
        raise source.error("bad-allowance", f"expected a list under {_LIST}: but got {shown(entries)}", _LIST)
    return tuple(_allowance(source, index, entry) for index, entry in enumerate(entries))


def _allowance(source: Source, index: int, entry: Any) -> Allowance:
    """Read one entry. Raises UserError (bad-allowance) for one that does not say which case, what, or why."""
    place = (_LIST, index)
    if not isinstance(entry, dict):
        raise source.error("bad-allowance", f"expected {', '.join(_KEYS)} but got {shown(entry)}", *place)
    for key in (*_KEYS, *entry):
        if key not in _KEYS:
            message = f"expected one of {', '.join(_KEYS)} but got {key}{nearest(key, _KEYS)}"
            raise source.error("bad-allowance", message, *place, key)
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise source.error("bad-allowance", f"expected a text but got {key}={shown(entry.get(key))}", *place, key)
    if entry["change"] not in ALLOWABLE:
        known = [str(kind) for kind in ALLOWABLE]
        message = f"expected the kind of a finding but got change={entry['change']}{nearest(entry['change'], known)}"
        raise source.error("bad-allowance", message, *place, "change")
    return Allowance(entry["case"], Kind(entry["change"]), entry["reason"], source.where(*place))


def with_spent(now: Iterable[Allowance], base: Iterable[Allowance]) -> tuple[Allowance, ...]:
    """Mark the entries that stood in the base: they allow nothing more, whatever their patterns match today."""
    before = {(entry.case, entry.kind, entry.reason) for entry in base}
    return tuple(replace(entry, spent=(entry.case, entry.kind, entry.reason) in before) for entry in now)


def allowed(kind: Kind, about: str, allowances: Iterable[Allowance]) -> str | None:
    """Return the reason why something is allowed: that of the first entry of its kind that names it."""
    matching = (entry for entry in allowances if not entry.spent and entry.kind is kind)
    return next((entry.reason for entry in matching if entry.names(about)), None)


def with_reasons(project: Path, found: Sequence[RunFinding]) -> tuple[RunFinding, ...]:
    """Give each finding of a run the reason why the project allows it, if it does.

    Raises UserError (bad-allowance) where there is a finding, and the file cannot be read.
    """
    allowances = read_allowances(project) if found else ()
    return tuple(replace(one, allowed=allowed(one.kind, one.about, allowances)) for one in found)


def unused(allowances: Iterable[Allowance], changes: Iterable[Change]) -> list[RunFinding]:
    """Return a finding, which does not bind, on each entry that nothing needs: it is spent, or matches nothing."""
    found = list(changes)
    return [
        RunFinding(Kind.ALLOWANCE_UNUSED, FILE, _why(entry), source=entry.source, fails=False)
        for entry in allowances
        if entry.kind not in COMPUTED
        and (entry.spent or not any(entry.kind is change.kind and entry.names(change.about) for change in found))
    ]


def merged(allowances: Iterable[Allowance]) -> list[RunFinding]:
    """Return what `unused` does for a default branch, where no entry is needed: what it was for is merged."""
    return unused((replace(entry, spent=True) for entry in allowances), ())


def _why(entry: Allowance) -> str:
    named = f"{entry.kind} of {entry.case}"
    if entry.spent:
        return f"{named} is merged: the entry allows nothing any more, remove it"
    return f"{named} is allowed, and nothing needs that: remove the entry"
