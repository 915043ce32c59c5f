"""Which figures do stored gradients have, without torch and one step at a time?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, sqrt

from precreg.arithmetic import FORMATS, Format, dtype_name, format_named
from precreg.errors import UserError
from precreg.storage import Array
from precreg.training.gradients import StepGradients
from precreg.training.values import ValueSums, array_sums, exponent_of
from precreg.types import ParameterFigures, ScalerPoint, StepLoss, TrainingEvent, TrainingRecord, TrainingStep


def record_of_gradients(
    name: str, steps: Iterable[StepGradients], *, elements: int | None = None, format: str | None = None, every: int = 1
) -> TrainingRecord:
    """Return the figures of every Nth step.

    Args:
        name: the name of the source in reports.
        steps: the gradients, unscaled.
        elements: the most elements of a parameter to measure; None measures all.
        format: the format whose range counts; by default that in which a gradient was stored.
        every: measure the first step and every Nth after it.

    Raises:
        UserError: unknown-format; no-gradients if no step has a floating-point array; and as `steps` does.
    """
    chosen = None if format is None else format_named(format)
    found: list[TrainingStep] = []
    losses: list[StepLoss] = []
    scales: list[ScalerPoint] = []
    events: dict[tuple[str, str], TrainingEvent] = {}
    begun = 0
    for gradients in steps:
        if gradients.loss is not None:
            losses.append(StepLoss(gradients.step, gradients.loss if isfinite(gradients.loss) else None))
        if gradients.scale != 1.0:
            scales.append(ScalerPoint(gradients.step, gradients.scale, False))
        if begun % every == 0:
            found.append(_step_of(gradients, chosen, elements, events))
        begun += 1
    _require_gradients(found, name, begun)
    return TrainingRecord(
        model=name,
        every=every,
        begun=begun,
        steps=tuple(found),
        losses=tuple(losses),
        scales=tuple(scales),
        events=tuple(events.values()),
    )


def _require_gradients(found: Sequence[TrainingStep], name: str, begun: int) -> None:
    if not any(step.parameters for step in found):
        counted = f"{begun:,} step{'' if begun == 1 else 's'}"
        raise UserError(
            "no-gradients",
            f"expected gradients in {name} but got no floating-point array in {counted}",
            hint="store them by name: numpy.savez('g.npz', "
            "**{n: p.grad.float().numpy() for n, p in model.named_parameters() if p.grad is not None})",
        )


def _step_of(
    gradients: StepGradients,
    chosen: Format | None,
    elements: int | None,
    events: dict[tuple[str, str], TrainingEvent],
) -> TrainingStep:
    parameters = []
    for name, values in gradients.arrays.items():
        if dtype_name(values.dtype) not in FORMATS:
            _note(events, TrainingEvent(kind="not_measured", step=gradients.step, name=name, detail=str(values.dtype)))
            continue
        format = chosen or FORMATS[gradients.formats.get(name, dtype_name(values.dtype))]
        sums, power = _sums(values, format, elements, gradients.scale)
        figures = sums.figures(format.name, power)
        parameters.append(ParameterFigures(parameter=name, shape=values.shape, gradient=figures))
        if sums.nan or sums.inf:
            _note(events, TrainingEvent(kind="nonfinite", step=gradients.step, name=name, phase="gradient"))
        if sums.measured < sums.elements:
            detail = f"{sums.measured} of {sums.elements}"
            _note(events, TrainingEvent(kind="sampled", step=gradients.step, name=name, detail=detail))
    known = [each.gradient for each in parameters if each.gradient is not None]
    norm = sqrt(sum(each.norm**2 for each in known))
    is_finite = bool(known) and isfinite(norm) and not any(each.nan or each.inf for each in known)
    return TrainingStep(
        step=gradients.step,
        loss=gradients.loss if gradients.loss is not None and isfinite(gradients.loss) else None,
        scale=gradients.scale,
        gradient_norm=norm if is_finite else None,
        parameters=tuple(parameters),
    )


def _sums(values: Array, format: Format, elements: int | None, scale: float) -> tuple[ValueSums, float]:
    """Return the sums of the gradients times their loss scale, and the scale's power of two."""
    if scale == 1.0:
        return array_sums(values, format, elements), 1.0
    # In float64 a product with a scale of at most 24 bits is exact.
    power = 2.0 ** exponent_of(scale)
    return array_sums(values.astype("float64") * power, format, elements), power


def _note(events: dict[tuple[str, str], TrainingEvent], event: TrainingEvent) -> None:
    from msgspec.structs import replace

    known = events.get((event.kind, event.name))
    times = 1 if known is None else known.times + 1
    events[event.kind, event.name] = replace(known or event, times=times)
