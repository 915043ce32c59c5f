"""Which options does a subject of torch take, and which specification do they give?

The specification is a dict with the target under "torch", and the options that differ from their defaults. So a new
option makes no baseline stale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from precreg.errors import key_hint, nearest
from precreg.storage import format_value
from precreg.subject.kind import Kind, SpecPlace
from precreg.subject.spec_checks import require_target
from precreg.subject.tensors import TORCH_FLOATS

# The hardware that torch names, and the package that adds it to torch.
HARDWARE: dict[str, str | None] = {
    "cpu": None,
    "cuda": None,
    "npu": "torch_npu",
    "mlu": "torch_mlu",
    "xpu": None,
    "mps": None,
}
GRADIENTS = ("inputs", "parameters")
WEIGHT_SUFFIXES = (".safetensors", ".pt", ".pth")
# The dtype of the default reference, and the widest that torch has. The key is precreg's own: no suite writes it.
WIDEST = "float64"
WIDENED = "widened"
# A name of `keep_in` with this suffix leaves out the modules below it.
OWN_SUFFIX = ":own"
# Options that decide the numbers of a module, as against the way in which hardware computes it.
_OF_REFERENCE = ("torch", "arguments", "seed", "weights", "dtype", "mode", "gradients", "monitor")
_COMPILE_KEYS = ("backend", "mode", "fullgraph", "dynamic", "options")
# The dtypes of `keep_in`, and the narrower dtypes of a module that has such modules.
WIDER_DTYPES = ("float32", "float64")
NARROWER = {"float32": ("float16", "bfloat16"), "float64": ("float16", "bfloat16", "float32")}
_MODULE_DTYPES = (*TORCH_FLOATS, "complex64", "complex128")


class _WrongValueError(Exception):
    """End the check of an option: `expected` describes its values."""

    def __init__(self, expected: str, hint: str = "") -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


def _choice(*values: str) -> Callable[[Any], Any]:
    def check(value: Any) -> str:
        if isinstance(value, str) and value in values:
            return value
        raise _WrongValueError(f"one of {', '.join(values)}", nearest(str(value), values))

    return check


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _WrongValueError("true or false")


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is int and least <= value <= most:
            return value
        raise _WrongValueError(f"a whole number from {least} to {most}")

    return check


def _hardware(value: Any) -> str:
    found = re.fullmatch(r"([a-z]+)(:\d{1,3})?", value) if isinstance(value, str) else None
    if found is None or found[1] not in HARDWARE:
        raise _WrongValueError(
            f"one of {', '.join(HARDWARE)}, or one with a number such as cuda:1", nearest(str(value), HARDWARE)
        )
    return str(value)


def _compile(value: Any) -> bool | dict[str, Any]:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict) or not value or not set(value) <= set(_COMPILE_KEYS):
        raise _WrongValueError(f"true, or a mapping with some of {', '.join(_COMPILE_KEYS)}")
    return value


def _gradients(value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(name in GRADIENTS for name in given):
        raise _WrongValueError("a list of inputs and parameters")
    return [name for name in GRADIENTS if name in given]


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return value
    raise _WrongValueError("a mapping of arguments by name")


def _patterns(value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if isinstance(given, list) and given and all(isinstance(name, str) and name for name in given):
        return given
    raise _WrongValueError("a list of patterns of layers, such as ['blocks.*']")


def _weights(value: Any) -> str:
    if isinstance(value, str) and value.endswith(WEIGHT_SUFFIXES):
        return value
    raise _WrongValueError(f"a file of weights ({', '.join(WEIGHT_SUFFIXES)})")


def _kept(value: Any) -> dict[str, list[str]]:
    fits = isinstance(value, dict) and value and set(value) <= set(WIDER_DTYPES)
    if not fits or not all(isinstance(names, list) and names for names in value.values()):
        raise _WrongValueError("modules by a wider dtype, such as {float32: [blocks.3.norm]},")
    return {dtype: _patterns(names) for dtype, names in value.items()}


# The check of each option, and the value that is left out of the specification.
_OPTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "on": (_hardware, "cpu"),
    "arguments": (_mapping, None),
    "weights": (_weights, None),
    "seed": (_whole(0, 2**63 - 1), 0),
    "dtype": (_choice(*_MODULE_DTYPES), None),
    "mode": (_choice("eval", "train"), "eval"),
    "autocast": (_choice("bfloat16", "float16"), None),
    "keep_in": (_kept, None),
    "compile": (_compile, False),
    "gradients": (_gradients, []),
    "monitor": (_patterns, []),
    "deterministic": (_flag, False),
    "tf32": (_flag, None),
    "matmul_precision": (_choice("highest", "high", "medium"), "highest"),
    "threads": (_whole(1, 1024), 1),
}


def read_torch(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    """Return the specification of a subject. Raises UserError: bad-value, unknown-key, missing-file and so on."""
    hint = "write the module and its class or function: subject: {torch: 'net:Block'}"
    spec: dict[str, Any] = {"torch": require_target(value, place, expected="module:name", hint=hint)}
    for name, given in options.items():
        if name not in _OPTIONS:
            # The key device: of a suite is a simulated one.
            hint = '; did you mean "on"?' if name == "device" else nearest(name, _OPTIONS)
            known = ", ".join(_OPTIONS)
            message = f"expected an option of torch ({known}) but got {name}{hint}"
            write = "write on: in place of device:" if name == "device" else key_hint(name, _OPTIONS)
            raise place.error("unknown-key", message, name, hint=write)
        check, default = _OPTIONS[name]
        try:
            checked = check(given)
        except _WrongValueError as wrong:
            message = f"expected {wrong.expected} but got {name}={format_value(given)}{wrong.hint}"
            raise place.error("bad-value", message, name) from None
        if checked != default or name == "arguments":
            spec[name] = checked
    if "tf32" in spec and "matmul_precision" in spec:
        message = "expected tf32 or matmul_precision but got both, which set the same switch of matrix products"
        raise place.error("bad-value", message, "matmul_precision", hint="remove tf32: or matmul_precision:")
    if "monitor" in spec and "compile" in spec:
        message = "expected monitor or compile but got both: the layers of a compiled module do not run one by one"
        raise place.error("bad-value", message, "monitor", hint="remove monitor: or compile:")
    _require_narrower(spec, place)
    if "weights" in spec:
        # The specification keeps the path beside the suite, so that it counts as a dependency.
        place.require_file(spec["weights"], "weights")
    return spec


def _require_narrower(spec: Mapping[str, Any], place: SpecPlace) -> None:
    """Refuse keep_in beside a compiled module, and in a module that computes in no narrower dtype."""
    if "keep_in" not in spec:
        return
    if "compile" in spec:
        message = "expected keep_in or compile but got both: the modules of a compiled module do not run one by one"
        raise place.error("bad-value", message, "keep_in", hint="remove keep_in: or compile:")
    narrow = spec.get("autocast") or spec.get("dtype")
    for dtype in spec["keep_in"]:
        if narrow not in NARROWER[dtype]:
            expected = f"dtype or autocast of {', '.join(NARROWER[dtype])} beside keep_in of {dtype}"
            message = f"expected {expected} but got {narrow or 'none'}"
            raise place.error(
                "bad-value", message, "keep_in", hint=f"add dtype: {NARROWER[dtype][0]}, or remove keep_in:"
            )


def _requirements(spec: dict[str, Any]) -> tuple[str, ...]:
    package = HARDWARE[spec.get("on", "cpu").partition(":")[0]]
    return ("torch",) if package is None else ("torch", package)


def _reference(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the same module with the same weights in float64 on the CPU, without autocast and compilation."""
    return {name: spec[name] for name in _OF_REFERENCE if name in spec} | {WIDENED: WIDEST}


TORCH = Kind(
    run="precreg.subject.torch.run:run_torch",
    read=read_torch,
    target=lambda spec: spec["torch"],
    requirements=_requirements,
    reference=_reference,
    widest=WIDEST,
)
