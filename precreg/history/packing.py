"""How do few bytes hold the state of a case?

A packed state has the figures as 64-bit floats, and names by their numbers: the definition, the reason, and the form,
which lists the outputs with their metrics. Equal states have equal packed states in one history.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice
from math import isnan, nan
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Integer, func, insert, select, type_coerce

from precreg.history.rows import TEXTS_TABLE, DamagedError
from precreg.types import MetricDescription

# By metric: the mean over the seeds at this run, and the mean of the accepted baseline over the same seeds.
KeptFigures = dict[str, tuple[float | None, float | None]]

_T = TypeVar("_T")

# Ids in one query. It bounds the memory of a read and the parameters of a query (SQLite before 3.32 allows 999).
QUERY_CHUNK = 500
# Texts that a reader keeps: forms and reasons are few, and a definition is read once for each case.
MAX_CACHED_TEXTS = 20_000


class KeptCase(Struct, frozen=True, omit_defaults=True):
    """Hold the stored figures of one case at one run.

    A failed case has no outputs and a reason. `described` are the metrics of analyzers.
    """

    definition: str
    reason: str
    outputs: dict[str, KeptFigures]
    described: tuple[MetricDescription, ...] = ()


class Form(Struct, frozen=True, omit_defaults=True):
    """Hold the names of a state: the metrics of each output, in the order of its figures."""

    outputs: dict[str, list[str]]
    described: tuple[MetricDescription, ...] = ()

    def pairs(self) -> list[tuple[str, str]]:
        """Return (output, metric) in the order of the figures."""
        return [(output, metric) for output, metrics in self.outputs.items() for metric in metrics]


class PackedState(NamedTuple):
    """Hold a state: numbers of texts, and the values and then the accepted values as little-endian float64.

    NaN stands for a missing value. A state in JSON has no other NaN.
    """

    definition: int
    reason: int
    form: int
    figures: bytes


def batched(values: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the values in lists of at most `size`."""
    remaining = iter(values)
    while part := list(islice(remaining, size)):
        yield part


def query_chunks(ids: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield the ids in lists of at most QUERY_CHUNK."""
    return batched(ids, QUERY_CHUNK)


def encode_form(kept: KeptCase) -> str:
    """Return the form of a state as JSON."""
    form = Form({output: [*figures] for output, figures in kept.outputs.items()}, kept.described)
    return msgspec.json.encode(form).decode()


def decode_form(text: str) -> Form:
    """Decode a form, and register the metrics of its analyzers. Raises DamagedError."""
    try:
        return msgspec.json.decode(text, type=Form)
    except msgspec.MsgspecError as problem:
        raise DamagedError(f"a case's figures cannot be read: {problem}") from None


def pack_figures(kept: KeptCase) -> bytes:
    """Return the values and then the accepted values of a state."""
    pairs = [pair for figures in kept.outputs.values() for pair in figures.values()]
    numbers = [nan if number is None else number for number in chain(*zip(*pairs, strict=True))] if pairs else []
    return struct.pack(f"<{len(numbers)}d", *numbers)


def unpack_figures(figures: bytes, form: Form) -> dict[str, KeptFigures]:
    """Return the figures by output and metric. Raises DamagedError if their number is not the form's."""
    pairs = form.pairs()
    require_figures(figures, len(pairs))
    numbers = [None if isnan(number) else number for number in struct.unpack(f"<{2 * len(pairs)}d", figures)]
    found: dict[str, KeptFigures] = {output: {} for output in form.outputs}
    for (output, metric), value, accepted in zip(pairs, numbers, numbers[len(pairs) :], strict=False):
        found[output][metric] = (value, accepted)
    return found


def require_figures(figures: bytes, pairs: int) -> None:
    """Refuse figures that are not two float64 for each pair. Raises DamagedError."""
    if len(figures) != 16 * pairs:
        raise DamagedError(f"a case's figures cannot be read: expected {16 * pairs} bytes but got {len(figures)}")


class Texts:
    """Read and write the texts of a history by their numbers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, str] = {}
        self._forms: dict[int, Form] = {}

    def load(self, numbers: Collection[int]) -> Mapping[int, str]:
        """Return the texts of the numbers, and maybe others. Raises DamagedError for a number without a text."""
        if len(self._known) > MAX_CACHED_TEXTS:
            self._known.clear()
        wanted = set(numbers) - self._known.keys()
        for part in query_chunks(wanted):
            query = select(TEXTS_TABLE.c.id, TEXTS_TABLE.c.text).where(TEXTS_TABLE.c.id.in_(part))
            self._known.update((number, text) for number, text in self._connection.execute(query))
        if not wanted <= self._known.keys():
            missing = min(wanted - self._known.keys())
            raise DamagedError(f"a case's figures cannot be read: there is no text {missing}")
        return self._known

    def form(self, number: int) -> Form:
        """Return a form by its number. Raises DamagedError."""
        if number not in self._forms:
            self._forms[number] = decode_form(self.load([number])[number])
        return self._forms[number]

    def unpack(self, states: Iterable[PackedState]) -> list[KeptCase]:
        """Return the states. Raises DamagedError."""
        states = list(states)
        texts = self.load({number for state in states for number in (state.definition, state.reason)})
        found = []
        for state in states:
            form = self.form(state.form)
            outputs = unpack_figures(state.figures, form)
            found.append(KeptCase(texts[state.definition], texts[state.reason], outputs, form.described))
        return found

    def pack(self, states: Sequence[KeptCase]) -> list[PackedState]:
        """Return the packed states, and write the texts that the history lacks."""
        forms = [encode_form(kept) for kept in states]
        names = {*forms, *(kept.definition for kept in states), *(kept.reason for kept in states)}
        numbers = self._numbers(names)
        return [
            PackedState(numbers[kept.definition], numbers[kept.reason], numbers[form], pack_figures(kept))
            for kept, form in zip(states, forms, strict=True)
        ]

    def _numbers(self, texts: Collection[str]) -> dict[str, int]:
        """Return the number of each text, and write those that are missing."""
        digests = {blake2b(text.encode(), digest_size=16).digest(): text for text in texts}
        found = {}
        for part in query_chunks(digests):
            query = select(TEXTS_TABLE.c.digest, TEXTS_TABLE.c.id).where(TEXTS_TABLE.c.digest.in_(part))
            found.update({digests[digest]: number for digest, number in self._connection.execute(query)})
        # sorted: the order of a set differs between processes, and numbers should not depend on it.
        new = sorted(set(texts) - found.keys())
        if new:
            first = (
                self._connection.execute(select(func.max(type_coerce(TEXTS_TABLE.c.id, Integer)))).scalar() or 0
            ) + 1
            added = {text: number for number, text in enumerate(new, first)}
            names = {text: digest for digest, text in digests.items()}
            rows = [{"id": number, "digest": names[text], "text": text} for text, number in added.items()]
            self._connection.execute(insert(TEXTS_TABLE), rows)
            found |= added
        return found
