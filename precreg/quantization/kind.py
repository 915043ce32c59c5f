"""Which specifications does the kind "quantization" of subjects take?

Suites read them when they load, so this module imports no numpy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from precreg.arithmetic import BLOCK_OPERANDS, FORMATS, SHORT
from precreg.storage import format_value
from precreg.subject import Kind, SpecPlace, require_option, require_target, target_in_folder
from precreg.types import CalibrationMethod, Granularity, UnusedReason

INTEGER_FORMATS = (*(f"int{bits}" for bits in range(2, 9)), "int16")
# HiFloat8 has no dtype in numpy, and needs none: precreg computes with its numbers.
FLOAT_CODES = (*(name for name, each in FORMATS.items() if each.precision <= 11 and name != "bfloat16"), "hif8")
GRANULARITIES: tuple[Granularity, ...] = ("tensor", "channel", "group")
METHODS: tuple[CalibrationMethod, ...] = ("max", "p99.9", "p99.99", "mse", "entropy")
FLOAT = "float"
# The key of the reference, whose results are zeros; no suite writes it.
EXACT = "exact"

_SHORT_NAMES = (name for name, full in SHORT.items() if full in FLOAT_CODES)
_FORMAT_NAMES = (FLOAT, *INTEGER_FORMATS, *FLOAT_CODES, *BLOCK_OPERANDS, *_SHORT_NAMES)
_CHOICES: dict[str, tuple[str, ...]] = {
    "weights": _FORMAT_NAMES,
    "activations": _FORMAT_NAMES,
    "granularity": GRANULARITIES,
    "weight_calibration": METHODS,
    "calibration": METHODS,
}
_SWITCHES = ("zero_point", "activation_zero_point", "dynamic")
OPTIONS = (*_CHOICES, *_SWITCHES, "group", "layers")
_OF_WEIGHTS = ("granularity", "group", "zero_point", "weight_calibration")
_OF_ACTIVATIONS = ("calibration", "dynamic", "activation_zero_point")


def find_unused(given: Collection[str], weights: str, activations: str) -> dict[str, UnusedReason]:
    """Return which of the given options have no effect beside two formats, and why."""
    found: dict[str, UnusedReason] = {}
    if weights == FLOAT or weights in BLOCK_OPERANDS:
        reason: UnusedReason = "float_weights" if weights == FLOAT else "block_weights"
        found |= dict.fromkeys((name for name in _OF_WEIGHTS if name in given), reason)
    if activations == FLOAT or activations in BLOCK_OPERANDS:
        reason = "float_activations" if activations == FLOAT else "block_activations"
        found |= dict.fromkeys((name for name in _OF_ACTIVATIONS if name in given), reason)
    return found


def read_quantization(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    """Return the specification of a subject. Raises UserError: bad-value, unknown-key, missing-function and so on."""
    hint = "write the function that returns the model: subject: {quantization: 'net:make'}"
    spec: dict[str, Any] = {"quantization": require_target(value, place, expected="module:make", hint=hint)}
    for name, given in options.items():
        require_option(name, OPTIONS, place, of="quantization")
        expected = _expected(name, given)
        if expected:
            message = f"expected {expected} but got {name}={format_value(given)}"
            raise place.error("bad-value", message, name, hint=f"write a value of docs/quantization.md for {name}:")
        spec[name] = [given] if name == "layers" and isinstance(given, str) else given
    if spec.get("weights") == FLOAT and spec.get("activations") == FLOAT:
        message = "expected a format for weights or activations but got float for both"
        raise place.error("bad-value", message, "weights", hint="write weights: int8, or remove it")
    given = [name for name, value in spec.items() if value is not False]
    for name, reason in find_unused(given, *(spec.get(each, "int8") for each in ("weights", "activations"))).items():
        part = reason.rpartition("_")[2]
        message = f"expected no {name} beside {part}={spec[part]}, which has no use for it, but got {name}={spec[name]}"
        raise place.error("bad-value", message, name, hint=f"remove {name}")
    return spec


def _expected(name: str, given: Any) -> str:
    """Return the words for the values of an option, or an empty text if the given one is among them."""
    if name in _CHOICES:
        known = _CHOICES[name]
        if isinstance(given, str) and given in known:
            return ""
        return f"one of {', '.join(known)}"
    if name in _SWITCHES:
        return "" if isinstance(given, bool) else "true or false"
    if name == "group":
        return "" if type(given) is int and given >= 2 else "a whole number of at least 2"
    patterns = [given] if isinstance(given, str) else given
    fits = isinstance(patterns, list) and patterns and all(isinstance(each, str) and each for each in patterns)
    return "" if fits else "a list of patterns of layers, such as ['blocks.*']"


def _parts_command(spec: Any, folder: str) -> tuple[str, ...]:
    # The command measures its defaults: the options of a suite have other names.
    return ("quantization", target_in_folder(spec["quantization"], folder))


QUANTIZATION = Kind(
    run="precreg.quantization.subject:run_quantization",
    read=read_quantization,
    target=lambda spec: spec["quantization"],
    requirements=lambda _: ("torch",),
    reference=lambda spec: spec | {EXACT: True},
    parts_command=_parts_command,
    widest="float64",
)
