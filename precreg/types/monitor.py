"""Which values does a monitor of a module keep: the figures and errors of its layers at the sampled steps?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from precreg.types.trace import ErrorSize

MONITOR_SCHEMA = 1

# The tensors of a layer: its results, its parameters after an update, and their gradients.
TensorRole = Literal["activation", "gradient", "weight"]

# Facts that weaken the errors of a step, or explain why a layer has none:
# - not_shadowed: torch has no float64 form of an operation, so it ran as it is on the rounded shadows;
# - cut: a value left the shadow (.item(), .numpy(), a view of its bits, an unusual layout), and came back as exact;
# - forward_only: another dispatch mode was active, so the shadow ended with the forward pass;
# - other_thread: a layer ran, or a step ended, in another thread than the one in which the step began;
# - interrupted: the forward pass raised an exception;
# - calls_left_out: a layer ran more often in one step than the monitor keeps;
# - flip: the float64 operation would have chosen other indices or truth values;
# - eager: compiled code ran operation by operation;
# - transformed: a layer ran inside a transform of torch.func, whose tensors have no numbers of their own;
# - same_precision: the tensors are as wide as the shadow.
MonitorEventKind = Literal[
    "not_shadowed",
    "cut",
    "flip",
    "eager",
    "transformed",
    "same_precision",
    "forward_only",
    "other_thread",
    "interrupted",
    "calls_left_out",
]


class TensorFigures(Struct, frozen=True):
    """The statistics of the elements of a tensor. Mean, standard deviation, least and greatest are of finite elements.

    Complex elements count as two each. `subnormal` and `zeros` are shares of all elements.
    """

    elements: int
    mean: float = 0.0
    std: float = 0.0
    least: float = 0.0
    greatest: float = 0.0
    nan: int = 0
    inf: int = 0
    subnormal: float = 0.0
    zeros: float = 0.0


class LayerFigures(Struct, frozen=True, kw_only=True):
    """The tensors of one role of a layer at one step: their figures, and their errors where they are known.

    `own` is the error of the layer against the exact layer on the same low-precision inputs. `total` is the error
    against the whole step in float64, from the low-precision weights and inputs at its beginning.
    """

    layer: str
    role: TensorRole
    dtype: str
    figures: TensorFigures
    # The number of the layer's call in this step, from 0; and the name of the output, empty if it is the only one.
    call: int = 0
    output: str = ""
    own: ErrorSize | None = None
    total: ErrorSize | None = None


class MonitoredStep(Struct, frozen=True):
    """One sampled step: its number from 0, the duration in seconds, whether it had a backward pass, and its layers."""

    step: int
    duration_s: float
    has_backward: bool
    layers: tuple[LayerFigures, ...]


class MonitorEvent(Struct, frozen=True):
    """One event, or equal ones: how often, the step of the first, and a library's own reason."""

    kind: MonitorEventKind
    name: str
    step: int
    times: int = 1
    detail: str = ""


class MonitorOverhead(Struct, frozen=True):
    """The measured cost: median durations of sampled and of other steps in seconds, and how many there were.

    `share` is the additional time of the sampled steps over the time that all steps would take without a monitor; None
    before a step of each kind ended.
    """

    sampled: int = 0
    others: int = 0
    sampled_s: float | None = None
    others_s: float | None = None
    share: float | None = None


class MonitorRecord(Struct, frozen=True, kw_only=True):
    """Everything that a monitor has kept. `dropped` counts the oldest sampled steps, which made room for later ones."""

    schema: int = MONITOR_SCHEMA
    model: str
    layers: tuple[str, ...]
    every: int
    # Steps that began, sampled or not.
    begun: int = 0
    dropped: int = 0
    steps: tuple[MonitoredStep, ...] = ()
    events: tuple[MonitorEvent, ...] = ()
    overhead: MonitorOverhead = field(default_factory=MonitorOverhead)
