"""In which order were the stored arrays computed?

A file of the user has the order. It has names, one a line or as a list in JSON, or it is the JSON of a dump of msprobe,
or an ONNX model, whose nodes are sorted. Without such a file a dump of msprobe that is compared has it. Otherwise names
are sorted with their numbers by value: layers.2 comes before layers.10.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from precreg.comparison.pairing import ArraySide, StoredPair, strip_array_suffix
from precreg.errors import UserError
from precreg.storage import MSPROBE_FILE, ordered_msprobe_names, read_regular_file
from precreg.subject import escape_surrogates
from precreg.types import ExecutionOrder, OrderSource, SomeNames

# Names of a million tensors need less.
MAX_ORDER_BYTES = 1 << 26
# The record names so many of the names that match nothing.
MAX_NAMED = 3
_SEPARATORS = re.compile(r"[^0-9A-Za-z]+")


class KnownOrder(NamedTuple):
    """Hold names in the order of execution, and where they come from."""

    source: OrderSource
    files: tuple[str, ...]
    names: Sequence[str]


def read_order(path: Path) -> KnownOrder:
    """Return the names of a file in their order.

    Raises UserError: missing-file; bad-order, for a file that is too large or no list of different names. A model may
    also raise bad-model, and missing-extra without the package onnx.
    """
    shown = escape_surrogates(path.as_posix())
    if path.suffix == ".onnx":
        return KnownOrder("onnx", (shown,), _tensors_of_model(path, shown))
    content = _content(path, shown)
    if path.suffix != ".json":
        return KnownOrder("file", (shown,), _different(_lines(content, shown), shown))
    data = _parsed(content, shown)
    if isinstance(data, dict):
        return KnownOrder("msprobe", (shown,), ordered_msprobe_names(data, shown))
    return KnownOrder("file", (shown,), _different(_listed(data, shown), shown))


def _tensors_of_model(path: Path, shown: str) -> list[str]:
    # Late: only models need the package onnx.
    from precreg.subject.onnx import ordered_tensor_names

    content = _content(path, shown)
    try:
        return ordered_tensor_names(content, shown)
    except ImportError as problem:
        message = f"expected the package onnx, which reads the order of a model, but: {problem}; install precreg[onnx]"
        raise UserError("missing-extra", f"{message}, or write the names one a line", file=shown) from None


def _content(path: Path, shown: str) -> bytes:
    # A model holds its weights, and only the names are kept of it.
    most = {} if path.suffix == ".onnx" else {"max_bytes": MAX_ORDER_BYTES}
    try:
        return read_regular_file(path, **most)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("missing-file", "expected a file with the order but there is none", file=shown) from None
    except OSError as error:
        raise _bad(
            shown, f"a file of at most {MAX_ORDER_BYTES:,} bytes that can be read but: {error.strerror}"
        ) from None


def _bad(shown: str, expectation: str, line: int | None = None) -> UserError:
    return UserError("bad-order", f"expected {expectation}", file=shown, line=line)


def _lines(content: bytes, shown: str) -> list[tuple[str, int | None]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _bad(shown, "names in UTF-8, one a line, but got other bytes", line) from None
    lines = ((line.strip(), number) for number, line in enumerate(text.split("\n"), 1))
    return [(name, number) for name, number in lines if name]


def _parsed(content: bytes, shown: str) -> Any:
    try:
        return json.loads(content)
    # A deep nesting ends in the second.
    except (ValueError, RecursionError) as error:
        raise _bad(shown, f'a list of names in JSON, ["conv1", "layer1"], but got: {error}') from None


def _listed(data: Any, shown: str) -> list[tuple[str, int | None]]:
    if not isinstance(data, list):
        raise _bad(shown, f'a list of names in JSON, ["conv1", "layer1"], but got {type(data).__name__}')
    for place, name in enumerate(data):
        if not isinstance(name, str) or not name:
            raise _bad(shown, f'a list of names in JSON, ["conv1", "layer1"], but got {str(name)[:60]!a} at [{place}]')
    return [(name, None) for name in data]


def _different(names: Sequence[tuple[str, int | None]], shown: str) -> list[str]:
    """Return the names. Raises UserError (bad-order) for an empty list, or for a duplicate."""
    if not names:
        raise _bad(shown, "names in the order of execution but there is none")
    seen: set[str] = set()
    for name, line in names:
        if name in seen:
            # Two places of one array: either choice would move the first failing pair without a word.
            raise _bad(shown, f"each name once but got {name[:80]!a} again", line)
        seen.add(name)
    return [escape_surrogates(name) for name, _ in names]


def order_of_dumps(sides: Iterable[ArraySide]) -> KnownOrder | None:
    """Return the order that the sides' dumps of msprobe have; None if no side has a dump.

    Several dumps of one side, of ranks or steps, come one after the other. Names of a later side come after the name
    that precedes them there.
    """
    names: list[str] = []
    files: list[str] = []
    for side in sides:
        listed, found = _dumped(side)
        names = _merged(names, listed)
        files += found
    return KnownOrder("msprobe", tuple(files), names) if files else None


def _dumped(side: ArraySide) -> tuple[list[str], list[str]]:
    """Return the names of the arrays of a side's dumps in order, and the dumps."""
    if side.kind == "archive" and Path(side.shown).name == MSPROBE_FILE:
        return list(side.arrays), [side.shown]
    is_dump = {file for file in side.archives if f"{file}.json".rpartition("/")[2] == MSPROBE_FILE}
    dumps = [file for file in side.archives if file in is_dump and _is_from_dump(side, file)]
    names = [f"{file}:{name}" for file in dumps for name in side.archives[file]]
    return names, [f"{side.shown}/{file}.json" for file in dumps]


def _is_from_dump(side: ArraySide, file: str) -> bool:
    # An archive dump.npz has the name of a dump, too.
    inner = side.archives[file]
    return bool(inner) and f"/{MSPROBE_FILE}:" in f"/{side.arrays[f'{file}:{inner[0]}'].shown}"


def _merged(names: list[str], others: list[str]) -> list[str]:
    """Return the names with each further one after its predecessor among the others, in linear time."""
    known = set(names)
    after: dict[str, list[str]] = {}
    before = ""
    for name in others:
        if name in known:
            before = name
        else:
            after.setdefault(before, []).append(name)
    return [*after.get("", ()), *(each for name in names for each in (name, *after.get(name, ())))]


def sort_by_execution(pairs: Sequence[StoredPair], known: KnownOrder | None) -> tuple[list[StoredPair], ExecutionOrder]:
    """Return pairs, which are in order of their names, in the order of execution; those that it lacks come last."""
    if known is None:
        return list(pairs), ExecutionOrder()
    spelled = _spellings(pair.name for pair in pairs)
    places: dict[str, int] = {}
    unused = []
    for place, name in enumerate(known.names):
        found = _find(name, spelled)
        if found is None:
            unused.append(name)
        else:
            places.setdefault(found, place)
    inside = sorted((pair for pair in pairs if pair.name in places), key=lambda pair: places[pair.name])
    outside = [pair for pair in pairs if pair.name not in places]
    order = ExecutionOrder(known.source, known.files, some_names(unused), some_names([pair.name for pair in outside]))
    return [*inside, *outside], order


def some_names(names: Sequence[str]) -> SomeNames:
    """Return the first few names, and the number of the others."""
    return SomeNames(tuple(names[:MAX_NAMED]), max(0, len(names) - MAX_NAMED))


def _spellings(names: Iterable[str]) -> Mapping[str, str | None]:
    """Return the name of a pair by each way to write it; None where a way means several pairs."""
    every = list(names)
    spelled: dict[str, str | None] = {}
    # The whole name first: the name of an archive's array, or one without separators, must not take its place.
    for ways in (lambda name: name, _inner, _plain, lambda name: _plain(_inner(name))):
        taken = set(spelled)
        for name in every:
            way = ways(name)
            if way in taken:
                continue
            spelled[way] = name if spelled.get(way, name) == name else None
    return spelled


def _inner(name: str) -> str:
    """Return the name of an array inside its archive."""
    return name.rpartition(":")[2]


def _plain(name: str) -> str:
    """Return a name with one mark for any separators: a file cannot have the slashes of /layer.0/Add_output_0."""
    return _SEPARATORS.sub("\0", name).strip("\0")


def _find(name: str, spelled: Mapping[str, str | None]) -> str | None:
    for way in (name, strip_array_suffix(name), _plain(name)):
        if way in spelled:
            return spelled[way]
    return None
