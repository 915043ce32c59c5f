"""Gradients of steps, made for tests."""

from typing import NamedTuple


class MadeStep(NamedTuple):
    step: int
    arrays: dict
    scale: float = 1.0
    loss: float | None = None
    formats: dict = {}  # noqa: RUF012
