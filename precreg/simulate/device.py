"""A device as a value."""

from __future__ import annotations

from msgspec import Struct


class Device(Struct, frozen=True):
    """What a simulated device computes with."""

    name: str
    about: str = ""
