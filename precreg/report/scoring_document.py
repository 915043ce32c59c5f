"""Scores as JSON. A growth from no error at all is "inf", because JSON has no number for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Any

from msgspec import json, to_builtins

from precreg.quality.score import Score, Unplanted
from precreg.quality.tally import Tally, tallies, tally
from precreg.types.types import TIERS

SCHEMA = "precreg-scores/1"


def document(scores: Sequence[Score], unplanted: Sequence[Unplanted]) -> str:
    """Return everything that is known: tallies per tier, over all and per fault, every score, and what was left out."""
    tiers = tallies(scores, lambda score: score.tier, TIERS)
    faults = tallies(scores, lambda score: score.fault, dict.fromkeys(score.fault for score in scores))
    content = {
        "schema": SCHEMA,
        "tiers": list(map(_tally, tiers)),
        "all": _tally(tally("all", scores)),
        "faults": list(map(_tally, faults)),
        "scores": list(map(_score, scores)),
        "unplanted": to_builtins(unplanted),
    }
    return json.format(json.encode(content), indent=2).decode()


def _tally(row: Tally) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(row)
    return {
        key: {**value, "ratio": getattr(row, key).ratio} if isinstance(value, dict) else value
        for key, value in plain.items()
    }


def _score(score: Score) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(score)
    return {**plain, "factor": "inf"} if score.factor is not None and isinf(score.factor) else plain
