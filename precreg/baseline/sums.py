"""Which figures of a baseline do only the statistics need?

People review the file of a suite: figures of 6 significant digits, one metric a line. Its sibling, marked as generated,
has all digits of the figures that lose some, and the group sums and sketches. An entry is the two parts together, and
its checksum ties them: the sibling has the sums of an entry below the checksum of the whole entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from precreg.storage import DataError

SUMS_SCHEMA = "precreg-sums/1"
# No suite's file ends in it, so that a suite of any name has a sibling of its own.
SUMS_SUFFIX = ".sums"
# The slug for an entry without its sums; text.py has the one for contents that do not fit.
UNPAIRED = "unpaired-baseline"
MIXED = "mixed-baseline"

# A review refuses changes of 2 % and more, which three digits show. Six also show most changes of bits.
DIGITS = 6
# Fields of an entry, and of an earlier accepted value, that nobody reads.
_UNSEEN = ("oracle", "sketch", "groups", "reach")
_UNSEEN_OF_ACCEPTED = ("means", "reach")
# Where an entry has figures that people read.
_DURATION, _BOUNDS = "duration_s", "bounds"

Plain = dict[str, Any]


def split_entry(plain: Mapping[str, Any]) -> tuple[Plain, Plain]:
    """Split an entry in plain JSON values into the part that people review and its sums.

    `join_entry` makes the same entry of the two, bit for bit.
    """
    shown = {name: member for name, member in plain.items() if name not in _UNSEEN}
    sums = {name: plain[name] for name in _UNSEEN if plain.get(name)}
    _shorten(shown, sums, _DURATION, _DURATION)
    shown["outputs"] = {name: dict(output) for name, output in plain["outputs"].items()}
    exact: Plain = {}
    for name, output in shown["outputs"].items():
        _shorten(output, exact, "metrics", name)
    if exact:
        sums["metrics"] = exact
    if plain.get("known"):
        shown["known"] = dict(plain["known"])
        _shorten(shown["known"], sums, _BOUNDS, _BOUNDS)
    if plain.get("accepted"):
        shown["accepted"] = [_without(value, _UNSEEN_OF_ACCEPTED) for value in plain["accepted"]]
        sums["accepted"] = [
            {name: value[name] for name in _UNSEEN_OF_ACCEPTED if name in value} for value in plain["accepted"]
        ]
    return shown, sums


def _shorten(shown: Plain, sums: Plain, name: str, place: str) -> None:
    """Round the figures of a member; store those that lose digits under `place` of the sums."""
    if name in shown:
        shown[name], exact = _rounded(shown[name])
        if exact is not None:
            sums[place] = exact


def _without(value: Mapping[str, Any], names: tuple[str, ...]) -> Plain:
    return {name: member for name, member in value.items() if name not in names}


def _rounded(value: Any) -> tuple[Any, Any]:
    """Return figures rounded, and all digits of those lists and numbers that lose some, or None if none does."""
    if not isinstance(value, dict):
        short = [*map(_round, value)] if isinstance(value, list) else _round(value)
        return short, None if short == value else value
    shorts: Plain = {}
    exact: Plain = {}
    for name, member in value.items():
        if type(member) is list and len(member) == 1 and type(member[0]) is float:
            # Half of all members are the figures of one seed, and the metrics of exact results are small integers.
            figure = member[0]
            is_short = figure.is_integer() and abs(figure) < _MAX_INTEGER
            short = figure if is_short else float(f"{figure:.{DIGITS}g}")
            shorts[name], digits = [short], None if short == figure else member
        else:
            shorts[name], digits = _rounded(member)
        if digits is not None:
            exact[name] = digits
    return shorts, exact or None


# Smaller integers have at most `DIGITS` digits.
_MAX_INTEGER = 10**DIGITS


def _round(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def join_entry(shown: Mapping[str, Any], sums: Mapping[str, Any]) -> Plain:
    """Return the entry of its two parts in plain JSON values.

    Raises DataError for figures that are not the rounded ones of the sums, and for sums of another entry.
    """
    entry = {**shown, **{name: sums[name] for name in _UNSEEN if name in sums}}
    if _DURATION in sums:
        entry[_DURATION] = _restore(shown.get(_DURATION), sums[_DURATION], _DURATION)
    if "metrics" in sums:
        outputs = _mapping(shown.get("outputs"), "outputs")
        metrics = {
            name: _restore(_mapping(outputs.get(name), f"outputs.{name}").get("metrics"), exact, f"outputs.{name}")
            for name, exact in _mapping(sums["metrics"], "metrics").items()
        }
        entry["outputs"] = {**outputs, **{name: {**outputs[name], "metrics": metrics[name]} for name in metrics}}
    if _BOUNDS in sums:
        known = _mapping(shown.get("known"), "known")
        entry["known"] = {**known, _BOUNDS: _restore(known.get(_BOUNDS), sums[_BOUNDS], "known.bounds")}
    if "accepted" in sums:
        entry["accepted"] = [*_join_accepted(shown.get("accepted"), sums["accepted"])]
    return entry


def _join_accepted(shown: Any, sums: Any) -> Iterator[Plain]:
    if not isinstance(shown, list) or not isinstance(sums, list) or len(shown) != len(sums):
        raise DataError(MIXED, "expected as many accepted values as the sums have, but got another number")
    for number, (value, means) in enumerate(zip(shown, sums, strict=True)):
        yield _mapping(value, f"accepted.{number}") | _mapping(means, f"accepted.{number}")


def _mapping(value: Any, path: str) -> Plain:
    if not isinstance(value, dict):
        raise DataError(MIXED, f"expected a mapping in {path}, because the sums have its digits")
    return value


def _restore(shown: Any, exact: Any, path: str) -> Any:
    """Return shown figures with all their digits. Raises DataError (MIXED) for digits of other figures."""
    if isinstance(exact, dict):
        known = _mapping(shown, path)
        found = {name: _restore(known.get(name), digits, f"{path}.{name}") for name, digits in exact.items()}
        return {**known, **found}
    # The verdict takes all digits, so nobody may review other ones.
    if (short := _rounded(exact)[0]) != shown:
        message = f"expected {json.dumps(short)} in {path}, as the sums have it, but got {json.dumps(shown)}"
        raise DataError(MIXED, f"{message}: the entry was edited, or merged from two sides")
    return exact


def render_sums_header(header: Mapping[str, str]) -> str:
    """Return the first line of a file of sums."""
    return f"{_COMPACT_ENCODER.encode(header)}\n"


def render_sums_line(case: str, checksum: str, sums: Plain) -> str:
    """Return the line of one entry in a file of sums. Raises ValueError for a NaN or an infinity."""
    # Lines of both sides of a merge are a file again, so that git's union of lines leaves no conflict here.
    return f"{_COMPACT_ENCODER.encode({'case': case, 'of': checksum, 'sums': sums})}\n"


# Once, because json.dumps makes another one at each call. As in text.py, it searches no circles.
_COMPACT_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)


class SumsLine(Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the sums of one entry, by the name of its case and its checksum."""

    case: str
    of: str
    sums: Plain
