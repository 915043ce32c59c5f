"""Which bounds do the monitored layers of a module have: none but those that a suite gives them by name?

The standard of a dtype speaks of results. A layer in the middle may be far from its reference and the result near, and
an own error is no result.
"""

from __future__ import annotations

from precreg.tolerance.standards import NO_BOUNDS
from precreg.types import Layer, Location

# The prefixes of the outputs of layers in precreg/subject/torch/monitored.py.
_MONITORED = ("layer.", "own.")
# And those of quantized ones, in precreg/quantization/subject.py.
QUANTIZED_OUTPUTS = ("quantized.", "accumulated.")
# And all of a training, in precreg/training/advice/subject.py: its format decides how near it is to float64.
TRAINING_OUTPUTS = ("lost.", "underflow.", "overflow.", "loss", "scale", "skipped")


def free_monitored_layers(
    layers: tuple[Layer, ...], source: Location, prefixes: tuple[str, ...] = _MONITORED
) -> tuple[Layer, ...]:
    """Return layers of tolerances in which only those apply to outputs with the prefixes that name them."""
    naming = [each for each in layers if each.output is not None and each.output.startswith(prefixes)]
    others = [each for each in layers if each not in naming]
    free = [
        Layer("monitor", source, {"standard": NO_BOUNDS.name}, output=f"{prefix}*")
        for prefix in prefixes
        if not any(each.name == "monitor" and each.output == f"{prefix}*" for each in naming)
    ]
    return (*others, *free, *naming)
