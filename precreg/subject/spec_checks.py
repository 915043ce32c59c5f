"""Does a suite name a function, and options that the kind of its subject has?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from precreg.errors import key_hint, nearest
from precreg.storage import format_value
from precreg.subject.kind import SpecPlace


def require_target(value: Any, place: SpecPlace, *, expected: str, hint: str) -> str:
    """Return the value of a kind's key, which names a function that exists.

    `expected` is its form, such as module:make. Raises UserError: bad-value, and as `place.require_function`.
    """
    if not isinstance(value, str):
        raise place.error("bad-value", f"expected {expected} but got {format_value(value)}", hint=hint)
    place.require_function(value)
    return value


def require_option(name: str, known: Collection[str], place: SpecPlace, *, of: str) -> None:
    """Refuse an option that a kind does not have. Raises UserError: unknown-key."""
    if name not in known:
        message = f"expected an option of {of} ({', '.join(known)}) but got {name}{nearest(name, known)}"
        raise place.error("unknown-key", message, name, hint=key_hint(name, known))
