"""Which values describe the fake quantizers of a quantization-aware training as it goes on?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

QUANTIZATION_STEPS_SCHEMA = 1

FakeQuantizerRole = Literal["weight", "activation"]

# - disabled: a fake quantizer was switched off at a sampled step, so it has no figures there;
# - non_finite: it got NaN or infinities (their count in the detail), and has no figures of this step;
# - sampled_codes: codes are followed for a part of the weights alone (the count of the others in the detail);
# - never_ran: it has not run at any sampled step.
FakeQuantizerEventKind = Literal["disabled", "non_finite", "sampled_codes", "never_ran"]


class FakeQuantizerStep(Struct, frozen=True):
    """The figures of one fake quantizer at one step. An error is the difference that the quantization makes.

    `error_steps` is the root mean square error over the scale: 0.29 for errors spread evenly. The gradient of clipped
    elements is zero. Of the `followed` weights, `moved` have another code than one step before, at any step since the
    last sampled one; `turned` have moved back to where they came from.
    """

    step: int
    name: str
    role: FakeQuantizerRole
    least_scale: float
    largest_scale: float
    elements: int
    clipped: int
    error_steps: float
    relative_error: float | None
    followed: int = 0
    moved: int = 0
    turned: int = 0

    @property
    def clipping_share(self) -> float:
        """Return the share of the elements beyond the codes."""
        return self.clipped / self.elements

    @property
    def turning_share(self) -> float | None:
        """Return the share of the followed weights that moved back; None for activations."""
        return self.turned / self.followed if self.followed else None


class FakeQuantizerEvent(Struct, frozen=True):
    """One fact about a fake quantizer, the first step that has it, and how many steps do."""

    kind: FakeQuantizerEventKind
    name: str
    step: int
    times: int = 1
    detail: str = ""


class QuantizationStepsRecord(Struct, frozen=True, kw_only=True):
    """Everything that an observer of fake quantizers has kept. `dropped` counts figures beyond the kept ones."""

    schema: int = QUANTIZATION_STEPS_SCHEMA
    precreg: str
    model: str
    every: int
    steps: int
    quantizers: tuple[str, ...]
    figures: tuple[FakeQuantizerStep, ...]
    dropped: int = 0
    events: tuple[FakeQuantizerEvent, ...] = ()
