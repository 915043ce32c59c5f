"""Layouts of the structs that Python packs for a compiled core, and the check that its names are the expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

_TYPES = {"bool": "?", "int32_t": "i4", "int64_t": "i8", "double": "f8"}


def structs_of(core: ModuleType, expected: Mapping[str, Iterable[str]]) -> dict[str, np.dtype[Any]]:
    """Return a dtype for each struct that a core declares, with the layout of its C++ compiler.

    `expected` has the names in each declaration, in order. Raises ImportError for a core that declares others: it was
    built from other sources.
    """
    declared: dict[str, str] = getattr(core, "declarations", {})
    found = {name: [field for field, _ in _fields(text)] for name, text in declared.items()}
    if found != {name: [*fields] for name, fields in expected.items()}:
        raise ImportError("the core was built from other sources: install precreg anew (in a checkout: make)")
    types: dict[str, Any] = dict(_TYPES)
    for name, text in declared.items():
        fields = [(field, types[kind]) for field, kind in _fields(text) if kind]
        types[name] = np.dtype(fields, align=True) if fields else types["int32_t"]  # align: as C++ pads members
    return {name: dtype for name, dtype in types.items() if isinstance(dtype, np.dtype)}


def _fields(declaration: str) -> list[tuple[str, str]]:
    """Return the names in a declaration and their C++ types: empty types in an enum.

    >>> _fields("Kind actual, reference; double rtol;")
    [('actual', 'Kind'), ('reference', 'Kind'), ('rtol', 'double')]
    >>> _fields("absolute, signed_")
    [('absolute', ''), ('signed', '')]
    """
    if ";" not in declaration:
        # C++ keywords cannot be names: C++ writes signed_ for signed.
        return [(name.strip().rstrip("_"), "") for name in declaration.split(",")]
    members = (member.split(maxsplit=1) for member in declaration.split(";") if member.strip())
    return [(name.strip(), kind) for kind, names in members for name in names.split(",")]
