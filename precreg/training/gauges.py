"""What do loss scales, per-tensor scales and clipping lose, in one pass over the gradients of the steps?"""

from __future__ import annotations

from collections.abc import Iterable

from precreg.training.clipping import ClippingGauge, find_clipped_before_unscale
from precreg.training.gradients import StepGradients
from precreg.training.loss_scale import LossScaleGauge
from precreg.training.scaler import summarize_scaler
from precreg.training.tensor_scale import TensorScaleGauge
from precreg.types import ClippedStep, GradientLosses, ScalerPoint


class GradientGauges:
    """Feed each step's gradients to the chosen gauges, stored and live gradients alike."""

    def __init__(
        self, format: str = "float16", *, tensor_format: str | None = None, norms: Iterable[float] | None = None
    ) -> None:
        """Choose the format of the loss scales, of the per-tensor scales, and the limits of clipping.

        Without `tensor_format` there are no per-tensor scales, and without `norms` no effects of clipping. No norms
        (an empty tuple) leave the quantiles of the observed ones.

        Raises:
            UserError: unknown-format or bad-format.
        """
        self._loss_scale = LossScaleGauge(format)
        self._tensor_scales = None if tensor_format is None else TensorScaleGauge(tensor_format)
        self._clipping = None if norms is None else ClippingGauge(norms)
        self._scales: list[ScalerPoint] = []

    def add(self, gradients: StepGradients) -> None:
        """Measure the gradients of one step."""
        is_finite = self._loss_scale.add(gradients)
        self._scales.append(ScalerPoint(gradients.step, gradients.scale, not is_finite))
        if self._tensor_scales is not None:
            self._tensor_scales.add(gradients)
        if self._clipping is not None:
            self._clipping.add(gradients)

    def result(self, scaler: Iterable[ScalerPoint] = (), clips: Iterable[ClippedStep] = ()) -> GradientLosses:
        """Return the losses of the steps so far, with the facts of a scaler's history and of its clippings.

        Without a history, the scales of the measured steps stand for it: a scaler skips a step that is not finite.
        """
        scales = tuple(scaler)
        if not scales and any(point.scale != 1 for point in self._scales):
            scales = tuple(self._scales)
        return GradientLosses(
            loss_scale=self._loss_scale.result(),
            tensor_scales=None if self._tensor_scales is None else self._tensor_scales.result(),
            clipping=None if self._clipping is None else self._clipping.result(),
            clip_order=find_clipped_before_unscale(clips),
            scales=scales,
            scaler=summarize_scaler(scales),
        )
