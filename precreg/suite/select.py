"""Which cases are run: by tier, suite, pattern, tag, and shard. Selection never changes a case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256

from msgspec import Struct

from precreg.errors import UserError, nearest
from precreg.types import TIERS, Case

MAX_LISTED = 12
"""Names that an error lists; of more it tells the nearest alone."""


class Selection(Struct, frozen=True):
    """What was asked for: of each kind any may match, and every kind that is given must match."""

    tiers: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def select_cases(cases: Sequence[Case], selection: Selection) -> list[Case]:
    """Return the selected cases in their order; an empty selection takes all.

    A suite is named as NAME or TIER/NAME. A pattern is a case's id, a part of it, or has the wildcards * ? [].
    Raises UserError: bad-value for a tier, a suite or a tag that no case has. What is left may be empty.
    """
    _require_known("tier", selection.tiers, TIERS)
    _require_known("suite", selection.suites, {name for case in cases for name in (case.suite, _suite_id(case))})
    _require_known("tag", selection.tags, {tag for case in cases for tag in case.tags})
    meant = match_names({case.id for case in cases}, selection.patterns)
    return [case for case in cases if _chosen(case, selection) and case.id in meant]


def shard_cases(cases: Sequence[Case], index: int, count: int) -> list[Case]:
    """Return part `index` of `count` (from 1), in order: parts are disjoint, complete, and differ in size by at most 1.

    Cases are dealt in order of the hash of their ids, which spreads neighbours, slow ones among them, over the parts.
    Raises UserError (bad-shard).
    """
    if not 1 <= index <= count:
        raise UserError("bad-shard", f"expected i/n with 1 <= i <= n but got shard={index}/{count}")
    dealt = sorted((case.id for case in cases), key=lambda id: sha256(id.encode()).digest())
    mine = set(dealt[index - 1 :: count])
    return [case for case in cases if case.id in mine]


def no_case_error(cases: Sequence[Case], patterns: Sequence[str]) -> UserError:
    """Return the error that nothing was selected: with the first pattern that means no case, and what is near it."""
    message = f"expected at least one of {len(cases)} cases to be selected but got none"
    ids = [case.id for case in cases]
    lost = next((pattern for pattern in patterns if not match_names(ids, [pattern])), None)
    if lost is None:
        return UserError("nothing-selected", message)
    known = [*ids, *map(_suite_id, cases), *(case.suite for case in cases)]
    return UserError("nothing-selected", f"{message}: no id has pattern={lost}{nearest(lost, known)}")


def _suite_id(case: Case) -> str:
    return f"{case.tier}/{case.suite}"


def _require_known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for name in names:
        if name not in known:
            message = f"expected {_expected(kind, known)} but got {kind}={name}{nearest(name, known)}"
            raise UserError("bad-value", message)


def _expected(kind: str, known: Sequence[str]) -> str:
    if len(known) > MAX_LISTED:
        return f"a {kind} that a case has"
    return f"one of {', '.join(known) or 'none, because there is none,'}"


def _chosen(case: Case, selection: Selection) -> bool:
    return (
        (not selection.tiers or case.tier in selection.tiers)
        and (not selection.suites or case.suite in selection.suites or _suite_id(case) in selection.suites)
        and (not selection.tags or not set(selection.tags).isdisjoint(case.tags))
    )


def match_names(names: Collection[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that any pattern means: a whole name, a part of one, or wildcards * ? []. No pattern means all.

    A pattern that is a whole name means that alone, because it may be a part of others.
    """
    if not patterns:
        return set(names)
    sharpened = [pattern if pattern in names or _is_wild(pattern) else f"*{pattern}*" for pattern in patterns]
    return {name for name in names for pattern in sharpened if name == pattern or fnmatchcase(name, pattern)}


def _is_wild(pattern: str) -> bool:
    return any(wildcard in pattern for wildcard in "*?[")
