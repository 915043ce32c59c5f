"""Which specifications does the kind "quantization" of subjects take?

Suites read them when they load, so this module imports no numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precreg.arithmetic import BLOCK_OPERANDS, FORMATS, SHORT
from precreg.errors import key_hint, nearest
from precreg.storage import format_value
from precreg.subject import Kind, SpecPlace
from precreg.types import CalibrationMethod, Granularity

INTEGER_FORMATS = (*(f"int{bits}" for bits in range(2, 9)), "int16")
FLOAT_CODES = tuple(name for name, each in FORMATS.items() if each.precision <= 11 and name != "bfloat16")
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


def read_quantization(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    """Return the specification of a subject. Raises UserError: bad-value, unknown-key, missing-function and so on."""
    if not isinstance(value, str):
        raise place.error(
            "bad-value",
            f"expected module:make but got {format_value(value)}",
            hint="write the function that returns the model: subject: {quantization: 'net:make'}",
        )
    place.require_function(value)
    spec: dict[str, Any] = {"quantization": value}
    for name, given in options.items():
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            message = f"expected an option of quantization ({known}) but got {name}{nearest(name, OPTIONS)}"
            raise place.error("unknown-key", message, name, hint=key_hint(name, OPTIONS))
        expected = _expected(name, given)
        if expected:
            message = f"expected {expected} but got {name}={format_value(given)}"
            raise place.error("bad-value", message, name, hint=f"write a value of docs/quantization.md for {name}:")
        spec[name] = [given] if name == "layers" and isinstance(given, str) else given
    if spec.get("weights") == FLOAT and spec.get("activations") == FLOAT:
        message = "expected a format for weights or activations but got float for both"
        raise place.error("bad-value", message, "weights", hint="write weights: int8, or remove it")
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


QUANTIZATION = Kind(
    run="precreg.quantization.subject:run_quantization",
    read=read_quantization,
    target=lambda spec: spec["quantization"],
    requirements=lambda _: ("torch",),
    reference=lambda spec: spec | {EXACT: True},
    widest="float64",
)
