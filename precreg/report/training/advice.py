"""How does a terminal show the symptoms of a training and the measured effects of their remedies?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log2

import msgspec

from precreg.report.describe import strip_controls
from precreg.types import Remedy, RemedyEffect, RemedyKind, SymptomKind, TrainingAdvice, TrainingSymptom, format_number

_INDENT = "   "


def render_advice_terminal(advice: TrainingAdvice) -> str:
    """Return the text of an advice: the damage, then symptoms with their remedies, the best first."""
    lines = [_headline(advice), *describe_damage(advice), ""]
    for number, symptom in enumerate(advice.symptoms, 1):
        lines.append(f"{number}. {describe_symptom(symptom)}")
        lines += [f"{_INDENT}{line}" for line in _places(symptom)]
        lines += [f"{_INDENT}{line}" for effect in symptom.effects for line in describe_effect(effect, advice)]
    lines += _conclusion(advice)
    return strip_controls("\n".join(lines))


def advice_sections(advice: TrainingAdvice) -> list[tuple[str, list[str]]]:
    """Return the sections of an advice for the page of a training: a title and its sentences each."""
    first = [_headline(advice), *describe_damage(advice), *_conclusion(advice)]
    symptoms = [
        (
            f"{number}. {describe_symptom(symptom)}",
            [*_places(symptom), *(line for effect in symptom.effects for line in describe_effect(effect, advice))],
        )
        for number, symptom in enumerate(advice.symptoms, 1)
    ]
    return [("Advice", first), *symptoms]


def advice_json(advice: TrainingAdvice) -> bytes:
    """Return an advice as one line of JSON with its sentences; figures that are not finite are null."""
    plain = msgspec.to_builtins(advice)
    for found, symptom in zip(plain["symptoms"], advice.symptoms, strict=True):
        found["text"] = describe_symptom(symptom)
        for effect, measured in zip(found["effects"], symptom.effects, strict=True):
            effect["text"] = "; ".join(describe_effect(measured, advice))
    return msgspec.json.encode(plain | {"answer": " ".join(describe_damage(advice))}) + b"\n"


def describe_damage(advice: TrainingAdvice) -> list[str]:
    """Write the final losses of the run and of its float64 twin, and the share of progress that the run lacks."""
    if advice.twin_problem:
        remedy = (
            "measure a smaller training with the same layers: the twin needs twice the memory of float32"
            if advice.is_twin_out_of_memory
            else "let the recipe compute in the dtype of its weights: x = x.to(self.weight.dtype) in place of x.half()"
        )
        return [f"the float64 twin of the recipe failed, so no remedy was measured: {advice.twin_problem}", remedy]
    start, run, twin = advice.start_losses[0], advice.runs[0], advice.twins[0]
    lines = [
        f"final loss {_loss(run.final_loss)} after {run.updates:,} updates ({run.skipped:,} skipped); "
        f"float64 twin {_loss(twin.final_loss)}; start {_loss(start)}"
    ]
    if all(each is None for each in advice.start_losses):
        lines.append("the loss is NaN or infinite in float64 before the first step, so no format causes it: no advice")
        lines.append(f"find the layer: precreg training {advice.recipe} --steps 1 --every 1")
    elif all(each.final_loss is None for each in advice.twins):
        lines.append("the float64 twin diverges to NaN or infinity, so no format causes it: no advice")
        lines.append("lower the learning rate: torch.optim.SGD(model.parameters(), lr=0.01)")
    elif start is None or twin.final_loss is None or twin.final_loss >= start:
        lines.append(f"the float64 twin makes no progress in {advice.steps:,} steps: a fault of its recipe, or too few")
        lines.append("steps: --steps 200")
    elif advice.is_damaged:
        lines.append(f"the run lacks {_range(advice.damage)} of the twin's progress")
    else:
        lines.append(
            f"the run lacks {_range(advice.damage)} of the twin's progress, less than "
            f"{_percent(advice.least_damage)}: no advice"
        )
    return lines


def _headline(advice: TrainingAdvice) -> str:
    seeds = f"seed{'s' * (len(advice.seeds) > 1)} {', '.join(map(str, advice.seeds))}"
    return f"{advice.recipe}  {advice.optimizer}, {', '.join(advice.formats)}; {advice.steps:,} steps, {seeds}"


def _conclusion(advice: TrainingAdvice) -> Iterator[str]:
    if advice.twin_problem:
        return
    helping = [each for each in advice.symptoms if any(effect.helped for effect in each.effects)]
    if advice.is_damaged and not helping:
        yield "no measured remedy helps: compare two runs of the training step by step (precreg divergence)"
    elif not advice.is_damaged and advice.symptoms and None not in advice.damage:
        yield f"no remedy was measured, because the loss is within {_percent(advice.least_damage)} of the twin's"
    if len(advice.runs) > 1 and len({each.losses for each in advice.runs}) == 1:
        yield "the seeds change nothing in this recipe: all runs are equal, and count as one"


def describe_symptom(symptom: TrainingSymptom) -> str:
    """Write a symptom with its figures."""
    return _SYMPTOMS[symptom.kind](symptom)


def _of_total(symptom: TrainingSymptom, noun: str) -> str:
    return f"{symptom.count:,} of {symptom.total:,} {noun} ({_percent(symptom.count / max(symptom.total, 1))})"


def _scale(value: float | None) -> str:
    if value is None or value <= 0.0:
        return "unknown"
    exponent = log2(value)
    return f"2^{int(exponent)}" if exponent.is_integer() else format_number(value, 4)


def _not_averaged(symptom: TrainingSymptom) -> str:
    factor = format_number(symptom.value or 0.0, 3)
    if symptom.places and symptom.places[0][0] == "micro_batches":
        return f"the loss is summed over micro-batches: twice as many give {factor}x the gradient"
    return f"the loss is summed over the batch: twice the batch gives {factor}x the loss"


def _epsilon(symptom: TrainingSymptom) -> str:
    zero = f"; second moments are zero for {_of_total(symptom, 'updated weights')}" if symptom.total else ""
    return (
        f"epsilon {format_number(symptom.value or 0.0, 3)} is zero in {symptom.format}, whose smallest number is "
        f"{format_number(symptom.limit or 0.0, 3)}{zero}"
    )


_SYMPTOMS: dict[SymptomKind, Callable[[TrainingSymptom], str]] = {
    "clipped_before_unscale": lambda each: (
        f"gradients are clipped before unscaling: {_of_total(each, 'clippings')}, last scale {_scale(each.value)}"
    ),
    "loss_not_averaged": _not_averaged,
    "epsilon_below_format": _epsilon,
    "narrow_accumulation": lambda each: (
        f"gradients are accumulated in {each.format}: their sum is wrong by {_percent(each.value or 0.0)}"
    ),
    "scale_too_high": lambda each: (
        f"the loss scale is too high: the scaler skipped {_of_total(each, 'steps')}, last scale {_scale(each.value)}"
    ),
    "scale_too_low": lambda each: (
        f"gradients underflow at the loss scale {_scale(each.value)}: {_of_total(each, 'gradients')} are zero and not "
        "in float64"
    ),
    "lost_updates": lambda each: (
        f"updates are lost in {each.format} weights: {_of_total(each, 'updates')} leave the weight as it was"
    ),
    "narrow_layer": lambda each: (
        f"{each.count:,} of {each.total:,} narrow layers {'needs' if each.count == 1 else 'need'} float32"
    ),
}


def _places(symptom: TrainingSymptom) -> Iterator[str]:
    if symptom.kind == "narrow_layer":
        yield ", ".join(name for name, _ in symptom.places)
    elif symptom.kind in ("scale_too_low", "lost_updates") and symptom.places:
        yield "most in " + ", ".join(f"{name} ({_percent(share)})" for name, share in symptom.places)


def describe_effect(effect: RemedyEffect, advice: TrainingAdvice) -> list[str]:
    """Write the measured effect of a remedy; the second line of one that helps can be pasted."""
    name = describe_remedy(effect.remedy)
    if effect.problem:
        return [f"not measured  {name}: {effect.problem}"]
    seeds = len(effect.damage)
    before = _range(advice.damage[:seeds])
    change = f"lacks {before} -> {_range(effect.damage)}; final loss {_loss(effect.runs[0].final_loss)}"
    if not effect.helped:
        return [f"no help       {name}: {change} (seed {effect.runs[0].seed})"]
    line = f"helps         {name}: {change}; {effect.helped} of {len(advice.seeds)} seeds{_further(effect, advice)}"
    return [line, f"              {_EXAMPLES[effect.remedy.kind](effect.remedy)}"]


def _further(effect: RemedyEffect, advice: TrainingAdvice) -> str:
    """Write the changes of skipped steps, lost updates and zero gradients in the first seed."""
    before, after, found = advice.runs[0], effect.runs[0], []
    if before.skipped != after.skipped:
        found.append(f"skipped steps {before.skipped:,} -> {after.skipped:,}")
    if before.updated and after.updated and before.lost * after.updated != after.lost * before.updated:
        found.append(f"lost updates {_percent(before.lost / before.updated)} -> {_percent(after.lost / after.updated)}")
    if before.gradients and after.gradients and before.zeros * after.gradients != after.zeros * before.gradients:
        zeros = before.zeros / before.gradients, after.zeros / after.gradients
        found.append(f"zero gradients {_percent(zeros[0])} -> {_percent(zeros[1])}")
    if before.nonfinite_steps != after.nonfinite_steps:
        found.append(f"steps with NaN or infinity {before.nonfinite_steps:,} -> {after.nonfinite_steps:,}")
    return "".join(f"; {each}" for each in found)


def describe_remedy(remedy: Remedy) -> str:
    """Name a remedy with its value and its layers."""
    if remedy.kind == "set_scale":
        return f"a scaler that begins at {_scale(remedy.value)}"
    if remedy.kind == "larger_epsilon":
        return f"epsilon {format_number(remedy.value or 0.0, 3)}"
    if remedy.kind == "average_loss":
        return f"loss divided by {format_number(remedy.value or 1.0)}"
    if remedy.kind == "float32_layers":
        return f"{', '.join(remedy.layers)} in float32"
    return _NAMES[remedy.kind]


_NAMES: dict[RemedyKind, str] = {
    "clip_after_unscale": "clipping after unscaling",
    "float32_state": "optimizer state in float32",
    "float32_accumulation": "gradients accumulated in float32",
    "master_weights": "float32 master weights",
    "stochastic_rounding": "stochastic rounding of the updated weights",
    "bfloat16": "bfloat16 in place of float16, without scaling",
}

_EXAMPLES: dict[RemedyKind, Callable[[Remedy], str]] = {
    "clip_after_unscale": lambda _: "scaler.unscale_(optimizer)  # before clip_grad_norm_",
    "average_loss": lambda each: f"loss = loss / {format_number(each.value or 1.0)}",
    "set_scale": lambda each: f"scaler = torch.amp.GradScaler(init_scale={(each.value or 1.0)!r})",
    "larger_epsilon": lambda each: f"torch.optim.Adam(model.parameters(), eps={(each.value or 0.0)!r})",
    "float32_state": lambda _: "state = {'exp_avg': grad.float(), 'exp_avg_sq': grad.float() ** 2}  # kept in float32",
    "float32_accumulation": lambda _: "total[name] += parameter.grad.float()  # total: float32; then grad = total",
    "master_weights": lambda _: (
        "model.float(), and torch.autocast(device, dtype=torch.bfloat16) around the forward pass"
    ),
    "stochastic_rounding": lambda _: (
        "precreg.arithmetic.round_to(weight, format, 'stochastic', seed=step)  # of the updated float32 weight"
    ),
    "float32_layers": lambda each: (
        f"for name in {list(each.layers)!r}: model.get_submodule(name).float()  # and autocast(enabled=False) inside"
    ),
    "bfloat16": lambda _: "torch.autocast(device, dtype=torch.bfloat16)  # no GradScaler",
}


def _loss(value: float | None) -> str:
    return "NaN or infinite" if value is None else format_number(value, 4)


def _percent(share: float) -> str:
    return f"{format_number(100 * share, 3)} %"


def _range(damage: tuple[float | None, ...]) -> str:
    """Write shares of progress: the least and the greatest."""
    known = [each for each in damage if each is not None]
    if len(known) < len(damage) or not damage:
        return "all (NaN or infinity)"
    least, greatest = _percent(min(known)), _percent(max(known))
    return least if least == greatest else f"{least} to {greatest}"
