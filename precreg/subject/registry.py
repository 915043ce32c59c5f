"""Kinds of subject by name. A package adds one with an entry point of the group "precreg.subjects"."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from precreg.subject.call import Call
from precreg.subject.kinds import BUILT_IN, entry_point
from precreg.subject.outputs import Outputs
from precreg.subject.surroundings import SurroundingsRestored

Kind = Callable[[Any, Call], Outputs]
"""A kind runs a spec, as the suite gives it, on a call."""


@cache
def kind(name: str) -> Kind:
    """Return the kind of that name. Raises UserError (unknown-subject-kind) when none or two packages bring it.

    Our own restore the surroundings of user code by themselves; for other kinds this does.
    """
    if name in BUILT_IN:
        built_in: Kind = import_module(BUILT_IN[name]).run
        return built_in
    loaded: Kind = entry_point(name).load()
    return _contained(loaded)


def _contained(run: Kind) -> Kind:
    def contained(spec: Any, call: Call) -> Outputs:
        with SurroundingsRestored():
            return run(spec, call)

    return contained
