"""Kinds of subject by name. A package adds one with an entry point of the group "precreg.subjects"."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from precreg.errors import UserError, nearest
from precreg.subject.call import Call
from precreg.subject.outputs import Outputs
from precreg.subject.surroundings import SurroundingsRestored

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "precreg.subjects"
Kind = Callable[[Any, Call], Outputs]
"""A kind runs a spec, as the suite gives it, on a call."""

_BUILT_IN = {"python": "precreg.subject.python", "files": "precreg.subject.files"}


@cache
def kind(name: str) -> Kind:
    """Return the kind of that name. Raises UserError (unknown-subject-kind) when none or two packages bring it.

    Our own names are reserved: no package can take them, so they are resolved without reading the metadata of
    every installed package (17 ms). They restore the surroundings of user code; for other kinds this does.
    """
    if name in _BUILT_IN:
        built_in: Kind = import_module(_BUILT_IN[name]).run
        return built_in
    loaded: Kind = _entry_point(name).load()
    return _contained(loaded)


def _contained(run: Kind) -> Kind:
    def contained(spec: Any, call: Call) -> Outputs:
        with SurroundingsRestored():
            return run(spec, call)

    return contained


def _entry_point(name: str) -> EntryPoint:
    from importlib.metadata import entry_points

    installed = entry_points(group=ENTRY_POINT_GROUP)
    found = [point for point in installed if point.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        brought = " and ".join(sorted(point.value for point in found))
        raise UserError("unknown-subject-kind", f"expected one kind of subject named {name} but got {brought}")
    near = nearest(name, {*_BUILT_IN, *installed.names})
    raise UserError("unknown-subject-kind", f"expected an installed kind of subject but got kind={name}{near}")
