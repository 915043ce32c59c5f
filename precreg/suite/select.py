"""Which cases does a command select by tier, suite, pattern, tag and shard?

A selection never changes a case, so its baseline and its random inputs stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from fnmatch import fnmatchcase, translate
from hashlib import sha256
from typing import NamedTuple, TypeVar

from msgspec import Struct

from precreg.errors import UserError, nearest, nearest_name
from precreg.types import TIERS, Case


class ListedCase(NamedTuple):
    """Hold the name of a case, and everything by which selections find it."""

    id: str
    tier: str
    suite: str
    tags: tuple[str, ...]


# A selection needs the names and tags of cases, and no definitions.
_C = TypeVar("_C", Case, ListedCase)

# An error lists up to this many names. A longer list would hide the nearest name, which the message gives anyway.
MAX_LISTED = 10
# The nearest name is searched without them.
_WILDCARDS = "*?[]"
# The characters that have a meaning for `fnmatch`.
WILDCARDS_OF_PATTERN = frozenset("*?[")


class Selection(Struct, frozen=True):
    """Hold the criteria of a selection.

    A case must match every kind of criterion that is given, and any one value of that kind.
    """

    tiers: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    # The ids of the cases that failed in the last run; None without this criterion.
    last_failed: frozenset[str] | None = None


def select_cases(cases: Sequence[_C], selection: Selection) -> list[_C]:
    """Return the selected cases in their order. An empty selection takes all cases.

    A suite is named as NAME or TIER/NAME; `match_names` describes patterns. The result may be empty, because no case
    need have all criteria together.

    Raises:
        UserError: bad-value for a tier, a suite or a tag that no case has, nothing-selected for a pattern that matches
            no case, empty-project if a criterion is given and there is no case.
    """
    if not cases and selection != Selection():
        raise empty_project_error()
    _require_known("tier", selection.tiers, TIERS)
    _require_known("suite", selection.suites, {name for case in cases for name in (case.suite, _suite_id(case))})
    _require_known("tag", selection.tags, {tag for case in cases for tag in case.tags})
    matching = select_names([case.id for case in cases], selection.patterns, noun="case")
    return [case for case in cases if _matches(case, selection) and case.id in matching]


def fits_pattern(name: str, pattern: str) -> bool:
    """Return True if a whole name matches a pattern with the wildcards * ? [], as `fnmatch.fnmatchcase` does."""
    # Python translates each pattern into a regular expression. That took 34 of 520 ms of the first reading of precreg's
    # own suites (profile on a loaded machine), and most patterns have no wildcard but *.
    if not WILDCARDS_OF_PATTERN.isdisjoint(pattern.replace("*", "")):
        return fnmatchcase(name, pattern)
    first, *middle = pattern.split("*")
    if not middle:
        return name == pattern
    last = middle.pop()
    place, end = len(first), len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and place <= end):
        return False
    for part in middle:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


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


def no_case_error(cases: Sequence[Case] | Sequence[ListedCase], since: str | None = None) -> UserError:
    """Return the error for a selection without a case, although each of its criteria has some.

    `since` is the revision of --changed-since, if it was given.
    """
    if not cases:
        return empty_project_error()
    reason = "no case has all of them" if since is None else f"none of them depends on a change since {since}"
    message = f"expected options that select a case but {reason}{list_names([case.id for case in cases])}"
    return UserError("nothing-selected", message)


def empty_project_error() -> UserError:
    """Return the error for a project without a case."""
    return UserError("empty-project", "expected a case but no suite below suites/ defines one")


def _suite_id(case: Case | ListedCase) -> str:
    return f"{case.tier}/{case.suite}"


def _selection_hint(kind: str, name: str, known: Sequence[str]) -> str:
    if not known:
        return f"leave out --{kind}: no case has one; precreg list shows all cases"
    return f"write --{kind} {nearest_name(name, known) or known[0]}; precreg list shows all cases"


def _require_known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for name in names:
        if name not in known:
            # A short list of the names answers more than the nearest one alone.
            near = nearest(name, known)
            if 0 < len(known) <= MAX_LISTED:
                message = f"expected one of {', '.join(known)} but got {kind}={name}{near}"
            else:
                message = f"expected a {kind} that a case has but got {kind}={name}{list_names(known, near)}"
            raise UserError(
                "bad-value",
                message,
                hint=_selection_hint(kind, name, known),
            )


def _matches(case: Case | ListedCase, selection: Selection) -> bool:
    return (
        (not selection.tiers or case.tier in selection.tiers)
        and (not selection.suites or case.suite in selection.suites or _suite_id(case) in selection.suites)
        and (not selection.tags or not set(selection.tags).isdisjoint(case.tags))
        and (selection.last_failed is None or case.id in selection.last_failed)
    )


def match_names(names: Collection[str], patterns: Sequence[str], known: Collection[str] = ()) -> set[str]:
    """Return the names that match any pattern; all names without patterns.

    This is the only rule for patterns of cases, proposals, baselines, series and arrays, and it is case-sensitive:

    - A pattern that is a name matches this name alone, because it may be a part of other names. `known` are further
      names that are not to be matched, such as cases without a proposal.
    - Any other pattern matches each name that contains it.
    - With the wildcards * ? [] it also matches each name of which it describes the whole, or one part between slashes.
    """
    if not patterns:
        return set(names)
    return {name for pattern in patterns for name in _match(names, pattern, known)}


def _match(names: Collection[str], pattern: str, known: Collection[str]) -> set[str]:
    if pattern in names or pattern in known:
        return {pattern} & set(names)
    # An empty text is a part of every name. It comes from an unset variable of a shell, and never means everything.
    if not pattern:
        return set()
    # Without a wildcard, `fnmatchcase` finds nothing more; a project may have 100,000 names.
    if WILDCARDS_OF_PATTERN.isdisjoint(pattern):
        return {name for name in names if pattern in name}
    matches = re.compile(translate(pattern)).match
    return {name for name in names if pattern in name or matches(name) or any(map(matches, name.split("/")))}


def select_names(
    names: Collection[str],
    patterns: Sequence[str],
    *,
    noun: str,
    slug: str = "nothing-selected",
    known: Collection[str] = (),
) -> set[str]:
    """Return the names that match any pattern, as `match_names` does, and refuse a pattern that matches none.

    `noun` says in the message which kind of thing has the names. Raises UserError with the slug.
    """
    if not patterns:
        return set(names)
    # A lookup of a whole name searches no list.
    names = names if isinstance(names, Set | Mapping) else dict.fromkeys(names)
    found = set[str]()
    for pattern in patterns:
        matched = _match(names, pattern, known)
        if not matched:
            raise no_match_error(names, pattern, noun=noun, slug=slug)
        found |= matched
    return found


def no_match_error(names: Collection[str], pattern: str, *, noun: str, slug: str = "nothing-selected") -> UserError:
    """Return the error for a pattern that matches no name, with the nearest name and up to ten of all names."""
    # A part of a name is a pattern, too, and often nearer to a misspelled word than any whole name.
    parts = {part for name in names for part in (name, *name.split("/"), name.rpartition("/")[0]) if part}
    near = nearest(pattern.strip(_WILDCARDS + "/"), sorted(parts))
    message = f"expected a {noun} that matches but got pattern={pattern}{list_names(names, near)}"
    return UserError(slug, message)


def list_names(names: Collection[str], near: str = "") -> str:
    """Return the end of a message: `near` (of `nearest`), the number of names, and the first ten of them."""
    begin = f"{near} " if near else "; "
    if not names:
        return f"{begin}there is none"
    first = ", ".join(list(names)[:MAX_LISTED])
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{begin}there {'is' if len(names) == 1 else 'are'} {len(names)}: {first}{more}"
