"""Which sentences and tables report loss scales, scalers, and per-tensor scales?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log2

from precreg.types import (
    LossScaleSweep,
    ScaleLosses,
    ScaleRecommendation,
    ScalerHistory,
    TensorScales,
    TensorScaleSweep,
    TensorScaling,
    format_number,
)

# The names of the columns for loss scales by parameter.
SCALE_COLUMNS = ("parameter", "gradients", "largest", "zero unscaled", "zero scaled", "norm lost", "fits up to")
TENSOR_COLUMNS = ("tensor", "largest", "best scale", "its error", "amax", "delayed", "beyond", "unscaled")

_SCALING_WORDS: dict[TensorScaling, str] = {
    "unscaled": "no scale",
    "power_of_two": "the highest power of two that fits",
    "amax": "the largest number over the tensor's largest element",
    "delayed": "delayed scaling",
}


def format_share(count: float, total: float) -> str:
    """Write a share in percent; some are never written as none, nor most as all."""
    if not total:
        return "no value"
    digits = 3
    while (text := format_number(100 * count / total, digits)) == "100" and count < total and digits < 17:
        digits += 1
    return f"{text} %"


def format_scale(scale: float) -> str:
    """Write a scale as a power of two if it is one."""
    exponent = log2(scale) if scale > 0 else 0.5
    return f"2^{exponent:g}" if exponent == round(exponent) else format_number(scale)


def count_steps(number: int) -> str:
    """Count steps."""
    return f"{number:,} step{'' if number == 1 else 's'}"


def _count_times(number: int) -> str:
    return f"{number:,} time{'' if number == 1 else 's'}"


def describe_loss_scale(sweep: LossScaleSweep) -> list[str]:
    """Write the window, the recommendation, and everything that limits them."""
    return [*_answer(sweep), *_limits_of(sweep)]


def _answer(sweep: LossScaleSweep) -> Iterator[str]:
    total, window, advice = sweep.total, sweep.window, sweep.recommendation
    counted = f"{total.nonzero:,} nonzero gradients of {count_steps(sweep.steps)}"
    if not total.nonzero:
        yield f"loss scale of {sweep.format}: no finite nonzero gradient in {count_steps(sweep.steps)}"
        return
    if window is None or advice is None:
        fewest = min(range(len(sweep.exponents)), key=lambda place: sweep.overflow_steps[place])
        steps = f"{sweep.overflow_steps[fewest]:,} of {count_steps(sweep.steps)}"
        yield (
            f"every scale from 2^{sweep.exponents[0]} to 2^{sweep.exponents[-1]} overflows {sweep.format}: at least "
            f"{steps}, at 2^{sweep.exponents[fewest]}; the largest finite gradient is {format_number(total.largest, 3)}"
        )
        yield "use bfloat16, whose largest number is 3.4e38, or find the cause of the largest gradients in the table"
        return
    scales = f"2^{window.low} to 2^{window.high}" if window.low < window.high else f"2^{window.high} alone"
    yield (
        f"{scales} lose{'s' if window.low == window.high else ''} least in {sweep.format}: no step overflows, and "
        f"{format_share(window.zero, total.nonzero)} of {counted} become zero"
    )
    yield from _recommendation(advice, sweep)


def _recommendation(advice: ScaleRecommendation, sweep: LossScaleSweep) -> Iterator[str]:
    unscaled = format_share(advice.zero_unscaled, advice.nonzero)
    first = f"2^{sweep.exponents[0]}"
    total = sweep.total
    if advice.zero_unscaled == 0 and total.floor and total.zeros:
        yield f"{total.zeros:,} gradients are 0 and may need a larger scale than {first}; a narrow format held them"
    elif advice.zero_unscaled == 0:
        yield f"no gradient of these steps needs a larger scale than {first}"
    else:
        yield f"at {first}, {unscaled} become zero; at 2^{advice.exponent}, {format_share(advice.zero, advice.nonzero)}"
    growth = (
        "one step shows no growth"
        if advice.growth is None
        else f"the largest gradient changed {format_number(advice.growth, 3)}x from the first to the second half"
    )
    yield (
        f"start at 2^{advice.exponent}: {advice.margin} doubling{'' if advice.margin == 1 else 's'} below 2^"
        f"{advice.highest}, the highest scale without overflow ({growth}): "
        f"torch.amp.GradScaler(init_scale=2.0**{advice.exponent})"
    )
    for run in advice.runs:
        moved = f"skips {run.skipped:,} of {count_steps(run.steps)} and ends at 2^{run.final}"
        yield f"a GradScaler from 2^{run.initial} {moved}, on these gradients"


def _limits_of(sweep: LossScaleSweep) -> Iterator[str]:
    total = sweep.total
    if total.floor and total.zeros:
        yield (
            f"the shares that become zero are lower bounds: {total.zeros:,} gradients are 0 and came from a narrow "
            f"format, which had lost every size up to {format_number(total.floor, 3)}; store gradients in float32, or "
            "of a training at a larger scale"
        )
    if total.nonfinite:
        yield (
            f"{total.nonfinite:,} gradients are NaN or infinite, in {count_steps(sweep.nonfinite_steps)}; "
            "they count as overflow and in no share"
        )
    if sweep.not_measured:
        yield f"not measured, because they hold no floating-point numbers: {', '.join(sweep.not_measured)}"


def scale_rows(sweep: LossScaleSweep) -> list[tuple[str, ...]]:
    """Return the cells of SCALE_COLUMNS by parameter, the largest loss at the recommended scale first."""
    place = _start_place(sweep)
    ordered = sorted(sweep.layers, key=lambda layer: (-layer.zero_energy[place], -layer.zero[place], -layer.zero[0]))
    return [_scale_row(layer, place, sweep.exponents) for layer in ordered]


def _start_place(sweep: LossScaleSweep) -> int:
    return 0 if sweep.recommendation is None else sweep.exponents.index(sweep.recommendation.exponent)


def _scale_row(layer: ScaleLosses, place: int, exponents: Sequence[int]) -> tuple[str, ...]:
    fitting = [exponent for exponent, count in zip(exponents, layer.beyond, strict=True) if count == 0]
    return (
        layer.parameter,
        f"{layer.nonzero:,}",
        format_number(layer.largest, 3),
        format_share(layer.zero[0], layer.nonzero),
        format_share(layer.zero[place], layer.nonzero),
        format_share(layer.zero_energy[place], 1.0),
        f"2^{fitting[-1]}" if fitting else "no scale",
    )


def describe_scaler(history: ScalerHistory | None, sweep: LossScaleSweep | None = None) -> list[str]:
    """Write how the scaler of a training moved, and where its last scale is beside the window of a sweep."""
    if history is None:
        return ["the training has no scaler, or the scaler has no history: each step ran at the scale 1"]
    moved = f"grew {_count_times(history.growths)} and backed off {_count_times(history.backoffs)}"
    lines = [
        f"the scaler skipped {history.skipped:,} of {count_steps(history.steps)}"
        + (f", {history.longest_skipped:,} in a row" if history.longest_skipped > 1 else ""),
        f"its scale {moved}: from {format_scale(history.first)} to {format_scale(history.last)}, "
        f"between {format_scale(history.least)} and {format_scale(history.greatest)}",
    ]
    if history.growth_interval is not None:
        interval = history.growth_interval
        lines.append(
            f"it grew after {count_steps(interval)} at the soonest; where each growth overflows, "
            f"{format_share(1, interval + 1)} of the steps are skipped"
        )
    if history.below_one:
        lines.append(f"its scale was below 1 in {count_steps(history.below_one)}, which loses gradients")
    return [*lines, *([] if sweep is None else _beside_window(history.last, sweep))]


def _beside_window(scale: float, sweep: LossScaleSweep) -> list[str]:
    window = sweep.window
    exponent = floor(log2(scale)) if scale > 0 else None
    if window is None or exponent not in sweep.exponents:
        return []
    place = sweep.exponents.index(exponent)
    if exponent > window.high:
        steps = f"{sweep.overflow_steps[place]:,} of {count_steps(sweep.steps)}"
        return [f"its last scale is above 2^{window.high}: at 2^{exponent}, {steps} overflow {sweep.format}"]
    lost = sweep.total.zero[place]
    if lost > window.zero:
        share = format_share(lost, sweep.total.nonzero)
        return [f"its last scale is below 2^{window.low}: at 2^{exponent}, {share} of the gradients become zero"]
    if sweep.total.floor and sweep.total.zeros:
        # Those that a narrow format had lost before are in no share.
        zeros = sweep.total.zeros
        held = f"{zeros:,} gradient{' is' if zeros == 1 else 's are'} 0 there"
        return [f"its last scale is within 2^{window.low} to 2^{window.high}, but {held}: try a larger one"]
    return [f"its last scale is one of those that lose least, 2^{window.low} to 2^{window.high}"]


def describe_tensor_scales(sweep: TensorScaleSweep) -> list[str]:
    """Write which scaling loses least over all tensors, and the omissions."""
    known = [tensor for tensor in sweep.tensors if tensor.nonzero]
    if not known:
        return [f"per-tensor scales of {sweep.format}: no finite nonzero element in {count_steps(sweep.steps)}"]
    wins = {name: 0 for name in _SCALING_WORDS}
    for tensor in known:
        wins[min(tensor.scalings, key=lambda name: tensor.scalings[name].error_energy)] += 1
    best = max(wins, key=lambda name: wins[name])
    beyond = [tensor for tensor in known if tensor.scalings["delayed"].beyond]
    lines = [
        f"per-tensor scales of {sweep.format}: {_SCALING_WORDS[best]} loses least for {wins[best]:,} of "
        f"{len(known):,} tensors",
        f"delayed scaling (history {sweep.history:,}, margin {sweep.margin}, the scale 1 in the first step) saturates "
        f"elements of {len(beyond):,} of {len(known):,} tensors",
    ]
    sampled = [tensor for tensor in sweep.tensors if tensor.measured + tensor.nonfinite < tensor.elements]
    if sampled:
        lines.append(f"{len(sampled):,} of {len(sweep.tensors):,} tensors are large and were sampled")
    if sweep.not_measured:
        lines.append(f"not measured, because they hold no floating-point numbers: {', '.join(sweep.not_measured)}")
    return lines


def tensor_rows(sweep: TensorScaleSweep) -> list[tuple[str, ...]]:
    """Return the cells of TENSOR_COLUMNS by tensor, the largest error at the best constant scale first."""
    ordered = sorted(sweep.tensors, key=lambda each: (-_constant_error(each), each.parameter))
    return [_tensor_row(tensor) for tensor in ordered]


def _constant_error(tensor: TensorScales) -> float:
    return 0.0 if tensor.best is None else tensor.constant[tensor.exponents.index(tensor.best)].error_energy


def _tensor_row(tensor: TensorScales) -> tuple[str, ...]:
    errors = {name: format_share(loss.error_energy, 1.0) for name, loss in tensor.scalings.items()}
    return (
        tensor.parameter,
        format_number(tensor.largest, 3),
        "no scale" if tensor.best is None else f"2^{tensor.best}",
        format_share(_constant_error(tensor), 1.0),
        errors["amax"],
        errors["delayed"],
        f"{tensor.scalings['delayed'].beyond:,}",
        errors["unscaled"],
    )
