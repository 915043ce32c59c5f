"""A fault as a value: what goes wrong, where it can, and the alteration with its figures."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

Place = Literal["operations", "inputs", "params"]

Kind = Literal[
    "addition",
    "multiplication",
    "division",
    "root",
    "function",
    "series",
    "sum",
    "running sum",
    "product",
    "narrowing",
    "epsilon",
    "subnormal",
    "infinity",
    "nan",
]
"""A kind of operation, or of number, that a subject meets; fault/recorder.py tells which it does."""


class Fault(Struct, frozen=True):
    """A change to how a case is computed: a fault, or where it is not `harmful` one that no gate should mind.

    `source` is the kind of error it stands for, and `about` what it does. It alters the subject's operations, its
    inputs or its params (`place`), by the alteration of that name with those options. `where` says in words what it
    can act on, and `needs` names the kinds, one of which a subject must meet for its operations to be altered at all.
    """

    name: str
    source: str
    about: str
    where: str
    place: Place
    alteration: str
    options: dict[str, float | str] = field(default_factory=dict)
    needs: tuple[Kind, ...] = ()
    harmful: bool = True
