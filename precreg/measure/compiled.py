"""The compiled core, if it was built, and from these sources."""

from __future__ import annotations

from precreg.measure import _core

__all__ = ["MEASURE_INTERFACE", "_core"]


MEASURE_INTERFACE = 2
"""Raised here and in core/module.cpp whenever what is passed to the core or comes back changes."""


if getattr(_core, "interface", None) != MEASURE_INTERFACE:
    raise ImportError("the core was built from other sources: install precreg anew (in a checkout: make)")
