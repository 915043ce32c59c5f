"""Which array is held against which: by name, by the mapping file, or because each side has one.

What stands on one side alone is a pair, too, without the other: absence is judged, and never passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from precreg.comparison.mapping import Renamed
from precreg.comparison.places import SUFFIXES, Place, Side, unknown_array
from precreg.errors import UserError

Named = dict[str, Place]


class Pair(NamedTuple):
    """One array and what it is held against; None for a side that lacks it."""

    name: str
    actual: Place | None
    reference: Place | None
    benchmark: Place | None = None


def paired(actual: Side, reference: Side, mapping: Mapping[str, Renamed], benchmark: Side | None = None) -> list[Pair]:
    """Pair the arrays of two sides, in order of their names, and find what the benchmark has of each.

    A file of one array is held against the other side's only one, whatever it is called. Raises UserError:
    not-comparable where the other side has several; unknown-array for a name of the mapping that the reference lacks.
    """
    if "array" in (actual.kind, reference.kind):
        if mapping:
            raise UserError("not-comparable", "expected folders or archives beside --mapping but got a single array")
        third = None if benchmark is None else _only(benchmark, beside=actual)
        name = next(iter((actual if actual.kind == "array" else reference).arrays))
        return [Pair(name, _only(actual, beside=reference), _only(reference, beside=actual), third)]
    ours, theirs = _names(actual, reference), _names(reference, actual)
    ours, theirs = _with_broken(ours, actual.broken, theirs), _with_broken(theirs, reference.broken, ours)
    target = {name: name for name in ours if name in theirs} | _renamed(mapping, ours, theirs, reference.shown)
    both = [Pair(name, ours.get(name), theirs[of]) for name, of in target.items()]
    extra = [Pair(name, place, None) for name, place in ours.items() if name not in target]
    missing = [Pair(name, None, theirs[name]) for name in theirs.keys() - set(target.values())]
    found = sorted(both + extra + missing, key=lambda pair: pair.name)
    return found if benchmark is None else _beside(found, target, _names(benchmark, reference))


def _only(side: Side, beside: Side) -> Place:
    if len(side.arrays) == 1:
        return next(iter(side.arrays.values()))
    names = ", ".join(list(side.arrays)[:3]) or "none"
    message = f"expected one array beside {beside.shown} but {side.shown} has {len(side.arrays)} ({names})"
    raise UserError("not-comparable", message)


def _names(side: Side, other: Side) -> Named:
    """Name the arrays of a side.

    The only array of an archive in a folder goes by the name of its file, so that y.npz is matched by y.npy; not where
    the other side's archive of that name has several.
    """
    short = {
        f"{file}:{inner[0]}": file
        for file, inner in side.archives.items()
        if len(inner) == 1 and len(other.archives.get(file, ())) < 2
    }
    for long, file in short.items():
        if file in side.arrays:
            message = (
                f"expected one array called {file} but got {side.arrays[file].shown} and {side.arrays[long].shown}"
            )
            raise UserError("not-comparable", message)
    return {short.get(name, name): place for name, place in side.arrays.items()}


def _with_broken(names: Named, broken: Mapping[str, Place], others: Iterable[str]) -> Named:
    """Add what an archive that cannot be read is held to have: all that the other side has of its name."""
    held = {
        name: place
        for file, place in broken.items()
        for name in [other for other in others if other == file or other.startswith(f"{file}:")] or [file]
    }
    return names | held


def _renamed(mapping: Mapping[str, Renamed], ours: Named, theirs: Named, where: str) -> dict[str, str]:
    renamed = {}
    for name, (reference, place) in mapping.items():
        known = _as_named(reference, theirs)
        if known not in theirs:
            problem = unknown_array(reference, where, theirs)
            raise UserError(problem.slug, problem.message, file=place.file, line=place.line)
        renamed[_as_named(name, ours)] = known
    return renamed


def _as_named(name: str, known: Named) -> str:
    """Return a name that a person wrote as arrays are named: without the suffix of a file."""
    path = PurePosixPath(name)
    return name if name in known or path.suffix not in SUFFIXES else path.with_suffix("").as_posix()


def _beside(pairs: list[Pair], target: Mapping[str, str], benchmarks: Named) -> list[Pair]:
    return [
        pair._replace(benchmark=benchmarks.get(pair.name) or benchmarks.get(target.get(pair.name, "")))
        for pair in pairs
    ]
