"""What one commit, or the working tree, says about how a project is judged; and what may have become of it."""

from __future__ import annotations

from msgspec import Struct

from precreg.baseline.store import Place
from precreg.types.records import BaselineEntry, Kind
from precreg.types.types import Case, Location


class Unreadable(Struct, frozen=True):
    """A file that cannot be read as it stands there, and why."""

    file: str
    message: str


class Side(Struct, frozen=True):
    """The cases of a project by id, and what was accepted, in every environment, of the suites whose baselines differ.

    `numbers` tells how many entries each environment has in all, `looser_thresholds` whether PRECISION_THRESHOLDS may
    replace bounds. `unreadable` is what cannot be read as it stands; only of a base, the working tree must be sound.
    """

    cases: dict[str, Case]
    accepted: dict[Place, BaselineEntry] = {}
    numbers: dict[str, int] = {}
    looser_thresholds: bool = False
    unreadable: tuple[Unreadable, ...] = ()


class Change(Struct, frozen=True):
    """One way in which the bar was moved: the kind of finding it is, and the case, or the file, that it is about."""

    kind: Kind
    about: str
    message: str
    factor: float | None = None
    source: Location | None = None


class Pairs(Struct, frozen=True):
    """The cases of both sides, each of the base beside what it is now. `renamed` compute the same under another id."""

    same: tuple[tuple[Case, Case], ...]
    renamed: tuple[tuple[Case, Case], ...]
    removed: tuple[Case, ...]
    introduced: tuple[Case, ...]

    @property
    def judged(self) -> tuple[tuple[Case, Case], ...]:
        """Every case of the base that is still there, whatever it is called now."""
        return (*self.same, *self.renamed)


def is_redefined(before: Case, now: Case) -> bool:
    """Tell whether a case computes something else under the same name."""
    return before.definition != now.definition


def paired(base: dict[str, Case], head: dict[str, Case]) -> Pairs:
    """Pair the cases of two sides by id, and what is left by what it computes, in order of ids."""
    left = {id: case for id, case in sorted(base.items()) if id not in head}
    free: dict[str, list[Case]] = {}
    for id, case in sorted(head.items(), reverse=True):
        if id not in base:
            free.setdefault(case.definition, []).append(case)
    renamed = [(case, free[case.definition].pop()) for case in left.values() if free.get(case.definition)]
    moved, taken = {before.id for before, _ in renamed}, {now.id for _, now in renamed}
    return Pairs(
        same=tuple((base[id], case) for id, case in sorted(head.items()) if id in base),
        renamed=tuple(renamed),
        removed=tuple(case for id, case in left.items() if id not in moved),
        introduced=tuple(case for id, case in sorted(head.items()) if id not in base and id not in taken),
    )
