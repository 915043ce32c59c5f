"""How does a terminal show what loss scales, per-tensor scales and clipping lose?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from precreg.report.layout import format_columns
from precreg.report.training.clip_sentences import CLIP_COLUMNS, clip_rows, describe_clip_order, describe_clipping
from precreg.report.training.scale_sentences import (
    SCALE_COLUMNS,
    TENSOR_COLUMNS,
    describe_loss_scale,
    describe_scaler,
    describe_tensor_scales,
    scale_rows,
    tensor_rows,
)
from precreg.types import GradientLosses

# A terminal shows the worst rows, and the JSON all.
_MAX_ROWS = 12
# A narrow terminal leaves these columns out, in this order.
_SPARE = ("gradients", "largest", "unscaled", "beyond", "zero unscaled", "from", "sum length", "fits up to", "least")


def gradient_losses_json(found: GradientLosses) -> bytes:
    """Return the losses as one line of JSON. NaN and infinities are null."""
    from msgspec import json

    return json.encode(found) + b"\n"


def gradient_loss_lines(found: GradientLosses, width: int | None = None, max_rows: int = _MAX_ROWS) -> list[str]:
    """Return the lines of each part that was measured: a heading, its sentences, and its table."""
    lines: list[str] = []
    for title, sentences, table in _parts(found, width, max_rows):
        lines += ["", title, *(f"  {sentence}" for sentence in sentences), *(f"  {line}" for line in table)]
    return lines[1:]


def _parts(found: GradientLosses, width: int | None, max_rows: int) -> Iterator[tuple[str, list[str], list[str]]]:
    def table(columns: Sequence[str], rows: Sequence[Sequence[str]], shown: int = max_rows) -> list[str]:
        # Two columns of indentation.
        room = None if width is None else width - 2
        return format_columns(columns, rows, shown, room, spare=_SPARE) if rows else []

    if found.loss_scale is not None:
        sentences = describe_loss_scale(found.loss_scale)
        yield "loss scale", sentences, table(SCALE_COLUMNS, scale_rows(found.loss_scale))
        yield "scaler", describe_scaler(found.scaler), []
    if found.tensor_scales is not None:
        sentences = describe_tensor_scales(found.tensor_scales)
        yield "per-tensor scales", sentences, table(TENSOR_COLUMNS, tensor_rows(found.tensor_scales))
    if found.clip_order is not None or found.clipping is not None:
        effects = [] if found.clipping is None else describe_clipping(found.clipping)
        rows = [] if found.clipping is None else clip_rows(found.clipping)
        yield "clipping", [*describe_clip_order(found.clip_order), *effects], table(CLIP_COLUMNS, rows, len(rows))
