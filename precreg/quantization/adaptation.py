"""How does a program let the formats of a module's layers follow their errors?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precreg.quantization.torch import AdaptivePrecision

DEFAULT_LADDER = ("int8", "bfloat16", "float32")


def adapt(
    model: Any,
    *,
    budget: float | Mapping[str, float],
    formats: Sequence[str] = DEFAULT_LADDER,
    layers: Sequence[str] = (),
    every: int = 10,
    patience: int = 3,
    margin: float = 0.8,
) -> AdaptivePrecision:
    """Return an adaptive run of a module of torch: each layer in the narrowest format that keeps within its budget.

    Args:
        model: a torch.nn.Module, in training or in evaluation mode.
        budget: the largest relative error of a layer's result, or one for each pattern of names; later patterns win.
        formats: the ladder, from the narrowest format to the widest. Integers and float8 have one scale for the inputs
            of a call, and one for each output channel of weights.
        layers: patterns of names; without them, all Linear and Conv layers.
        every: sample the first step, and every Nth after it. A step is a call of the module.
        patience: the samples in a row for which a narrower format must be calm before the layer goes down to it.
        margin: the share of the budget that a calm format's error may have.

    Raises:
        UserError: bad-value, unknown-format, unknown-node.
    """
    from precreg.quantization.torch import AdaptivePrecision  # torch is not installed everywhere

    return AdaptivePrecision(model, budget, formats, layers, every, patience, margin)
