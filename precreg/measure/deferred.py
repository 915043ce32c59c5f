"""Which fields of a comparison wait until somebody reads one of them?

The call that measures small arrays takes less time than their figures take to become objects of Python. So `compare`
leaves the figures in the compiled core. A read of any of DEFERRED_FIELDS computes all of them, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np

from precreg.measure.chunks import IN_PLACE_CHUNK, readable_in_place
from precreg.measure.comparison import (
    BACKENDS,
    compare_arrays,
    fields_found,
    native,
    select_backend,
)
from precreg.measure.metrics import Regions, regions_of
from precreg.measure.pairing import Pairing, pairing_of
from precreg.measure.tally import MeasuredFields
from precreg.storage import Array
from precreg.types import Comparison

# The fields that fields_found computes.
DEFERRED_FIELDS = MeasuredFields._fields
_SLOTS = {name: Comparison.__dict__[name] for name in DEFERRED_FIELDS}


class _Preparation(NamedTuple):
    """All of a call that does not depend on the elements of its arrays."""

    plan: Any
    pairing: Pairing
    regions: Regions


class PendingFigures:
    """The figures of one measurement, which nobody has read yet. They refer to no array."""

    # No tuple and no struct: msgspec would encode those, and encode a comparison without its figures in silence.
    __slots__ = ("_found", "_prepared")

    def __init__(self, found: object, prepared: _Preparation) -> None:
        self._found, self._prepared = found, prepared

    def fields(self) -> dict[str, Any]:
        """Return the values of DEFERRED_FIELDS."""
        return fields_found(self._found, self._prepared.pairing, self._prepared.regions)._asdict()


class DeferredComparison(Comparison, frozen=True):
    """A comparison whose figures nobody has read yet.

    At the first read of one of DEFERRED_FIELDS the object becomes a plain Comparison, with the fields that
    compare_arrays gives. Until then, each of them holds the same PendingFigures.
    """

    def __post_init__(self) -> None:
        """Check nothing: the core named the positions."""

    def __eq__(self, other: object) -> bool:
        """Compare the figures, as a Comparison does."""
        return complete_comparison(self) == other

    def __ne__(self, other: object) -> bool:
        """Compare the figures: a Struct has a comparison of its own for !=."""
        return complete_comparison(self) != other

    # As of a Comparison, whose dicts have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the text of the complete Comparison."""
        return repr(complete_comparison(self))

    def __rich_repr__(self) -> Any:
        """Return the fields of the complete Comparison, for rich and pytest."""
        return complete_comparison(self).__rich_repr__()

    def __reduce__(self) -> Any:
        """Pickle the complete Comparison: the core's results stay in their process."""
        return complete_comparison(self).__reduce__()


class _DeferredField:
    """A field of DeferredComparison in the place of a Comparison's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, comparison: DeferredComparison, owner: type) -> Any:
        return getattr(complete_comparison(comparison), self._name)

    def __set__(self, comparison: DeferredComparison, value: object) -> NoReturn:
        raise AttributeError(f"immutable type: {type(comparison).__name__!r}")


# msgspec reads the memory of a Struct, and encodes nothing that waits. Its TypeError has the name of the type alone.
PendingFigures.__name__ = "PendingFigures (first read them, as in: found.metrics; msgspec.json.encode(found))"

for _name in DEFERRED_FIELDS:
    setattr(DeferredComparison, _name, _DeferredField(_name))


def complete_comparison(comparison: Comparison) -> Comparison:
    """Compute the figures that wait, and return the same object, which is a plain Comparison from then on."""
    held = {name: slot.__get__(comparison) for name, slot in _SLOTS.items()}
    # A field that `replace` has set is no longer pending.
    pending = {name: value for name, value in held.items() if isinstance(value, PendingFigures)}
    if pending:
        fields = next(iter(pending.values())).fields()
        for name in pending:
            _SLOTS[name].__set__(comparison, fields[name])
    # Last, so that another thread meets either pending figures or all of them.
    object.__dict__["__class__"].__set__(comparison, Comparison)
    return comparison


def compare_on_demand(
    actual: Array,
    reference: Array,
    *,
    rtol: float,
    atol: float,
    worst: int,
    threads: int | None,
    regions: Mapping[str, float],
) -> Comparison:
    """Measure as compare_arrays does, and leave the figures of small arrays to their first reader.

    The arrays may change after the call. Raises UserError as compare_arrays does.
    """
    shape = actual.shape
    if 0 < actual.size <= IN_PLACE_CHUNK and shape == reference.shape and readable_in_place(actual, reference):
        prepared = _prepare(actual.dtype, reference.dtype, tuple(regions.items()))
        if prepared is not None and select_backend() is BACKENDS["native"]:
            (of_actual, of_reference), pairing = prepared.plan.views, prepared.pairing
            a = actual if of_actual is None else actual.view(of_actual)
            r = reference if of_reference is None else reference.view(of_reference)
            wait = PendingFigures(prepared.plan.measure(a, r, 0, shape, rtol, atol, worst), prepared)
            return DeferredComparison(
                *("out", 0, pairing.dtype, shape, pairing.reference_dtype, shape),
                *(wait, wait, wait, wait, wait, wait, wait, wait),  # type: ignore[arg-type]
            )
    return compare_arrays(actual, reference, rtol=rtol, atol=atol, worst=worst, threads=threads, regions=regions)


@cache
def _prepare(
    actual: np.dtype[Any], reference: np.dtype[Any], regions: tuple[tuple[str, float], ...]
) -> _Preparation | None:
    """Prepare for a pair of dtypes; None if the core does not serve it. Raises UserError as pairing_of does."""
    plan = native.native_plan(actual, reference, regions) if native is not None else None
    pairing = pairing_of(actual, reference)
    return None if plan is None else _Preparation(plan, pairing, regions_of(pairing.dtype, regions))
