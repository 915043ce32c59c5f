"""Which cases does a command select by tier, suite, pattern, tag and shard?

A selection never changes a case, so its baseline and its random inputs stay the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256

from msgspec import Struct

from precreg.errors import UserError, nearest
from precreg.types import TIERS, Case

# An error lists up to this many names. A longer list would hide the nearest name, which the message gives anyway.
MAX_LISTED = 12


class Selection(Struct, frozen=True):
    """Hold the criteria of a selection.

    A case must match every kind of criterion that is given, and any one value of that kind.
    """

    tiers: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def select_cases(cases: Sequence[Case], selection: Selection) -> list[Case]:
    """Return the selected cases in their order. An empty selection takes all cases.

    A suite is named as NAME or TIER/NAME. A pattern is a case's id, a part of it, or has the wildcards * ? [].
    The result may be empty. Raises UserError: bad-value for a tier, a suite or a tag that no case has.
    """
    _require_known("tier", selection.tiers, TIERS)
    _require_known("suite", selection.suites, {name for case in cases for name in (case.suite, _suite_id(case))})
    _require_known("tag", selection.tags, {tag for case in cases for tag in case.tags})
    matching = match_names({case.id for case in cases}, selection.patterns)
    return [case for case in cases if _matches(case, selection) and case.id in matching]


def shard_cases(cases: Sequence[Case], index: int, count: int) -> list[Case]:
    """Return shard `index` of `count` (from 1), in the order of the cases.

    Shards are disjoint and complete, and their sizes differ by at most 1. Raises UserError (bad-shard).
    """
    if not 1 <= index <= count:
        raise UserError("bad-shard", f"expected i/n with 1 <= i <= n but got shard={index}/{count}")
    # The order of the hashes spreads neighbours over the shards: the slow cases, large shapes, are neighbours.
    # sha256 and not hash(): Python salts hash() in each process, and the shards of one pipeline must agree.
    dealt = sorted((case.id for case in cases), key=lambda id: sha256(id.encode()).digest())
    mine = set(dealt[index - 1 :: count])
    return [case for case in cases if case.id in mine]


def no_case_error(cases: Sequence[Case], patterns: Sequence[str]) -> UserError:
    """Return the error for an empty selection, with the first pattern that matches no case and the nearest name."""
    message = f"expected at least one of {len(cases)} cases to be selected but got none"
    ids = [case.id for case in cases]
    unmatched = next((pattern for pattern in patterns if not match_names(ids, [pattern])), None)
    if unmatched is None:
        return UserError("nothing-selected", message)
    known = [*ids, *map(_suite_id, cases), *(case.suite for case in cases)]
    return UserError("nothing-selected", f"{message}: no id has pattern={unmatched}{nearest(unmatched, known)}")


def _suite_id(case: Case) -> str:
    return f"{case.tier}/{case.suite}"


def _require_known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for name in names:
        if name not in known:
            message = f"expected {_describe_expected(kind, known)} but got {kind}={name}{nearest(name, known)}"
            raise UserError("bad-value", message)


def _describe_expected(kind: str, known: Sequence[str]) -> str:
    if len(known) > MAX_LISTED:
        return f"a {kind} that a case has"
    return f"one of {', '.join(known) or 'none, because there is none,'}"


def _matches(case: Case, selection: Selection) -> bool:
    return (
        (not selection.tiers or case.tier in selection.tiers)
        and (not selection.suites or case.suite in selection.suites or _suite_id(case) in selection.suites)
        and (not selection.tags or not set(selection.tags).isdisjoint(case.tags))
    )


def match_names(names: Collection[str], patterns: Sequence[str]) -> set[str]:
    """Return the names that match any pattern; all names without patterns.

    A pattern is a whole name, a part of a name, or has the wildcards * ? []. A whole name matches itself alone, because
    it may be a part of other names.
    """
    if not patterns:
        return set(names)
    globs = [pattern if pattern in names or _has_wildcard(pattern) else f"*{pattern}*" for pattern in patterns]
    return {name for name in names for pattern in globs if name == pattern or fnmatchcase(name, pattern)}


def _has_wildcard(pattern: str) -> bool:
    return any(wildcard in pattern for wildcard in "*?[")
