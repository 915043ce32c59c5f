"""Which options choose the loss scales, per-tensor scales and limits of clipping that a training is measured at?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.training import GradientGauges, StepGradients
    from precreg.types import GradientLosses


def _norms(_context: click.Context, _option: click.Parameter, norms: tuple[float, ...]) -> tuple[float, ...]:
    for norm in norms:
        if not isfinite(norm) or norm <= 0:
            raise UserError("bad-value", f"expected a positive norm but got clip={norm:g}", hint="limit it: --clip 1.0")
    return norms


_OPTIONS = (
    click.option("--scales", is_flag=True, help="Measure loss scales 2^0 to 2^24, and clipping."),
    click.option(
        "--format", "format_name", default="float16", show_default=True, metavar="NAME", help="Format of the gradients."
    ),
    click.option("--tensor-format", metavar="NAME", help="Measure per-tensor scales of a format, such as e4m3fn."),
    click.option(
        "--clip", "norms", type=float, multiple=True, metavar="NORM", callback=_norms, help="A norm to clip at, too."
    ),
)


class LossOptions(NamedTuple):
    """Hold what to measure of the gradients beside their figures."""

    scales: bool
    format_name: str
    tensor_format: str | None
    norms: tuple[float, ...]

    @property
    def is_chosen(self) -> bool:
        """Return whether any loss is to be measured."""
        return self.scales or self.tensor_format is not None or bool(self.norms)

    def gauges(self) -> GradientGauges:
        """Return the gauges for live or stored gradients.

        Raises:
            UserError: unknown-format or bad-format.
        """
        from precreg.training import GradientGauges

        return GradientGauges(self.format_name, tensor_format=self.tensor_format, norms=self.norms)

    def measure(self, steps: Iterable[StepGradients]) -> GradientLosses:
        """Measure steps that are read one at a time.

        Raises:
            UserError: unknown-format, bad-format, or as the reader of the steps does.
        """
        gauges = self.gauges()
        for gradients in steps:
            gauges.add(gradients)
        return gauges.result()


def gradient_loss_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --scales, --format, --tensor-format and --clip; the command gets them as `losses`."""

    @wraps(command)
    def with_losses(
        *given: Any, scales: bool, format_name: str, tensor_format: str | None, norms: tuple[float, ...], **others: Any
    ) -> None:
        command(*given, losses=LossOptions(scales, format_name, tensor_format, norms), **others)

    for option in reversed(_OPTIONS):
        with_losses = option(with_losses)
    return with_losses
