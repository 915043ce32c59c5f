"""Which sentences report the events, the steps and the cost of an observed training?"""

from __future__ import annotations

from precreg.report.training.scale_sentences import count_steps
from precreg.types import NonfinitePhase, TrainingEvent, TrainingEventKind, TrainingRecord

_KINDS: dict[TrainingEventKind, str] = {
    "nonfinite": "has NaN or infinite values",
    "no_gradient": "never had a gradient",
    "sparse": "has a sparse gradient, which is not measured",
    "no_twin": "has no float64 twin, so an update counts as lost where the gradient is not zero and the bits stayed",
    "sampled": "has more elements than are measured",
    "unnamed": "is a tensor of the optimizer that the model does not name",
    "data_ended": "ended before the steps did",
    "not_located": "has a NaN or an infinity in a step that was not sampled (every=1 finds its place):",
    "failed": "stopped the observer, so figures are missing; the training went on",
    "not_measured": "holds no floating-point numbers and is not measured",
}
_PHASES: dict[NonfinitePhase, str] = {
    "": "",
    "input": " in its input, which no layer made",
    "weight": " in the weight before the step",
    "forward": " in its output, whose inputs are finite: the forward pass made them",
    "loss": " in the loss",
    "backward": " in the gradient of its output: the backward pass made them",
    "gradient": " in its gradient",
}


def describe_training_event(event: TrainingEvent) -> str:
    """Write one event with its first step and its number of times."""
    detail = f": {event.detail}" if event.detail else ""
    times = f", {event.times:,} times" if event.times > 1 else ""
    name = event.name or {"data_ended": "the data", "nonfinite": "the training", "not_located": "the training"}.get(
        event.kind, "the optimizer"
    )
    return f"{name} {_KINDS[event.kind]}{_PHASES[event.phase]} (first at step {event.step}{times}){detail}"


def describe_training_steps(record: TrainingRecord) -> str:
    """Write how many steps began, how many were sampled, and how many are left out."""
    begun = f"{count_steps(record.begun)} began" if record.begun else ""
    shown = f"{count_steps(len(record.steps))} sampled (every {record.every:,})"
    dropped = f"the oldest {record.dropped:,} of the sampled ones are left out" if record.dropped else ""
    points = f"losses and scales of the oldest {count_steps(record.points_dropped)} are left out"
    parts = (begun, shown, dropped, points if record.points_dropped else "")
    return ", ".join(part for part in parts if part)
