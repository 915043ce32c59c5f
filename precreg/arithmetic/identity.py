"""Do dictionaries still have the same objects as their values?

precreg asks this of whole modules after each case, so the compiled core answers. Without it, Python compares.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

# A dictionary, and the identities that its values had.
Identities = Any
Pairs = list[tuple[dict[Any, Any], Identities]]


def identities_in_python(dictionary: dict[Any, Any]) -> Identities:
    """Return the values of a dictionary, for `same_values_in_python`."""
    return tuple(dictionary.values())


def same_values_in_python(pairs: Pairs) -> bool:
    """Return True if each dictionary has the same objects as values, in the same order."""
    return all(
        len(dictionary) == len(values) and all(map(is_, dictionary.values(), values)) for dictionary, values in pairs
    )


def _choose() -> tuple[Callable[[dict[Any, Any]], Identities], Callable[[Pairs], bool]]:
    try:
        from precreg.arithmetic import _core
    except ImportError:
        return identities_in_python, same_values_in_python
    # A core that was built from earlier sources has neither.
    if not hasattr(_core, "same_values"):
        return identities_in_python, same_values_in_python
    return _core.identities, _core.same_values


# `same_values` compares with what `identities` returned. The caller keeps the values alive in the meantime.
identities, same_values = _choose()
