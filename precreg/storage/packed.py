"""How does a value that is seldom read wait in little memory?

A packed value is the JSON of a list or a mapping, compressed. It behaves as the list or the mapping that it holds, and
unpacks at each use. A record takes its JSON as it is. Decoded objects take some ten times the memory of their JSON, and
JSON of figures some ten times that of its compressed bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

import msgspec

from precreg.storage.conversion import DataError

_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)

# Level 1 packs 40 MB of figures a second more than level 6, and the bytes are 10 % longer.
_LEVEL = 1


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


# zlib uses so many bytes of a dictionary at most.
MOST_WORDS = 1 << 15
_WORDS: dict[Any, bytes] = {}


# The bytes of data and words that zlib sees at once, and the size of its tables, as powers of two.
_SMALL_WINDOW, _SMALL_TABLES = 13, 6


def pack_bytes(data: bytes, words: bytes) -> bytes:
    """Return compressed bytes; zlib searches the last 32 KiB of `words` for the same words."""
    # zlib clears 260 KiB for each object by default, and the figures of a tiny case have 3 KiB. A window that holds
    # data and words finds the same words in two thirds of the time (300 bytes, level 1).
    is_small = len(data) + len(words) < 1 << _SMALL_WINDOW
    window, tables = (_SMALL_WINDOW, _SMALL_TABLES) if is_small else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, tables, zdict=words)
    return packer.compress(data) + packer.flush()


def unpack_bytes(packed: bytes, words: bytes, max_bytes: int = 0) -> bytes:
    """Return the bytes that `pack_bytes` compressed with the same words; 0 limits nothing.

    Raises ValueError for others, and for more than `max_bytes`.
    """
    unpacker = zlib.decompressobj(zdict=words)
    try:
        data = unpacker.decompress(packed, max_bytes)
    except zlib.error as problem:
        raise ValueError(str(problem)) from problem
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("compressed bytes of another length")
    return data


class _Packed:
    """Hold compressed JSON and the type of its value."""

    __slots__ = ("_data", "_kind", "_words")
    # Stages read the same value several times in a row, and then turn to the next one.
    _latest: ClassVar[tuple[Any, Any]] = (None, None)

    def __init__(self, value: Any, kind: Any) -> None:
        data = encode_json(value)
        # Values of one type repeat its names, so the first value of the process serves as dictionary for the others.
        self._words = _WORDS.setdefault(kind, data[-MOST_WORDS:])
        self._data = pack_bytes(data, self._words)
        self._kind = kind

    def json(self) -> bytes:
        """Return the JSON of the value."""
        return unpack_bytes(self._data, self._words)

    def unpack(self) -> Any:
        """Return the value. Nobody may change it."""
        holder, value = _Packed._latest
        if holder is not self:
            value = _decoder(self._kind).decode(self.json())
            _Packed._latest = (self, value)
        return value

    def __eq__(self, other: object) -> bool:
        return bool(self.unpack() == (other.unpack() if isinstance(other, _Packed) else other))

    __hash__ = None  # type: ignore[assignment]  # as a list or a dict has none

    def __len__(self) -> int:
        return len(self.unpack())

    def __repr__(self) -> str:
        return repr(self.unpack())


class _PackedSequence(_Packed, Sequence[Any]):
    __slots__ = ("is_reduced", "outline")

    def __init__(self, value: Any, kind: Any, *, is_reduced: bool, outline: object) -> None:
        super().__init__(value, kind)
        self.is_reduced, self.outline = is_reduced, outline

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self.unpack()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unpack())


class _PackedMapping(_Packed, Mapping[str, Any]):
    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return self.unpack()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.unpack())


def pack_tuple(
    values: tuple[_T, ...], kind: type[_T], *, reduced: bool = False, outline: object = None
) -> tuple[_T, ...]:
    """Return structs of one type as a packed sequence. It has the reading methods of a tuple.

    `is_reduced` returns the mark `reduced` without unpacking: the structs lack members that the caller left out. The
    sequence has the attribute `outline`, which readers of all values use without unpacking.
    """
    if not values or isinstance(values, _Packed):
        return values
    return cast("tuple[_T, ...]", _PackedSequence(values, tuple[kind, ...], is_reduced=reduced, outline=outline))  # type: ignore[valid-type]


def pack_dict(values: dict[str, _T], kind: Any) -> dict[str, _T]:
    """Return a dict, whose values are of the type `kind`, as a packed mapping. It has the reading methods of a dict."""
    if not values or isinstance(values, _Packed):
        return values
    return cast("dict[str, _T]", _PackedMapping(values, dict[str, kind]))


class StructPacker(Generic[_S]):
    """Pack structs of one type, each by itself."""

    def __init__(self, kind: type[_S]) -> None:
        self._decoder, self._words = msgspec.msgpack.Decoder(kind), b""

    def pack(self, value: _S) -> bytes:
        """Return the packed bytes of a struct. Raises DataError for an integer of more than 64 bits."""
        try:
            data = msgspec.msgpack.encode(value)
        except OverflowError:
            raise DataError("bad-value", "expected integers of at most 64 bits but got a larger one") from None
        self._words = self._words or data[-MOST_WORDS:]
        return pack_bytes(data, self._words)

    def unpack(self, packed: bytes) -> _S:
        """Return the struct of packed bytes."""
        return self._decoder.decode(unpack_bytes(packed, self._words))


class PackedEach(Mapping[str, _S]):
    """Hold structs by name as packed bytes. Reading one unpacks it anew."""

    def __init__(self, packer: StructPacker[_S], packed: dict[str, bytes]) -> None:
        self._packer, self._packed = packer, packed

    def __getitem__(self, name: str) -> _S:
        return self._packer.unpack(self._packed[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def unpack_struct(value: _S) -> _S:
    """Return a struct whose members may be packed without a packed one."""
    return cast("_S", _decoder(type(value)).decode(encode_json(value)))


def is_reduced(values: object) -> bool:
    """Return whether a value is a packed sequence with the mark."""
    return isinstance(values, _PackedSequence) and values.is_reduced


def encode_json(value: Any) -> bytes:
    """Return the JSON of a value whose members may be packed."""
    return msgspec.json.encode(value, enc_hook=_packed_json)


def _packed_json(value: Any) -> msgspec.Raw:
    if isinstance(value, _Packed):
        return msgspec.Raw(value.json())
    raise NotImplementedError(f"no JSON for {type(value).__name__}")
