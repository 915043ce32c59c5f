"""Calibrations as JSON. What is infinite (a metric that is not defined, an error against a tolerance of 0) is null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import json, to_builtins

from precreg.quality.calibrated import Calibrated, Uncalibrated
from precreg.quality.quality import MOST_LIKELY, Margins
from precreg.quality.summary import counts

SCHEMA = "precreg-calibration/1"


def document(found: Sequence[Calibrated], left_out: Sequence[Uncalibrated], replicates: int, margins: Margins) -> str:
    """Return everything that is known: what was asked, how many bounds are of which quality, every case."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "replicates": replicates,
        "slack": margins.slack,
        "vacuous_above": margins.vacuous,
        "flaky_above_chance": MOST_LIKELY,
        "bounds": counts(found),
        "cases": to_builtins(found),
        "left_out": to_builtins(left_out),
    }
    return json.format(json.encode(content), indent=2).decode()
