"""How does plain data of YAML or JSON become a struct, and which mistakes does it have?

msgspec reports a mistake as an English sentence alone. A walk over the fields gives its kind, its path and a message
of precreg, so that no message depends on the words of msgspec.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from precreg.errors import EXAMPLES, MAX_CHOICES, key_hint, nearest
from precreg.storage.yaml_source import KeyPath, Source, expect_mapping, format_typed_value

_T = TypeVar("_T")

# The words for a kind of value in messages: authors write YAML and need not know Python's names.
_KIND_WORDS: dict[type[inspect.Type], str] = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.NamedTupleType: "a list",
    inspect.DictType: "a mapping",
    inspect.StructType: "a mapping",
}

# YAML and JSON give these Python types. They are compared exactly: a bool is an int in Python, but "seeds: true" is a
# mistake.
_PYTHON_TYPES: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.StrType: (str,),
    inspect.BoolType: (bool,),
    inspect.ListType: (list,),
    inspect.VarTupleType: (list,),
    inspect.NamedTupleType: (list,),
    inspect.DictType: (dict,),
    inspect.StructType: (dict,),
}

_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "ge": (">=", operator.ge),
    "gt": (">", operator.gt),
    "le": ("<=", operator.le),
    "lt": ("<", operator.lt),
}


class DataError(Exception):
    """A mistake in plain data: the slug of its UserError, a message, and the path of the value or of its mapping."""

    def __init__(self, slug: str, message: str, *path: str | int, hint: str = "") -> None:
        super().__init__(message)
        self.slug, self.message, self.path, self.hint = slug, message, path, hint


def convert_source(source: Source, kind: type[_T]) -> _T:
    """Convert the plain data of a file to a struct.

    Raises UserError for the first mistake in the file: unknown-key, missing-key, bad-value.
    """
    if source.data is None:
        raise source.error(
            "bad-value",
            "expected a mapping but the file is empty",
            hint="write a suite: docs/suites.md begins with one",
        )
    expect_mapping(source, source.data)
    try:
        return convert_data(source.data, kind)
    except DataError as mistake:
        raise source.error(mistake.slug, mistake.message, *mistake.path, hint=mistake.hint) from None


def convert_data(data: Any, kind: type[_T]) -> _T:
    """Convert plain data to a struct, or to a dict of a type. Raises DataError for the first mistake in the data."""
    try:
        return msgspec.convert(data, kind)
    # msgspec quotes texts in its messages, and cannot if they have lone surrogates.
    except (msgspec.ValidationError, UnicodeEncodeError):
        mistake = next(find_mistakes(data, kind), None)
        # A test compares the walk with msgspec, so that it finds whatever msgspec refuses.
        raise mistake or _bad_value(f"expected data of {kind.__name__}", data, ()) from None


def find_mistakes(data: Any, kind: type) -> Iterator[DataError]:
    """Yield the mistakes in plain data that should become a value of a type, in the order of the data."""
    return _in_value(_type_info(kind), data, ())


# Kept: it takes 3 ms for a suite and 4 ms for a proposal (20 calls on a two-core server), at each mistaken file.
@cache
def _type_info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _in_value(expected: inspect.Type, value: Any, path: KeyPath) -> Iterator[DataError]:
    shapes = [_bare(each) for each in getattr(_bare(expected), "types", (expected,))]
    optional = any(isinstance(shape, inspect.NoneType) for shape in shapes)
    shapes = [shape for shape in shapes if not isinstance(shape, inspect.NoneType)]
    if (optional and value is None) or isinstance(shapes[0], inspect.AnyType):
        return
    if type(value) is dict and getattr(shapes[0], "tag", None) is not None:
        yield from _in_tagged(shapes, value, path)
        return
    # Other unions than `X | None` are `int | float`, whose last type has the words for both.
    words = [_describe_mismatch(shape, value, optional=optional) for shape in shapes]
    if None not in words:
        yield _bad_value(f"expected {words[-1]}", value, path)
        return
    yield from _inside(shapes[words.index(None)], value, path)


def _in_tagged(shapes: list[Any], value: dict[str, Any], path: KeyPath) -> Iterator[DataError]:
    """Yield the mistakes in the struct that the tag of a mapping names; one struct alone needs no tag."""
    field = shapes[0].tag_field
    if field not in value and len(shapes) > 1:
        yield _missing_key((*path, field))
        return
    named = [shape for shape in shapes if value.get(field, shape.tag) == shape.tag]
    if named:
        yield from _inside(named[0], value, path)
    else:
        yield _bad_value(f"expected {' or '.join(shape.tag for shape in shapes)}", value[field], (*path, field))


def _bare(shape: inspect.Type) -> inspect.Type:
    return shape.type if isinstance(shape, inspect.Metadata) else shape


def _bad_value(expected: str, value: Any, path: KeyPath) -> DataError:
    name = f"{_dotted(path)}=" if path else ""
    return DataError("bad-value", f"{expected} but got {name}{format_typed_value(value)}", *path)


def _missing_key(path: KeyPath) -> DataError:
    hint = f"add it: {EXAMPLES.get(str(path[-1]), f'{path[-1]}: ...')}"
    return DataError("missing-key", f"expected {_dotted(path)}: but the key is not there", *path[:-1], hint=hint)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _inside(shape: inspect.Type, value: Any, path: KeyPath) -> Iterator[DataError]:
    """Yield the mistakes in the items of a list, or in the values of a mapping."""
    if isinstance(shape, inspect.ListType | inspect.VarTupleType):
        for index, item in enumerate(value):
            yield from _in_value(shape.item_type, item, (*path, index))
    elif isinstance(shape, inspect.DictType):
        for key, item in value.items():
            yield from _in_value(shape.value_type, item, (*path, key))
    elif isinstance(shape, inspect.StructType | inspect.NamedTupleType):
        found = False
        for mistake in _in_list(shape, value, path) if _is_list(shape) else _in_mapping(shape, value, path):
            found = True
            yield mistake
        if not found:
            yield from _contradiction(shape.cls, value, path)


def _in_list(
    shape: inspect.StructType | inspect.NamedTupleType, value: list[Any], path: KeyPath
) -> Iterator[DataError]:
    for each, item in zip(shape.fields, value, strict=False):
        yield from _in_value(each.type, item, (*path, each.encode_name))


def _in_mapping(
    shape: inspect.StructType | inspect.NamedTupleType, value: dict[str, Any], path: KeyPath
) -> Iterator[DataError]:
    known = {each.encode_name: each for each in shape.fields}
    for key, item in value.items():
        here = (*path, key)
        if key in known:
            yield from _in_value(known[key].type, item, here)
        elif getattr(shape, "forbid_unknown_fields", False):
            near = nearest(str(key), known)
            # A suite has more than 30 keys: their list would hide the nearest one.
            names = "a known key" if near and len(known) >= MAX_CHOICES else f"one of {', '.join(known)}"
            message = f"expected {names} but got {_dotted(here)}={format_typed_value(item)}{near}"
            yield DataError("unknown-key", message, *here, hint=key_hint(str(key), known))
    for key, each in known.items():
        if each.required and key not in value:
            yield _missing_key((*path, key))


def _contradiction(cls: type, value: Any, path: KeyPath) -> Iterator[DataError]:
    """Yield the ValueError of a struct whose fields are right one by one, but contradict each other."""
    try:
        msgspec.convert(value, cls)
    except msgspec.ValidationError as problem:
        if isinstance(problem.__cause__, ValueError):
            place = f"{_dotted(path)}: " if path else ""
            yield DataError("bad-value", f"{place}{problem.__cause__}", *path)


def _is_list(shape: inspect.Type) -> bool:
    """Return whether the fields of a struct or a named tuple come in a list without their names."""
    return isinstance(shape, inspect.NamedTupleType) or getattr(shape, "array_like", False)


def _describe_mismatch(shape: inspect.Type, value: Any, *, optional: bool) -> str | None:
    """Return the expected kind of value in words, or None where the value is of that kind."""
    if isinstance(shape, inspect.LiteralType):
        return None if value in shape.values else " or ".join(str(each) for each in shape.values)
    if isinstance(shape, inspect.EnumType):
        values = [each.value for each in shape.cls]
        return None if value in values else " or ".join(map(str, values))
    in_list = _is_list(shape)
    words = "a list" if in_list else _KIND_WORDS[type(shape)]
    if type(value) not in ((list,) if in_list else _PYTHON_TYPES[type(shape)]):
        return f"{words} or null" if optional else words
    if isinstance(value, list):
        return _describe_length(shape, len(value)) if in_list else _describe_least(shape, len(value))
    if isinstance(shape, inspect.StrType) and shape.pattern is not None and not re.search(shape.pattern, value):
        return f"{words} matching regex {shape.pattern!r}"
    if isinstance(shape, inspect.IntType | inspect.FloatType):
        for name, (symbol, holds) in _COMPARISONS.items():
            limit = getattr(shape, name)
            if limit is not None and not holds(value, limit):
                return f"{words} {symbol} {limit}"
    # .inf is a float, whole numbers have no limit in YAML
    if isinstance(shape, inspect.FloatType) and isinstance(value, int) and abs(value) > sys.float_info.max:
        return "a finite number"
    return None


def _describe_least(shape: Any, length: int) -> str | None:
    """Return the expected length of a list in words, or None for a list that is long enough."""
    least = shape.min_length or 0
    return f"a list of length >= {least}" if length < least else None


def _describe_length(shape: Any, length: int) -> str | None:
    """Return the expected length of a list of fields in words, or None for a right one."""
    required, every = sum(each.required for each in shape.fields), len(shape.fields)
    too_long = length > every and getattr(shape, "forbid_unknown_fields", True)
    return f"a list of {every} values" if length < required or too_long else None
