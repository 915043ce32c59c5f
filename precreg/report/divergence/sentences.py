"""Which sentences describe the divergence of two trainings?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from precreg.training.divergence import MIN_GROWTH_STEPS as FIRST_STEPS
from precreg.training.divergence import NOISE_FACTOR
from precreg.types import (
    ConfidenceInterval,
    DirectionBias,
    DivergenceReason,
    DivergenceRecord,
    ParameterCourse,
    TrainingParting,
    TrainingRun,
    format_number,
)

# Names of more parameters fill a line.
_MAX_NAMES = 3


def answer_divergence(record: DivergenceRecord) -> str:
    """Write the verdict in one sentence, with its most important number."""
    if record.verdict == "identical":
        compared = (
            f"all {len(record.steps):,} compared steps have" if len(record.steps) > 1 else "the compared step has"
        )
        return f"identical: {compared} the same bits"
    if record.verdict == "chaos":
        return (
            f"chaos: the runs part as {len(record.twins)} twin{_s(len(record.twins))} with last-bit changes do; "
            f"the largest distance is {_ratio(record.level_ratio)} the twins' limit"
        )
    return f"{record.verdict}: {_reason(record)}"


# Reasons without a number, and the next step for each reason that has one.
_REASONS: dict[DivergenceReason, str] = {
    "different_start": "the initial weights are unrelated, as if from two seeds: the runs are not comparable",
    "batch_order": "the runs see the same batches in another order, so their weights part by more than rounding",
    "different_data": "the runs see different batches, so their weights are not comparable",
}
_CAUSE = "look at the change that computes {parameter} at step {step}; precreg trace shows its operations"
_ORDERS = (
    "give both runs the same batches, or name three or more runs like A with other orders: "
    "--twin run-o1 --twin run-o2 --twin run-o3"
)
_EPOCHS = "compare the losses of epochs over several seeds: --epoch 100, or give both runs the same batches"
_TWINS = "store three or more runs like A with a last-bit change: --twin run-a2 --twin run-a3 --twin run-a4"
_ADVICE: dict[DivergenceReason, str] = {
    "start": _CAUSE,
    "parameter": _CAUSE,
    "growth": _CAUSE,
    "direction": _CAUSE,
    "loss_bias": _CAUSE,
    "non_finite": "compare the loss scales of the runs, and look at the gradients of the step before",
    "different_start": "give both runs the same initial weights: --param seed=0",
    "batch_order": _ORDERS,
    "different_data": _EPOCHS,
    "no_twins": _TWINS,
    "few_twins": _TWINS,
    "few_steps": "run more steps: --steps 100, or compare more of them: --every 1",
    "order_noise": "give both runs and all twins the same batches, so that a smaller loss is visible",
    "parameter_jump": "run more twins, and see whether one of them jumps, too: --twins 32",
    "jump": "run more twins, and see whether one of them jumps, too: --twins 32",
    "no_updates": "compare more steps: --every 1 --steps 20, or give the optimizer the weights of the model",
    "reference_non_finite": "give a run A that is finite, or exchange the runs",
}


def _reason(record: DivergenceRecord) -> str:
    """Write the reason of a verdict, with its numbers."""
    if record.reason in _REASONS:
        return _REASONS[record.reason]
    biases = {each.kind: each for each in record.biases}
    if record.reason == "direction":
        return "the weights change in one direction: " + describe_bias(
            max((biases["toward"], biases["direction"]), key=lambda each: abs(each.pair))
        )
    if record.reason == "loss_bias":
        return f"the loss is {'higher' if biases['loss'].pair > 0 else 'lower'}: {describe_bias(biases['loss'])}"
    twins, level = f"{len(record.twins)} twin{_s(len(record.twins))}", f"{_ratio(record.level_ratio)} the twins' limit"
    step = record.parted.step if record.parted else 0
    explained = f"{_noise_of(record)} explains up to {NOISE_FACTOR:g}x"
    start = f"{_ratio(record.start_ratio)} the twins' limit; {explained}"
    broken = record.omissions.first_non_finite
    numbered: dict[DivergenceReason, str] = {
        "start": f"the runs part at step {step} by {start}",
        "parameter": f"{_describe_ratio(worst_parameter(record))} at step {step}; {explained}",
        "growth": f"the distance grows faster than the twins' (p = {_number(record.growth.p_value)}), to {level}",
        "non_finite": f"run B has NaN or infinities from step {broken} on, run A and its twins none",
        "no_twins": f"the runs part at step {step}, and no twin shows how far rounding alone takes them",
        "few_twins": f"the distance leaves the range of {twins}, too few for a verdict",
        "few_steps": f"{_compared_after(record)} compared steps after the runs part are too few to measure growth",
        "jump": f"the distance jumps to {level}; a flip of one value explains that, and a fault, too",
        "order_noise": f"the runs part as {twins} with other batches do, which hides {_hidden(biases.get('loss'))}",
        "parameter_jump": f"{_describe_ratio(worst_parameter(record, 'early_ratio'))} over the first "
        f"{FIRST_STEPS} steps; a flip of one value explains that, and a fault, too",
        "no_updates": f"no weight of run A changes in {_count(len(record.steps))}, so equal bits show nothing",
        "reference_non_finite": f"run A has NaN or infinities at step {broken}",
    }
    return numbered[record.reason]


def advise_divergence(record: DivergenceRecord) -> str | None:
    """Write the next step for a verdict that needs one; None for the others."""
    parted = record.parted
    advice = _ADVICE.get(record.reason)
    if advice == _CAUSE and parted is not None:
        worst = worst_parameter(record) if record.reason == "parameter" else None
        return _CAUSE.format(parameter=worst.parameter if worst else parted.parameter, step=parted.step)
    return advice


def worst_parameter(
    record: DivergenceRecord, figure: Literal["start_ratio", "early_ratio"] = "start_ratio"
) -> ParameterCourse | None:
    """Return the parameter that is farthest beyond its own limit among the twins; None if no parameter has one."""
    judged = [each for each in record.courses if getattr(each, figure) is not None]
    return max(judged, key=lambda each: getattr(each, figure), default=None)


def divergence_facts(record: DivergenceRecord) -> Iterator[tuple[str, str]]:
    """Yield the facts of a comparison as pairs of a label and a sentence."""
    yield "run A", describe_run(record.a)
    yield "run B", describe_run(record.b)
    first, last = record.steps[0], record.steps[-1]
    yield (
        "compared",
        f"{len(record.steps):,} step{_s(len(record.steps))}, {first:,} to {last:,}; {len(record.courses):,} parameters",
    )
    if record.parted is not None:
        yield "first bits", describe_parting(record.parted)
        if record.loss_at_parting is not None:
            yield "loss there", _describe_first_loss(record.loss_at_parting)
    if record.beyond is not None:
        yield "beyond noise", describe_parting(record.beyond)
    elif record.twins and record.parted is not None:
        yield "beyond noise", "at no step that lasts to the end"
    yield from _statistics(record)
    yield from _epoch_facts(record)
    yield from (("left out", each) for each in describe_omissions(record))


def _statistics(record: DivergenceRecord) -> Iterator[tuple[str, str]]:
    if record.twins:
        changes = "other batches" if record.twins_with_other_batches else "last-bit changes"
        if record.twins_with_other_batches not in (0, len(record.twins)):
            changes = f"last-bit changes, {record.twins_with_other_batches:,} of them with other batches"
        twins = f"{len(record.twins)} run{_s(len(record.twins))} of A with {changes}"
        yield (
            "twins",
            f"{twins}; start {_ratio(record.start_ratio)}, largest distance {_ratio(record.level_ratio)} their limit",
        )
        yield from _parameter_facts(record)
    growth = record.growth
    if growth.pair is not None:
        pair = f"{_interval(growth.pair)} per step"
        twins = "" if growth.twins is None else f"; twins {_interval(growth.twins)}"
        yield "growth", pair + twins + ("" if growth.p_value is None else f"; p = {_number(growth.p_value)}")
    for bias in record.biases:
        yield {"toward": "size", "direction": "sign", "loss": "loss"}[bias.kind], describe_bias(bias)


def _parameter_facts(record: DivergenceRecord) -> Iterator[tuple[str, str]]:
    """Yield how many parameters leave their own noise, and the farthest one."""
    judged = [each for each in record.courses if each.start_ratio is not None]
    worst = worst_parameter(record)
    if worst is None or record.parted is None:
        return
    beyond = sum(1 for each in judged if each.start_ratio is not None and each.start_ratio > NOISE_FACTOR)
    first = f"{_describe_ratio(worst)} at step {record.parted.step:,}"
    yield "parameters", f"{beyond:,} of {len(judged):,} beyond {NOISE_FACTOR:g}x their own limits; {first}"
    early = worst_parameter(record, "early_ratio")
    if early is not None:
        yield "", f"{_describe_ratio(early, 'early_ratio')} over the first {FIRST_STEPS} steps"


def _epoch_facts(record: DivergenceRecord) -> Iterator[tuple[str, str]]:
    if record.epochs:
        shown = record.epochs[-1]
        change = "" if not shown.a else f" ({(shown.b - shown.a) / abs(shown.a):+.2%})"
        words = f"mean loss {_number(shown.a)} in A and {_number(shown.b)} in B{change}, over {_count(shown.steps)}"
        yield f"epoch {shown.epoch + 1}", words
        lower = sum(each.b < each.a for each in record.epochs)
        yield (
            "epochs",
            f"B has the lower mean loss in {lower:,} of {len(record.epochs):,}; one pair of runs shows no cause",
        )


def describe_run(run: TrainingRun) -> str:
    """Write the name and the size of a run."""
    sizes = f"{run.steps:,} step{_s(run.steps)}, {run.elements:,} weights in {run.parameters:,} parameters"
    return f"{run.name}: {sizes} of {', '.join(run.dtypes) or 'no dtype'}"


def describe_parting(parting: TrainingParting) -> str:
    """Write where runs part, and by how much."""
    distance = "from zeros or to NaN" if parting.distance is None else f"relative distance {_number(parting.distance)}"
    ulps = "" if parting.ulp is None else f", {_number(parting.ulp)} ULP"
    others = f"; {parting.others:,} more parameter{_s(parting.others)}" if parting.others else ""
    return f"step {parting.step:,}, {parting.parameter}: {distance}{ulps}{others}"


def _describe_first_loss(change: float) -> str:
    if change == 0.0:
        return "the same bits: the forward pass agrees, so the backward pass or the optimizer differs"
    return f"differs by {change:+.3g} of the loss: the forward pass, or its data, differs"


def describe_bias(bias: DirectionBias) -> str:
    """Write a statistic of direction for the pair and for the twins."""
    twins = "" if bias.twins is None else f"; twins {_signed(bias.twins)}"
    p_value = "" if bias.p_value is None else f"; p = {_number(bias.p_value)}"
    match bias.kind:
        case "toward":
            words = f"{_signed(bias.pair)} of the change is in |weight| (-1: all weights shrink)"
        case "direction":
            words = f"{_signed(bias.pair)} of the change has one sign (-1 or 1: all of it)"
        case _:
            words = f"mean relative change of the loss {_signed(bias.pair)}"
    return words + twins + p_value


def describe_omissions(record: DivergenceRecord) -> Iterator[str]:
    """Yield a sentence for everything that the comparison left out."""
    left = record.omissions
    for steps, run in ((left.steps_a, "A"), (left.steps_b, "B")):
        if steps:
            yield f"{steps:,} step{_s(steps)} of run {run} alone"
    for names, where in ((left.parameters_a, "of run A alone"), (left.parameters_b, "of run B alone")):
        if names:
            yield f"{len(names):,} parameter{_s(len(names))} {where}: {_names(names)}"
    if left.shapes:
        yield f"{len(left.shapes):,} parameter{_s(len(left.shapes))} with different shapes: {_names(left.shapes)}"
    if left.first_non_finite is not None:
        counts = f"{left.non_finite_a:,} steps of A and {left.non_finite_b:,} of B"
        yield f"the distances of steps with NaN or infinities, from step {left.first_non_finite:,} on: {counts}"
    if left.parameters_without_noise:
        quiet = left.parameters_without_noise
        yield f"{len(quiet):,} parameter{_s(len(quiet))} not judged alone, without noise in two twins: {_names(quiet)}"
    if left.idle_twins:
        count = f"{left.idle_twins:,} twin{_s(left.idle_twins)}"
        yield f"{count} with the bits of run A: the training does not go on with the weights that precreg changed"


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _compared_after(record: DivergenceRecord) -> int:
    return sum(1 for step in record.steps if record.parted is not None and step >= record.parted.step)


def _describe_ratio(
    course: ParameterCourse | None, figure: Literal["start_ratio", "early_ratio"] = "start_ratio"
) -> str:
    return (
        "no parameter parts"
        if course is None
        else f"{course.parameter} parts by {_ratio(getattr(course, figure))} its limit"
    )


def _noise_of(record: DivergenceRecord) -> str:
    return "the order of batches" if record.twins_with_other_batches else "rounding"


def _hidden(loss: DirectionBias | None) -> str:
    """Write which losses the noise of batch orders hides."""
    if loss is None or loss.visible is None:
        return "smaller losses"
    return f"changes of the mean loss below {loss.visible:.2g} of it"


def _interval(found: ConfidenceInterval) -> str:
    if found.low is None or found.high is None:
        return _signed(found.value)
    return f"{_signed(found.value)} (95 % CI {_signed(found.low)} to {_signed(found.high)})"


def _number(value: float | None) -> str:
    return "not known" if value is None else format_number(value, 3)


def _signed(value: float) -> str:
    return f"{value:+.3g}"


def _ratio(value: float | None) -> str:
    return "an unknown multiple of" if value is None else f"{format_number(value, 3)}x"


def _count(steps: int) -> str:
    return f"{steps:,} step{_s(steps)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
