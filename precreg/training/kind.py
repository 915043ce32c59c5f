"""Which specifications does the kind "training" of subjects take?

Suites read them when they load, so this module imports no numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precreg.storage import format_value
from precreg.subject import Kind, SpecPlace, require_option, require_target, target_in_folder

DEFAULT_STEPS = 50
# torch's generators take seeds of 64 bits, and numpy's older one 32.
_MAX_SEED = 2**32 - 1
# The key of the reference, whose shares are zeros; no suite writes it.
EXACT = "exact"
OPTIONS = ("steps", "seed")


def read_training(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    """Return the specification of a subject. Raises UserError: bad-value, unknown-key, missing-function and so on."""
    hint = "write the function that returns the training: subject: {training: 'train:make', steps: 50}"
    target = require_target(value, place, expected="module:make", hint=hint)
    spec: dict[str, Any] = {"training": target, "steps": DEFAULT_STEPS, "seed": 0}
    for name, given in options.items():
        require_option(name, OPTIONS, place, of="training")
        least, most = (1, None) if name == "steps" else (0, _MAX_SEED)
        if type(given) is not int or given < least or (most is not None and given > most):
            bounds = f"from {least:,}" + ("" if most is None else f" to {most:,}")
            message = f"expected a whole number {bounds} but got {name}={format_value(given)}"
            raise place.error("bad-value", message, name, hint=f"write {name}: {DEFAULT_STEPS if least else 0}")
        spec[name] = given
    return spec


def _parts_command(spec: Any, folder: str) -> tuple[str, ...]:
    return ("training", target_in_folder(spec["training"], folder), "--advise", "--steps", str(spec["steps"]))


TRAINING = Kind(
    run="precreg.training.advice.subject:run_training_subject",
    read=read_training,
    target=lambda spec: spec["training"],
    requirements=lambda _: ("torch",),
    reference=lambda spec: spec | {EXACT: True},
    parts_command=_parts_command,
    widest="float64",
)
